"""Check and time the passes on functions of libraries: ``python benchmarks/libraries.py``.

The functions are layers, losses, training steps, solvers and samplers as users of the libraries
call them. Value, gradient and ``vmap`` of each are compared with and without
`jaxprgen.passes.DEFAULT`. One program of each function, that of its gradient if it has one, is also
compared with and without each pass alone, and is timed with and without the default passes: the
time to the first number (trace, compile and call), and the median time of many calls, which
alternate.

A result is wrong if its dtype, weak type or shape differs, or if its largest difference exceeds 100
units roundoff and 50 times what a perturbation of the arguments by 4 units roundoff changes. A
function is sensitive if that perturbation changes a result by more than 0.1 %.

``--library`` chooses libraries and ``--name`` functions; ``--check`` leaves out the times of calls,
``--default`` each pass alone. Libraries that are not installed are left out. With
``JAX_ENABLE_X64=1``, numbers have 64 bits.
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204, E731  As users write functions.

import argparse  # noqa: I001
import functools
import importlib.util
import math
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jaxprgen  # First: it makes Aesara importable.
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from jaxprgen import passes as P
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.errors import PassWarning
from jaxprgen.ir.evaluate import Evaluator

ALONE = (
    *(P.AssociativeScan(), P.DistributeScan(reassociate=True), P.FewerKernels(), P.GuardBranches()),
    *(P.Hoist(), P.MapToVmap(reassociate=True), P.ReduceInScan(), P.ReverseScan()),
    *(P.ScanRepeats(reassociate=True), P.ShareScan(), P.Simplify(), P.Stabilize()),
    *(P.VmapRepeats(reassociate=True), P.FoldConstants(), P.Inline()),
    *(P.EliminateDeadCode(), P.EliminateCommonSubexpressions()),
)
CALLS = 10_000
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Case(NamedTuple):
    """A function with arguments, and whether to differentiate and to batch it."""

    f: Callable[..., Any]
    arguments: tuple[Any, ...]
    grad: bool = True
    batch: bool = True


LIBRARIES: dict[str, Callable[[], dict[str, Case]]] = {}


def library(*names: str) -> Any:
    """Add the functions of a library, which are made if all of the named modules are installed."""

    def add(make: Callable[[], dict[str, Case]]) -> Callable[[], dict[str, Case]]:
        LIBRARIES[names[0]] = lambda: make() if all(map(importlib.util.find_spec, names)) else {}
        return make

    return add


def case(f: Callable[..., Any], *arguments: Any, grad: bool = True, batch: bool = True) -> Case:
    """Return a row of the table."""
    return Case(f, jax.tree.map(jnp.asarray, arguments), grad, batch)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """Return random numbers."""
    return jnp.asarray(scale * np.random.default_rng(seed).normal(size=shape), float)


def uniform(*shape: int, seed: int = 0, low: float = 0.1, high: float = 0.9) -> Any:
    """Return random numbers between two."""
    return jnp.asarray(np.random.default_rng(seed).uniform(low, high, size=shape), float)


def weights(*shapes: tuple[int, ...], scale: float = 0.3) -> list[Any]:
    """Return random arrays."""
    return [normal(*shape, seed=i, scale=scale) for i, shape in enumerate(shapes)]


KEY = random.key(0)

# --- JAX --------------------------------------------------------------------------------------


def lstm_step(p, carry, x):
    """Take a step of a long short-term memory."""
    h, c = carry
    i, f, g, o = jnp.split(p["w"] @ x + p["u"] @ h + p["b"], 4)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return (jax.nn.sigmoid(o) * jnp.tanh(c), c), h


def gru_step(p, h, x):
    """Take a step of a gated recurrent unit."""
    r, z = (
        jax.nn.sigmoid(p["w"][0] @ x + p["u"][0] @ h),
        jax.nn.sigmoid(p["w"][1] @ x + p["u"][1] @ h),
    )
    return (1 - z) * jnp.tanh(p["w"][2] @ x + r * (p["u"][2] @ h)) + z * h, h


def attention(p, x, mask=None):
    """Attend to a sequence with four heads."""
    q, k, v = (jnp.einsum("td,dhk->thk", x, w) for w in p["qkv"])
    logits = jnp.einsum("thk,shk->hts", q, k) / jnp.sqrt(q.shape[-1])
    if mask is not None:
        logits = jnp.where(mask, logits, -1e30)
    return jnp.einsum("hts,shk,hkd->td", jax.nn.softmax(logits), v, p["out"])


def layer_norm(x, scale, bias):
    """Normalize the last axis."""
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-6) * scale + bias


def block(p, x):
    """Run a transformer block."""
    x = x + attention(p, layer_norm(x, *p["norm"][0]))
    return x + jax.nn.gelu(layer_norm(x, *p["norm"][1]) @ p["up"]) @ p["down"]


def block_weights(seed, d=16, h=4):
    """Return the weights of a transformer block."""
    made = weights((d, h, d // h), (d, h, d // h), (d, h, d // h), (h, d // h, d), scale=0.2)
    return {
        "qkv": [w + 0.01 * seed for w in made[:3]],
        "out": made[3],
        "norm": [(jnp.ones(d), jnp.zeros(d))] * 2,
        "up": normal(d, 2 * d, seed=seed, scale=0.1),
        "down": normal(2 * d, d, seed=seed + 1, scale=0.1),
    }


def written_out(step, p, carry, xs):
    """Run a recurrence with a Python loop."""
    found = []
    for x in xs:
        carry, y = step(p, carry, x)
        found.append(y)
    return carry, jnp.stack(found)


def scanned(step, p, carry, xs):
    """Run a recurrence with a scan."""
    return lax.scan(functools.partial(step, p), carry, xs)


@library("jax")
def _jax():
    from jax.scipy.optimize import minimize

    lstm = {"w": normal(32, 4, scale=0.3), "u": normal(32, 8, scale=0.3), "b": jnp.zeros(32)}
    gru = {"w": normal(3, 8, 4, scale=0.3), "u": normal(3, 8, 8, scale=0.3)}
    h, xs, spd = jnp.zeros(8), normal(32, 4), 3 * jnp.eye(5) + 0.2 * jnp.ones((5, 5))
    blocks = [block_weights(i) for i in range(24)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *blocks)
    tokens, causal = normal(10, 16), jnp.tril(jnp.ones((10, 10), bool))

    def deep(ps, x):
        for p in ps:
            x = block(p, x)
        return jnp.mean(x**2)

    def deep_scan(ps, x):
        return jnp.mean(lax.scan(lambda x, p: (jax.checkpoint(block)(p, x), None), x, ps)[0] ** 2)

    def train(ps, x, lr):
        for _ in range(10):
            ps = jax.tree.map(lambda p, g: p - lr * g, ps, jax.grad(mlp)(ps, x))
        return mlp(ps, x)

    def mlp(ps, x):
        for w, b in ps:
            x = jax.nn.relu(x @ w + b)
        return jnp.mean(x**2)

    def residual(ps, x):
        for w1, w2, s in ps:
            y = jax.nn.relu(conv(layer_norm(x, s, 0.0), w1))
            x = x + conv(y, w2)
        return jnp.mean(x**2)

    def conv(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def dropout(ws, x, key):
        for w in ws:
            key, own = random.split(key)
            x = jnp.where(random.bernoulli(own, 0.8, x.shape), jnp.tanh(x @ w) / 0.8, 0.0)
        return x

    def pooled(x, w):
        y = lax.reduce_window(conv(x, w), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(y, (1, 2))

    def spline(x, xp, fp):
        i = jnp.clip(jnp.searchsorted(xp, x) - 1, 0, len(xp) - 2)
        t = (x - xp[i]) / (xp[i + 1] - xp[i])
        return fp[i] * (1 - t) + fp[i + 1] * t

    def lorenz(y, t):
        return jnp.stack(
            [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
        )

    def odeint(y, ts):
        from jax.experimental.ode import odeint

        return odeint(lambda y, t: jnp.stack([y[1], -jnp.sin(y[0]) - 0.1 * y[1]]), y, ts)

    def newton(a):
        return lax.while_loop(
            lambda s: jnp.abs(s[0] ** 2 - s[1]) > 1e-5,
            lambda s: (0.5 * (s[0] + s[1] / s[0]), s[1]),
            (a, a),
        )[0]

    def power(a, v):
        for _ in range(20):
            v = a @ v
            v = v / jnp.linalg.norm(v)
        return v @ a @ v

    def hidden(log_a, loc, y):
        alpha = -0.5 * (y[0] - loc) ** 2
        for i in range(1, len(y)):
            alpha = jax.nn.logsumexp(alpha[:, None] + log_a, 0) - 0.5 * (y[i] - loc) ** 2
        return jax.nn.logsumexp(alpha)

    def kalman(a, q, y):
        def step(carry, y):
            m, p = carry
            m, p = a @ m, a @ p @ a.T + q
            s = p + jnp.eye(len(m))
            k = jax.scipy.linalg.solve(s, p, assume_a="pos").T
            ll = jax.scipy.stats.multivariate_normal.logpdf(y, m, s)
            return (m + k @ (y - m), p - k @ s @ k.T), ll

        return lax.scan(step, (jnp.zeros(3), jnp.eye(3)), y)[1].sum()

    def metropolis(key, x):
        def step(x, key):
            a, b = random.split(key)
            y = x + 0.5 * random.normal(a, x.shape)
            accept = jnp.log(random.uniform(b)) < 0.5 * jnp.sum(x**2 - y**2)
            return jnp.where(accept, y, x), x

        return lax.scan(step, x, random.split(key, 50))

    def contrastive(x, y):
        x, y = (z / jnp.linalg.norm(z, axis=-1, keepdims=True) for z in (x, y))
        logits = x @ y.T / 0.07
        return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(logits)))

    def decode(p, x):
        def step(carry, i):
            cache, x = carry
            cache = lax.dynamic_update_index_in_dim(cache, x, i, 0)
            mask = jnp.arange(12) <= i
            y = jnp.tanh(attention(p, cache, mask)[i])
            return (cache, y), y

        return lax.scan(step, (jnp.zeros((12, 16)), x), jnp.arange(12))[1]

    def rope(x):
        angle = jnp.arange(len(x))[:, None] / 10000 ** (jnp.arange(8) / 8)
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate(
            [a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1
        )

    def beam(log_a, log_p):
        def step(score, log_p):
            best = score[:, None] + log_a
            return jnp.max(best, 0) + log_p, jnp.argmax(best, 0)

        last, back = lax.scan(step, jnp.zeros(4), log_p)
        return lax.scan(lambda s, b: (b[s], s), jnp.argmax(last), back, reverse=True)[1]

    def heat(u, k):
        return lax.fori_loop(
            0, 40, lambda i, u: u + k * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), u
        )

    def bce(w, x, y):
        logits = x @ w
        return -jnp.mean(
            y * jnp.log(jax.nn.sigmoid(logits)) + (1 - y) * jnp.log(1 - jax.nn.sigmoid(logits))
        )

    norm, stats, special = jax.scipy.stats.norm, jax.scipy.stats, jax.scipy.special
    p3 = [normal(3, 3, 4, 4, seed=i, scale=0.2) for i in range(12)]
    mlp_weights = [(normal(8, 8, seed=i, scale=0.4), jnp.zeros(8)) for i in range(6)]
    xp = jnp.linspace(0.0, 1.0, 12)
    return {
        "LSTM, scan": case(lambda p, x: scanned(lstm_step, p, (h, h), x), lstm, xs),
        "LSTM, written out": case(lambda p, x: written_out(lstm_step, p, (h, h), x), lstm, xs),
        "GRU, scan": case(lambda p, x: scanned(gru_step, p, h, x), gru, xs),
        "GRU, written out": case(lambda p, x: written_out(gru_step, p, h, x), gru, xs),
        "GRU, reversed scan": case(
            lambda p, x: lax.scan(lambda h, x: gru_step(p, h, x), h, x, reverse=True), gru, xs
        ),
        "GRU, checkpointed scan": case(
            lambda p, x: lax.scan(jax.checkpoint(lambda h, x: gru_step(p, h, x)), h, x), gru, xs
        ),
        "GRU, unrolled scan": case(
            lambda p, x: lax.scan(lambda h, x: gru_step(p, h, x), h, x, unroll=4), gru, xs
        ),
        "bidirectional GRU": case(
            lambda p, q, x: jnp.concatenate(
                [scanned(gru_step, p, h, x)[1], scanned(gru_step, q, h, x[::-1])[1][::-1]], -1
            ),
            gru,
            gru,
            xs,
        ),
        "attention": case(attention, blocks[0], tokens, causal),
        "dot_product_attention": case(
            lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
            *weights((2, 8, 2, 4), (2, 8, 2, 4), (2, 8, 2, 4)),
        ),
        "transformer block": case(block, blocks[0], tokens),
        "24 blocks": case(deep, blocks, tokens),
        "32 blocks": case(deep, blocks + blocks[:8], tokens),
        "24 blocks, scan": case(deep_scan, stacked, tokens),
        "decoding with a cache": case(decode, blocks[0], tokens[0]),
        "rotary embedding": case(rope, normal(10, 16)),
        "10 steps of training": case(train, mlp_weights, normal(16, 8), 0.1),
        "residual blocks": case(
            residual,
            [(p3[2 * i], p3[2 * i + 1], jnp.ones(4)) for i in range(6)],
            normal(2, 8, 8, 4),
        ),
        "convolution and pooling": case(pooled, normal(2, 8, 8, 4), p3[0]),
        "dropout": case(dropout, weights(*[(8, 8)] * 8), normal(4, 8), KEY),
        "cross entropy by hand": case(bce, normal(4), normal(30, 4), uniform(30).round()),
        "contrastive loss": case(contrastive, normal(8, 16), normal(8, 16, seed=1)),
        "interp": case(lambda x, fp: jnp.interp(x, xp, fp), uniform(9), normal(12)),
        "spline with searchsorted": case(spline, uniform(9), xp, normal(12)),
        "odeint": case(odeint, jnp.asarray([1.0, 0.0]), jnp.linspace(0.0, 2.0, 8), batch=False),
        "Lorenz, Runge-Kutta": case(
            lambda y: lax.scan(lambda y, t: (rk4(lorenz, y, t, 0.01), y), y, jnp.arange(50.0)),
            jnp.ones(3),
        ),
        "Newton, while": case(newton, 3.0, grad=False),
        "power iteration": case(power, spd, jnp.ones(5)),
        "hidden Markov model": case(
            hidden, normal(3, 3), jnp.asarray([-1.0, 0.0, 1.0]), normal(40)
        ),
        "Viterbi": case(beam, normal(4, 4), normal(15, 4), grad=False),
        "Kalman filter": case(kalman, 0.9 * jnp.eye(3) + 0.01, 0.1 * jnp.eye(3), normal(25, 3)),
        "Metropolis": case(metropolis, KEY, normal(3), grad=False),
        "heat equation": case(heat, normal(30), 0.2),
        "mixture of normals": case(
            lambda y, m, s, w: jnp.sum(
                jax.nn.logsumexp(jax.nn.log_softmax(w) + norm.logpdf(y[:, None], m, s), 1)
            ),
            normal(40),
            normal(3),
            uniform(3),
            normal(3),
        ),
        "scipy.stats": case(
            lambda x: [
                stats.norm.logcdf(x),
                stats.gamma.logpdf(x, 2.0),
                stats.beta.logpdf(x, 2.0, 3.0),
                stats.t.logpdf(x, 4.0),
                stats.poisson.logpmf(2, x),
                stats.laplace.cdf(x),
            ],
            uniform(8),
        ),
        "scipy.special": case(
            lambda x: [
                special.gammaln(x),
                special.erfinv(x),
                special.logit(x),
                special.xlogy(x, x),
                special.betainc(2.0, 3.0, x),
            ],
            uniform(8),
        ),
        "scipy.linalg": case(
            lambda a, b: [
                jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b),
                jax.scipy.linalg.expm(0.1 * a),
                jax.scipy.linalg.solve_triangular(jnp.tril(a), b, lower=True),
            ],
            spd,
            normal(5),
        ),
        "linalg": case(
            lambda a: [
                jnp.linalg.eigh(a)[0],
                jnp.linalg.slogdet(a)[1],
                jnp.linalg.inv(a),
                jnp.linalg.qr(a)[1],
            ],
            spd + jnp.diag(jnp.arange(5.0)),
        ),
        "conjugate gradients": case(
            lambda a, b: jax.scipy.sparse.linalg.cg(lambda x: a @ x, b)[0], spd, normal(5)
        ),
        "BFGS": case(
            lambda x: (
                minimize(
                    lambda x: jnp.sum((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
                    x,
                    method="BFGS",
                ).x
            ),
            0.3 * jnp.ones(3),
            grad=False,
        ),
        "map_coordinates": case(
            lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c, c], order=1),
            normal(6, 6),
            uniform(7, high=4.5),
        ),
        "fft convolution": case(
            lambda x, k: jax.scipy.signal.fftconvolve(x, k, "same"), normal(30), normal(5)
        ),
        "associative_scan": case(
            lambda a, b: lax.associative_scan(
                lambda s, t: (s[0] * t[0], t[0] * s[1] + t[1]), (a, b)
            )[1],
            uniform(33),
            normal(33),
        ),
        "segment_sum": case(
            lambda x: jax.ops.segment_sum(x, jnp.asarray([0, 0, 1, 2, 2, 2]), 3), normal(6, 2)
        ),
        "top_k and sort": case(
            lambda x: [lax.top_k(x, 3)[0], jnp.sort(x), jnp.median(x), jnp.quantile(x, 0.3)],
            normal(11),
        ),
        "cumulative": case(
            lambda x: [jnp.cumsum(x), jnp.cumprod(x), lax.cummax(x), lax.cumlogsumexp(x)],
            uniform(9),
        ),
        "map of a loop": case(
            lambda x: lax.map(lambda x: lax.fori_loop(0, 5, lambda i, y: jnp.sin(y) + x, x), x),
            normal(6),
        ),
        "switch": case(
            lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x**2], x), 1, normal(4)
        ),
        "hessian": case(
            lambda x: jax.hessian(lambda x: jnp.sum(jnp.tanh(x) * jnp.roll(x, 1) ** 2))(x),
            normal(4),
        ),
        "jvp and linearize": case(
            lambda x: jax.linearize(lambda x: jnp.sin(x) * x, x)[1](jnp.ones(4)), normal(4)
        ),
        "custom gradient": case(lambda x: straight_through(x) * x, normal(5)),
        "random draws": case(
            lambda k: [
                random.normal(k, (3,)),
                random.gamma(k, 2.0, (3,)),
                random.categorical(k, jnp.zeros(4)),
                random.permutation(k, 5),
            ],
            KEY,
            grad=False,
        ),
        "one_hot and take": case(
            lambda i, e: (
                jax.nn.one_hot(i, 5) @ e + e[i] + jnp.take_along_axis(e, i[:, None] % 2, 1)
            ),
            jnp.asarray([1, 0, 4, 2, 3]),
            normal(5, 4),
        ),
    }


def rk4(f, y, t, dt):
    """Take a step of Runge and Kutta's method."""
    k1 = f(y, t)
    k2 = f(y + dt / 2 * k1, t + dt / 2)
    k3 = f(y + dt / 2 * k2, t + dt / 2)
    k4 = f(y + dt * k3, t + dt)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@jax.custom_vjp
