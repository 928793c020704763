"""Rules for random variables, and tables of samplers and of parameters' domains."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxprgen.emit import (
    constraints,
    distributions,
    elementwise as ew,
    random,
    reduce,
    rejection,
    selection as sel,
    shape as sh,
)
from jaxprgen.emit.constraints import Constraint, parse_constraints
from jaxprgen.emit.create import count_along
from jaxprgen.emit.random import Stream
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.sizes import as_size, require_equal
from jaxprgen.emit.staged import Sampler, staged
from jaxprgen.emit.values import Dtype, Shape, Size, Value, broadcast_shapes, broadcast_to
from jaxprgen.errors import (
    DuplicateRuleError,
    ParameterError,
    ShapeMismatchError,
    UnsupportedOpError,
)
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Key, entry_of, own_keys
from jaxprgen.lowering.registry import ADOPTED, import_rules, lowers
from jaxprgen.ops.changing_sizes import Sizes, sizes_of

Draw = Callable[..., Value]
"""A function of a key, the dtype and the shape of the result, and the parameters."""


def _of_floats(draw: Callable[..., Value]) -> Draw:
    """Return a sampler that converts parameters to the result's dtype, or to a common float."""

    def sampler(key: Value, dtype: Dtype, shape: Shape, *parameters: Value) -> Value:
        working = dtype if dtype.kind == "f" else working_dtype(parameters)
        return draw(key, shape, *[p.astype(working) for p in parameters])

    return sampler


def working_dtype(parameters: Sequence[Value]) -> Dtype:
    """Return a float dtype for parameters of integers; float16 represents too few of them."""
    floats = [p.dtype for p in parameters if p.dtype.kind == "f"]
    return ew.canonical(np.result_type(np.float32, *floats) if floats else np.float64)


def _integers(key: Value, dtype: Dtype, shape: Shape, low: Value, high: Value) -> Value:
    low, high = (x.astype(dtype) for x in (low, high))
    return random.randint(key, low, high, shape)


_DISTRIBUTIONS: dict[str, tuple[Any, ...]] = {
    "Uniform": (distributions.uniform, "low high", "low <= high"),
    "Triangular": (
        *(distributions.triangular, "left mode right"),
        *("left <= mode", "mode <= right", "left < right"),
    ),
    "Beta": (distributions.beta, "alpha beta", "alpha > 0", "beta > 0"),
    "Rayleigh": (distributions.rayleigh, "scale", "scale >= 0"),
    "Power": (distributions.power, "a", "a > 0"),
    "Normal": (distributions.normal, "loc scale", "scale >= 0"),
    "HalfNormal": (distributions.halfnormal, "loc scale", "scale >= 0"),
    "LogNormal": (distributions.lognormal, "mean sigma", "sigma >= 0"),
    "Gamma": (distributions.gamma, "shape scale", "shape > 0", "scale >= 0"),
    "ChiSquare": (distributions.chisquare, "df", "df > 0"),
    "Pareto": (distributions.pareto, "b scale", "b > 0", "scale >= 0"),
    "Gumbel": (distributions.gumbel, "loc scale", "scale >= 0"),
    "Exponential": (distributions.exponential, "scale", "scale >= 0"),
    "Weibull": (distributions.weibull, "shape", "shape >= 0"),
    "Logistic": (distributions.logistic, "loc scale", "scale >= 0"),
    "VonMises": (rejection.vonmises, "mu kappa", "kappa >= 0"),
    "Dirichlet": (distributions.dirichlet, "alphas", "alphas >= 0"),
    "Cauchy": (distributions.cauchy, "loc scale", "scale >= 0"),
    "HalfCauchy": (distributions.halfcauchy, "loc scale", "scale >= 0"),
    "InvGamma": (distributions.invgamma, "shape scale", "shape > 0", "scale >= 0"),
    "Wald": (distributions.wald, "mean scale", "mean > 0", "scale > 0"),
    "TruncExponential": (distributions.truncexpon, "b loc scale", "b > 0", "scale >= 0"),
    "StudentT": (distributions.t, "df loc scale", "df > 0", "scale >= 0"),
    "Laplace": (distributions.laplace, "loc scale", "scale >= 0"),
    "GenGamma": (distributions.gengamma, "alpha p lambd", "alpha > 0", "p > 0", "lambd >= 0"),
    "F": (distributions.f, "dfn dfd", "dfn > 0", "dfd > 0"),
    "Zipf": (rejection.zipf, "a", "a > 1"),
    "Geometric": (distributions.geometric, "p", "p > 0", "p <= 1"),
    "HyperGeometric": (
        rejection.hypergeometric,
        "ngood nbad nsample",
        *("ngood >= 0", "nbad >= 0", "nsample >= 0", "nsample <= ngood + nbad"),
    ),
    "Bernoulli": (distributions.bernoulli, "p", "p >= 0", "p <= 1"),
    "Binomial": (rejection.binomial, "n p", "n >= 0", "p >= 0", "p <= 1"),
    "BetaBinomial": (rejection.beta_binomial, "n a b", "n >= 0", "a > 0", "b > 0"),
    "Multinomial": (rejection.multinomial, "n p", "n >= 0", "p >= 0", "p <= 1"),
    "Poisson": (rejection.poisson, "lam", "lam >= 0"),
    "NegBinomial": (rejection.nbinom, "n p", "n > 0", "p > 0", "p <= 1"),
    "Categorical": (distributions.categorical, "p"),
    "MvNormal": (distributions.multivariate_normal, "mean cov"),
}
"""The samplers of distributions, with the names of their parameters and constraints on them."""

