"""What a step of a loop computes that is the same in every step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir.sharing import may_move

_REPEATING = {"broadcast_in_dim", "iota", "empty", "empty2"}
_UNSURE = frozenset({"while", "pure_callback"})


def split_invariant(
    equations: Sequence[JaxprEqn], fixed: Collection[Any], *, runs: bool = True
) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The equations that follow from ``fixed`` variables, and those that stay.

    Some are both: repetition stays, where it costs no memory, and scalars that are written out,
    as a compiler knows them; but what follows from them does not.

    Parameters
    ----------
    runs
        Whether the step is known to be computed at least once. If it is not, what may not come to
        an end, or raise, stays: loops on a condition, and the user's functions on the host. All
        else gives some value for any operands.
    """
    known = set(fixed)
    moved: list[JaxprEqn] = []
    kept: list[JaxprEqn] = []
    for eqn in equations:
        read = [x for x in eqn.invars if type(x) is Var]
        follows = all(x in known for x in read) and may_move(eqn)
        if follows and (runs or _UNSURE.isdisjoint(_jax.primitives_of(eqn))):
            known.update(eqn.outvars)
            moved.append(eqn)
            if not (eqn.primitive.name in _REPEATING or (not read and not _jax.sub_jaxprs(eqn))):
                continue
        kept.append(eqn)
    return moved, kept
