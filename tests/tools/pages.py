"""Programs for pages and drawings, and hostile names."""

import aesara.tensor as at
import numpy as np

import jaxprgen
from jaxprgen import inspect

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "</title></style><script>alert(1)</script>",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)' autofocus='",
    "<!--",
    "]]>&lt;b&gt;&#0;",
    "a\nb\r\n\tc\0d",
    "$policy ${script} $$ %s {0}",
    "\N{RIGHT-TO-LEFT OVERRIDE}alpha\N{GREEK SMALL LETTER ALPHA}",
    "\ud800",
    "x" * 10_000,
]
ONES = np.ones(3)


def model(name="eta"):
    """A graph with a variable of this name, whose program has five equations."""
    X, beta = at.dmatrix("X"), at.dvector("beta")
    eta = at.dot(X, beta)
    eta.name = name
    return [X, beta], [at.sum(at.softplus(eta) - eta), eta[:0]]


def page_of_model(name="eta", function="model"):
    return inspect.html(jaxprgen.compile(*model(name), name=function), np.ones((4, 3)), ONES)


def power():
    """A program with a loop."""
    x, y = at.lvectors("x", "y")
    return jaxprgen.compile([x, y], x**y), np.arange(3), np.arange(3)


def chain(n):
    """A chain of ``n`` operations: of four, one emits two equations and one has a folded node."""
    z, y = at.dvectors("z", "y")
    inputs = [z, y]
    for i in range(n):
        z = (at.tanh, lambda z: z * y, lambda z: z + 1.5, lambda z: at.exp(-z))[i % 4](z)
    return jaxprgen.compile(inputs, z)
