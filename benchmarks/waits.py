"""Compare the whole wait with and without the default passes: ``python benchmarks/waits.py``.

The wait is the time to compile a program and to call it 10,000 times. The programs are functions
that Python loops write out, or that hold loops, with their gradients: the models of the tests, and
kinds of programs that passes may slow down, such as stencils and layers. A row has the times as
written and with `jaxprgen.passes.DEFAULT`: to trace and compile, and of a call, the shortest of
several hundred; and the bytes of temporary values.

``--calls N`` counts other numbers of calls. Names choose programs.
"""

import argparse  # noqa: I001
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jaxprgen  # First: it makes Aesara importable.
import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen.passes import default

jax.config.update("jax_enable_x64", True)
TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "passes")]

import repeated_models as models  # noqa: E402

rng = np.random.default_rng(0)
_PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {}


def program(*shapes: Any, name: str = "", scale: float = 0.5) -> Any:
    """Add a function of arrays of random numbers; a list of shapes is a list of arrays."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        def array(shape: Any) -> Any:
            if isinstance(shape, list):
                return [array(each) for each in shape]
            return jnp.asarray(scale * rng.normal(size=shape))

        _PROGRAMS[name or f.__name__.replace("_", " ")] = f, [array(s) for s in shapes]
        return f

    return add


# --- Sums of many terms -----------------------------------------------------------------------


@program((3, 100, 100), (5, 5))
def stencil(x: Any, k: Any) -> Any:
    """Convolve by hand."""
    return jnp.sum(
        sum(k[i, j] * x[:, i : i + 96, j : j + 96] for i in range(5) for j in range(5)) ** 2
    )


def running_maximum(x: Any, c: Any) -> Any:
    """Take the largest of many multiples."""
    found = x
    for i in range(len(c)):
        found = jnp.maximum(found, c[i] * x)
    return found.sum()


def filtered(x: Any, h: Any) -> Any:
    """Filter a signal by hand."""
    n = len(x) - len(h)
    return jnp.sum(sum(h[k] * x[k : n + k] for k in range(len(h))) ** 2)


def basis(x: Any, c: Any) -> Any:
    """Add up bumps."""
    return jnp.sum(sum(c[i] * jnp.exp(-((x - 0.1 * i) ** 2)) for i in range(len(c))))


def columns(x: Any, b: Any) -> Any:
    """Multiply by a vector, column by column."""
    return jnp.sum(sum(x[:, j] * b[j] for j in range(len(b))) ** 2)


def rows(x: Any, b: Any) -> Any:
    """Multiply a vector, row by row."""
    return jnp.sum(sum(x[j] * b[j] for j in range(len(b))) ** 2)


def polynomial(x: Any, c: Any) -> Any:
    """Evaluate a polynomial by Horner's rule."""
    found = c[0] + 0.0 * x
    for i in range(1, len(c)):
        found = found * x + c[i]
    return jnp.sum(found)


def powers(x: Any, c: Any) -> Any:
    """Evaluate a polynomial as it is written."""
    return jnp.sum(sum(c[i] * x**i for i in range(len(c))))


def fourier(x: Any, c: Any) -> Any:
    """Evaluate a Fourier series."""
    return jnp.sum(sum(c[i] * jnp.sin(i * x) + c[-i] * jnp.cos(i * x) for i in range(len(c))))


def mixture(y: Any, mu: Any) -> Any:
    """Return the log-density of a mixture."""
    terms = [-0.5 * (y - mu[k]) ** 2 for k in range(len(mu))]
    return jnp.sum(jax.nn.logsumexp(jnp.stack(terms), 0))


def log_density(y: Any, mu: Any) -> Any:
    """Add up the terms of a likelihood."""
    return sum(jax.scipy.stats.norm.logpdf(y[i], mu[0], 2.0) for i in range(len(y)))