def straight_through(x):
    """Round, with the derivative of the identity."""
    return jnp.round(x)


straight_through.defvjp(lambda x: (straight_through(x), None), lambda _, g: (g,))


# --- Networks and optimizers ------------------------------------------------------------------


IMAGES, LABELS = normal(4, 8, 8, 3), jnp.asarray([0, 2, 1, 1])
FEATURES, TARGETS, SEQUENCE = normal(16, 8), normal(16, 3, seed=1), normal(2, 10, 16)


def cross_entropy(logits, labels):
    """Return the mean of the cross entropy with labels."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


@library("flax")
def _flax():
    import flax.linen as nn
    from flax import nnx

    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.avg_pool(nn.relu(nn.Conv(8, (3, 3))(x)), (2, 2), (2, 2))
            x = nn.relu(nn.Conv(8, (3, 3), strides=2)(x))
            return nn.Dense(3)(x.reshape(len(x), -1))

    class ResNet(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(8, (3, 3))(x)
            for _ in range(4):
                y = nn.GroupNorm(4)(nn.Conv(8, (3, 3))(nn.relu(nn.GroupNorm(4)(x))))
                x = x + nn.Conv(8, (3, 3))(nn.relu(y))
            return nn.Dense(3)(x.mean((1, 2)))

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            return x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))

    class GPT(nn.Module):
        layers: int = 3

        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(11, 16)(tokens)
            x = x + self.param("position", nn.initializers.normal(0.1), (tokens.shape[1], 16))
            for _ in range(self.layers):
                x = Block()(x)
            return nn.Dense(11)(nn.LayerNorm()(x))

    class Scanned(nn.Module):
        @nn.compact
        def __call__(self, x):
            own = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
            return nn.scan(lambda m, x, _: (m(x), None), **own, length=4)(Block(), x, None)[0]

    class Layers(nn.Module):
        count: int = 28

        @nn.compact
        def __call__(self, x):
            for _ in range(self.count):
                x = x + nn.Dense(8)(nn.swish(nn.LayerNorm()(x)))
            return x

    def linen(model, x):
        return case(model.apply, jax.jit(model.init)(KEY, x), x)

    def dropout(params, x, key):
        return drop.apply(params, x, rngs={"dropout": key})

    def batch_norm(params, x):
        y, state = norm.apply(params, x, mutable=["batch_stats"])
        return y, state["batch_stats"]

    def train_step(params, x, labels, lr):
        loss, grads = jax.value_and_grad(lambda p: cross_entropy(cnn.apply(p, x), labels))(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    def module(graph, x):
        definition, state = nnx.split(graph)
        return case(lambda state, x: nnx.merge(definition, state)(x), state, x)

    cnn, gates = CNN(), nn.RNN(nn.GRUCell(8))
    drop = nn.Sequential([nn.Dense(16), nn.Dropout(0.3, deterministic=False), nn.relu, nn.Dense(3)])
    norm = nn.Sequential([nn.Dense(8), nn.BatchNorm(use_running_average=False), nn.relu])
    rngs = nnx.Rngs(0)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 9)))
    gpt = GPT()
    gpt_params = jax.jit(gpt.init)(KEY, tokens)

    def language_loss(params, tokens):
        logits = gpt.apply(params, tokens[:, :-1])
        return cross_entropy(logits.reshape(-1, 11), tokens[:, 1:].reshape(-1))

    gpt_params = jax.jit(gpt.init)(KEY, tokens[:, :-1])
    return {
        "linen CNN": linen(cnn, IMAGES),
        "linen ResNet with GroupNorm": linen(ResNet(), IMAGES),
        "linen transformer block": linen(Block(), SEQUENCE),
        "linen GPT's loss": case(language_loss, gpt_params, tokens),
        "linen scan of blocks": linen(Scanned(), SEQUENCE),
        "linen 28 residual layers": linen(Layers(), FEATURES),
        "linen LSTM": linen(nn.RNN(nn.LSTMCell(8)), SEQUENCE),
        "linen GRU": linen(gates, SEQUENCE),
        "linen bidirectional": linen(
            nn.Bidirectional(nn.RNN(nn.GRUCell(4)), nn.RNN(nn.GRUCell(4))), SEQUENCE
        ),
        "linen ConvLSTM": linen(nn.RNN(nn.ConvLSTMCell(3, (3, 3))), normal(1, 5, 6, 6, 2)),
        "linen dropout": case(
            dropout, drop.init({"params": KEY, "dropout": KEY}, FEATURES), FEATURES, KEY
        ),
        "linen BatchNorm": case(batch_norm, norm.init(KEY, FEATURES), FEATURES),
        "linen WeightNorm": linen(nn.WeightNorm(nn.Dense(4)), FEATURES),
        "linen training step": case(train_step, cnn.init(KEY, IMAGES), IMAGES, LABELS, 0.1),
        "nnx MLP": module(
            nnx.Sequential(
                nnx.Linear(8, 16, rngs=rngs),
                nnx.LayerNorm(16, rngs=rngs),
                jax.nn.gelu,
                nnx.Linear(16, 3, rngs=rngs),
            ),
            FEATURES,
        ),
        "nnx attention": module(
            nnx.MultiHeadAttention(4, 16, 16, decode=False, rngs=rngs), SEQUENCE
        ),
        "nnx convolution": module(
            nnx.Sequential(
                nnx.Conv(3, 4, (3, 3), rngs=rngs),
                jax.nn.relu,
                nnx.ConvTranspose(4, 3, (2, 2), strides=2, rngs=rngs),
            ),
            IMAGES,
        ),
    }


@library("haiku")
def _haiku():
    import haiku as hk

    def made(f, *arguments, stateful=False):
        transformed = (hk.transform_with_state if stateful else hk.transform)(f)
        params = jax.jit(transformed.init)(KEY, *arguments)
        if stateful:
            return case(lambda p, k, *x: transformed.apply(*p, k, *x), params, KEY, *arguments)
        return case(lambda p, k, *x: transformed.apply(p, k, *x), params, KEY, *arguments)

    def lstm(x):
        return hk.dynamic_unroll(hk.LSTM(8), x, hk.LSTM(8).initial_state(x.shape[1]))[0]

    def unrolled(x):
        core = hk.GRU(8)
        return hk.static_unroll(core, x, core.initial_state(x.shape[1]))[0]

    def attention(x):
        y = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.MultiHeadAttention(
            2, 8, w_init=hk.initializers.VarianceScaling(), model_size=16
        )(y, y, y)
        return x + hk.nets.MLP([32, 16], activation=jax.nn.gelu)(hk.LayerNorm(-1, True, True)(x))

    def resnet(x):
        for _ in range(2):
            y = hk.BatchNorm(True, True, 0.9)(hk.Conv2D(3, 3)(x), is_training=True)
            x = x + hk.Conv2D(3, 3)(jax.nn.relu(y))
        return hk.Linear(3)(hk.Flatten()(hk.MaxPool(2, 2, "VALID")(x)))

    def vae(x):
        mean, std = jnp.split(hk.nets.MLP([16, 8])(x), 2, -1)
        std = jax.nn.softplus(std)
        z = mean + std * random.normal(hk.next_rng_key(), mean.shape)
        logits = hk.nets.MLP([16, 8])(z)
        kl = 0.5 * jnp.sum(std**2 + mean**2 - 1 - 2 * jnp.log(std), -1)
        return jnp.mean(kl + jnp.sum(jax.nn.softplus(logits) - x * logits, -1))

    return {
        "MLP": made(lambda x: hk.nets.MLP([16, 16, 3])(x), FEATURES),
        "MLP with dropout": made(
            lambda x: hk.nets.MLP([16, 16, 3])(x, 0.2, hk.next_rng_key()), FEATURES
        ),
        "LSTM, dynamic": made(lstm, SEQUENCE.swapaxes(0, 1)),
        "GRU, static": made(unrolled, SEQUENCE.swapaxes(0, 1)),
        "transformer block": made(attention, SEQUENCE),
        "ResNet with BatchNorm": made(resnet, IMAGES, stateful=True),
        "variational autoencoder": made(vae, uniform(16, 8)),
        "layer_stack": made(
            lambda x: hk.experimental.layer_stack(5)(lambda x: x + jnp.tanh(hk.Linear(8)(x)))(x),
            FEATURES,
        ),
        "VQ-VAE's quantizer": made(
            lambda x: hk.nets.VectorQuantizer(8, 5, 0.25)(x, True)["loss"], FEATURES
        ),
    }


@library("equinox")
def _equinox():
    import equinox as eqx

    def made(model, *arguments, batched=True):
        arrays, static = eqx.partition(model, eqx.is_array)

        def f(arrays, *arguments):
            model = eqx.combine(arrays, static)
            return jax.vmap(model)(*arguments) if batched else model(*arguments)

        return case(f, arrays, *arguments)

    class RNN(eqx.Module):
        cell: Any

        def __call__(self, xs):
            carry = jnp.zeros(8)
            carry = (carry, carry) if isinstance(self.cell, eqx.nn.LSTMCell) else carry
            return lax.scan(lambda c, x: (self.cell(x, c), None), carry, xs)[0]

    class Mixer(eqx.Module):
        patch: Any
        token: Any
        norms: Any

        def __init__(self, key):
            keys = random.split(key, 6)
            self.patch = [eqx.nn.MLP(10, 10, 16, 1, key=k) for k in keys[:3]]
            self.token = [eqx.nn.MLP(16, 16, 16, 1, key=k) for k in keys[3:]]
            self.norms = [eqx.nn.LayerNorm(16) for _ in range(3)]

        def __call__(self, x):
            for patch, token, norm in zip(self.patch, self.token, self.norms, strict=True):
                x = x + jax.vmap(patch, 1, 1)(jax.vmap(norm)(x))
                x = x + jax.vmap(token)(x)
            return x

    keys = random.split(KEY, 4)
    dropout = eqx.nn.Sequential(
        [eqx.nn.Linear(8, 8, key=KEY), eqx.nn.Dropout(0.4), eqx.nn.Linear(8, 3, key=KEY)]
    )
    deep = eqx.nn.MLP(8, 3, 16, 26, activation=jnp.tanh, key=KEY)
    linear = [eqx.nn.Linear(8, 8, key=k) for k in keys]

    def bounded(x):
        return eqx.internal.while_loop(
            lambda s: s[1] < 7,
            lambda s: (jnp.sin(s[0]) + x, s[1] + 1),
            (x, 0),
            max_steps=16,
            kind="checkpointed",
        )[0]

    return {
        "MLP": made(eqx.nn.MLP(8, 3, 16, 2, key=KEY), FEATURES),
        "MLP of 26 layers": made(deep, FEATURES),
        "layers": case(
            lambda layers, x: jax.vmap(
                lambda x: functools.reduce(lambda x, f: jax.nn.relu(f(x)), layers, x)
            )(x),
            linear,
            FEATURES,
        ),
        "CNN": made(
            eqx.nn.Sequential(
                [
                    eqx.nn.Conv2d(3, 4, 3, key=KEY),
                    eqx.nn.Lambda(jax.nn.relu),
                    eqx.nn.MaxPool2d(2, 2),
                    eqx.nn.Lambda(jnp.ravel),
                    eqx.nn.Linear(36, 3, key=KEY),
                ]
            ),
            IMAGES.transpose(0, 3, 1, 2)[:, :, :8, :8],
        ),
        "GRU": made(RNN(eqx.nn.GRUCell(16, 8, key=KEY)), SEQUENCE),
        "LSTM": made(RNN(eqx.nn.LSTMCell(16, 8, key=KEY)), SEQUENCE),
        "attention": made(eqx.nn.MultiheadAttention(4, 16, key=KEY), SEQUENCE, SEQUENCE, SEQUENCE),
        "mixer": made(Mixer(KEY), SEQUENCE),
        "dropout": case(
            lambda a, x, k: jax.vmap(eqx.combine(a, eqx.partition(dropout, eqx.is_array)[1]))(
                x, key=random.split(k, len(x))
            ),
            eqx.filter(dropout, eqx.is_array),
            FEATURES,
            KEY,
        ),
        "checkpointed while": case(bounded, uniform(4)),
    }


@library("optax")
def _optax():
    import optax

    def loss(params, x, y):
        h = jnp.tanh(x @ params["w"] + params["b"])
        return jnp.mean((h @ params["v"] - y) ** 2)

    params = {"w": normal(8, 16, scale=0.3), "b": jnp.zeros(16), "v": normal(16, 3, scale=0.3)}

    def step(optimizer):
        def f(params, state, x, y):
            value, grads = jax.value_and_grad(loss)(params, x, y)
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value

        state = optimizer.init(params)
        for _ in range(2):
            started, state, _ = f(params, state, FEATURES, TARGETS)
        return case(f, started, state, FEATURES, TARGETS, grad=False)

    def epochs(optimizer, count, loop):
        def f(params, x, y):
            def body(carry, _):
                params, state = carry
                value, grads = jax.value_and_grad(loss)(params, x, y)
                updates, state = optimizer.update(grads, state, params)
                return (optax.apply_updates(params, updates), state), value

            carry, found = (params, optimizer.init(params)), []
            if loop:
                return lax.scan(body, carry, None, count)[1]
            for _ in range(count):
                carry, value = body(carry, None)
                found.append(value)
            return jnp.stack(found)

        return case(f, params, FEATURES, TARGETS)

    def line_search(params, x, y):
        optimizer = optax.lbfgs()
        own = lambda p: loss(p, x, y)
        value_and_grad = optax.value_and_grad_from_state(own)
        state = optimizer.init(params)
        for _ in range(2):
            value, grads = value_and_grad(params, state=state)
            updates, state = optimizer.update(
                grads, state, params, value=value, grad=grads, value_fn=own
            )
            params = optax.apply_updates(params, updates)
        return own(params)

    made = {
        "sgd with momentum": optax.sgd(0.1, momentum=0.9, nesterov=True),
        "adam": optax.adam(1e-2),
        "adamw, clipped, on a schedule": optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 0.1, 10, 100)),
        ),
        "rmsprop": optax.rmsprop(1e-2),
        "lamb": optax.lamb(1e-2),
        "lion": optax.lion(1e-2),
        "adafactor": optax.adafactor(1e-2),
        "adabelief": optax.adabelief(1e-2),
        "yogi": optax.yogi(1e-2),
        "novograd": optax.novograd(1e-2),
        "muon": optax.contrib.muon(1e-2),
        "multi steps": optax.MultiSteps(optax.adam(1e-2), 4),
        "finite updates only": optax.apply_if_finite(optax.adam(1e-2), 3),
    }
    logits, labels = normal(6, 5), jax.nn.one_hot(jnp.asarray([0, 1, 2, 3, 4, 0]), 5)
    padding, ids = jnp.zeros((2, 6)), jnp.asarray([[1, 2, 1], [3, 2, 4]])
    return {
        **{name: step(own) for name, own in made.items()},
        "30 steps of adam, scan": epochs(optax.adam(1e-2), 30, True),
        "30 steps of adam, written out": epochs(optax.adam(1e-2), 30, False),
        "lbfgs": case(line_search, params, FEATURES, TARGETS, grad=False, batch=False),
        "softmax cross entropy": case(
            lambda x: optax.softmax_cross_entropy(x, labels).mean(), logits
        ),
        "focal loss": case(lambda x: optax.sigmoid_focal_loss(x, labels), logits),
        "CTC loss": case(
            lambda x: optax.ctc_loss(x, padding, ids, jnp.zeros((2, 3))), normal(2, 6, 5)
        ),
        "Huber, cosine and log-cosh": case(
            lambda x: [
                optax.huber_loss(x),
                optax.log_cosh(x),
                optax.cosine_distance(x, 1.0 + x[::-1]),
            ],
            logits,
        ),
        "KL divergence": case(
            lambda x, y: optax.kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(y)),
            logits,
            logits[::-1],
        ),
        "contrastive": case(
            lambda x: [optax.ntxent(x, jnp.asarray([0, 1, 0, 1, 2, 2]))], normal(6, 4)
        ),
        "projections": case(
            lambda x: [
                optax.projections.projection_simplex(x),
                optax.projections.projection_l1_ball(x),
            ],
            normal(7),
        ),
        "sparsemax": case(
            lambda x: optax.losses.multiclass_sparsemax_loss(x, jnp.asarray([0, 1, 2, 3, 4, 0])),
            logits,
        ),
    }


@library("penzai")
def _penzai():
    from penzai import pz

    model = pz.nn.Sequential(
        [
            pz.nn.Linear.from_config("own", KEY, {"x": 8}, {"h": 16}),
            pz.nn.Elementwise(jax.nn.relu),
            pz.nn.Linear.from_config("next", random.key(1), {"h": 16}, {"y": 3}),
            pz.nn.Softmax("y"),
        ]
    )
    rest, variables = pz.unbind_variables(model, freeze=True)

    def f(values, x):
        own = [
            v.__class__(**{**v.__dict__, "value": y})
            for v, y in zip(variables, values, strict=True)
        ]
        y = pz.bind_variables(rest, own)(pz.nx.wrap(x).tag("n", "x"))
        return y.untag("n", "y").unwrap()

    return {"MLP": case(f, [v.value for v in variables], FEATURES)}


@library("jraph")
def _jraph():
    import jraph

    def graph(nodes, edges):
        senders, receivers = jnp.asarray([0, 1, 2, 3, 4, 0, 2]), jnp.asarray([1, 2, 3, 4, 0, 2, 4])
        return jraph.GraphsTuple(
            nodes, edges, receivers, senders, jnp.ones((1, 4)), jnp.asarray([5]), jnp.asarray([7])
        )

    def network(ws, nodes, edges):
        def update(w):
            return lambda *xs: jnp.tanh(jnp.concatenate([x for x in xs if x is not None], -1) @ w)

        net = jraph.GraphNetwork(update(ws[0]), update(ws[1]), update(ws[2]))
        found = graph(nodes, edges)
        for _ in range(3):
            found = net(found)
        return found.globals

    def convolution(w, nodes, edges):
        return jraph.GraphConvolution(lambda x: x @ w, add_self_edges=True)(
            graph(nodes, edges)
        ).nodes

    def attention(ws, nodes, edges):
        query = lambda x: x @ ws[0]
        logit = lambda s, r, e: jax.nn.leaky_relu(jnp.concatenate([s, r], -1) @ ws[1])
        return jraph.GAT(query, logit)(graph(nodes, edges)._replace(edges=None)).nodes

    data = normal(5, 4), normal(7, 4)
    return {
        "graph network": case(network, weights((16, 4), (16, 4), (12, 4)), *data),
        "graph convolution": case(convolution, normal(4, 4), *data),
        "graph attention": case(attention, weights((4, 4), (8, 1)), *data),
        "interaction network": case(
            lambda w, v, n, e: (
                jraph.InteractionNetwork(
                    lambda e, s, r: jnp.tanh((e + s - r) @ w), lambda n, r: jnp.tanh((n + r) @ v)
                )(graph(n, e)).nodes
            ),
            normal(4, 4),
            normal(4, 4),
            *data,
        ),
    }


# --- Distributions, samplers and filters ------------------------------------------------------


@library("numpyro")
def _numpyro():
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, autoguide, util
    from numpyro.infer.hmc import hmc

    def density(model, *arguments, **options):
        with numpyro.handlers.seed(rng_seed=0):
            info = util.initialize_model(KEY, model, model_args=arguments)
        start = info.param_info.z
        return case(lambda z, *a: util.potential_energy(model, a, options, z), start, *arguments)

    def regression(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(x @ b, s), obs=y)

    def schools(y, s):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("J", len(y)):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
            numpyro.sample("y", dist.Normal(theta, s), obs=y)

    def mixture(y):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
        loc = numpyro.sample("loc", dist.Normal(0, 3).expand([3]).to_event(1))
        parts = dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(loc, 1.0))
        numpyro.sample("y", parts.expand(y.shape).to_event(1), obs=y)

    def volatility(y):
        s = numpyro.sample("s", dist.Exponential(10.0))
        walk = numpyro.sample("h", dist.GaussianRandomWalk(s, len(y)))
        numpyro.sample("y", dist.StudentT(5.0, 0.0, jnp.exp(walk)), obs=y)

    def hidden(y):
        a = numpyro.sample("a", dist.Dirichlet(jnp.ones((3, 3))).to_event(1))
        loc = numpyro.sample("loc", dist.Normal(0, 2).expand([3]).to_event(1))

        def step(alpha, y):
            own = dist.Normal(loc, 1.0).log_prob(y)
            return jax.nn.logsumexp(alpha[:, None] + jnp.log(a), 0) + own, None

        numpyro.factor("y", jax.nn.logsumexp(lax.scan(step, jnp.zeros(3), y)[0]))

    def correlated(y):
        low = numpyro.sample("low", dist.LKJCholesky(3, 2.0))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), scale_tril=low), obs=y)

    def counts(y):
        r = numpyro.sample("r", dist.Gamma(2.0, 1.0))
        numpyro.sample("y", dist.NegativeBinomial2(r, 3.0).expand([len(y)]).to_event(1), obs=y)

    x, y = normal(20, 3), normal(20, seed=1)

    def sampler(algo, **options):
        with numpyro.handlers.seed(rng_seed=0):
            info = util.initialize_model(KEY, regression, model_args=(x, y))
        init, step = hmc(info.potential_fn, algo=algo)
        state = init(info.param_info, 5, step_size=0.1, rng_key=KEY, **options)
        return case(lambda state: step(state).z, state, grad=False, batch=False)

    def variational(guide):
        svi = SVI(regression, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
        state = svi.init(KEY, x, y)
        return case(
            lambda state, x, y: svi.update(state, x, y)[1], state, x, y, grad=False, batch=False
        )

    zoo = {
        "continuous": [
            dist.Beta(2.0, 3.0),
            dist.Gamma(2.0, 1.5),
            dist.LogNormal(0.0, 1.0),
            dist.StudentT(4.0),
            dist.Weibull(1.0, 2.0),
            dist.Kumaraswamy(2.0, 3.0),
            dist.InverseGamma(2.0, 1.0),
        ],
        "heavy tails": [
            dist.Cauchy(),
            dist.Laplace(),
            dist.Gumbel(),
            dist.Logistic(),
            dist.AsymmetricLaplace(),
            dist.Levy(0.0, 1.0),
            dist.Pareto(0.05, 2.0),
        ],
        "truncated": [
            dist.TruncatedNormal(0.0, 1.0, low=-1.0, high=2.0),
            dist.TruncatedCauchy(low=0.0),
            dist.HalfCauchy(),
            dist.VonMises(0.0, 2.0),
        ],
    }
    return {
        "regression": density(regression, x, y),
        "eight schools": density(schools, normal(8, scale=8.0), 10 * jnp.ones(8)),
        "mixture": density(mixture, y),
        "stochastic volatility": density(volatility, y),
        "hidden Markov model": density(hidden, y),
        "LKJ": density(correlated, x),
        "negative binomial": density(counts, jnp.asarray([1, 4, 2, 0])),
        "HMC step": sampler("HMC", trajectory_length=1.0),
        "NUTS step": sampler("NUTS", max_tree_depth=4),
        "SVI step": variational(autoguide.AutoNormal(regression)),
        "SVI step, multivariate": variational(autoguide.AutoMultivariateNormal(regression)),
        **{
            f"log_prob, {k}": case(lambda x, ds=ds: [d.log_prob(x) for d in ds], uniform(6))
            for k, ds in zoo.items()
        },
        "samples": case(
            lambda k: [d.sample(k, (3,)) for ds in zoo.values() for d in ds], KEY, grad=False
        ),
    }


@library("distrax")
def _distrax():
    import distrax

    def flow(ws, x):
        def conditioner(w):
            return lambda x: jnp.split(jnp.tanh(x @ w), 2, -1)

        mask = jnp.arange(4) % 2 == 0
        layers = []
        for i, w in enumerate(ws):
            shift = lambda p: distrax.ScalarAffine(shift=p[0], log_scale=p[1])
            layers.append(distrax.MaskedCoupling(mask if i % 2 else ~mask, conditioner(w), shift))
        base = distrax.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4))
        return -jnp.mean(
            distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers))).log_prob(x)
        )

    def spline(p, x):
        return distrax.RationalQuadraticSpline(p, -2.0, 2.0).forward_and_log_det(x)

    def hidden(trans, loc, y):
        model = distrax.HMM(
            distrax.Categorical(jnp.zeros(3)),
            distrax.Categorical(trans),
            distrax.Normal(loc, jnp.ones(3)),
        )
        return model.forward_backward(y)[3]

    def policy(logits, x):
        d = distrax.Categorical(logits)
        return [
            d.entropy(),
            d.log_prob(jnp.asarray([0, 1])),
            d.kl_divergence(distrax.Categorical(x)),
            d.mode(),
        ]

    return {
        "coupling flow": case(flow, weights((4, 8), (4, 8), (4, 8)), normal(6, 4)),
        "rational quadratic spline": case(spline, normal(5, 13), uniform(5)),
        "HMM": case(hidden, normal(3, 3), normal(3), normal(15)),
        "categorical": case(policy, normal(2, 4), normal(2, 4, seed=1)),
        "multivariate normal": case(
            lambda x, s: distrax.MultivariateNormalTri(jnp.zeros(3), s).log_prob(x),
            normal(5, 3),
            jnp.tril(jnp.eye(3) + 0.2),
        ),
        "sample and log_prob": case(
            lambda k, loc: distrax.Transformed(
                distrax.Normal(loc, 1.0), distrax.Tanh()
            ).sample_and_log_prob(seed=k, sample_shape=(4,)),
            KEY,
            0.3,
        ),
    }


@library("tensorflow_probability")
def _tfp():
    from tensorflow_probability.substrates import jax as tfp

    tfd, tfb = tfp.distributions, tfp.bijectors

    def process(amplitude, length, x, y):
        kernel = tfp.math.psd_kernels.ExponentiatedQuadratic(amplitude, length)
        return tfd.GaussianProcess(kernel, x, observation_noise_variance=0.1).log_prob(y)

    def chain(key, x):
        kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda x: -0.5 * jnp.sum(x**2), 0.3, 3)
        return tfp.mcmc.sample_chain(10, x, kernel=kernel, seed=key, trace_fn=None)

    def joint(loc, y):
        model = tfd.JointDistributionSequential(
            [tfd.Normal(0.0, 1.0), lambda m: tfd.Sample(tfd.Normal(m, 1.0), 6)]
        )
        return model.log_prob(loc, y)

    def hidden(p, y):
        rows = tfd.Categorical(logits=p)
        return tfd.HiddenMarkovModel(
            tfd.Categorical(logits=p[0]), rows, tfd.Normal(jnp.arange(3.0), 1.0), 12
        ).log_prob(y)

    def linear(y, s):
        model = tfp.sts.LocalLinearTrend(observed_time_series=y)
        return model.make_state_space_model(15, [s, s, s]).log_prob(y[:, None])

    return {
        "Gaussian process": case(process, 1.0, 0.5, normal(10, 1), normal(10)),
        "HMC chain": case(chain, KEY, normal(3), grad=False),
        "joint distribution": case(joint, 0.3, normal(6)),
        "hidden Markov model": case(hidden, normal(3, 3), normal(12)),
        "local linear trend": case(linear, normal(15), 0.5),
        "bijectors": case(
            lambda x: [
                tfb.SoftmaxCentered().forward(x),
                tfb.FillScaleTriL().forward(x),
                tfb.Softplus().inverse_log_det_jacobian(x, 0),
            ],
            uniform(6),
        ),
        "ODE by Dormand and Prince": case(
            lambda x: (
                tfp.math.ode.DormandPrince()
                .solve(lambda t, y: -y * jnp.sin(t), 0.0, x, [0.5, 1.0])
                .states
            ),
            normal(2),
            grad=False,
            batch=False,
        ),
        "mixture": case(
            lambda y, w: tfd.MixtureSameFamily(
                tfd.Categorical(logits=w), tfd.Normal(jnp.arange(3.0), 1.0)
            ).log_prob(y),
            normal(7),
            normal(3),
        ),
    }


@library("blackjax")
def _blackjax():
    import blackjax

    def density(x):
        return -0.5 * jnp.sum(x["a"] ** 2) - jnp.sum(jnp.log(1 + x["b"] ** 2))

    start, mass = {"a": normal(3), "b": normal(2)}, jnp.ones(5)

    def sampler(make, **options):
        own = make(density, **options)
        return case(lambda k, s: own.step(k, s), KEY, own.init(start), grad=False)

    def chain(key, x):
        own = blackjax.hmc(density, 0.2, mass, 5)
        step = lambda s, k: (own.step(k, s)[0], s.position)
        return lax.scan(step, own.init(x), random.split(key, 10))[1]

    def smc(key, particles):
        prior, likelihood = (lambda x: -0.5 * x @ x), (lambda x: -jnp.sum((x - 1) ** 2))
        parameters = blackjax.smc.extend_params(
            {"step_size": 0.2, "inverse_mass_matrix": jnp.ones(2), "num_integration_steps": 3}
        )
        own = blackjax.tempered_smc(
            prior,
            likelihood,
            blackjax.hmc.build_kernel(),
            blackjax.hmc.init,
            parameters,
            blackjax.smc.resampling.systematic,
            num_mcmc_steps=2,
        )
        return own.step(key, own.init(particles), 0.3)

    def elliptical(key, x):
        own = blackjax.elliptical_slice(
            lambda x: -jnp.sum((x - 1) ** 2), mean=jnp.zeros(3), cov=jnp.eye(3)
        )
        return own.step(key, own.init(x))

    def pathfinder(key, x):
        return blackjax.vi.pathfinder.approximate(
            key, lambda x: -0.5 * x @ x, x, num_samples=5, maxiter=5
        )[0].elbo

    return {
        "HMC": sampler(
            blackjax.hmc, step_size=0.2, inverse_mass_matrix=mass, num_integration_steps=5
        ),
        "NUTS": sampler(
            blackjax.nuts, step_size=0.3, inverse_mass_matrix=mass, max_num_doublings=4
        ),
        "MALA": sampler(blackjax.mala, step_size=0.1),
        "random walk": case(
            lambda k, s: blackjax.additive_step_random_walk(
                density, blackjax.mcmc.random_walk.normal(0.1 * jnp.ones(5))
            ).step(k, s),
            KEY,
            blackjax.rmh(density, None).init(start),
            grad=False,
        ),
        "Barker": sampler(blackjax.barker_proposal, step_size=0.1),
        "GHMC": case(
            lambda k, x: (
                blackjax.ghmc(density, 0.1, {"a": jnp.ones(3), "b": jnp.ones(2)}, 0.3, 0.1)
                .init(x, k)
                .position
            ),
            KEY,
            start,
            grad=False,
        ),
        "HMC chain": case(chain, KEY, start, grad=False),
        "SMC": case(smc, KEY, normal(12, 2), grad=False, batch=False),
        "elliptical slice": case(elliptical, KEY, normal(3), grad=False),
        "Pathfinder": case(pathfinder, KEY, normal(3), grad=False, batch=False),
        "SGLD": case(
            lambda k, x: blackjax.sgld(lambda x, batch: -x + batch.mean(0)).step(
                k, x, normal(4, 3), 0.01
            ),
            KEY,
            normal(3),
        ),
    }


@library("dynamax")
def _dynamax():
    from dynamax.hidden_markov_model import hmm_filter, hmm_posterior_mode, hmm_smoother
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_filter, lgssm_smoother
    from dynamax.nonlinear_gaussian_ssm import (
        ParamsNLGSSM,
        extended_kalman_filter,
        unscented_kalman_filter,
    )

    model = LinearGaussianSSM(2, 2)
    params, _ = model.initialize(KEY)
    y, lls, p0 = normal(20, 2), normal(20, 3), jnp.ones(3) / 3
    trans = jax.nn.softmax(normal(3, 3))

    def nonlinear(run):
        def f(a, y):
            own = ParamsNLGSSM(
                jnp.zeros(2),
                jnp.eye(2),
                lambda x: jnp.tanh(a @ x),
                0.1 * jnp.eye(2),
                jnp.sin,
                jnp.eye(2),
            )
            return run(own, y).marginal_loglik

        return case(f, 0.8 * jnp.eye(2) + 0.05, y)

    def unscented(own, y):
        from dynamax.nonlinear_gaussian_ssm import UKFHyperParams

        return unscented_kalman_filter(own, y, UKFHyperParams())

    return {
        "Kalman filter": case(lambda p, y: lgssm_filter(p, y).marginal_loglik, params, y),
        "Kalman smoother": case(lambda p, y: lgssm_smoother(p, y).smoothed_means, params, y),
        "marginal_log_prob": case(model.marginal_log_prob, params, y),
        "extended Kalman filter": nonlinear(extended_kalman_filter),
        "unscented Kalman filter": nonlinear(unscented),
        "HMM filter": case(lambda t, lls: hmm_filter(p0, t, lls).marginal_loglik, trans, lls),
        "HMM smoother": case(lambda t, lls: hmm_smoother(p0, t, lls).smoothed_probs, trans, lls),
        "HMM's most likely states": case(
            lambda t, lls: hmm_posterior_mode(p0, t, lls), trans, lls, grad=False
        ),
    }


@library("tinygp")
def _tinygp():
    from tinygp import GaussianProcess, kernels

    x, y = jnp.sort(uniform(15, high=5.0)), normal(15)

    def process(make):
        def f(p, x, y):
            return GaussianProcess(make(p), x, diag=0.1).log_probability(y)

        return case(f, jnp.asarray([0.8, 1.3]), x, y)

    def predicted(p, x, y, new):
        return GaussianProcess(p[0] * kernels.Matern32(p[1]), x, diag=0.1).condition(y, new).gp.loc

    return {
        "squared exponential": process(lambda p: p[0] * kernels.ExpSquared(p[1])),
        "Matérn and periodic": process(
            lambda p: p[0] * kernels.Matern52(p[1]) + kernels.ExpSineSquared(scale=2.0, gamma=p[0])
        ),
        "quasiseparable": process(lambda p: kernels.quasisep.Matern32(scale=p[0], sigma=p[1])),
        "celerite's SHO": process(lambda p: kernels.quasisep.SHO(omega=p[0], quality=p[1])),
        "prediction": case(predicted, jnp.asarray([0.8, 1.3]), x, y, jnp.linspace(0.0, 5.0, 7)),
    }


# --- Solvers, reinforcement learning, and the rest ---------------------------------------------


@library("diffrax")
def _diffrax():
    import diffrax as dfx

    def field(t, y, p):
        return jnp.stack([p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]])

    p, y0, ts = (
        jnp.asarray([1.1, 0.4, 0.4, 0.1]),
        jnp.asarray([2.0, 1.0]),
        jnp.linspace(0.0, 2.0, 7),
    )

    def ode(solver, controller=None, **options):
        def f(y, p):
            term = dfx.ODETerm(field)
            return dfx.diffeqsolve(
                term,
                solver,
                0.0,
                2.0,
                0.1,
                y,
                p,
                stepsize_controller=controller or dfx.ConstantStepSize(),
                saveat=dfx.SaveAt(ts=ts),
                max_steps=64,
                **options,
            ).ys

        return case(f, y0, p)

    def sde(key, y):
        path = dfx.VirtualBrownianTree(0.0, 1.0, 1e-2, (2,), key)
        drift, noise = (
            dfx.ODETerm(lambda t, y, _: -y),
            dfx.ControlTerm(lambda t, y, _: 0.3 * jnp.diag(y), path),
        )
        return dfx.diffeqsolve(
            dfx.MultiTerm(drift, noise), dfx.Heun(), 0.0, 1.0, 0.1, y, max_steps=16
        ).ys

    def network(ws, y):
        def slope(t, y, ws):
            for w in ws:
                y = jnp.tanh(w @ y)
            return y

        return dfx.diffeqsolve(
            dfx.ODETerm(slope),
            dfx.Tsit5(),
            0.0,
            1.0,
            0.1,
            y,
            ws,
            stepsize_controller=dfx.PIDController(1e-3, 1e-6),
            max_steps=32,
        ).ys

    def controlled(w, xs):
        path = dfx.LinearInterpolation(jnp.linspace(0.0, 1.0, 8), xs)
        term = dfx.ControlTerm(lambda t, y, w: jnp.tanh(w @ y).reshape(4, 2), path).to_ode()
        return dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, jnp.ones(4), w, max_steps=16).ys

    return {
        "Euler": ode(dfx.Euler()),
        "Tsit5, adaptive": ode(dfx.Tsit5(), dfx.PIDController(1e-4, 1e-6)),
        "Dopri8": ode(dfx.Dopri8()),
        "Kvaerno3, implicit": ode(dfx.Kvaerno3(), dfx.PIDController(1e-3, 1e-5)),
        "backsolve adjoint": case(
            lambda y, p: (
                dfx.diffeqsolve(
                    dfx.ODETerm(field),
                    dfx.Tsit5(),
                    0.0,
                    1.0,
                    0.1,
                    y,
                    p,
                    adjoint=dfx.BacksolveAdjoint(),
                ).ys
            ),
            y0,
            p,
        ),
        "SDE": case(sde, KEY, y0),
        "neural ODE": case(network, weights((4, 4), (4, 4)), normal(4)),
        "neural CDE": case(controlled, normal(8, 4, scale=0.3), normal(8, 2)),
        "cubic interpolation": case(
            lambda y, t: dfx.CubicInterpolation(
                ts, dfx.backward_hermite_coefficients(ts, y)
            ).evaluate(t),
            normal(7, 2),
            0.7,
        ),
    }


@library("lineax")
def _lineax():
    import lineax as lx

    spd, b = 3 * jnp.eye(5) + 0.3 * jnp.ones((5, 5)), normal(5)

    def solved(solver, *tags):
        return case(
            lambda a, b: (
                lx.linear_solve(lx.MatrixLinearOperator(a, tags), b, solver, throw=False).value
            ),
            spd,
            b,
        )

    return {
        "LU": solved(lx.LU()),
        "QR": solved(lx.QR()),
        "SVD": solved(lx.SVD()),
        "Cholesky": solved(lx.Cholesky(), lx.positive_semidefinite_tag),
        "CG": solved(lx.CG(1e-5, 1e-5), lx.positive_semidefinite_tag),
        "GMRES": solved(lx.GMRES(1e-5, 1e-5)),
        "tridiagonal": case(
            lambda d, low, up, b: (
                lx.linear_solve(lx.TridiagonalLinearOperator(d, low, up), b).value
            ),
            3 + uniform(5),
            uniform(4),
            uniform(4, seed=1),
            b,
        ),
        "function": case(
            lambda a, b: (
                lx.linear_solve(
                    lx.FunctionLinearOperator(lambda x: a @ x, b),
                    b,
                    lx.AutoLinearSolver(well_posed=True),
                ).value
            ),
            spd,
            b,
        ),
    }


@library("optimistix")
def _optimistix():
    import optimistix as optx

    def residual(x, p):
        return jnp.stack([x[0] - jnp.tanh(p * x[1]), x[1] - jnp.cos(x[0])])

    def rosenbrock(x, p):
        return jnp.sum(p * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    start = 0.3 * jnp.ones(2)

    def run(solve, f, solver, **options):
        return case(
            lambda x, p: solve(f, solver, x, p, max_steps=64, throw=False, **options).value,
            start,
            0.7,
        )

    return {
        "Newton": run(optx.root_find, residual, optx.Newton(1e-4, 1e-4)),
        "chord": run(optx.root_find, residual, optx.Chord(1e-4, 1e-4)),
        "bisection": case(
            lambda p: (
                optx.root_find(
                    lambda x, p: x**3 - p,
                    optx.Bisection(1e-4, 1e-4),
                    0.5,
                    p,
                    options={"lower": 0.0, "upper": 2.0},
                ).value
            ),
            0.7,
        ),
        "BFGS": run(optx.minimise, rosenbrock, optx.BFGS(1e-3, 1e-3)),
        "Nelder and Mead": run(optx.minimise, rosenbrock, optx.NelderMead(1e-2, 1e-2)),
        "Levenberg and Marquardt": run(
            optx.least_squares, residual, optx.LevenbergMarquardt(1e-4, 1e-4)
        ),
        "dogleg": run(optx.least_squares, residual, optx.Dogleg(1e-4, 1e-4)),
        "fixed point": run(
            optx.fixed_point, lambda x, p: jnp.cos(p * x), optx.FixedPointIteration(1e-5, 1e-5)
        ),
    }


@library("jaxopt")
def _jaxopt():
    import jaxopt

    def ridge(w, l2, x, y):
        return jnp.mean((x @ w - y) ** 2) + l2 * jnp.sum(w**2)

    x, y, w = normal(12, 3), normal(12, seed=1), jnp.zeros(3)

    def run(make, *extra):
        return case(lambda l2, x, y: make.run(w, l2, *extra, x, y).params, 0.5, x, y)

    return {
        "gradient descent": run(jaxopt.GradientDescent(ridge, maxiter=20, stepsize=0.1)),
        "LBFGS": run(jaxopt.LBFGS(ridge, maxiter=10)),
        "Gauss and Newton": case(
            lambda x, y: (
                jaxopt.GaussNewton(lambda w, x, y: x @ w - y, maxiter=5).run(w, x, y).params
            ),
            x,
            y,
        ),
        "proximal gradient": case(
            lambda l1, x, y: (
                jaxopt.ProximalGradient(
                    lambda w, x, y: jnp.mean((x @ w - y) ** 2), jaxopt.prox.prox_lasso, maxiter=30
                )
                .run(w, l1, x, y)
                .params
            ),
            0.1,
            x,
            y,
        ),
        "projections": case(
            lambda x: [
                jaxopt.projection.projection_simplex(x),
                jaxopt.projection.projection_l2_ball(x, 1.0),
            ],
            normal(6),
        ),
        "Anderson": case(
            lambda p: (
                jaxopt.AndersonAcceleration(lambda x, p: jnp.cos(p * x), history_size=3, maxiter=15)
                .run(jnp.ones(2), p)
                .params
            ),
            0.6,
        ),
        "losses": case(
            lambda x: [
                jax.vmap(jaxopt.loss.huber_loss)(x, x[::-1]),
                jaxopt.loss.multiclass_logistic_loss(2, x),
            ],
            normal(6),
        ),
    }


@library("rlax")
def _rlax():
    import rlax

    q, a, r, d = normal(6, 3), jnp.asarray([0, 2, 1, 1, 0, 2]), normal(6), 0.9 * jnp.ones(6)
    v, logits = normal(7), normal(6, 3, seed=1)
    every = functools.partial(jax.vmap, in_axes=0)

    def actor_critic(logits, v, r):
        advantage = rlax.td_lambda(v[:-1], r, d, v[1:], 0.9)
        loss = rlax.policy_gradient_loss(logits, a, lax.stop_gradient(advantage), jnp.ones(6))
        return loss + jnp.mean(advantage**2) + 0.01 * rlax.entropy_loss(logits, jnp.ones(6))

    def ppo(logits, old, v, r):
        ratio = jnp.exp(
            rlax.batched_index(jax.nn.log_softmax(logits), a)
            - rlax.batched_index(jax.nn.log_softmax(old), a)
        )
        advantage = rlax.truncated_generalized_advantage_estimation(r, d, 0.95, v)
        return rlax.clipped_surrogate_pg_loss(ratio, lax.stop_gradient(advantage), 0.2)

    return {
        "Q-learning": case(lambda q, r: every(rlax.q_learning)(q, a, r, d, q[::-1]), q, r),
        "double Q-learning": case(
            lambda q, r: every(rlax.double_q_learning)(q, a, r, d, q[::-1], q), q, r
        ),
        "actor and critic": case(actor_critic, logits, v, r),
        "PPO": case(ppo, logits, logits[::-1], v, r),
        "V-trace": case(
            lambda v, r, rho: rlax.vtrace(v[:-1], v[1:], r, d, rho), v, r, uniform(6, high=1.5)
        ),
        "retrace": case(
            lambda q, r: rlax.retrace(
                q[:-1], q[1:], a[:-1], a[1:], r[:-1], d[:-1], jax.nn.softmax(q)[1:], uniform(5), 0.9
            ),
            q,
            r,
        ),
        "lambda returns": case(lambda v, r: rlax.lambda_returns(r, d, v[1:], 0.9), v, r),
        "categorical projection": case(
            lambda p: rlax.categorical_l2_project(
                jnp.linspace(-1, 1, 5), jax.nn.softmax(p), jnp.linspace(-1.5, 1.5, 5)
            ),
            normal(5),
        ),
        "quantile regression": case(
            lambda x, y: rlax.quantile_regression_loss(x, jnp.linspace(0.1, 0.9, 5), y, 1.0),
            normal(5),
            normal(5, seed=1),
        ),
        "value transforms": case(
            lambda x: [rlax.signed_hyperbolic(x), rlax.signed_parabolic(x)], normal(7)
        ),
    }


@library("evosax")
def _evosax():
    from evosax.algorithms import CMA_ES, PSO, SNES, DifferentialEvolution, Open_ES, SimpleGA

    def fitness(x):
        return jnp.sum(x**2, -1)

    def distributed(kind):
        own = kind(population_size=8, solution=jnp.zeros(3))
        params = own.default_params
        state = own.init(KEY, jnp.ones(3), params)

        def f(key, state):
            x, state = own.ask(key, state, params)
            return own.tell(key, x, fitness(x), state, params)[0].mean

        return case(f, KEY, state, grad=False)

    def population(kind):
        own = kind(population_size=8, solution=jnp.zeros(3))
        params, start = own.default_params, normal(8, 3)
        state = own.init(KEY, start, fitness(start), params)

        def f(key, state):
            x, state = own.ask(key, state, params)
            return own.tell(key, x, fitness(x), state, params)[0]

        return case(f, KEY, state, grad=False)

    made = {"CMA-ES": CMA_ES, "OpenES": Open_ES, "SNES": SNES}
    others = {"PSO": PSO, "differential evolution": DifferentialEvolution, "genetic": SimpleGA}
    return {
        **{k: distributed(x) for k, x in made.items()},
        **{k: population(x) for k, x in others.items()},
    }


@library("brax")
def _brax():
    from brax import math as bm
    from brax.training import distribution
    from brax.training.acme import running_statistics as stats
    from brax.training.agents.ppo import losses

    tanh = distribution.NormalTanhDistribution(2)

    def advantage(r, v, last):
        zeros = jnp.zeros_like(r)
        return losses.compute_gae(zeros, zeros, r, v, last)

    def normalized(x):
        state = stats.update(stats.init_state(jax.ShapeDtypeStruct((3,), x.dtype)), x)
        return stats.normalize(x, state)

    return {
        "generalized advantages": case(advantage, normal(9, 2), normal(9, 2), normal(2)),
        "policy": case(
            lambda p, a: [tanh.log_prob(p, a), tanh.mode(p)], normal(5, 4), normal(5, 2)
        ),
        "running statistics": case(normalized, normal(6, 3)),
        "quaternions": case(
            lambda q, v: [bm.rotate(v, q / jnp.linalg.norm(q)), bm.quat_mul(q, q), bm.quat_inv(q)],
            normal(4),
            normal(3),
        ),
    }


@library("chex")
def _chex():
    import chex

    @chex.dataclass
    class State:
        mean: Any
        count: Any

    def update(state, x):
        chex.assert_shape(x, (6, 3))
        return State(
            mean=state.mean + (x.mean(0) - state.mean) / state.count, count=state.count + 1
        )

    return {"dataclass": case(update, State(mean=normal(3), count=jnp.asarray(2.0)), normal(6, 3))}


@library("mctx")
def _mctx():
    import mctx

    def search(w, key):
        def step(w, key, action, h):
            h = jnp.tanh(h @ w + jax.nn.one_hot(action, 4))
            out = mctx.RecurrentFnOutput(
                reward=h[:, 0], discount=0.9 * jnp.ones(2), prior_logits=h[:, :3], value=h[:, 3]
            )
            return out, h

        h = jnp.tanh(w[:2])
        root = mctx.RootFnOutput(prior_logits=h[:, :3], value=h[:, 3], embedding=h)
        return mctx.gumbel_muzero_policy(w, key, root, step, num_simulations=6).action_weights

    return {"Gumbel MuZero": case(search, normal(4, 4), KEY, grad=False, batch=False)}


@library("ott")
def _ott():
    from ott.geometry import pointcloud
    from ott.solvers import linear
    from ott.tools import soft_sort

    def sinkhorn(x, y):
        return linear.solve(pointcloud.PointCloud(x, y, epsilon=0.3), max_iterations=50).reg_ot_cost

    return {
        "Sinkhorn": case(sinkhorn, normal(6, 2), normal(7, 2, seed=1)),
        "soft sort": case(
            lambda x: soft_sort.sort(x, axis=0, max_iterations=20), normal(6), grad=False
        ),
    }


@library("e3nn_jax")
def _e3nn():
    import e3nn_jax as e3nn

    return {
        "spherical harmonics": case(
            lambda x: e3nn.spherical_harmonics("0e + 1o + 2e", x, True).array, normal(5, 3)
        ),
        "tensor product": case(
            lambda x, y: (
                e3nn.tensor_product(e3nn.IrrepsArray("0e + 1o", x), e3nn.IrrepsArray("1o", y)).array
            ),
            normal(5, 4),
            normal(5, 3),
        ),
        "radial basis": case(lambda x: e3nn.bessel(x, 4, 2.0), uniform(6)),
    }


@library("dm_pix")
def _pix():
    import dm_pix as pix

    image = uniform(8, 8, 3)
    return {
        "color": case(
            lambda x: [
                pix.adjust_hue(x, 0.1),
                pix.adjust_saturation(x, 1.2),
                pix.adjust_gamma(x, 0.7),
            ],
            image,
        ),
        "blur": case(lambda x: pix.gaussian_blur(x, 1.0, 3), image),
        "structural similarity": case(
            lambda x, y: pix.ssim(x, y, filter_size=5), image, uniform(8, 8, 3, seed=1)
        ),
        "augmentation": case(
            lambda k, x: pix.random_flip_left_right(k, pix.random_brightness(k, x, 0.3)), KEY, image
        ),
    }


@library("gymnax")
def _gymnax():
    import gymnax

    def rollout(name):
        env, params = gymnax.make(name)

        def f(key):
            _, state = env.reset(key, params)

            def step(state, key):
                _, state, reward, _, _ = env.step(
                    key, state, env.action_space(params).sample(key), params
                )
                return state, reward

            return lax.scan(step, state, random.split(key, 20))[1]

        return case(f, KEY, grad=False)

    return {name: rollout(name) for name in ("CartPole-v1", "Pendulum-v1", "Catch-bsuite")}


# --- Checking ---------------------------------------------------------------------------------


def is_inexact(x: Any) -> bool:
    """Return whether an array can be differentiated."""
    return jnp.issubdtype(x.dtype, jnp.floating)


def flattened(f: Callable[..., Any], tree: Any) -> Callable[..., list[Any]]:
    """Return a function of leaves that returns leaves."""
    return lambda *leaves: jax.tree.leaves(f(*jax.tree.unflatten(tree, leaves)))


def gradient(flat: Callable[..., Any], leaves: list[Any]) -> Callable[..., Any]:
    """Return the value and gradient of the sum of a function's results, or of their squares."""

    def total(*leaves: Any) -> Any:
        found = [x for x in map(jnp.asarray, flat(*leaves)) if is_inexact(x)]
        return sum(jnp.sum(x if x.ndim == 0 else x * x) for x in found)

    wrt = tuple(i for i, x in enumerate(leaves) if is_inexact(x))
    return lambda *leaves: jax.tree.leaves(jax.value_and_grad(total, wrt)(*leaves))


