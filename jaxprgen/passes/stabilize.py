"""Numerical stabilization: rewrite formulas that overflow or cancel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxprgen import rewrite
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var, is_readable
from jaxprgen.emit import decompositions, division, reduce, transcendental as special
from jaxprgen.emit.elementwise import not_equal, sign
from jaxprgen.emit.values import Value, broadcast_to, where
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.meaning import Meaning
from jaxprgen.passes.simplify import EXACT, UNTRANSPOSED, others
from jaxprgen.rewrite import Operand, table, terms
from jaxprgen.rewrite.index import indexed
from jaxprgen.rewrite.terms import Once, Param, Product, emitted, primitive, primitives, variables
from jaxprgen.special import stable

x, y, v, w, i, p = variables("x y v w i p")
exp, expm1, log, log1p, logistic = primitives("exp expm1 log log1p logistic")
erf, erfc = primitives("erf erfc")
sinh, cosh, tanh, asinh, acosh, atanh = primitives("sinh cosh tanh asinh acosh atanh")
neg, abs_, sqrt, square, integer_pow, pow = primitives("neg abs sqrt square integer_pow pow")
mul, div, max_, min_, lt, select_n = primitives("mul div max min lt select_n")
broadcast_in_dim, squeeze, transpose = primitives("broadcast_in_dim squeeze transpose")
slice_, pad, gather, concatenate = primitives("slice pad gather concatenate")
scatter, scatter_add, reduce_sum, reduce_prod = primitives(
    "scatter scatter_add reduce_sum reduce_prod"
)
convert_element_type = primitive("convert_element_type")
axes, shape, kept, left = map(Param, ("axes", "shape", "kept", "left"))
dtype, power, axis = map(Param, ("dtype", "power", "axis"))

whole_power = emitted(division.whole_power)
softplus, log_logistic = emitted(special.softplus), emitted(special.log_logistic)
log1mexp = emitted(special.log1mexp)
log_erfc, log_half_erfc = map(emitted, (stable.log_erfc, stable.log_half_erfc))
logaddexp, logsubexp = emitted(stable.logaddexp), emitted(stable.logsubexp)
logsumexp, softmax_times = emitted(stable.logsumexp), emitted(stable.softmax_times)
softmax_times_sum = emitted(stable.softmax_times_sum)
exp_over_erfc = emitted(stable.exp_over_erfc)
exp_of_sum, log_scaled = emitted(stable.exp_of_sum), emitted(stable.log_scaled)
log_power, log_prod = emitted(stable.log_power), emitted(stable.log_prod)
slope_of_log1mexp = emitted(stable.slope_of_log1mexp)
logistic_difference, cumulative = map(emitted, (stable.logistic_difference, stable.cumulative))


def _real(x: Operand) -> str | None:
    if jax.sharding.AxisType.Explicit in x.atom.aval.sharding.mesh.axis_types:
        return "constants in the formula would be sharded in another way"
    return None if x.dtype.kind == "f" else "it holds only for real numbers of NumPy dtypes"


# The stable formulas themselves consist of such parts, whose operands are limited to the range in
# which they are accurate.

_HELD = "its operand is limited to the range in which this is accurate"


def _not_negated(x: Operand) -> str | None:
    """Require that a power may overflow."""
    is_negative = x.primitive == "neg" and x.operands[0].primitive == "abs"
    is_chosen = x.primitive == "select_n" and any(y.primitive == "neg" for y in x.operands[1:])
    return _HELD if is_negative or is_chosen else _real(x)


def _limited_by(name: str, is_limit: Callable[[Any], bool]) -> Callable[[Operand], str | None]:
    """Return the check that a value is not limited by such a number."""

    def check(x: Operand) -> str | None:
        numbers = [y.number for y in x.operands] if x.primitive == name else []
        is_held = any(number is not None and is_limit(number) for number in numbers)
        return _HELD if is_held else _real(x)

    return check


_may_be_near_zero = _limited_by("min", lambda bound: bound <= -0.5)
_may_be_far_below = _limited_by("max", lambda bound: bound >= -1.5)
_may_be_large = _limited_by("min", lambda bound: bound <= 0.5)
_may_be_small = _limited_by("max", lambda bound: bound >= -0.5)


def _positive(x: Operand) -> str | None:
    return _real(x) if _is_positive(x, 6) else "it may be zero"


def _whole_exponent(x: Operand, y: Operand) -> str | None:
    return _real(x) if y.dtype.kind in "iu" else "the exponents are not integers"


def _positive_divisors(x: Operand, y: Operand, v: Operand, w: Operand) -> str | None:
    return _positive(x) or _positive(y) or _real(v) or _real(w)


def _is_positive(x: Operand, depth: int) -> bool:
    if 0 in x.shape:
        return False  # Its sum is zero.
    if x.primitive in ("exp", "logistic", "erfc"):
        return True
    through = ("broadcast_in_dim", "reshape", "reduce_sum", "add", "mul", "div")
    if x.primitive not in through or not depth:
        return x.number is not None and bool(x.number > 0)
    return all(_is_positive(y, depth - 1) for y in x.operands)


def _unshifted(x: Operand) -> str | None:
    """Require that there is a maximum, and that it is not subtracted already."""
    if 0 in x.shape:
        return "it is empty"
    if x.primitive == "sub" and _is_maximum(x.operands[1], 6):
        return "the maximum is subtracted already"
    return _real(x)


def _is_maximum(x: Operand, depth: int) -> bool:
    if x.primitive == "reduce_max":
        return True
    through = ("broadcast_in_dim", "stop_gradient", "reshape", "squeeze", "select_n", "max")
    return (
        x.primitive in through and depth > 0 and any(_is_maximum(y, depth - 1) for y in x.operands)
    )


def _along(x: Operand, axes: Sequence[int], kept: Sequence[int]) -> str | None:
    """Require that a reduction is repeated along the reduced axes, and is not shifted."""
    return _unshifted(x) or _repeats(x, axes, kept)


def _repeats(x: Operand, axes: Sequence[int], kept: Sequence[int]) -> str | None:
    rest = tuple(d for d in range(len(x.shape)) if d not in axes)
    return _real(x) if tuple(kept) == rest else "it is repeated along other axes"


def _not_empty(x: Operand) -> str | None:
    return "it is empty" if 0 in x.shape else _real(x)


def _whole(x: Operand, axes: Sequence[int]) -> str | None:
    """Require that all axes are reduced: scalars are repeated without an equation."""
    return _unshifted(x) if len(axes) == len(x.shape) else "some axes are not reduced"


def _reduced(y: Operand, x: Operand, axes: Sequence[int], kept: Sequence[int]) -> str | None:
    if y.shape and len(y.shape) != len(x.shape) - len(axes):
        return "the factor has other axes"
    return _along(x, axes, kept)


def _is_scalar(x: Operand, axes: Sequence[int]) -> str | None:
    return _real(x) if len(axes) == len(x.shape) else "some axes are not reduced"


def _sum_of_powers(x: Operand, y: Operand) -> str | None:
    return _real(x) or _real(y) if _is_sum(y, 6) else "the other term is no sum of powers"


def _is_sum(x: Operand, depth: int) -> bool:
    if x.primitive == "add" and depth:
        return all(_is_sum(y, depth - 1) for y in x.operands)
    return x.primitive == "exp" or (x.number is not None and bool(x.number > 0))


def _restores(y: Operand, x: Operand, kept: Sequence[int], left: Sequence[int]) -> str | None:
    """Require that axes of size 1, which a number was divided along, are removed again."""
    if y.shape or sorted((*kept, *left)) != [*range(len(x.shape) + len(left))]:
        return "the axes differ"
    return _real(x)


_CHOICES = (
    ("reshape", ("new_sizes", "dimensions"), ""),
    ("squeeze", ("dimensions",), ""),
    ("rev", ("dimensions",), ""),
    ("transpose", ("permutation",), ""),
    ("slice", ("start_indices", "limit_indices", "strides"), ""),
    *(("dynamic_slice", ("slice_sizes",), "i j k l"[:n]) for n in (1, 3, 5, 7)),
    (
        "gather",
        (
            *("dimension_numbers", "slice_sizes", "indices_are_sorted", "unique_indices"),
            *("mode", "fill_value"),
        ),
        "i",
    ),
)
"""The primitives that choose elements, each with its parameters and its other operands."""


def _chooses_stable(x: Operand, fill_value: Any = None) -> str | None:
    """Require that the logarithm of the array has a stable formula."""
    return _chooses(x, _has_stable_logarithm, fill_value)


def _chooses_probabilities(x: Operand, fill_value: Any = None) -> str | None:
    return _chooses(x, lambda y: y.primitive == "logistic", fill_value)


def _chooses(x: Operand, wanted: Callable[[Operand], bool], fill_value: Any) -> str | None:
    if fill_value is not None:
        return "elements out of bounds are replaced by a number"
    while x.primitive in {"broadcast_in_dim", *(name for name, *_ in _CHOICES)}:
        x = x.operands[0]
    return _real(x) if wanted(x) else "its logarithm has no stable formula"


def _has_stable_logarithm(x: Operand) -> bool:
    if x.primitive in ("div", "reduce_sum"):
        return x.operands[0].primitive == "exp"
    return x.primitive in ("exp", "logistic", "erfc")


def _from_zero_to_one(x: Operand, v: Operand, w: Operand) -> str | None:
    return _real(x) if v.number == 0 and w.number == 1 else "it does not begin at 0 and end at 1"


def _part(x: terms.Term, name: str) -> terms.Call:
    params = ("start_indices", "limit_indices", "strides")
    return slice_(x, **{param: Param(f"{param}_{name}") for param in params})


def _total(x: terms.Term) -> terms.Call:
    return reduce_sum(exp(x), axes=axes)


def _repeated(x: terms.Term) -> terms.Call:
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)


def _converted(x: terms.Term) -> terms.Call:
    return convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


def _half(scale: float) -> terms.Call:
    """Return the power that hyperbolic functions are made of, as `jaxprgen.emit` computes it."""
    return exp(x * scale) * 0.5 * exp(x * scale)


def _is_lower_triangle(x: Operand) -> str | None:
    """Require numbers among zeros, at known places of the lower triangle of a square matrix."""
    put = x.graph.definitions[x.atom] if x.primitive == "scatter" else None
    found = x.graph.constants.get(x.operands[1].atom) if put is not None else None
    if put is None or not is_readable(found) or x.operands[0].number != 0:
        return "the matrix may be no triangle"
    numbers, places = put.params["dimension_numbers"], np.asarray(found)
    of_elements = numbers.scatter_dims_to_operand_dims == numbers.inserted_window_dims == (0, 1)
    is_lower = of_elements and (places[..., 1] <= places[..., 0]).all()
    return _real(x) if is_lower and x.shape[0] == x.shape[1] else "it is no lower triangle"


@emitted
def _with_positive_diagonal(x: Value) -> Value:
    """Return the Cholesky factor of ``x xᵀ`` for a lower triangle ``x``."""
    own = decompositions.diagonal(x)
    is_regular = reduce.prod(not_equal(own, 0), (0,))
    return x * where(is_regular, sign(own), np.nan)


@emitted
def _filled_like(y: Value, x: Value) -> Value:
    return y if y.shape else broadcast_to(y, x.shape)


_squared = primitive("dot_general")(x, x, dimension_numbers=(((1,), (1,)), ((), ())), **others)

STABLE = table(
    # The Cholesky factor of a covariance that is computed from its factor.
    (
        primitive("cholesky")(select_n(p, transpose(_squared, permutation=(1, 0)), _squared)),
        _with_positive_diagonal(x),
        _is_lower_triangle,
    ),
    # Differences from one.
    (log(1 + x), log1p(x)),
    (log(1 - x), log1p(-x)),
    (exp(x) - 1, expm1(x)),
    (1 - exp(x), 0 - expm1(x)),  # Not -0 where x is 0.
    (1 + erf(-x), erfc(x)),
    (1 + erf(x), erfc(-x)),
    (1 - erf(x), erfc(x)),
    (erf(x) - 1, -erfc(x)),
    (1 - erfc(x), erf(x)),
    (erfc(x) - 1, -erf(x)),
    (1 - logistic(x), logistic(-x)),
    # The derivative of an integer power is right where the base is 0.
    (pow(x, _converted(y)), whole_power(x, y), _whole_exponent),
    # Functions that undo each other.
    (log(exp(x)), x),
    (log1p(expm1(x)), x),
    (sqrt(square(x)), abs_(x)),
    (sqrt(mul(x, x)), abs_(x)),
    (sqrt(integer_pow(x, y=2)), abs_(x)),
    (1 / (1 / x), x),
    (y / (1 / x), y * x),
    ((y - 1 / x) * x, y * x - 1),
    ((1 / x - y) * x, 1 - y * x),
    (atanh(tanh(x)), x),
    (asinh(sinh(x)), x),
    (asinh(select_n(lt(abs_(x), 1), _half(0.5) - _half(-0.5), sinh(min_(max_(x, -1), 1)))), x),
    (acosh(cosh(x)), abs_(x)),
    (acosh(_half(0.5) + _half(-0.5)), abs_(x)),
    (log(logistic(x) / logistic(-x)), x),
    # The logistic function, and its logarithm.
    (1 / (1 + exp(x)), logistic(-x)),
    (log1p(exp(x)), softplus(x), _not_negated),
    (log(logistic(x)), log_logistic(x)),
    (log1p(-logistic(x)), -softplus(x)),
    (logistic(x) - logistic(y), logistic_difference(x, y)),
    (
        _part(logistic(x), "x") - _part(logistic(y), "y"),
        logistic_difference(_part(x, "x"), _part(y, "y")),
    ),
    (
        concatenate(v, logistic(x), w, dimension=axis),
        cumulative(v, x, w, dimension=axis),
        _from_zero_to_one,
    ),
    # In the last term of a binomial coefficient of n + x - 1 and n, and in its slope.
    (((y + x) - 1) - y + 1, _filled_like(x, y)),
    # Logarithms of small numbers, and of sums of large ones.
    (log1p(-exp(x)), log1mexp(x), _may_be_near_zero),
    (log(0 - expm1(x)), log1mexp(x), _may_be_far_below),
    (log(-expm1(x)), log1mexp(x), _may_be_far_below),
    (log(erfc(x)), log_erfc(x)),
    (log(exp(x) + exp(y)), logaddexp(x, y)),
    (log(y + exp(x)), logaddexp(log(y), x), _sum_of_powers),
    (log(exp(x) - exp(y)), logsubexp(x, y)),
    (log(1 / x), -log(x)),
    (log(square(x)), log_power(x, y=2)),
    (log(mul(x, x)), log_power(x, y=2)),
    (log(integer_pow(x, y=power)), log_power(x, y=power)),
    (log(reduce_prod(x, axes=axes)), log_prod(x, axes=axes), _not_empty),
    (log(abs_(reduce_prod(x, axes=axes))), log_prod(abs_(x), axes=axes), _not_empty),
    (log(_total(x)), logsumexp(x, axes=axes), _unshifted),
    (log(_repeated(x)), _repeated(log(x))),
    (log1p(-_repeated(x)), _repeated(log1p(-x))),
    (log(exp(x) / _repeated(_total(x))), x - _repeated(log(_total(x))), _repeats),
    (log(exp(x) / _total(x)), x - log(_total(x)), _is_scalar),
    check=_real,
)
"""Rules for formulas as users write them."""


def _halves(x: terms.Term) -> list[terms.Call]:
    return [x * 0.5, x / 2]


NORMAL = table(
    # Normal probabilities are halves of erfc, whose logarithms are accurate on both sides.
    *((0.5 + half, 0.5 * erfc(-x)) for half in _halves(erf(x))),
    *((0.5 - half, 0.5 * erfc(x)) for half in _halves(erf(x))),
    *((1 - half, 0.5 * erfc(-x)) for half in _halves(erfc(x))),
    *((log(half), log_half_erfc(x)) for half in _halves(erfc(x))),
    (log1p(erf(x)), log_erfc(-x)),
    (log1p(-erf(x)), log_erfc(x), _may_be_large),
    check=_real,
)
"""Rules for the normal distribution function as users write it.