for size in (16, 1_000, 100_000):
    for f in (running_maximum, basis, polynomial, powers, fourier):
        program((size,), (24,), name=f"{f.__name__.replace('_', ' ')}, {size}")(f)
    program((size + 40,), (40,), name=f"filtered, {size}")(filtered)
    program((size, 30), (30,), name=f"columns, {size}")(columns)
    program((30, size), (30,), name=f"rows, {size}")(rows)
    program((size,), (12,), name=f"mixture, {size}")(mixture)
program((200,), (1,), name="log density of 200")(log_density)


# --- Groups -----------------------------------------------------------------------------------


def regressions(xs: Any, ys: Any, b: Any) -> Any:
    """Add up the squares of regressions with data of their own."""
    return sum(jnp.sum((y - x @ b[i]) ** 2) for i, (x, y) in enumerate(zip(xs, ys, strict=True)))


def sliced_regressions(x: Any, y: Any, b: Any) -> Any:
    """Add up the squares of regressions whose data are in one array."""
    return sum(jnp.sum((y[i] - x[i] @ b[i]) ** 2) for i in range(len(b)))


for count, size in ((20, 8), (20, 2_000), (100, 8)):
    arrays = [[(size, 4)] * count, [(size,)] * count, (count, 4)]
    program(*arrays, name=f"{count} regressions of {size}")(regressions)
    stacked = (count, size, 4), (count, size), (count, 4)
    program(*stacked, name=f"{count} regressions of {size}, stacked")(sliced_regressions)


@program([(32, 32)] * 16, (64, 32), (16,))
def experts(ws: Any, x: Any, gates: Any) -> Any:
    """Mix the results of several networks."""
    return jnp.sum(sum(gates[i] * jax.nn.relu(x @ w) for i, w in enumerate(ws)) ** 2)


@program([(3, 3)] * 60, (3,))
def quadratic_forms(ms: Any, x: Any) -> Any:
    """Add up quadratic forms."""
    return sum(x @ m @ x for m in ms)


@program((40, 4, 4))
def factors(a: Any) -> Any:
    """Add up log-determinants."""
    spd = a @ a.transpose(0, 2, 1) + 2 * jnp.eye(4)
    return sum(jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(spd[i])))) for i in range(len(a)))


# --- Recurrences ------------------------------------------------------------------------------


def recurrent(w: Any, u: Any, x: Any) -> Any:
    """Run a recurrent network."""
    h = jnp.zeros(len(w))
    for i in range(len(x)):
        h = jnp.tanh(w @ h + u @ x[i])
    return jnp.sum(h**2)


for size in (4, 16, 64):
    shapes = (size, size), (size, 3), (30, 3)
    program(*shapes, name=f"recurrent network of {size}", scale=0.1)(recurrent)


def perceptron(ws: Any, x: Any) -> Any:
    """Run a network of many layers."""
    for w in ws:
        x = jnp.tanh(x @ w)
    return jnp.sum(x**2)


for size in (4, 16, 64):
    shapes = [(size, size)] * 30, (32, size)
    program(*shapes, name=f"30 layers of {size}", scale=0.1)(perceptron)
    program(*shapes[:1], (size,), name=f"30 layers of {size}, a vector", scale=0.1)(perceptron)


@program([(16, 16)] * 30, [(16,)] * 30, [(16,)] * 30, (8, 16), scale=0.2)
def residual_blocks(ws: Any, bs: Any, scales: Any, x: Any) -> Any:
    """Run residual blocks with normalized layers."""
    for w, b, scale in zip(ws, bs, scales, strict=True):
        centred = x - jnp.mean(x, -1, keepdims=True)
        normal = centred / jnp.sqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)
        x = x + jax.nn.gelu((scale * normal) @ w + b)
    return jnp.sum(x**2)


@program((100,), (3,), scale=0.3)
def garch(y: Any, p: Any) -> Any:
    """Return the log-likelihood of a GARCH model."""
    a, b, c = jax.nn.sigmoid(p)
    s, total = 1.0, 0.0
    for i in range(len(y)):
        total = total - 0.5 * (jnp.log(s) + y[i] ** 2 / s)
        s = a + 0.5 * b * y[i] ** 2 + 0.5 * c * s
    return total


