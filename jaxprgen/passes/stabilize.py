"""Numerical stabilization: rewrite formulas that overflow or cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax

from jaxprgen import rewrite
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.emit import transcendental as special
from jaxprgen.passes.simplify import EXACT, UNTRANSPOSED
from jaxprgen.rewrite import Operand, table
from jaxprgen.rewrite.index import indexed
from jaxprgen.rewrite.terms import (
    Call,
    Param,
    Product,
    Term,
    abs_,
    broadcast_in_dim,
    emitted,
    erf,
    erfc,
    exp,
    expm1,
    integer_pow,
    log,
    log1p,
    logistic,
    mul,
    neg,
    reduce_sum,
    sqrt,
    square,
    variables,
)
from jaxprgen.special import stable

x, y = variables("x y")
axes, shape, kept = Param("axes"), Param("shape"), Param("kept")

softplus, log1mexp = emitted(special.softplus), emitted(special.log1mexp)
log_erfc, logaddexp = emitted(stable.log_erfc), emitted(stable.logaddexp)
logsumexp, softmax_times = emitted(stable.logsumexp), emitted(stable.softmax_times)
exp_over_erfc = emitted(stable.exp_over_erfc)


def _real(x: Operand) -> str | None:
    if jax.sharding.AxisType.Explicit in x.atom.aval.sharding.mesh.axis_types:
        return "constants in the formula would be sharded in another way"
    return None if x.dtype.kind == "f" else "it holds only for real numbers of NumPy dtypes"


def _unheld(x: Operand) -> str | None:
    """Require that the operand is not limited to the range in which the formula is accurate.

    The stable formulas themselves consist of such parts.
    """
    is_held = x.primitive in ("select_n", "max", "min", "clamp")
    is_negative = x.primitive == "neg" and x.operands[0].primitive == "abs"
    return (
        "its operand is limited to the range in which this is accurate"
        if is_held or is_negative
        else _real(x)
    )


def _positive(x: Operand) -> str | None:
    return _real(x) if _is_positive(x, 6) else "it may be zero"


def _all_positive(x: Operand, y: Operand) -> str | None:
    return _positive(x) or _positive(y)


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


def _whole(x: Operand, axes: Sequence[int]) -> str | None:
    """Require that all axes are reduced: scalars are repeated without an equation."""
    return _unshifted(x) if len(axes) == len(x.shape) else "some axes are not reduced"


def _reduced(y: Operand, x: Operand, axes: Sequence[int], kept: Sequence[int]) -> str | None:
    if y.shape and len(y.shape) != len(x.shape) - len(axes):
        return "the factor has other axes"
    return _along(x, axes, kept)


def _total(x: Term) -> Call:
    return reduce_sum(exp(x), axes=axes)


def _repeated(x: Term) -> Call:
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)


STABLE = table(
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
    # Functions that undo each other.
    (log(exp(x)), x),
    (log1p(expm1(x)), x),
    (sqrt(square(x)), abs_(x)),
    (sqrt(mul(x, x)), abs_(x)),
    (sqrt(integer_pow(x, y=2)), abs_(x)),
    (log(logistic(x) / logistic(-x)), x),
    # The logistic function, and its logarithm.
    (1 / (1 + exp(x)), logistic(-x)),
    (log1p(exp(x)), softplus(x), _unheld),
    (log(logistic(x)), -softplus(-x)),
    (log1p(-logistic(x)), -softplus(x)),
    # Logarithms of small numbers, and of sums of large ones.
    (log1p(-exp(x)), log1mexp(x), _unheld),
    (log(0 - expm1(x)), log1mexp(x), _unheld),
    (log(erfc(x)), log_erfc(x)),
    (log(exp(x) + exp(y)), logaddexp(x, y)),
    (log(_total(x)), logsumexp(x, axes=axes), _unshifted),
    (log(_repeated(x)), _repeated(log(x))),
    (log(exp(x) / _repeated(_total(x))), x - _repeated(log(_total(x))), _repeats),
    check=_real,
)
"""Rules for formulas as users write them."""


GRADIENTS = table(
    # Factors that cancel, and are zero only if they underflow.
    (Product((x,), (x,)), 1, _positive),
    (Product((1 / x + 1 / y, x, y)), x + y, _all_positive),
    # The logistic function.
    (Product((exp(x),), (1 + exp(x),)), logistic(x)),
    (Product((exp(x), logistic(-x))), logistic(x)),
    (Product((exp(-x), logistic(x))), logistic(-x)),
    # Ratios that are finite although both terms overflow or underflow.
    (Product((exp(x),), (0 - expm1(x),)), 1 / expm1(0 - x)),
    (Product((exp(-square(x)),), (erfc(x),)), exp_over_erfc(x), _unheld),
    (Product((exp(-mul(x, x)),), (erfc(x),)), exp_over_erfc(x), _unheld),
    (Product((exp(mul(neg(x), x)),), (erfc(x),)), exp_over_erfc(x), _unheld),
    (Product((exp(x),), (_repeated(_total(x)),)), softmax_times(x, 1, axes=axes), _along),
    (Product((exp(x),), (_total(x),)), softmax_times(x, 1, axes=axes), _whole),
    (mul(exp(x), _repeated(y / _total(x))), softmax_times(x, y, axes=axes), _reduced),
    check=_real,
)
"""Rules for the derivatives of these formulas, as automatic differentiation writes them."""


@dataclass(frozen=True)
class Stabilize:
    """Replace formulas that overflow or cancel by equal formulas that do not.

    The rules correspond to Aesara's *stabilize* and *specialize* rewrites, such as those for
    ``log(1 + exp(x))``, ``log(sum(exp(x)))`` and ``log(erfc(x))``. They also cover the derivatives
    of these formulas. They apply to real numbers only. An infinite or NaN result may become finite;
    other results change by rounding. The exact rules of `Simplify` are applied as well, and
    matrices are not transposed where a product can be written without.
    """

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with stable formulas, or the given one if no rule matches.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewrite.apply(closed, _RULES)


_RULES = EXACT + UNTRANSPOSED + STABLE + GRADIENTS
indexed(_RULES)  # Build the index at import, not while a user waits for the first program.
