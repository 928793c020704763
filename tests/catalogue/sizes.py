"""Graphs whose sizes may all be symbolic, by family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import aesara
import aesara.tensor as at
import jax
import numpy as np
from aesara.scan.utils import until
from aesara.tensor.sort import TopKOp

import jaxprgen

SHAPES = {
    "x": "nk", "z": "nk", "t": "bnk", "y": "n", "w": "n", "v": "k", "s": "k", "i": "n",
    "m": "nn", "p": "nn", "q": "kk",
}  # fmt: skip
"""The sizes of each operand, by letters."""
CALLS = ({"n": 5, "k": 3, "b": 2}, {"n": 7, "k": 3, "b": 5}, {"n": 4, "k": 6, "b": 1})
"""What the letters stand for in three calls."""


class Graph(NamedTuple):
    """A graph of operands of `SHAPES`.

    Attributes
    ----------
    family, name
        What it is an example of.
    inputs
        The names of its operands.
    build
        Makes the output, or a sequence of outputs, of variables of these names.
    is_drawn
        Whether the results are random: they are compared by dtype and shape alone.
    constraints
        What is to be said of the sizes.
    """

    family: str
    name: str
    inputs: str
    build: Callable[..., Any]
    is_drawn: bool = False
    constraints: tuple[str, ...] = ()

    def variables(self) -> tuple[list[Any], list[Any]]:
        """Return the inputs and the outputs."""
        inputs = [variable(name) for name in self.inputs]
        outputs = self.build(*inputs)
        return inputs, list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def variable(name: str) -> Any:
    """Return an input: integers, or double precision."""
    dtype = "int64" if name == "i" else "float64"
    return at.tensor(dtype, shape=(None,) * len(SHAPES[name]), name=name)


def operands(names: str, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Return the values of operands whose letters stand for these sizes."""
    draw = np.random.default_rng(0)
    found: list[np.ndarray] = []
    for name in names:
        shape = [sizes[letter] for letter in SHAPES[name]]
        value = draw.integers(0, 9, shape) if name == "i" else draw.normal(size=shape)
        if name in "mp":
            value += 3 * np.eye(len(value))
        found.append(value @ value.T if name in "pq" else value)
    return found


def specs_of(
    inputs: Sequence[Any], shapes: Sequence[str], constraints: Sequence[str] = ()
) -> list[jax.ShapeDtypeStruct]:
    """Return types of inputs, for symbolic shapes such as "n,k"."""
    scope = jax.export.SymbolicScope(constraints)
    return [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), v.dtype)
        for v, shape in zip(inputs, shapes, strict=True)
    ]


def exported(
    inputs: Sequence[Any], outputs: Any, shapes: Sequence[str], constraints: Sequence[str] = ()
) -> Any:
    """Return a graph's program, as JAX exports it; a key comes first if it draws."""
    f = jaxprgen.compile(inputs, outputs)
    key = [KEY] if f.inputs[: -len(inputs)] else []
    return jax.export.export(jax.jit(f))(*key, *specs_of(inputs, shapes, constraints))


KEY = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
srng = at.random.RandomStream(3)


def scan(step: Callable[..., Any], sequences: Sequence[Any], *states: Any, **options: Any) -> Any:
    """Return the rows of a loop."""
    return aesara.scan(step, sequences=[*sequences], outputs_info=[*states], **options)[0]


def start(x: float = 0.3) -> Any:
    """Return a scalar that a loop starts with."""
    return at.constant(np.float64(x))


def filtered(x: Any) -> Any:
    """Return the covariances of a filter."""
    identity = at.eye(x.shape[1])
    step = lambda r, c: at.dot(at.dot(identity * 0.9, c), identity) + at.outer(r, r)  # noqa: E731
    return scan(step, [x], identity)[-1]


def traced(x: Any, s: Any) -> Any:
    """Return the states of a loop over rows."""
    return scan(lambda row, state: at.tanh(row + 0.5 * state), [x], s)


def factors(x: Any, mode: str) -> list[Any]:
    """Return the matrix of QR factors, which have no signs, and one of them without its signs."""
    q, r = at.nlinalg.qr(x, mode)
    return [at.dot(q, r), at.abs(r)]


