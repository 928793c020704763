"""Every RandomVariable of Aesara: how it is built, and how JAX draws from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import aesara
import aesara.tensor as at
import jax
import numpy as np
from aesara.sandbox import multinomial, rng_mrg
from aesara.tensor.random import basic as aer
from aesara.tensor.random.op import RandomState, RandomVariable, default_rng

from catalogue.example import INEXACT, Example, among, example


class Case(NamedTuple):
    """An Op with parameters, and what `jax.random` does for the same.

    ``jax`` is called as ``jax(key, size, *parameters)``; None where JAX lacks the distribution.
    For the laws of distributions, see tests/aesara/random/test_forms.py.
    """

    op: Any
    parameters: tuple[Any, ...]
    jax: Callable[..., Any] | None = None


J = jax.random


def located(draw: Callable[..., Any]) -> Callable[..., Any]:
    return lambda key, size, loc, scale: loc + scale * draw(key, size)


CONTINUOUS = [
    Case(aer.uniform, (-2.0, 3.0), lambda k, n, a, b: J.uniform(k, n, minval=a, maxval=b)),
    Case(aer.normal, (1.0, 2.0), located(J.normal)),
    Case(aer.normal, (0.0, 1.0), lambda k, n, *_: J.normal(k, n)),
    Case(aer.halfnormal, (1.0, 2.0), located(lambda k, n: abs(J.normal(k, n)))),
    Case(aer.lognormal, (0.0, 0.5), lambda k, n, m, s: J.lognormal(k, s, n) * jax.numpy.exp(m)),
    Case(aer.cauchy, (1.0, 2.0), located(J.cauchy)),
    Case(aer.halfcauchy, (1.0, 2.0), located(lambda k, n: abs(J.cauchy(k, n)))),
    Case(aer.gumbel, (1.0, 2.0), located(J.gumbel)),
    Case(aer.laplace, (1.0, 2.0), located(J.laplace)),
    Case(aer.logistic, (1.0, 2.0), located(J.logistic)),
    Case(aer.exponential, (2.0,), lambda k, n, s: s * J.exponential(k, n)),
    Case(aer.triangular, (-1.0, 0.5, 2.0), lambda k, n, a, c, b: J.triangular(k, a, c, b, n)),
    Case(aer.rayleigh, (2.0,), lambda k, n, s: J.rayleigh(k, s, n)),
    Case(aer.weibull, (1.5,), lambda k, n, c: J.weibull_min(k, 1.0, c, n)),
    Case(aer.power, (2.5,)),
    Case(aer.pareto, (1.5, 2.0), lambda k, n, a, s: s * J.pareto(k, a, n)),
    Case(aer.truncexpon, (2.0, 1.0, 3.0)),
    Case(aer.gamma, (2.5, 0.5), lambda k, n, a, rate: (1 / rate) * J.gamma(k, a, n)),
    Case(aer.invgamma, (2.5, 3.0)),
    Case(aer.gengamma, (2.0, 3.0, 1.5)),
    Case(aer.chisquare, (3.5,), lambda k, n, df: J.chisquare(k, df, shape=n)),
    Case(aer.f, (3.5, 6.0), lambda k, n, a, b: J.f(k, a, b, shape=n)),
    Case(aer.t, (3.5, 1.0, 2.0), lambda k, n, df, loc, scale: loc + scale * J.t(k, df, n)),
    Case(aer.beta, (0.5, 2.0), lambda k, n, a, b: J.beta(k, a, b, n)),
    Case(aer.wald, (1.5, 1.0), lambda k, n, m, _: J.wald(k, m, n)),
    Case(aer.vonmises, (0.5, 3.0)),
]

DISCRETE = [
    Case(aer.bernoulli, (0.3,), lambda k, n, p: J.bernoulli(k, p, n)),
    Case(aer.binomial, (20, 0.3), lambda k, n, m, p: J.binomial(k, m, p, n)),
    Case(aer.poisson, (3.5,), lambda k, n, rate: J.poisson(k, rate, n)),
    Case(aer.geometric, (0.3,), lambda k, n, p: J.geometric(k, p, n)),
    Case(aer.nbinom, (3.5, 0.3)),
    Case(aer.betabinom, (20, 2.0, 3.0)),
    Case(aer.hypergeometric, (15, 25, 12)),
    Case(aer.zipf, (3.5,)),
    Case(aer.integers, (-3, 5), lambda k, n, a, b: J.randint(k, n, a, b)),
    Case(aer.randint, (-3, 5), lambda k, n, a, b: J.randint(k, n, a, b)),
    Case(
        aer.categorical,
        ([0.2, 0.5, 0.3],),
        lambda k, n, p: J.categorical(k, jax.numpy.log(p), shape=n),
    ),
    Case(
        lambda p, **kw: aer.choice([1, 2, 4], p=p, **kw),
        ([0.2, 0.5, 0.3],),
        lambda k, n, p: J.choice(k, jax.numpy.array([1, 2, 4]), n, p=p),
    ),
    Case(lambda a, **kw: aer.choice(a, **kw), ([1, 2, 4],), lambda k, n, a: J.choice(k, a, n)),
]


def generator(op: Any = None) -> Any:
    """A generator that no other variable has, of the kind the Op takes."""
    if op is aer.randint:
        return aesara.shared(np.random.RandomState(0))
    return aesara.shared(np.random.default_rng(0))


def variable(parameter: Any) -> Any:
    """A graph's input for a parameter, in its dtype."""
    array = np.asarray(parameter)
    return at.tensor(array.dtype, shape=(None,) * array.ndim)