def rows(x: Any) -> Any:
    """Return a batch of three that are alike."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return random.split(x, 3)
    scales = jnp.asarray([1, 0.99, 1.01]).reshape(3, *[1] * x.ndim)
    return (x * scales).astype(x.dtype) if is_inexact(x) else jnp.stack([x] * 3)


def programs(own: Case) -> Iterator[tuple[str, Callable[..., list[Any]], list[Any]]]:
    """Yield each program to compare: what it is, a function, and arguments."""
    leaves, tree = jax.tree.flatten(own.arguments)
    flat = flattened(own.f, tree)
    yield "value", flat, leaves
    if own.grad:
        yield "gradient", gradient(flat, leaves), leaves
    if own.batch:
        yield "vmap", jax.vmap(flat), [*map(rows, leaves)]


def perturbed(x: Any) -> Any:
    """Change each number by up to 4 units roundoff."""
    if not is_inexact(x):
        return x
    signs = np.random.default_rng(1).uniform(-4, 4, size=x.shape)
    return x * (1 + jnp.asarray(signs, x.dtype) * jnp.finfo(x.dtype).eps)


def numbers(x: Any) -> Any:
    """Return an array's numbers."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return np.asarray(random.key_data(x))
    return np.asarray(x, np.float32 if x.dtype == jnp.bfloat16 else None)


