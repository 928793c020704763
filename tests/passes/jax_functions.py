"""JAX functions of every kind, with the same arguments, to which tests apply passes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax


class Arguments(NamedTuple):
    """Arrays of many dtypes, a key and a pytree."""

    x: Any
    y: Any
    m: Any
    s: Any
    f: Any
    h: Any
    i: Any
    j: Any
    u: Any
    b: Any
    z: Any
    n: Any
    key: Any
    tree: Any


def arguments() -> Arguments:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.1, 0.9, size=(2, 4))
    root = rng.normal(size=(4, 4))
    return Arguments(
        x=jnp.asarray(x),
        y=jnp.asarray(y),
        m=jnp.asarray(root @ root.T + 4 * np.eye(4)),
        s=jnp.asarray(0.3),
        f=jnp.asarray(x, jnp.float32),
        h=jnp.asarray(y, jnp.bfloat16),
        i=jnp.asarray([3, 0, 2, 1], jnp.int32),
        j=jnp.asarray([5, -7, 2, 9], jnp.int32),
        u=jnp.asarray([0, 255, 3, 16], jnp.uint8),
        b=jnp.asarray([True, False, True, True]),
        z=jnp.asarray(x + 1j * y),
        n=jnp.asarray(3, jnp.int32),
        key=jax.random.key(7),
        tree={"w": jnp.asarray(x[:3]), "v": (jnp.asarray(2.0), None)},
    )


def _each(names: str, make: Any) -> dict[str, Any]:
    return {name: make(name) for name in names.split()}


@jax.custom_jvp
def cube(x):
    return x * x * x


cube.defjvp(lambda primals, tangents: (cube(primals[0]), 3 * primals[0] ** 2 * tangents[0]))


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x) * 2.0


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * jnp.cos(x), -1, 1),))


@jax.jit
def affine(x, m, scale):
    return jnp.tanh(m @ x * scale + 1.0)


def unread_results_of_calls(a):
    """Calls with results that nothing reads."""
    first, _, last = jax.jit(lambda x, y: (x + y, x * y, x - y))(a.x, a.y)
    return first * last


def scanned(a):
    def step(c, r):
        return jnp.sin(c) * r + jnp.exp(a.s) * jnp.sum(jnp.cos(a.y)), (c, c * 2)

    return lax.scan(step, a.s, a.x)


def nested(a):
    def inner(c, r):
        return c * jnp.cos(a.s) + r * jnp.sum(a.m @ a.y), None

    def outer(c, r):
        inside, _ = lax.scan(inner, c * r, a.y)
        return inside / (1 + jnp.exp(a.s)), inside + jnp.tanh(a.s)

    return lax.scan(outer, a.s, a.x)


def while_loops(a):
    return lax.while_loop(
        lambda c: c[0] < jnp.exp(a.s) * 3, lambda c: (c[0] + jnp.sin(c[1]), c[1]), (a.s, a.y[0])
    )


def loop_without_steps(a):
    """A loop without steps around a loop that would not end."""
    inner = functools.partial(lax.while_loop, lambda c: c > jnp.exp(a.s) - 10, lambda c: c + 1.0)
    return lax.while_loop(lambda c: c < 0, lambda c: c + inner(a.s), a.s)


def pendulum(a):
    def step(state, _):
        position, speed, length = state
        speed = speed - 0.01 * 9.81 / length * jnp.sin(position)
        return (position + 0.01 * speed, speed, length), position

    return lax.scan(step, (a.s, jnp.zeros(()), jnp.ones(())), None, length=5)


def network(a):
    def loss(weights):
        hidden = jnp.tanh(a.m @ weights["w"][0] + weights["b"])
        return jnp.sum(jax.nn.softmax(hidden * weights["w"][1]) ** 2)

    return jax.value_and_grad(loss)({"w": [a.x, a.y], "b": a.s})


def newton(a):
    def step(x, _):
        value, slope = jax.value_and_grad(lambda v: v**3 + a.s * v - 1.0)(x)
        return x - value / slope, value

    return lax.scan(step, 1.0, None, length=3)


def walk(a):
    def step(carry, k):
        noise = jax.random.normal(jax.random.fold_in(a.key, 0), (4,))
        return carry + noise * jax.random.uniform(k), carry.sum()

    return lax.scan(step, a.x, jax.random.split(a.key, 3))


def from_constants(a):
    """Values that follow from constants: masks, ranges and sizes."""
    mask = jnp.tril(jnp.ones((4, 4))) - jnp.eye(4) * 0.5
    places = (jnp.arange(4) * 2 + 1) % 4
    return a.m * mask, a.x[places], a.x * (2.0 * 3.0 - 1.0) / float(a.m.shape[0])


def zeros_of_either_sign(a):
    return a.x * 0.0, a.x * -0.0, 1 / (a.x * jnp.asarray(0.0)), 1 / (a.x * jnp.asarray(-0.0))


def swapped_operands(a):
    """Equations with swapped operands, whether or not they commute."""
    return (
        (a.x + a.y, a.y + a.x, a.x * a.y, a.y * a.x, a.x - a.y, a.y - a.x),
        (a.i & a.j, a.j & a.i, a.x == a.y, a.y == a.x, a.z * a.z[::-1], a.z[::-1] * a.z),
        (jnp.maximum(a.x * 0, -a.x * 0), jnp.maximum(-a.x * 0, a.x * 0)),
    )


def draws(a):
    one, two = jax.random.split(a.key)
    same = [jax.random.normal(one, (4,)) for _ in range(2)]
    return *same, jax.random.normal(two, (4,)), jax.random.randint(one, (4,), 0, 10)


def draws_with_a_constant_key(a):
    key = jax.random.key(0)
    bits = jax.random.bits(key, (4,))
    return bits, a.x + jax.random.uniform(jax.random.fold_in(key, 1), (4,))


def convolved(a):
    image, kernel = a.m[None, None], a.m[None, None, :2, :2]
    return lax.conv_general_dilated(image, kernel, (1, 1), "SAME"), jnp.convolve(a.x, a.y)


def dead_code(a):
    """Chains, loops and branches with unread results."""
    jnp.linalg.inv(a.m) @ a.x
    _, kept = lax.scan(lambda c, r: ((jnp.sin(c[0]), c[1] + r), (c[1], c[0])), (a.s, a.s), a.x)
    one, _ = lax.cond(a.s > 0, lambda: (a.x, jnp.exp(a.x)), lambda: (a.y, jnp.sin(a.y)))
    return kept[0], one


def barriers(a):
    first, second = lax.optimization_barrier((jnp.sin(a.x), jnp.sin(a.x)))
    return first + lax.optimization_barrier(second)


def interpolated(a):
    return jnp.interp(a.y, jnp.sort(a.x), a.x), jnp.searchsorted(jnp.sort(a.x), a.y)


UNARY = _each(
    "sin cos tan arcsin arccos arctan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt "
    "square abs negative positive sign floor ceil rint trunc reciprocal isnan isfinite signbit "
    "deg2rad sinc cumsum cumprod sort argsort flip diff gradient sum prod max min mean std var "
    "median ptp argmax argmin nan_to_num outer_of",
    lambda name: (
        lambda a: jnp.outer(a.x, a.y) if name == "outer_of" else getattr(jnp, name)(a.x * 1.0)
    ),
)
BINARY = _each(
    "add subtract multiply divide power maximum minimum arctan2 hypot logaddexp fmod remainder "
    "floor_divide copysign nextafter less greater_equal equal heaviside dot inner outer cross_of",
    lambda name: (
        lambda a: (
            jnp.cross(a.x[:3], a.y[:3]) if name == "cross_of" else getattr(jnp, name)(a.x, a.y)
        )
    ),
)
INTEGER = _each(
    "add subtract multiply floor_divide remainder bitwise_and bitwise_or bitwise_xor left_shift "
    "right_shift maximum minimum gcd less equal",
    lambda name: lambda a: getattr(jnp, name)(a.j, a.i + 1),
)
MATRICES = _each(
    "inv det slogdet cholesky qr svd eigh norm matrix_power pinv",
    lambda name: lambda a: getattr(jnp.linalg, name)(a.m, *[3] * (name == "matrix_power")),
)
SPECIAL = _each(
    "erf erfc erfinv gammaln digamma expit logit i0e i1e entr ndtr log_ndtr xlog1py_of betaln_of",
    lambda name: (
        lambda a: (
            getattr(jsp.special, name[:-3])(a.x, a.y)
            if name.endswith("_of")
            else getattr(jsp.special, name)(a.x)
        )
    ),
)
NETWORKS = _each(
    "relu gelu softplus silu elu selu softmax log_softmax sigmoid leaky_relu celu hard_tanh glu",
    lambda name: lambda a: getattr(jax.nn, name)(a.x - 0.5),
)
GRADIENTS = _each(
    "sin tanh exp log sqrt square cumsum prod max std sort sinc",
    lambda name: lambda a: jax.grad(lambda x: jnp.sum(getattr(jnp, name)(x)) * a.s)(a.x),
)
OTHER = {
    "constant": lambda a: jnp.arange(4.0) * 2 + 1,
    "argument": lambda a: a.x,
    "literal result": lambda a: (1.0, a.s, 2),
    "weak": lambda a: a.n * 2.5 + 1,
    "matmul": lambda a: a.m @ a.m @ a.x,
    "einsum": lambda a: jnp.einsum("ij,jk,k->i", a.m, a.m, a.x),
    "solve": lambda a: jnp.linalg.solve(a.m, a.x),
    "triangular solve": lambda a: jsp.linalg.solve_triangular(a.m, a.x, lower=True),
    "lu": lambda a: jsp.linalg.lu_factor(a.m),
    "where": lambda a: jnp.where(a.b, a.x, -a.y),
    "select": lambda a: lax.select_n(a.i % 3, a.x, a.y, a.x + a.y),
    "clamp": lambda a: jnp.clip(a.x, 0.3, 0.6),
    "gather": lambda a: a.x[a.i] + a.m[a.i, a.i[::-1]],
    "gather rows": lambda a: jnp.take(a.m, a.i, axis=0, mode="clip"),
    "gather with fill": lambda a: jnp.take(a.x, a.j, mode="fill", fill_value=-0.0),
    "scatter": lambda a: a.x.at[a.i].set(a.y),
    "scatter add": lambda a: a.x.at[a.i % 2].add(a.y),
    "scatter multiply": lambda a: a.m.at[a.i, 0].multiply(a.y),
    "slices": lambda a: (a.x[1:3], a.m[::2, ::-1], lax.dynamic_slice(a.x, (a.n,), (2,))),
    "dynamic update": lambda a: lax.dynamic_update_slice(a.x, a.y[:2], (a.n,)),
    "reshape": lambda a: a.m.reshape(2, 8).T.ravel()[:3],
    "concatenate": lambda a: jnp.concatenate([a.x, a.y, jnp.zeros(2)]),
    "pad": lambda a: jnp.pad(a.m, ((1, 0), (0, 2)), constant_values=-0.0),
    "stack and roll": lambda a: jnp.roll(jnp.stack([a.x, a.y]), 1, axis=1),
    "tile": lambda a: jnp.tile(a.x, (2, 2)),
    "one hot": lambda a: jax.nn.one_hot(a.i, 4),
    "top k": lambda a: lax.top_k(a.x, 2),
    "cumulative": lambda a: (lax.cumlogsumexp(a.x), lax.cummax(a.x), lax.cummin(a.j)),
    "logsumexp": lambda a: jsp.special.logsumexp(a.m, axis=1),
    "windows": lambda a: lax.reduce_window(a.m, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
    "associative scan": lambda a: lax.associative_scan(jnp.add, a.x),
    "reduce": lambda a: lax.reduce(a.m, 1.0, lambda x, y: x * y, (0,)),
    "polynomial": lambda a: jnp.polyval(jnp.array([1.0, 2.0, 3.0]), a.x),
    "fft": lambda a: jnp.fft.ifft(jnp.fft.fft(a.z)),
    "rfft": lambda a: jnp.fft.rfft(a.x),
    "complex": lambda a: (a.z * a.z, jnp.abs(a.z), jnp.exp(a.z), a.z.conj().real, jnp.angle(a.z)),
    "complex matrix": lambda a: (a.m + 1j * a.m.T) @ a.z,
    "bfloat16": lambda a: (a.h + a.h * 2, jnp.exp(a.h), a.h.sum(), a.h.astype(jnp.float32)),
    "float32": lambda a: (a.f * 3 + a.f, jnp.sin(a.f), jnp.dot(a.f, a.f), a.f.astype(float)),
    "float16": lambda a: a.f.astype(jnp.float16) * 2 + 1,
    "uint8": lambda a: (a.u + a.u, a.u * 3, a.u >> 1, ~a.u, lax.population_count(a.u)),
    "booleans": lambda a: (~a.b, a.b & (a.x > 0.5), jnp.any(a.b), jnp.all(a.b), a.b.sum()),
    "conversions": lambda a: (a.x.astype(int), a.j.astype(float), a.b.astype(jnp.int8)),
    "bits": lambda a: (lax.bitcast_convert_type(a.x, jnp.uint64), lax.clz(a.j)),
    "reduce precision": lambda a: lax.reduce_precision(a.x, 8, 10),
    "interpolated": interpolated,
    "cube": lambda a: cube(a.x) + cube(a.x),
    "gradient of a custom rule": lambda a: jax.grad(lambda x: cube(x).sum())(a.x),
    "clipped": lambda a: clipped(a.x),
    "gradient of a custom pullback": lambda a: jax.grad(lambda x: clipped(x).sum() * 9)(a.x),
    "checkpoint": lambda a: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)) * 1.0)(a.x),
    "gradient of a checkpoint": lambda a: jax.grad(
        lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())(x)
    )(a.x),
    "second derivative": lambda a: jax.grad(jax.grad(lambda s: jnp.tanh(s) ** 3))(a.s),
    "jacobian": lambda a: jax.jacfwd(lambda x: jnp.sin(x) * x.sum())(a.x),
    "reverse jacobian": lambda a: jax.jacrev(lambda x: jnp.sin(x) * x.sum())(a.x),
    "hessian": lambda a: jax.hessian(lambda x: jnp.sum(jnp.exp(x) * a.y))(a.x),
    "jvp": lambda a: jax.jvp(lambda x: a.m @ jnp.sin(x), (a.x,), (a.y,)),
    "vjp": lambda a: jax.vjp(lambda x: a.m @ jnp.sin(x), a.x)[1](a.y),
    "linearize": lambda a: jax.linearize(jnp.sin, a.x)[1](a.y),
    "stopped": lambda a: jax.grad(lambda x: (x * lax.stop_gradient(x)).sum())(a.x),
    "gradient of solve": lambda a: jax.grad(lambda m: jnp.linalg.solve(m, a.x).sum())(a.m),
    "gradient of cholesky": lambda a: jax.grad(lambda m: jnp.linalg.cholesky(m).sum())(a.m),
    "gradient of where": lambda a: jax.grad(lambda x: jnp.where(x > 0.5, x * x, 0.0).sum())(a.x),
    "gradient of gather": lambda a: jax.grad(lambda x: (x[a.i] * a.y).sum())(a.x),
    "vmap": lambda a: jax.vmap(lambda r, v: jnp.sin(r) @ a.x + v)(a.m, a.y),
    "vmap of grad": lambda a: jax.vmap(jax.grad(lambda s: jnp.tanh(s) * a.s))(a.x),
    "vmap of a loop": lambda a: jax.vmap(lambda s: lax.fori_loop(0, 3, lambda _, c: c * s, s))(a.x),
    "vmap of a condition": lambda a: jax.vmap(
        lambda s: lax.while_loop(lambda c: c < 2, lambda c: c * 2 + jnp.sin(a.s), s)
    )(a.x),
    "vmap of a branch": lambda a: jax.vmap(lambda p, s: lax.cond(p, jnp.sin, jnp.cos, s))(a.b, a.x),
    "scan": scanned,
    "scan backwards": lambda a: lax.scan(
        lambda c, r: (c * jnp.cos(a.s) + r, c), a.s, a.x, reverse=True
    ),
    "scan, unrolled": lambda a: lax.scan(
        lambda c, r: (c * jnp.cos(a.s) + r, c), a.s, a.x, unroll=2
    ),
    "scan of no step": lambda a: lax.scan(lambda c, r: (c * jnp.cos(a.s) + r, c), a.s, a.x[:0]),
    "scan of one step": lambda a: lax.scan(lambda c, r: (c * jnp.cos(a.s) + r, c), a.s, a.x[:1]),
    "loops in loops": nested,
    "gradient of a loop": lambda a: jax.grad(lambda s: scanned(a._replace(s=s))[0])(a.s),
    "gradient of loops in loops": lambda a: jax.grad(lambda s: nested(a._replace(s=s))[0])(a.s),
    "map": lambda a: lax.map(lambda r: r * jnp.exp(a.s), a.x),
    "for": lambda a: lax.fori_loop(0, a.n, lambda i, c: c + a.x[i] * jnp.sin(a.s), 0.0),
    "while": while_loops,
    "a loop that is not run": loop_without_steps,
    "branch": lambda a: lax.cond(a.s > 0.2, lambda x: x * 2 + x * 2, jnp.sin, a.x),
    "switch": lambda a: lax.switch(a.n - 2, [jnp.sin, jnp.cos, lambda x: x @ a.m], a.x),
    "branch in a loop": lambda a: lax.scan(
        lambda c, r: (lax.cond(r > 0.5, lambda: c + jnp.sin(a.s), lambda: c), c), a.s, a.x
    ),
    "branch with a constant condition": lambda a: lax.cond(
        jnp.asarray(2) > 1, jnp.sin, jnp.cos, a.x
    ),
    "calls": lambda a: affine(a.x, a.m, 2.0) + affine(a.x, a.m, 2.0) * affine(a.y, a.m, 2.0),
    "calls in loops": lambda a: lax.scan(lambda c, _: (c + affine(a.x, a.m, a.s), c), a.x, a.y),
    "calls with unread results": unread_results_of_calls,
    "pytrees": lambda a: jax.tree.map(lambda v: jnp.sin(v) * a.s, a.tree),
    "pendulum": pendulum,
    "network": network,
    "newton": newton,
    "random walk": walk,
    "from constants": from_constants,
    "zeros": zeros_of_either_sign,
    "swapped operands": swapped_operands,
    "draws with a constant key": draws_with_a_constant_key,
    "dead code": dead_code,
    "barriers": barriers,
    "callback": lambda a: (
        jax.pure_callback(np.cos, jax.ShapeDtypeStruct((4,), float), a.x)
        + jax.pure_callback(np.cos, jax.ShapeDtypeStruct((4,), float), a.x)
    ),
    "nothing": lambda a: (),
    "empty": lambda a: (a.x[:0] * 2, jnp.zeros((0, 3)).sum(), jnp.concatenate([a.x[:0], a.y])),
}
LARGE = {
    "convolved": convolved,
    "draws": draws,
    "categorical": lambda a: jax.random.categorical(a.key, a.x, shape=(3,)),
    "permutation": lambda a: jax.random.permutation(a.key, a.x),
}
FAMILIES = {
    "unary": UNARY,
    "binary": BINARY,
    "integer": INTEGER,
    "matrices": MATRICES,
    "special": SPECIAL,
    "networks": NETWORKS,
    "gradients": GRADIENTS,
    "many equations": LARGE,
    "other": OTHER,
}
FUNCTIONS = {f"{family}: {n}": f for family, fs in FAMILIES.items() for n, f in fs.items()}