SAMPLERS: dict[Key, Draw] = {
    **{f"tensor.{name}RV": _of_floats(draw) for name, (draw, *_) in _DISTRIBUTIONS.items()},
    "tensor.RandIntRV": _integers,
    "tensor.IntegersRV": _integers,
}

DOMAINS: dict[Key, tuple[Constraint, ...]] = {
    f"tensor.{name}RV": parse_constraints(*texts)
    for name, (_, *texts) in _DISTRIBUTIONS.items()
    if texts[1:]
}
"""Constraints on parameters, outside of which the graph libraries raise ValueError.

Known parameters outside of them raise `ParameterError`, and others are checked with
``checks=True``. Otherwise the draws are NaN, or -1 if they are integers; no warning is needed. NaN
violates the constraints of integer distributions, and makes other draws NaN.
"""


def define(op_type: Key, draw: Draw, domain: tuple[Constraint, ...] = ()) -> None:
    """Register a function of float parameters that emits the draws of a `RandomVariable`."""
    SAMPLERS[op_type] = _of_floats(draw)
    DOMAINS[op_type] = domain


def samples(
    *op_types: type, override: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that draws from a `RandomVariable`, written like those of `jax.random`.

    It is called as ``draw(key, *parameters, shape=shape, dtype=dtype)`` with a typed key and the
    parameters, and returns an array of that shape. It may use all of JAX, which traces it once for
    each list of parameter types; reports show such nodes as staged.

    Parameters
    ----------
    *op_types : type
        The classes; subclasses without a function of their own are included.
    override : bool
        Replace a function that is already registered.

    Returns
    -------
    function
        A decorator that registers a function and returns it.

    Raises
    ------
    DuplicateRuleError
        One of the classes already has a function, and ``override`` is false.
    """

    def register(draw: Callable[..., Any]) -> Callable[..., Any]:
        def sampler(key: Value, dtype: Dtype, shape: Shape, *parameters: Value) -> Value:
            return staged(Sampler(draw, shape, dtype), key, *parameters)[0]

        for op_type in op_types:
            import_rules(op_type)
            is_known = any(key in SAMPLERS for key in own_keys(op_type))
            if is_known and not override and op_type not in ADOPTED:
                raise DuplicateRuleError(
                    f"{op_type.__name__} already has a sampler; pass override=True to replace it."
                )
            SAMPLERS[op_type] = sampler
            ADOPTED.discard(op_type)
        return draw

    return register


def has_sampler(op: Any) -> bool:
    """Return whether there is a sampler for an Op."""
    return entry_of(SAMPLERS, type(op)) is not None


@lowers("tensor.RandomVariable", folds=False)
def lower_random_variable(
    ctx: RuleContext, rng: Any, size: Value, dtype: Value, *parameters: Value
) -> tuple[Any, Value | Selected]:
    """Draw with the next key of the stream; return the advanced stream and the draw."""
    return draw_of_sizes(ctx, rng, sizes_of(ctx, [1], [size]), parameters)


@lowers("tensor.RandomVariable", lazy=Selected)
def lower_random_variable_of_selected(
    ctx: RuleContext, rng: Any, size: Value, dtype: Value, *parameters: Value | Selected
) -> tuple[Any, Selected]:
    """Draw for parameters that a mask selects, with as many draws as there are parameters."""
    return draw_of_selected(ctx, rng, sizes_of(ctx, [1], [size]), parameters)


def draw_of_sizes(
    ctx: RuleContext, rng: Any, sizes: Sizes, parameters: Sequence[Value]
) -> tuple[Any, Value | Selected]:
    """Return the advanced stream and a draw, whose size may change along one axis."""
    stream, drawn = draw(ctx, rng, sizes.shape, parameters)
    return stream, sizes.of(drawn)


def draw_of_selected(
    ctx: RuleContext, rng: Any, sizes: Sizes, parameters: Sequence[Value | Selected]
) -> tuple[Any, Selected]:
    """Return the advanced stream and a draw for every parameter that a mask selects."""
    rank = max(len(sizes.shape), *(p.ndim for p in parameters))
    arrays, first = sel.aligned([sel.of_rank(p, rank) for p in parameters])
    if any(ctx.op.ndims_params) or ctx.op.ndim_supp:
        raise first.refuse()
    stream, drawn = draw(ctx, rng, sizes.shape, arrays)
    selected = replace(first, values=drawn)
    if sizes.shape:
        sel.aligned([selected, sizes.of(drawn)])  # Both select as many.
    return stream, selected


def draw(
    ctx: RuleContext,
    rng: Any,
    size: Shape,
    parameters: Sequence[Value],
    sampler: Draw | None = None,
) -> tuple[Any, Value]:
    """Return the advanced stream and a draw of a size, () for that of the parameters."""
    stream, key = random.take_key(rng)
    declared = ctx.step.types[1]
    assert declared is not None
    shape = _shape_of_draws(ctx, size, parameters)
    is_integer = declared.dtype.kind != "f"
    xs, wrong = _constrained(ctx, parameters, is_integer=is_integer)
    sampler = sampler or entry_of(SAMPLERS, type(ctx.op))
    assert sampler is not None  # `_supports` made sure.
    drawn = sampler(key, declared.dtype, shape, *xs)
    drawn = broadcast_to(drawn.astype(declared.dtype), shape)
    if is_integer and wrong:
        drawn = _minus_one_where(wrong, drawn, ctx.op.ndim_supp)
    return stream, drawn


def _constrained(
    ctx: RuleContext, parameters: Sequence[Value], *, is_integer: bool
) -> tuple[list[Value], list[Value]]:
    """Return the parameters, with NaN where they violate a constraint, and those places."""
    op, xs, wrong = ctx.op, list(parameters), list[Value]()
    for constraint in entry_of(DOMAINS, type(op)) or ():
        failed = constraints.violated(constraint, parameters, is_integer)
        i, value, name = constraint.position, failed.static, constraint.text.split()[0]
        if value is None:
            message = f"{op.name}: {constraint.text} must hold, got {name} = {{}}."
            ctx.require(lambda failed=failed: ~failed, ParameterError, message, shown=parameters[i])
            xs[i] = constraints.nan_where(failed, xs[i])
            last = range(failed.ndim)[failed.ndim - op.ndims_params[i] :]
            wrong.append(reduce.bitwise_or(failed, last) if last else failed)
        elif value.any():
            given = np.asarray(parameters[i].static)
            bad = np.broadcast_to(given, value.shape)[value].flat[0]
            raise ParameterError(f"{op.name}: {constraint.text} must hold, got {name} = {bad}.")
    return xs, wrong


def _minus_one_where(wrong: Sequence[Value], drawn: Value, support: int) -> Value:
    """Return drawn integers, with -1 where a parameter violates a constraint.

    ``support`` is the number of axes of one draw.
    """
    anywhere = functools.reduce(operator.or_, wrong)
    last = range(anywhere.ndim, anywhere.ndim + support)
    return ew.where(sh.expand_dims(anywhere, last), -1, drawn)


lower_random_variable.supports = has_sampler  # type: ignore[attr-defined]


@lowers("tensor.ChoiceRV", folds=False, ranked=False)
def lower_choice(
    ctx: RuleContext, rng: Any, size: Value, dtype: Value, a: Value, p: Value | None, replace: Value
) -> tuple[Any, Value]:
    """Draw rows of an array, with given or with equal probabilities.

    The node declares numbers: Aesara overlooks that rows have axes.
    """
    stream, key = random.take_key(rng)
    if p is not None:
        p = p.astype(working_dtype([p]))
    shape = tuple(map(as_size, ctx.static(1)))
    drawn = distributions.choice(key, shape, a, p, replace=bool(ctx.static(5)))
    return stream, drawn


@lowers("tensor.PermutationRV", folds=False)
def lower_permutation(
    ctx: RuleContext, rng: Any, size: Value, dtype: Value, x: Value
) -> tuple[Any, Value]:
    """Return the rows of an array, or the integers below a number, in random order."""
    stream, key = random.take_key(rng)
    rows = x if x.shape else count_along((ctx.static_int(3),), 0).astype(x.dtype)
    return stream, random.permutation(key, rows)


@lowers("tensor.DefaultGeneratorMakerOp", "tensor.RandomStateConstructor", folds=False)
def lower_generator_of_seed(ctx: RuleContext, seed: Value | None) -> Any:
    """Return the stream of ``jax.random.key(seed)``."""
    if seed is None or seed.shape not in ((), (1,)):
        raise UnsupportedOpError(
            "A generator made inside of a graph needs a seed, which must be one number. Pass a "
            "generator as an input or in a shared variable; the program then takes a key."
        )
    return Stream(random.key_of_seed(sh.reshape(seed, ())))


def _shape_of_draws(ctx: RuleContext, size: Shape, parameters: Sequence[Value]) -> Shape:
    """Return the shape of the draws: ``size`` or the broadcast parameters', and that of a draw."""
    op = ctx.op
    shapes = [p.shape for p in parameters]
    ranks = op.ndims_params
    batches = [shape[: len(shape) - n] for shape, n in zip(shapes, ranks, strict=True)]
    batch = broadcast_shapes((), *batches)
    ends = zip(reversed(batch), reversed(size), strict=False)
    text = f"{op.name}: size {size} does not fit parameters of shapes "
    error = ShapeMismatchError(f"{text}{', '.join(map(str, shapes))}, which broadcast to {batch}.")
    if size and len(batch) > len(size):
        raise error
    for n, m in ends:
        if n != 1:
            require_equal(n, m, error)
    if not op.ndim_supp:
        return size or batch
    support = _support_by_signature(op, shapes)
    if support is None:
        own = ctx.node.inputs[len(ctx.node.inputs) - len(parameters) :]
        support = op._supp_shape_from_params(own, param_shapes=shapes)
    return (*(size or batch), *map(as_size, support))


def _support_by_signature(op: Any, shapes: Sequence[Shape]) -> Shape | None:
    """Return the shape of one draw, if the signature of a PyTensor Op says it, as "(n,n)->(n)"."""
    if getattr(op, "signature", None) is None:
        return None
    named: dict[str, Size] = {}
    for names, shape in zip(op.inputs_sig, shapes, strict=True):
        named.update(zip(reversed(names), reversed(shape), strict=False))
    named.update((name, int(name)) for name in op.output_sig if name.isnumeric())
    return tuple(named[n] for n in op.output_sig) if {*op.output_sig} <= {*named} else None