def type_of(x: Any) -> str:
    """Describe the type of an array."""
    return x.aval.str_short() + " weak" * x.weak_type


def difference(wanted: Any, got: Any, moved: Any, types: bool) -> str:
    """Say how results differ, or nothing."""
    for x, y, z in zip(wanted, got, moved, strict=True):
        if types and type_of(x) != type_of(y):
            return f"{type_of(y)} instead of {type_of(x)}"
        a, b, c = map(numbers, (x, y, z))
        if not np.issubdtype(a.dtype, np.inexact):
            if np.any((a != b) & (a == c)):
                return f"{np.sum(a != b)} of {a.size} {a.dtype} differ"
            continue
        finite = np.isfinite(a)
        if not np.isfinite(b[finite]).all():
            return f"{np.sum(~np.isfinite(b[finite]))} of {a.size} are not finite"
        a, b, c = a[finite], b[finite], np.where(np.isfinite(c), c, np.inf)[finite]
        if a.size:
            error, moves = np.max(np.abs(a - b)), np.max(np.abs(a - c))
            rounding = np.finfo(a.dtype).eps * np.max(np.abs(a)) + np.finfo(a.dtype).tiny
            if error > 100 * rounding + 50 * moves:
                return f"differs by {error / rounding:.0f} eps, sensitivity {moves / rounding:.0f}"
    return ""