def largest(x: Any, k: Any, axis: int) -> list[Any]:
    """Return the largest elements and their positions in order, which Aesara leaves open."""
    return [at.sort(part, axis) for part in TopKOp(axis, sorted=False)(x, k)]


def with_taps(y: Any) -> Any:
    """Return a loop whose steps read two rows before their own."""
    step = lambda r, a, b: r + 0.5 * at.sin(a) - 0.1 * b  # noqa: E731
    return scan(step, [y[2:]], {"initial": y[:2], "taps": [-1, -2]})


_FAMILIES: dict[str, dict[str, tuple[str, Callable[..., Any]]]] = {
    "Sizes": {
        "shape": ("x", lambda x: x.shape * 2),
        "size": ("x", lambda x: x.size),
        "product of sizes": ("t", lambda t: at.prod(t.shape)),
        "division by a size": ("y", lambda y: y.sum() / y.shape[0]),
        "logarithm of a size": ("y", lambda y: at.log(y.shape[0])),
        "choice by a size": ("x", lambda x: at.switch(at.gt(x.shape[0], 4), x.sum(), x.max())),
        "larger size": ("yv", lambda y, v: at.zeros((at.maximum(y.shape[0], v.shape[0]),))),
        "smaller size": ("yv", lambda y, v: y[: at.minimum(y.shape[0], v.shape[0])]),
        "difference": ("yv", lambda y, v: at.concatenate([y, v])[v.shape[0] :]),
        "parity": ("y", lambda y: at.eq(y.shape[0] % 2, 0)),
        "size of a part": ("y", lambda y: y[1:].shape[0] + y[::2].shape[0]),
    },
    "Making": {
        "arange": ("x", lambda x: at.arange(x.shape[0])),
        "arange by two": ("x", lambda x: at.arange(0, 2 * x.shape[0], 2)),
        "arange from two": ("x", lambda x: at.arange(2, x.shape[0] + 2)),
        "arange down": ("y", lambda y: at.arange(y.shape[0], 0, -1)),
        "arange of floats": ("y", lambda y: at.arange(y.shape[0], dtype="float32") / 2),
        "linspace": ("y", lambda y: at.arange(y.shape[0]) / (y.shape[0] - 1.0)),
        "zeros": ("x", lambda x: at.zeros(x.shape)),
        "ones_like": ("x", lambda x: at.ones_like(x) * x.sum()),
        "alloc": ("y", lambda y: at.alloc(y, 3, y.shape[0])),
        "eye": ("x", lambda x: at.eye(x.shape[0])),
        "eye of two sizes": ("x", lambda x: at.eye(x.shape[0], x.shape[1], 1)),
        "one hot": ("i", lambda i: at.extra_ops.to_one_hot(i % 3, 3)),
        "full": ("xv", lambda x, v: at.full((x.shape[0], v.shape[0]), 2.5)),
    },
    "Slices": {
        "half": ("y", lambda y: y[: y.shape[0] // 2]),
        "second half": ("y", lambda y: y[y.shape[0] // 2 :]),
        "tail": ("y", lambda y: y[1:]),
        "head": ("y", lambda y: y[:-1]),
        "differences": ("y", lambda y: y[1:] - y[:-1]),
        "every second": ("y", lambda y: y[::2]),
        "backwards": ("y", lambda y: y[::-1]),
        "every second backwards": ("y", lambda y: y[::-2]),
        "first two": ("y", lambda y: y[:2]),
        "last two": ("y", lambda y: y[-2:]),
        "inside": ("y", lambda y: y[1:-1]),
        "block": ("x", lambda x: x[1:, :-1]),
        "last": ("y", lambda y: y[-1]),
        "first row": ("x", lambda x: x[0]),
        "row by a size": ("x", lambda x: x[x.shape[0] - 1]),
        "middle of the sorted": ("y", lambda y: at.sort(y)[y.shape[0] // 2]),
    },
    "Shapes": {
        "reshape to a vector": ("x", lambda x: x.reshape((-1,))),
        "flatten": ("x", lambda x: x.flatten()),
        "ravel": ("t", lambda t: t.ravel()),
        "reshape to other sizes": ("x", lambda x: x.reshape((x.shape[1], x.shape[0]))),
        "reshape to a product": ("t", lambda t: t.reshape((t.shape[0] * t.shape[1], t.shape[2]))),
        "reshape by -1": ("t", lambda t: t.reshape((t.shape[0], -1))),
        "swapaxes": ("t", lambda t: t.swapaxes(0, 2)),
        "dimshuffle": ("t", lambda t: t.dimshuffle(2, "x", 0, 1)),
        "broadcast": ("y", lambda y: at.broadcast_to(y, (4, y.shape[0]))),
        "two new axes": ("yv", lambda y, v: y[:, None] + v[None, :]),
        "roll": ("y", lambda y: at.roll(y, 1)),
        "roll back": ("x", lambda x: at.roll(x, -1, 0)),
        "moveaxis": ("t", lambda t: at.moveaxis(t, 0, -1)),
        "atleast": ("y", lambda y: at.atleast_2d(y)),
    },
    "Joining": {
        "concatenate": ("x", lambda x: at.concatenate([x, x], axis=1)),
        "pad": ("y", lambda y: at.concatenate([at.zeros((2,)), y, at.zeros((1,))])),
        "stack": ("y", lambda y: at.stack([y, 2 * y])),
        "split": ("y", lambda y: at.split(at.concatenate([y, y]), [y.shape[0]] * 2, 2)),
        "repeat": ("y", lambda y: at.repeat(y, 2)),
        "repeat along an axis": ("x", lambda x: at.repeat(x, 3, 1)),
        "repeat as often as there are columns": ("xy", lambda x, y: at.repeat(y, x.shape[1])),
        "repeat by known numbers": ("x", lambda x: at.repeat(x[:, :2], np.array([2, 3]), 1)),
        "tile": ("y", lambda y: at.tile(y, 2)),
        "tile twice": ("x", lambda x: at.tile(x, (2, 3))),
        "set a part": ("y", lambda y: at.set_subtensor(at.zeros((y.shape[0] + 2,))[1:-1], y)),
        "set every second": ("y", lambda y: at.set_subtensor(y[::2], 1.5)),
        "increase a column": ("x", lambda x: at.inc_subtensor(x[:, 0], 2.0)),
    },
    "Elementwise": {
        name: ("xz", lambda x, z, f=f: f(x, z))
        for name, f in {
            "add": at.add,
            "sub": at.sub,
            "mul": at.mul,
            "divide": at.true_divide,
            "floor": at.floor_divide,
            "mod": at.mod,
            "maximum": at.maximum,
            "minimum": at.minimum,
            "arctan2": at.arctan2,
            "lt": at.lt,
            "ge": at.ge,
            "power": lambda a, b: at.power(abs(a), b),
            "switch": lambda a, b: at.switch(a > 0, a, b),
            "clip": lambda a, b: at.clip(a, -1, 1),
            "logaddexp": at.logaddexp,
            "isclose": at.isclose,
        }.items()
    }
    | {
        name: ("x", lambda x, f=f: f(x))
        for name, f in {
            "exp": at.exp,
            "log1p": lambda a: at.log1p(abs(a)),
            "sqrt": lambda a: at.sqrt(abs(a)),
            "tanh": at.tanh,
            "sigmoid": at.sigmoid,
            "softplus": at.softplus,
            "erf": at.erf,
            "gammaln": lambda a: at.gammaln(abs(a) + 1),
            "psi": lambda a: at.psi(abs(a) + 1),
            "sin": at.sin,
            "cast": lambda a: at.cast(a, "int32"),
            "round": at.round,
            "sgn": at.sgn,
            "isnan": at.isnan,
            "reciprocal": at.reciprocal,
            "erfinv": lambda a: at.erfinv(a / 9),
            "i0": at.i0,
            "log1mexp": lambda a: at.log1mexp(-abs(a) - 0.1),
        }.items()
    },
    "Reductions": {
        "mean": ("x", lambda x: x.mean()),
        "mean of columns": ("x", lambda x: x.mean(0)),
        "variance": ("x", lambda x: x.var(1)),
        "deviation": ("x", lambda x: x.std(0)),
        "maximum": ("x", lambda x: at.max(x, 0)),
        "product": ("x", lambda x: at.prod(x, 1)),
        "all": ("x", lambda x: at.all(x > -9)),
        "any": ("x", lambda x: at.any(x > 0, axis=0)),
        "argmax": ("x", lambda x: at.argmax(x, 1)),
        "range": ("x", lambda x: at.ptp(x, 0)),
        "norm": ("y", lambda y: y.norm(2)),
        "sum of a tensor": ("t", lambda t: t.sum((0, 2))),
        "cumsum": ("y", lambda y: at.cumsum(y)),
        "cumprod": ("x", lambda x: at.cumprod(x, 1)),
        "counts above": ("y", lambda y: (y[:, None] > at.constant([0.0, 1.0])[None]).sum(0)),
        "logsumexp": ("x", lambda x: at.logsumexp(x, 1)),
        "keepdims": ("x", lambda x: x - x.max(1, keepdims=True)),
    },
    "Products": {
        "outer": ("yv", at.outer),
        "dot": ("xv", at.dot),
        "gram": ("x", lambda x: at.dot(x.T, x)),
        "batched": ("t", lambda t: at.batched_dot(t, t.dimshuffle(0, 2, 1))),
        "tensordot": ("tv", lambda t, v: at.tensordot(t, v, [[2], [0]])),
        "covariance": ("x", lambda x: at.dot((x - x.mean(0)).T, x - x.mean(0)) / (x.shape[0] - 1)),
        "outer by reshape": ("y", lambda y: at.dot(y.reshape((-1, 1)), y.reshape((1, -1)))),
        "quadratic": ("my", lambda m, y: at.dot(y, at.dot(m, y))),
        "matmul": ("tv", lambda t, v: at.matmul(t, v)),
    },
    "Linear algebra": {
        "solve": ("my", at.slinalg.solve),
        "cholesky": ("p", at.slinalg.cholesky),
        "inverse": ("m", at.nlinalg.matrix_inverse),
        "determinant": ("m", at.nlinalg.det),
        "log determinant": ("p", lambda p: at.log(at.nlinalg.det(p))),
        "eigenvalues": ("p", lambda p: at.nlinalg.eigh(p)[0]),
        "singular values": ("x", lambda x: at.nlinalg.svd(x, compute_uv=False)),
        "pseudo-inverse": ("x", at.nlinalg.pinv),
        "triangular": ("my", lambda m, y: at.slinalg.solve_triangular(at.tril(m), y, lower=True)),
        "kron": ("xv", lambda x, v: at.slinalg.kron(x, v[None, :])),
        "expm": ("m", at.slinalg.expm),
        "power": ("m", lambda m: at.nlinalg.matrix_power(m, 3)),
        "trace": ("m", at.nlinalg.trace),
        "diagonal of": ("m", at.diag),
        "diagonal": ("y", at.diag),
        "tril": ("m", at.tril),
        "triu": ("m", lambda m: at.triu(m, 1)),
        "fill diagonal": ("m", lambda m: at.fill_diagonal(m, 1.0)),
        "fill another diagonal": ("x", lambda x: at.fill_diagonal_offset(x, 7.0, -1)),
        "fill a tensor": ("my", lambda m, y: at.fill_diagonal(m + y[:, None, None], 7.0)),
        "other diagonals": (
            "xy",
            lambda x, y: [
                *(at.basic.ExtractDiag(offset)(x) for offset in (1, -2)),
                *(at.basic.AllocDiag(offset)(y) for offset in (1, -2)),
            ],
        ),
        "Lyapunov": ("m", lambda m: at.slinalg.solve_continuous_lyapunov(m, m + m.T)),
        "reduced factors": ("x", lambda x: factors(x, "reduced")),
        "complete factors": ("x", lambda x: factors(x, "complete")),
        "triangle": ("xy", lambda x, y: at.tri(x.shape[1], y.shape[0], -1)),
        "window": ("y", lambda y: at.bartlett(y.shape[0])),
    },
    "Indexing": {
        "take": ("yi", lambda y, i: y[i % y.shape[0]]),
        "take rows": ("xi", lambda x, i: x[i % x.shape[0]]),
        "two arrays": ("xi", lambda x, i: x[i % x.shape[0], i % x.shape[1]]),
        "known rows": ("x", lambda x: x[np.array([0, 2, -1])]),
        "increase rows": ("xi", lambda x, i: at.inc_subtensor(x[i % x.shape[0]], 1.0)),
        "masked sum": ("y", lambda y: y[(y > 0).nonzero()].sum()),
        "masked mean": ("y", lambda y: y[y > 0].mean()),
        "set masked": ("y", lambda y: at.set_subtensor(y[y > 0], 1.0)),
        "switched": ("y", lambda y: at.switch(y > 0, y, 0.0).sum()),
        "rows by a mask": ("xy", lambda x, y: at.where(y[:, None] > 0, x, 0.0)),
        "unravel": ("x", lambda x: at.unravel_index(at.argmax(x), x.shape)),
        "positions": (
            "xi",
            lambda x, i: at.ravel_multi_index((i % x.shape[0], i % x.shape[1]), x.shape),
        ),
    },
    "Sorting": {
        "sort": ("y", at.sort),
        "argsort": ("y", at.argsort),
        "sort along an axis": ("x", lambda x: at.sort(x, 0)),
        "searchsorted": ("yv", lambda y, v: at.searchsorted(at.sort(y), v)),
        "ranks": ("y", lambda y: at.argsort(at.argsort(y))),
        "largest": ("x", lambda x: largest(x, 2, 1)),
        "smallest": ("x", lambda x: largest(x, -1, 0)),
        "largest half": ("x", lambda x: largest(x, x.shape[0] // 2 + 1, 0)),
        "searches": (
            "xy",
            lambda x, y: [
                at.searchsorted(at.sort(y)[1:], x, "right"),
                at.searchsorted(y, x[0], "right", at.argsort(y)),
            ],
        ),
    },
    "Models": {
        "softmax": ("x", lambda x: at.special.softmax(x, 1)),
        "log softmax": ("x", lambda x: at.special.log_softmax(x, 1)),
        "logistic regression": ("xyv", lambda x, y, v: at.sum(y * at.log1p(at.exp(-at.dot(x, v))))),
        "cross-entropy": (
            "xi",
            lambda x, i: (
                -at.special.log_softmax(x, 1)[at.arange(x.shape[0]), i % x.shape[1]].mean()
            ),
        ),
        "varying intercepts": ("xiv", lambda x, i, v: (x.sum(1) - v[i % v.shape[0]]).sum()),
        "ridge": (
            "xyv",
            lambda x, y, v: at.slinalg.solve(at.dot(x.T, x) + at.eye(x.shape[1]), at.dot(x.T, y)),
        ),
        "Gaussian process": (
            "py",
            lambda p, y: at.dot(y, at.slinalg.solve(p + at.eye(y.shape[0]), y)),
        ),
        "standardized": ("x", lambda x: (x - x.mean(0)) / x.std(0)),
        "distances": ("x", lambda x: ((x[:, None, :] - x[None, :, :]) ** 2).sum(2)),
        "Kalman filter": ("x", filtered),
    },
    "Loops": {
        "states": ("xs", traced),
        "last state": ("xs", lambda x, s: traced(x, s)[-1]),
        "first state": ("xs", lambda x, s: traced(x, s)[0]),
        "sum of states": ("xs", lambda x, s: traced(x, s).sum()),
        "all but the first": ("xs", lambda x, s: traced(x, s)[1:]),
        "states backwards": ("xs", lambda x, s: traced(x, s)[::-1]),
        "third state from the end": ("xs", lambda x, s: traced(x, s)[-3]),
        "map": ("x", lambda x: scan(lambda r: r.sum(), [x], None)),
        "steps by a size": ("xs", lambda x, s: scan(lambda a: a * 2, [], s, n_steps=x.shape[0])),
        "over arange": (
            "x",
            lambda x: scan(
                lambda i, x: x[i].sum() * i, [at.arange(x.shape[0])], None, non_sequences=[x]
            ),
        ),
        "two taps": ("y", with_taps),
        "all but the first row": ("y", lambda y: scan(lambda r, a: r * a, [y[1:]], y[0])),
        "steps between rows": ("x", lambda x: scan(at.dot, [x[1:], x[:-1]], None)),
        "sum": ("y", lambda y: scan(lambda r, a: r + a, [y], start())),
        "decay": ("y", lambda y: scan(lambda r, a: 0.3 * a + r, [y], start())),
        "polynomial": ("y", lambda y: scan(lambda r, a: r * a + 1, [y], start())[-1]),
        "backwards": (
            "y",
            lambda y: scan(lambda r, a: at.tanh(r + a), [y], start(), go_backwards=True),
        ),
        "until": ("y", lambda y: scan(lambda r, a: (r + a, until(r + a > 1e9)), [y], start())[-1]),
        "three steps": (
            "qs",
            lambda q, s: scan(lambda a, q: at.dot(q, a), [], s, non_sequences=[q], n_steps=3),
        ),
        "loop in a loop": (
            "x",
            lambda x: scan(lambda r: scan(lambda e, a: at.sin(e + a), [r], start())[-1], [x], None),
        ),
    },
    "Draws": {
        "normal": ("x", lambda x: srng.normal(size=x.shape)),
        "uniform": ("y", lambda y: srng.uniform(size=(y.shape[0], 3))),
        "normal around": ("x", lambda x: srng.normal(x, 1.0)),
        "gamma": ("x", lambda x: srng.gamma(abs(x) + 1, 1.0)),
        "poisson": ("x", lambda x: srng.poisson(abs(x))),
        "bernoulli": ("x", lambda x: srng.bernoulli(at.sigmoid(x))),
        "posterior predictive": ("xv", lambda x, v: srng.normal(at.dot(x, v), 1.0)),
        "exponential": ("y", lambda y: srng.exponential(2.0, size=y.shape)),
        "beta": ("x", lambda x: srng.beta(abs(x) + 1, 2.0)),
        "integers": ("y", lambda y: srng.integers(0, 9, size=y.shape)),
    },
}
_WITHOUT_GRADIENT = {
    "Sizes", "Making", "Draws",
    "argmax", "all", "any", "counts above", "lt", "ge", "isclose", "isnan", "cast", "round", "sgn",
    "floor", "argsort", "searchsorted", "ranks", "unravel", "until", "singular values", "expm",
    "power", "fill diagonal", "repeat along an axis", "atleast", "matmul", "steps by a size", "mod",
    "kron", "i0", "positions", "eigenvalues", "Gaussian process", "fill another diagonal",
    "fill a tensor", "other diagonals", "Lyapunov", "reduced factors", "complete factors",
    "triangle", "window", "largest", "smallest", "largest half", "searches",
    "repeat as often as there are columns", "repeat by known numbers",
}  # fmt: skip
"""Families and graphs without a gradient, or without one of which enough is tried elsewhere."""


def _gradient(build: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: Any, *rest: Any) -> Any:
        found = build(x, *rest)
        output = found[0] if isinstance(found, (list, tuple)) else found
        return at.grad(at.sum(at.sin(output)), x)

    return gradient


CONSTRAINTS = {"two taps": ("n >= 3",)}
"""What is to be said of the sizes of some graphs."""
GRAPHS = [
    Graph(family, name, inputs, build, family == "Draws", CONSTRAINTS.get(name, ()))
    for family, graphs in _FAMILIES.items()
    for name, (inputs, build) in graphs.items()
]
GRAPHS += [
    Graph("Gradients", f"{g.family}: {g.name}", g.inputs, _gradient(g.build), False, g.constraints)
    for g in GRAPHS
    if _WITHOUT_GRADIENT.isdisjoint((g.family, g.name))
]
"""Every graph, and the gradients of those that have one."""