# --- Examples -----------------------------------------------------------------------------


def _example(op: Any, *parameters: Any, kind: type | None = None) -> Example:
    """Two draws, of which only the type is compared; tests/aesara/random compares distributions."""

    def build(*inputs: Any) -> Any:
        size = {} if op is aer.permutation else {"size": (2,)}
        return op(*inputs, **size, rng=generator(op))

    arrays = [np.asarray(p) for p in parameters]
    return example(kind or type(op), build, *arrays, is_drawn=True)


EXAMPLES = [
    *{
        type(case.op): _example(case.op, *case.parameters)
        for case in (*CONTINUOUS, *DISCRETE)
        if isinstance(case.op, RandomVariable)
    }.values(),
    _example(lambda a, **kw: aer.choice(a, **kw), [1, 2, 4], kind=aer.ChoiceRV),
    _example(aer.multivariate_normal, np.zeros(2), np.eye(2)),
    _example(aer.dirichlet, np.ones(3)),
    _example(aer.multinomial, 5, [0.2, 0.5, 0.3]),
    _example(aer.permutation, np.arange(4)),
    *(
        example(type(op), lambda seed, op=op: aer.normal(rng=op(seed)), np.int64(5), is_drawn=True)
        for op in (default_rng, RandomState)
    ),
]

next_value = rng_mrg.mrg_next_value


def next_value_of_numpy_1(*args: Any, mask: int, **options: Any) -> Any:
    """The next draw of a stream; NumPy 2 does not take a mask of 32 bits for an int32."""
    return next_value(*args, mask=np.int64(mask), **options)


rng_mrg.mrg_next_value = next_value_of_numpy_1

SEEDS = np.array([[1, 2, 3, 4, 5, 6], [2147483646, 0, 7, 2147462578, 9, 8]], "int32")

HALVES = [
    [at.constant(x) for x in half]
    for half in ((SEEDS[0, :3], rng_mrg.M1), (SEEDS[1, 3:], rng_mrg.M2))
]


def whole(x: Any) -> Any:
    """An operand in its own dtype, if that is the dtype asked for."""
    return lambda dtype: np.asarray(x, dtype)


chances = among([0.2, 0.5, 0.3], [0.25, 0.25, 0.5])
uniforms = among(0.6, 0.1, 0.35, 0.9)
SANDBOX = [
    example(
        rng_mrg.DotModulo,
        lambda a, b: rng_mrg.DotModulo()(a, *HALVES[0], b, *HALVES[1]),
        whole(rng_mrg.A1p72),
        whole(rng_mrg.A2p72),
        dtypes=("int64",),
    ),
    example(
        rng_mrg.mrg_uniform,
        lambda x: rng_mrg.mrg_uniform.new(at.constant(SEEDS), 1, x.dtype, x.shape),
        among(1, 2, 3),
        dtypes=INEXACT[:3],
    ),
    example(
        multinomial.MultinomialFromUniform,
        lambda p, u: multinomial.MultinomialFromUniform("auto")(p, u, 2),
        chances,
        uniforms,
    ),
    example(
        multinomial.ChoiceFromUniform,
        lambda p, u: multinomial.ChoiceFromUniform("auto")(p, u, 2),
        chances,
        uniforms,
        dtypes=INEXACT,
    ),
]