There is none for ``log1p(-erfc(x) / 2)``: libraries write it only where it is accurate.
"""


def _chosen(choice: tuple[str, Sequence[str], str], x: terms.Term) -> terms.Call:
    """Return some elements of an array, perhaps in another order."""
    name, params, operands = choice
    return primitive(name)(x, *variables(operands), **{n: Param(n) for n in params})


CHOSEN = table(
    *((log(_chosen(c, x)), _chosen(c, log(x)), _chooses_stable) for c in _CHOICES),
    *((log1p(-_chosen(c, x)), _chosen(c, log1p(-x)), _chooses_probabilities) for c in _CHOICES),
)
"""Rules for logarithms of some elements of arrays, whose logarithms have a stable formula."""


gather_numbers, scatter_numbers = Param("gather_numbers"), Param("scatter_numbers")


def _taken(x: terms.Term, i: terms.Term) -> terms.Call:
    sizes = Param("slice_sizes")
    numbers = {"dimension_numbers": gather_numbers, "slice_sizes": sizes, "fill_value": None}
    return gather(x, i, **numbers, **_indexed("taken"))


def _indexed(suffix: str) -> dict[str, Param]:
    """Return parameters of gathers or scatters, whose promises about indices may differ."""
    promises = ("indices_are_sorted", "unique_indices")
    return {"mode": Param("mode"), **{name: Param(f"{name}_{suffix}") for name in promises}}


def _sliced(x: terms.Term) -> terms.Call:
    params = ("start_indices", "limit_indices", "strides")
    return slice_(x, **{name: Param(name) for name in params})


def _put(put: terms.Function, x: terms.Term, i: terms.Term, y: terms.Term) -> terms.Call:
    update = {name: Param(name) for name in ("update_jaxpr", "update_consts")}
    return put(x, i, y, dimension_numbers=scatter_numbers, **update, **_indexed("put"))


_ELSEWHERE = "they are put at other places"


def _at_one_place(
    x: Operand,
    y: Operand,
    v: Operand,
    i: Operand,
    gather_numbers: Any,
    scatter_numbers: Any,
    slice_sizes: Sequence[int],
    shape: Any = None,
    kept: Any = (),
    left: Any = (),
) -> str | None:
    """Require that elements are put among zeros at the places that they were taken from."""
    taken, put = gather_numbers, scatter_numbers
    is_same = (
        v.shape == x.shape
        and taken.offset_dims == put.update_window_dims
        and taken.collapsed_slice_dims == put.inserted_window_dims
        and taken.start_index_map == put.scatter_dims_to_operand_dims
        and taken.operand_batching_dims == put.operand_batching_dims
        and taken.start_indices_batching_dims == put.scatter_indices_batching_dims
    )
    single = {*taken.collapsed_slice_dims, *taken.operand_batching_dims}
    window = iter([n for d, n in enumerate(slice_sizes) if d not in single])
    places = iter(i.shape[:-1])
    rank = len(taken.offset_dims) + len(i.shape) - 1
    sizes = [next(window if d in taken.offset_dims else places) for d in range(rank)]
    return _among_zeros(x, y, v, sizes, shape, kept, left) if is_same else _ELSEWHERE


def _padded_as_sliced(
    x: Operand,
    y: Operand,
    v: Operand,
    start_indices: Any,
    limit_indices: Any,
    strides: Any,
    padding: Any,
    shape: Any = None,
    kept: Any = (),
    left: Any = (),
) -> str | None:
    steps = strides or [1] * len(start_indices)
    ends = zip(start_indices, limit_indices, steps, strict=True)
    sizes = [-((low - high) // step) for low, high, step in ends]
    ends = zip(start_indices, sizes, steps, x.shape, strict=True)
    config = [(low, n - low - (k - 1) * step - 1, step - 1) for low, k, step, n in ends]
    is_same = config == [*map(tuple, padding)]
    return _among_zeros(x, y, v, sizes, shape, kept, left) if is_same else _ELSEWHERE


def _among_zeros(
    x: Operand,
    y: Operand,
    v: Operand,
    sizes: Sequence[int],
    shape: Sequence[int] | None,
    kept: Sequence[int],
    left: Sequence[int],
) -> str | None:
    """Require that neither the quotient nor its broadcast repeats elements of these sizes."""
    if v.number != 0:
        return "the other numbers are not zeros"
    axes = [d for d in range(len(sizes)) if d not in left]
    is_whole = y.shape in ((), tuple(sizes[d] for d in axes)) and (
        shape is None or (list(shape), list(kept)) == (sizes, axes)
    )
    return _positive(x) if is_whole else _ELSEWHERE


def _of_chosen(take: terms.Term, put: Callable[[terms.Term], terms.Call], check: Any) -> list[Any]:
    """Return rules for a quotient by elements that were taken, put back and multiplied by all.

    Axes of size 1 may be left out between.
    """
    squeezed = squeeze(take, dimensions=left)
    return [
        (mul(put(y / take), x), put(_filled_like(y, take)), check),
        (mul(put(_repeated(y / squeezed)), x), put(_repeated(_filled_like(y, squeezed))), check),
    ]


def _of_totals(sign: Callable[[terms.Term], terms.Term]) -> list[Any]:
    """Return rules for the derivative of ``exp(x) / sum(exp(x))`` by its divisor."""
    new = softmax_times_sum(x, sign(y), axes=axes)
    rows = reduce_sum(sign(y / _repeated(_total(x))), axes=axes)
    return [
        (mul(exp(x), _repeated(rows)), new, _rows_along),
        (mul(exp(x), reduce_sum(sign(y / _total(x)), axes=axes)), new, _rows_whole),
    ]


def _rows_along(x: Operand, y: Operand, axes: Sequence[int], kept: Sequence[int]) -> str | None:
    return _along(x, axes, kept) if x.shape == y.shape else "the shapes differ"


def _rows_whole(x: Operand, y: Operand, axes: Sequence[int]) -> str | None:
    return _whole(x, axes) if x.shape == y.shape else "the shapes differ"


_NORMAL = (exp(-square(x)), exp(-mul(x, x)), exp(mul(neg(x), x)))

GRADIENTS = table(
    # Factors that cancel, and are zero only if they underflow.
    (Product((x,), (x,)), 1, _positive),
    (Product((v / x + w / y, x, y)), v * y + w * x, _positive_divisors),
    (Product((v / x - w / y, x, y)), v * y - w * x, _positive_divisors),
    (Product((1 - square(tanh(x)),), (1 - square(tanh(x)),)), 1),
    (Product((logistic(x), 1 + exp(-x))), 1),
    (Product((logistic(-x), 1 + exp(x))), 1),
    (x / mul(x, x), 1 / x),
    (neg(x) / mul(x, x), -1 / x),
    # The logistic function.
    (Product((exp(x),), (1 + exp(x),)), logistic(x)),
    (Product((exp(x), logistic(-x))), logistic(x)),
    (Product((exp(-x), logistic(x))), logistic(-x)),
    # The derivative of log(1 - exp(x)) at -inf, times the infinite slope of whatever is there.
    (-1 / expm1(x), slope_of_log1mexp(x)),
    # Ratios that are finite although both terms overflow or underflow.
    (Product((exp(x),), (0 - expm1(x),)), 1 / expm1(0 - x)),
    *((Product((p,), (erfc(x),)), exp_over_erfc(x), _may_be_large) for p in _NORMAL),
    *((Product((p,), (erfc(-x),)), exp_over_erfc(-x), _may_be_small) for p in _NORMAL),
    *(
        (Product((exp(op(x, y) * op(-x, y)),), (erfc(op(-x, y)),)), exp_over_erfc(op(-x, y)))
        for op in (mul, div)
    ),
    (Product((exp(x),), (_repeated(_total(x)),)), softmax_times(x, 1, axes=axes), _along),
    (Product((exp(x),), (_total(x),)), softmax_times(x, 1, axes=axes), _whole),
    (mul(exp(x), _repeated(y / _total(x))), softmax_times(x, y, axes=axes), _reduced),
    (squeeze(y / _repeated(x), dimensions=left), y / x, _restores),
    *_of_totals(lambda y: y),
    *_of_totals(neg),
    # The derivative of the logarithm of chosen elements, which may have underflowed.
    *_of_chosen(_taken(x, i), lambda y: _put(scatter, v, i, y), _at_one_place),
    *_of_chosen(_taken(x, i), lambda y: _put(scatter_add, v, i, y), _at_one_place),
    *_of_chosen(
        _sliced(x), lambda y: pad(y, v, padding_config=Param("padding")), _padded_as_sliced
    ),
    check=_real,
)
"""Rules for the derivatives of these formulas, as automatic differentiation writes them."""


def _is_smaller(x: Operand, y: Operand) -> str | None:
    is_smaller = math.prod(x.shape) < math.prod(y.shape)
    return _real(x) if is_smaller else "as many exponentials may be computed again"


LAST = table(
    (logistic(x) / logistic(-x), exp(x)),
    (logistic(-x) / logistic(x), exp(-x)),
    (1 / exp(x), exp(-x)),
    # Another exponential, beside one that is needed anyway, would cost more than it repairs.
    (Once(exp(x)) * Once(exp(y)), exp_of_sum(x, y)),
    (Once(exp(x)) / Once(exp(y)), exp_of_sum(x, -y)),
    # A division, and the square of its divisor in the derivative, which overflows.
    (y / Once(exp(x)), y * exp(-x)),
    (y / exp(x), y * exp(-x), _is_smaller),
    (y / _repeated(exp(x)), y * _repeated(exp(-x)), _is_smaller),
    (log(y * exp(x)), log_scaled(y, x)),
    check=_real,
)
"""Rules that come last, because the other rules look for the terms that these replace."""


@dataclass(frozen=True)
class Stabilize:
    """Replace formulas that overflow or cancel by equal formulas that do not.

    The rules correspond to the rewrites with which Aesara and PyTensor repair graphs, such as those
    for ``log(1 + exp(x))``, ``log(sum(exp(x)))`` and ``log(erfc(x))``. They cover the derivatives
    of these formulas. They apply to real numbers only. An infinite or NaN result may become finite;
    other results change by rounding. The exact rules of `Simplify` are applied as well, and
    matrices are not transposed where a product can be written without.

    Eigenvectors have derivatives that do not cancel where eigenvalues nearly coincide: see
    `jaxprgen.emit.decompositions.eigh_tangents`.
    """

    meaning = Meaning.BETTER

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with stable formulas, or the given one if no rule matches.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        closed = rewrite.apply(rewrite.apply(closed, _RULES), LAST)
        return rewritten(closed, ("eigh",), _with_stable_derivative)


def _with_stable_derivative(eqn: JaxprEqn) -> Sequence[JaxprEqn] | None:
    """Return eigenvectors with a derivative that does not cancel."""
    operand: Any = eqn.invars[0]
    b = Builder([operand.aval])  # Sets `plain` by the type.
    if eqn.params.get("subset_by_index") is not None or not b.plain:
        return None
    b.source_info = eqn.source_info
    return bound_to(b, _eigenvectors(b, operand, eqn), eqn.outvars)


def _eigenvectors(b: Builder, x: Atom, eqn: JaxprEqn) -> list[Var]:
    types = [x.aval]
    with b.nested(types) as plain:
        outputs = plain.bind_multiple(eqn.primitive, plain.inputs, eqn.params)
        program = plain.build(outputs, name="eigh")

    def derivative(is_zero: bool) -> tuple[ClosedJaxpr, tuple[bool, bool]]:
        with Builder(types if is_zero else 2 * types) as inner:
            operand, *tangents = map(Value, inner.inputs)
            outputs = _eigenvectors(inner, inner.inputs[0], eqn)
            v, w = map(Value, outputs)
            for tangent in tangents:
                dw, dv = decompositions.eigh_tangents(
                    operand, w, v, tangent, lower=eqn.params["lower"]
                )
                outputs = [*outputs, dv.atom(), dw.atom()]
            return inner.build(outputs, name="eigh"), (is_zero, is_zero)

    return lax.custom_jvp_call(b, program, derivative, [x])


_RULES = EXACT + UNTRANSPOSED + STABLE + NORMAL + CHOSEN + GRADIENTS
for _rules in (_RULES, LAST):
    indexed(_rules)  # Build the index at import, not while a user waits for the first program.