@program((40, 2), (2, 2), scale=0.3)
def kalman(y: Any, a: Any) -> Any:
    """Return the log-likelihood of a linear model with a hidden state."""
    m, p, total = jnp.zeros(2), jnp.eye(2), 0.0
    for i in range(len(y)):
        m, p = a @ m, a @ p @ a.T + jnp.eye(2)
        s = p + 0.5 * jnp.eye(2)
        gain, e = p @ jnp.linalg.inv(s), y[i] - m
        total = total - 0.5 * (jnp.log(jnp.linalg.det(s)) + e @ jnp.linalg.solve(s, e))
        m, p = m + gain @ e, p - gain @ p
    return total


@program((60,), (3, 3), (3,))
def hidden_markov(y: Any, a: Any, loc: Any) -> Any:
    """Return the log-likelihood of a hidden Markov model."""
    alpha = jnp.zeros(3)
    for i in range(len(y)):
        alpha = jax.nn.logsumexp(alpha[:, None] + a, 0) - 0.5 * (y[i] - loc) ** 2
    return jax.nn.logsumexp(alpha)


@program((4,), (2,), scale=0.2)
def runge_kutta(x: Any, p: Any) -> Any:
    """Solve a differential equation."""

    def slope(x: Any) -> Any:
        return jnp.tanh(p[0] * x) - p[1] * x

    for _ in range(30):
        k1 = slope(x)
        k2 = slope(x + 0.05 * k1)
        k3 = slope(x + 0.05 * k2)
        k4 = slope(x + 0.1 * k3)
        x = x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return jnp.sum(x)


@program((10, 10))
def cholesky_by_hand(a: Any) -> Any:
    """Factor a matrix by hand."""
    a = a @ a.T + 5 * jnp.eye(len(a))
    n, low = len(a), [[0.0] * len(a) for _ in range(len(a))]
    for i in range(n):
        for j in range(i + 1):
            rest = a[i, j] - sum(low[i][k] * low[j][k] for k in range(j))
            low[i][j] = jnp.sqrt(rest) if i == j else rest / low[j][j]
    return sum(jnp.log(low[i][i]) for i in range(n))


@program((1000,), (1000,))
def descent(x: Any, y: Any) -> Any:
    """Descend along a gradient."""
    slope = jnp.asarray(0.0)
    for _ in range(30):
        slope = slope - 0.1 * jnp.mean((slope * x - y) * x)
    return slope


@program((64, 64), (64,), scale=0.05)
def diffusion(w: Any, x: Any) -> Any:
    """Run a sampler of a diffusion model."""
    for i in range(25):
        t = 1.0 - i / 25
        x = x - 0.04 * (jnp.tanh(w @ x) * t + 0.1 * x)
    return jnp.sum(x**2)


# --- Loops ------------------------------------------------------------------------------------


def gated(w: Any, u: Any, x: Any) -> Any:
    """Run a gated recurrent unit."""

    def step(h: Any, x: Any) -> Any:
        r, z = jax.nn.sigmoid(w[0] @ x + u[0] @ h), jax.nn.sigmoid(w[1] @ x + u[1] @ h)
        return (1 - z) * jnp.tanh(w[2] @ x + r * (u[2] @ h)) + z * h, h

    return jax.lax.scan(step, jnp.zeros(w.shape[1]), x)[1].sum()


def filtered_level(p: Any, y: Any) -> Any:
    """Return the log-likelihood of a level with noise."""

    def step(carry: Any, y: Any) -> Any:
        m, v = carry
        v = v + p[0] ** 2
        s = v + p[1] ** 2
        e, k = y - m, v / s
        return (m + k * e, (1 - k) * v), -0.5 * (jnp.log(s) + e * e / s)

    return jax.lax.scan(step, (0.0, 1.0), y)[1].sum()


def forward(loc: Any, a: Any, y: Any) -> Any:
    """Run the forward algorithm."""

    def step(alpha: Any, y: Any) -> Any:
        return jax.nn.logsumexp(alpha[:, None] + a, 0) - 0.5 * (y - loc) ** 2, None

    return jax.nn.logsumexp(jax.lax.scan(step, jnp.zeros(3), y)[0])