def notes(wanted: Any, moved: Any) -> set[str]:
    """Say whether a function is sensitive or not finite."""
    found: set[str] = set()
    for x, y in zip(map(numbers, wanted), map(numbers, moved), strict=True):
        if np.issubdtype(x.dtype, np.inexact) and x.size:
            found |= set() if np.isfinite(x).all() else {"not finite"}
            x, y = (np.where(np.isfinite(each), each, 0.0) for each in (x, y))
            found |= {"sensitive"} if np.max(np.abs(x - y)) > 1e-3 * np.max(np.abs(x)) else set()
    return found


def attempted(f: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or the text of its error."""
    try:
        return f(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def seconds(f: Callable[..., Any], leaves: list[Any]) -> tuple[float, list[Any]]:
    """Return the time of one call, and its results."""
    start = time.perf_counter()
    found = jax.block_until_ready(f(*leaves))
    return time.perf_counter() - start, found


def evaluated(programs: list[Any], leaves: list[Any]) -> list[Any]:
    """Evaluate programs of the same arguments in the way that takes the least time."""
    if any(len(closed.jaxpr.eqns) > 300 for closed in programs):
        return [Evaluator(("call",)).run(closed, leaves) for closed in programs]
    functions = [*map(jaxpr_as_fun, programs)]  # Much of them is the same, which XLA finds.
    return jax.jit(lambda *x: [f(*x) for f in functions], compiler_options=QUICK)(*leaves)


def call_times(functions: list[Any], leaves: list[Any]) -> list[float]:
    """Return the median times of calls that alternate."""
    calls: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end or len(calls[0]) < 7:
        for f, found in zip(functions, calls, strict=True):
            found.append(seconds(f, leaves)[0])
    return [*map(statistics.median, calls)]


class Row(NamedTuple):
    """What is found about a function: failures, notes, and the times as written and after."""

    failures: list[str]
    notes: set[str]
    firsts: list[float]
    calls: list[float]


def look(own: Case, alone: bool, timed: bool, counts: Counter[tuple[str, str]]) -> Row:
    """Check and time a function, and count what is right."""
    row = Row([], set(), [], [])
    for what, flat, leaves in programs(own):
        is_main = what == ("gradient" if own.grad else "value")
        options: Any = None if is_main else QUICK
        old = jax.jit(lambda *x, flat=flat: flat(*x), compiler_options=options)
        new = jax.jit(jaxprgen.transform(flat, *P.DEFAULT), compiler_options=options)
        closed = attempted(jax.make_jaxpr(flat), *leaves)  # JAX keeps parts of the trace.
        first = attempted(seconds, old, leaves)
        if isinstance(first, str):
            row.failures.append(f"{what} as written: {first}")
            continue
        wanted, moved = first[1], old(*map(perturbed, leaves))
        row.notes.update(notes(wanted, moved))
        after = attempted(seconds, new, leaves)
        found = {"DEFAULT": after if isinstance(after, str) else after[1]}
        if is_main and timed and not isinstance(after, str):
            row.firsts.extend([first[0], after[0]])
            row.calls.extend(call_times([old, new], leaves))
        if alone and is_main:  # The program of a gradient computes the value as well.
            found.update(each_alone(closed, leaves, counts))
        for name, result in found.items():
            wrong = result if isinstance(result, str) else ""
            if result is not None and not wrong:
                wrong = difference(wanted, result, moved, name == "DEFAULT")
            counts[name, "wrong" if wrong else "right"] += 1
            row.failures.extend([f"{what}, {name}: {wrong}"] if wrong else [])
    return row


def each_alone(closed: Any, leaves: list[Any], counts: Counter[tuple[str, str]]) -> dict[str, Any]:
    """Return the results after each pass alone, or its error; None if it changes nothing."""
    found = {type(own).__name__: attempted(P.Pipeline((own,)), closed) for own in ALONE}
    changed = {k: x for k, x in found.items() if x is not closed and not isinstance(x, str)}
    counts.update((name, "changed") for name in changed)
    results = attempted(evaluated, [*changed.values()], leaves)
    if isinstance(results, str):  # One of them fails.
        results = [attempted(evaluated, [x], leaves) for x in changed.values()]
        results = [x if isinstance(x, str) else x[0] for x in results]
    results = dict(zip(changed, results, strict=True))
    return {k: x if isinstance(x, str) else results.get(k) for k, x in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", nargs="*", default=[*LIBRARIES])
    parser.add_argument("--name", nargs="*", default=[""])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--default", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", PassWarning)
    print(f"jax {jax.__version__}, {jax.default_backend()}\n")
    print("| library | function | right | first, s | ratio | call, µs | ratio | wait | notes |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    counts: Counter[tuple[str, str]] = Counter()
    ratios: list[tuple[float, float]] = []
    slower: list[str] = []
    for name in options.library:
        cases = LIBRARIES[name]()
        if not cases:
            print(f"| {name} | not installed | | | | | | | |")
        for title, own in cases.items():
            if not any(each in title for each in options.name):
                continue
            row = look(own, not options.default, not options.check, counts)
            cells = [""] * 5
            if row.calls:
                (old, new), (before, after) = row.firsts, row.calls
                ratios.append((new / old, after / before))
                wait = (new + CALLS * after) / (old + CALLS * before)
                if after > 1.1 * before + 2e-6 and wait > 2 / 3:
                    slower.append(f"{name}: {title}, call {after / before:.2f}, wait {wait:.2f}")
                cells = [
                    *(f"{old:.2f} → {new:.2f}", f"{new / old:.2f}"),
                    *(f"{before * 1e6:.0f} → {after * 1e6:.0f}", f"{after / before:.2f}"),
                    f"{wait:.2f}",
                ]
            right = "no" if row.failures else "yes"
            text = ", ".join(sorted(row.notes))
            print(f"| {name} | {title} | {right} | {' | '.join(cells)} | {text} |", flush=True)
            for each in row.failures:
                print(f"    {each}", flush=True)
        jax.clear_caches()
    for pass_name in dict.fromkeys(key for key, _ in counts):
        right, wrong, changed = (counts[pass_name, x] for x in ("right", "wrong", "changed"))
        print(f"{pass_name}: {right} of {right + wrong} right; {changed} changed")
    if ratios:
        means = [
            math.exp(statistics.mean(map(math.log, each))) for each in zip(*ratios, strict=True)
        ]
        print(
            f"{len(ratios)} functions. Geometric means: first {means[0]:.2f}, call {means[1]:.2f}"
        )
        print(
            "Slower calls, without a wait that is a third shorter:", *slower or ["none"], sep="\n"
        )


if __name__ == "__main__":
    main()
