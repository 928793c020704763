"""Random expressions with choices: by `jax.numpy`, as graphs, and by mpmath on taken branches."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
from hypothesis import strategies as st

mpmath.mp.dps = 60
STEPS = 2
"""The number of steps of a loop."""
LARGEST, SMALLEST = mpmath.mpf(10) ** 100, mpmath.mpf(10) ** -100


class Undefined(Exception):
    """A value or derivative is not finite and moderate, or there is a kink."""


class Jet:
    """A value and its first two derivatives."""

    def __init__(self, value, first=0, second=0):
        self.parts = tuple(map(mpmath.mpf, (value, first, second)))
        for part in self.parts:
            if not mpmath.isfinite(part) or not (part == 0 or SMALLEST < abs(part) < LARGEST):
                raise Undefined

    @property
    def value(self):
        return self.parts[0]

    def through(self, value, first, second):
        """The jet of a function of this one, of which these are value and derivatives."""
        _, d, dd = self.parts
        return Jet(value, first * d, second * d * d + first * dd)


def _times(a, b):
    (a0, a1, a2), (b0, b1, b2) = a.parts, b.parts
    return Jet(a0 * b0, a1 * b0 + a0 * b1, a2 * b0 + 2 * a1 * b1 + a0 * b2)


def _plus(a, b):
    return Jet(*(p + q for p, q in zip(a.parts, b.parts, strict=True)))


def _reciprocal(x):
    v = x.value
    if v == 0:
        raise Undefined
    return x.through(1 / v, -1 / v**2, 2 / v**3)


def _power(n):
    def jet(x):
        v = x.value
        slope = 0 if n == 0 else n * v ** (n - 1)
        return x.through(v**n, slope, 0 if n < 2 else n * (n - 1) * v ** (n - 2))

    return jet


def _on(domain, value, first, second):
    def jet(x):
        if not domain(x.value) or abs(x.value) > 10**6:
            raise Undefined
        return x.through(*(f(x.value) for f in (value, first, second)))

    return jet


def _positive(v):
    return v > 0


def _any(v):
    return abs(v) < 200


def _bell(v):
    return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-v * v)


def _logistic(v):
    return 1 / (1 + mpmath.exp(-v))


m = mpmath
UNARY = {
    "neg": (jnp.negative, lambda x: x.through(-x.value, -1, 0)),
    "log": (jnp.log, _on(_positive, m.log, lambda v: 1 / v, lambda v: -1 / v**2)),
    "log1p": (
        jnp.log1p,
        _on(lambda v: v > -1, m.log1p, lambda v: 1 / (1 + v), lambda v: -((1 + v) ** -2)),
    ),
    "sqrt": (
        jnp.sqrt,
        _on(_positive, m.sqrt, lambda v: 1 / (2 * m.sqrt(v)), lambda v: -1 / (4 * v * m.sqrt(v))),
    ),
    "exp": (jnp.exp, _on(_any, m.exp, m.exp, m.exp)),
    "sin": (jnp.sin, _on(_any, m.sin, m.cos, lambda v: -m.sin(v))),
    "tanh": (
        jnp.tanh,
        _on(_any, m.tanh, lambda v: m.sech(v) ** 2, lambda v: -2 * m.tanh(v) * m.sech(v) ** 2),
    ),
    "reciprocal": (lambda x: 1 / x, _reciprocal),
    "expm1": (jnp.expm1, _on(_any, m.expm1, m.exp, m.exp)),
    "erf": (jax.scipy.special.erf, _on(_any, m.erf, _bell, lambda v: -2 * v * _bell(v))),
    "erfc": (
        jax.scipy.special.erfc,
        _on(_any, m.erfc, lambda v: -_bell(v), lambda v: 2 * v * _bell(v)),
    ),
    "gammaln": (
        jax.scipy.special.gammaln,
        _on(_positive, m.loggamma, m.digamma, lambda v: m.polygamma(1, v)),
    ),
    "softplus": (
        jax.nn.softplus,
        _on(_any, lambda v: m.log1p(m.exp(v)), _logistic, lambda v: _logistic(v) * _logistic(-v)),
    ),
    "sigmoid": (
        jax.nn.sigmoid,
        _on(
            _any,
            _logistic,
            lambda v: _logistic(v) * _logistic(-v),
            lambda v: _logistic(v) * _logistic(-v) * (_logistic(-v) - _logistic(v)),
        ),
    ),
    "three halves": (
        lambda x: x**1.5,
        _on(
            _positive,
            lambda v: v * m.sqrt(v),
            lambda v: 3 * m.sqrt(v) / 2,
            lambda v: 3 / (4 * m.sqrt(v)),
        ),
    ),
    "cube": (lambda x: x**3, _power(3)),
    "square": (jnp.square, _power(2)),
}
BINARY = {
    "add": (jnp.add, _plus),
    "sub": (jnp.subtract, lambda a, b: _plus(a, UNARY["neg"][1](b))),
    "mul": (jnp.multiply, _times),
    "div": (jnp.divide, lambda a, b: _times(a, _reciprocal(b))),
}
EXTREMES = {"maximum": (jnp.maximum, max), "minimum": (jnp.minimum, min)}

CONSTANTS = (0.0, 1.0, -1.0, 2.0, 0.5, -3.0)
POINTS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-12, -1e-12, 40.0, -40.0, 800.0, -800.0, 1e5)


def _grown(inner):
    return st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), inner),
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner),
        st.tuples(st.sampled_from(sorted(EXTREMES)), inner, st.sampled_from(CONSTANTS)),
        st.tuples(st.just("where"), inner, st.sampled_from(CONSTANTS), inner, inner),
        st.tuples(st.just("where"), st.just("x"), st.sampled_from(CONSTANTS), inner, inner),
        st.tuples(st.just("factor"), inner, inner, inner, inner),
        st.tuples(st.just("loop"), st.sampled_from(CONSTANTS), inner, inner, inner),
    )


def expressions(leaves=6):
    """Expressions as nested tuples.

    - ``("where", a, c, b, d)`` is ``where(a > c, b, d)``.
    - ``("factor", a, b, d, e)`` is half of the logarithm of the determinant of ``[[a, b], [b, d]]``
      by its Cholesky factor, if the matrix is positive definite, and otherwise ``e``.
    - ``("loop", c, b, d, e)`` begins with ``e`` and takes two steps ``where(x > c, b, d)``, in
      which ``x`` is the result of the step before. Where its derivative in reverse mode is
      differentiated in reverse mode again, JAX has lost the rules of the masks in the loop.
    """
    return st.recursive(
        st.one_of(st.just("x"), st.sampled_from(CONSTANTS)), _grown, max_leaves=leaves
    )


def on_arrays(expression, x):
    """The value of an expression by `jax.numpy`, of which both branches are computed."""
    if expression == "x":
        return x
    if isinstance(expression, float):
        return jnp.full_like(x, expression)
    name, *operands = expression
    if name == "where":
        a, c, b, d = operands
        return jnp.where(on_arrays(a, x) > c, on_arrays(b, x), on_arrays(d, x))
    if name == "loop":
        step = ("where", "x", *operands[:3])
        start = on_arrays(operands[3], x)
        return jax.lax.scan(lambda h, _: (on_arrays(step, h), None), start, None, STEPS)[0]
    operands = [on_arrays(each, x) for each in operands]
    if name == "factor":
        a, b, d, other = operands
        matrix = jnp.stack([jnp.stack([a, b], -1), jnp.stack([b, d], -1)], -1)
        diagonal = jnp.diagonal(jnp.linalg.cholesky(matrix), axis1=-2, axis2=-1)
        is_definite = (a > 0) & (d > 0) & (a * d > b * b)
        return jnp.where(is_definite, jnp.log(diagonal).sum(-1), other)
    return {**UNARY, **BINARY, **EXTREMES}[name][0](*operands)


def has(expression, name):
    """Whether an expression, or one in it, is of a kind."""
    return isinstance(expression, tuple) and any(x == name or has(x, name) for x in expression)


def as_graph(expression, x, library):
    """An expression as a graph: ``library`` is `aesara.tensor` or `pytensor.tensor`.

    With factors of matrices, ``x`` is a scalar.
    """
    if expression == "x":
        return x
    if isinstance(expression, float):
        return library.constant(np.float64(expression))
    name, *operands = expression
    if name == "where":
        a, c, *branches = operands
        cases = (as_graph(each, x, library) for each in branches)
        return library.switch(as_graph(a, x, library) > c, *cases)
    if name == "loop":
        step = ("where", "x", *operands[:3])
        start = as_graph(operands[3], x, library) + library.zeros_like(x)
        return _last(lambda h: as_graph(step, h, library) + library.zeros_like(h), start)
    operands = [as_graph(each, x, library) for each in operands]
    if name in _BY_OPERATORS:
        return _BY_OPERATORS[name](*operands)
    if name == "factor":
        a, b, d, other = operands
        matrix = library.stack([library.stack([a, b]), library.stack([b, d])])
        is_definite = library.all(library.stack([a > 0, d > 0, a * d > b * b]))
        logarithms = library.log(library.diag(_cholesky(library)(matrix)))
        return library.switch(is_definite, library.sum(logarithms), other)
    return getattr(library, name)(*operands)


def _last(step, start):
    """The result of the last step of a loop."""
    library = importlib.import_module(type(start).__module__.partition(".")[0])
    options = {} if library.__name__ == "aesara" else {"return_updates": False}
    found = library.scan(step, outputs_info=[start], n_steps=STEPS, **options)
    return (found if options else found[0])[-1]


def _cholesky(library):
    """A function that gives NaN where a matrix is not positive definite."""
    if library.__name__.startswith("aesara"):
        return library.slinalg.Cholesky(on_error="nan")
    return library.linalg.cholesky


_BY_OPERATORS = {
    "div": lambda x, y: x / y,
    **{name: UNARY[name][0] for name in ("reciprocal", "cube", "three halves")},
}


def on_taken_branches(expression, x):
    """The jet of an expression at one point, which may be a jet.

    Raises
    ------
    Undefined
        It is not finite and moderate there, two operands of a maximum are equal, or a matrix is
        nearly singular.
    """
    if expression == "x":
        return x if isinstance(x, Jet) else Jet(x, 1)
    if isinstance(expression, float):
        return Jet(expression)
    name, *operands = expression
    if name == "where":
        a, c, b, d = operands
        found = on_taken_branches(a, x).value - c
        if 0 < abs(found) < 1e-9:
            raise Undefined  # Rounding decides.
        return on_taken_branches(b if found > 0 else d, x)
    if name == "loop":
        *step, start = operands
        h = on_taken_branches(start, x)
        for _ in range(STEPS):
            h = on_taken_branches(("where", "x", *step), h)
        return h
    if name == "factor":
        a, b, d = (on_taken_branches(each, x) for each in operands[:3])
        found = _plus(_times(a, d), UNARY["neg"][1](_times(b, b)))
        if any(0 < abs(jet.value) < 1e-6 * (a.value + d.value) ** 2 for jet in (found, a, d)):
            raise Undefined
        if not (a.value > 0 and d.value > 0 and found.value > 0):
            return on_taken_branches(operands[3], x)
        return _times(Jet(0.5), UNARY["log"][1](found))
    jets = [on_taken_branches(each, x) for each in operands]
    if name in EXTREMES:
        if abs(jets[0].value - jets[1].value) < 1e-9:
            raise Undefined
        return EXTREMES[name][1](jets, key=lambda jet: jet.value)
    return {**UNARY, **BINARY}[name][1](*jets)