def observed(p: Any, y: Any) -> Any:
    """Return the log-likelihood of an autoregression."""

    def step(h: Any, y: Any) -> Any:
        h = p[0] * h + jnp.exp(p[1] * y)
        return h, -0.5 * ((y - h) / p[2]) ** 2 - jnp.log(p[2] ** 2)

    return jax.lax.scan(step, 0.0, y)[1].sum()


for size in (5, 20, 200, 2_000):
    shapes = (3, 6, 4), (3, 6, 6), (size, 4)
    program(*shapes, name=f"gated recurrent unit, {size} steps", scale=0.2)(gated)
    program((2,), (size,), name=f"filtered level, {size} steps")(filtered_level)
    program((3,), (3, 3), (size,), name=f"hidden Markov model, {size} steps")(forward)
    program((3,), (size,), name=f"autoregression, {size} steps", scale=0.3)(observed)


# --- Measuring --------------------------------------------------------------------------------


class Row(NamedTuple):
    """What one program costs: seconds, seconds, and bytes."""

    compiling: float
    call: float
    temporaries: int

    def wait(self, calls: int) -> float:
        """Return the time to compile and to call, in seconds."""
        return self.compiling + calls * self.call


def measured(f: Callable[..., Any], arguments: list[Any], passes: Any) -> Row:
    """Compile a function with its gradient, and call it."""
    wrt = tuple(range(len(arguments)))

    def differentiated(*args: Any) -> Any:
        return jax.value_and_grad(f, wrt)(*args)

    g = jaxprgen.transform(differentiated, *passes) if passes else differentiated
    start = time.perf_counter()
    compiled = jax.jit(g).lower(*arguments).compile()
    compiling = time.perf_counter() - start
    jax.block_until_ready(compiled(*arguments))
    calls: list[float] = []
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end or len(calls) < 5:
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        calls.append(time.perf_counter() - start)
    memory: Any = compiled.memory_analysis()
    return Row(compiling, min(calls), memory.temp_size_in_bytes)


def programs() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield each program: a name, a function, and arguments."""
    for name, (f, arguments) in _PROGRAMS.items():
        yield name, f, arguments
    for model in models.MODELS:
        inputs, output, arguments = model(32)
        compiled = jaxprgen.compile(inputs, output.sum(), passes=())
        yield f"{model.__name__.replace('_', ' ')}, 32", compiled, [*map(jnp.asarray, arguments)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calls", type=int, default=10_000)
    options = parser.parse_args()
    passes = default(calls=options.calls)
    print(f"jax {jax.__version__}, {jax.default_backend()}, {options.calls} calls\n")
    print("| program | compile, s | ratio | call, µs | ratio | wait | temporaries, kB |")
    print("|---|---|---|---|---|---|---|")
    waits: list[float] = []
    calls: list[float] = []
    for name, f, arguments in programs():
        if options.names and not any(each in name for each in options.names):
            continue
        old, new = (measured(f, arguments, own) for own in ((), passes))
        wait = new.wait(options.calls) / old.wait(options.calls)
        waits.append(wait)
        calls.append(new.call / old.call)
        print(
            f"| {name} | {old.compiling:.2f} → {new.compiling:.2f} "
            f"| {new.compiling / old.compiling:.2f} | {old.call * 1e6:.0f} → {new.call * 1e6:.0f} "
            f"| {calls[-1]:.2f} | {wait:.2f} "
            f"| {old.temporaries / 1e3:.1f} → {new.temporaries / 1e3:.1f} |",
            flush=True,
        )
    means = [math.exp(sum(map(math.log, xs)) / len(xs)) for xs in (waits, calls)]
    longer = sum(wait > 1.05 for wait in waits)
    print(f"\n{len(waits)} programs. Geometric means: wait {means[0]:.2f}, call {means[1]:.2f}.")
    print(f"The wait is more than 5 % longer in {longer}.")


if __name__ == "__main__":
    main()
