"""Checks in programs, as `jax.experimental.checkify` takes and finds them."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import checkify as _checkify
from jax.interpreters import ad as _ad, batching as _batching, mlir as _mlir

from jaxprgen._jax.core import ClosedJaxpr, JaxprEqn, Primitive


class FailedCheck(_checkify.FailedCheckError):
    """What `checkify` finds if a check of this package fails.

    Parameters
    ----------
    traceback_info
        Where JAX traced the check.
    kind
        The class of the error to raise.
    message
        Its message, in which the values take the places of ``{}``.
    where
        Lines that name the place in the graph.
    *values
        Numbers that the program computes.
    """

    def __init__(
        self, traceback_info: Any, kind: Any, message: str, where: str, *values: Any
    ) -> None:
        super().__init__(traceback_info, message)
        self.kind, self.where, self.values = kind, where, values

    def tree_flatten(self) -> Any:
        """Return what the program computes, and what is known beforehand."""
        return self.values, (self.traceback_info, self.kind, self.fmt_string, self.where)

    @classmethod
    def tree_unflatten(cls, metadata: Any, payload: Any) -> FailedCheck:
        """Return the failed check of these parts."""
        return cls(*metadata, *payload)

    def get_effect_type(self) -> Any:
        """Return the effect under which JAX knows the check: that of a user's own checks."""
        return _checkify.ErrorEffect(_checkify.FailedCheckError, tuple(self.values))

    @property
    def message(self) -> str:
        """What is wrong, without the place in the graph."""
        text = self.fmt_string
        for value in self.values:
            text = text.replace("{}", str(value), 1)
        return text

    def __str__(self) -> str:
        return f"{self.kind.__name__}: {self.message}\n{self.where}"


def _batched(operands: Sequence[Any], axes: Sequence[int | None], **params: Any) -> Any:
    """Check all elements of a batch, and show the first one that fails."""
    size = next(x.shape[d] for x, d in zip(operands, axes, strict=True) if d is not None)
    rows = [_batching.bdim_at_front(x, d, size) for x, d in zip(operands, axes, strict=True)]
    whole = jax.tree.unflatten(params["err_tree"], rows)
    error = _checkify._reduce_any_error(whole)  # pyright: ignore[reportPrivateUsage]
    operands, params["err_tree"] = jax.tree.flatten(error)
    return check_p.bind(*operands, **params), []


def _derivative(operands: Sequence[Any], _: Any, **params: Any) -> Any:
    return check_p.bind(*operands, **params), []


def _refused(ctx: Any, *operands: Any, err_tree: Any, refuse: Callable[[str], Exception]) -> Any:
    error = jax.tree.unflatten(err_tree, operands)
    (tree,) = error._metadata.values()
    raise refuse(jax.tree.unflatten(tree, [None] * tree.num_leaves).where)


def _rule(function: Any) -> Any:
    """Return a rule for `check_p` that calls a rule of JAX's own ``check``."""
    return lambda *operands, refuse, **params: function(*operands, debug=False, **params)


check_p = Primitive("check")
"""JAX's ``check``, except that compiling it raises ``refuse(where)``, which says more."""
check_p.multiple_results = True
check_p.def_impl(_rule(_checkify.check_impl))
check_p.def_effectful_abstract_eval(_rule(_checkify.check_abstract_eval))
_ad.primitive_jvps[check_p] = _derivative
_batching.primitive_batchers[check_p] = _batched
_checkify.error_checks[check_p] = _rule(_checkify.check_discharge_rule)
_mlir.register_lowering(check_p, _refused)


def check_params(
    kind: type[Exception],
    message: str,
    where: str,
    types: Sequence[Any],
    position: int,
    refuse: Callable[[str], Exception],
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Return the second operand and the parameters of a ``check`` equation.

    Its first operand is a boolean, true if the check fails. With the values that the message shows,
    the two are the leaves of the pytree of one error, as `jax.experimental.checkify.check` builds
    it: whether it occurred, and its number.

    Parameters
    ----------
    kind, message, where
        As for `FailedCheck`.
    types
        The types of the values, which are further operands.
    position
        A number that no other check of the program has.
    refuse
        Returns the error to raise, given ``where``, if JAX compiles the check.

    Returns
    -------
    tuple
        The number of the error, and the parameters.
    """
    number = 0  # From JAX 0.11.2 on, JAX numbers the errors of a program.
    if hasattr(_checkify, "next_code"):  # A count would make equal graphs different programs.
        node = where.rpartition("\n")[0]  # Without the user's line.
        number = zlib.crc32(f"{position} {kind.__name__} {message} {node}".encode()) >> 1
    code = np.asarray(number, np.int32 if jax.__version_info__ >= (0, 12) else np.int64)
    values = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]
    error = FailedCheck(_checkify.get_traceback(), kind, message, where, *values)
    payload, metadata = jax.tree.flatten(error)
    effect = error.get_effect_type()
    tree = _checkify.Error({effect: True}, {effect: code}, {int(code): metadata}, {effect: payload})  # type: ignore[arg-type]
    return code, {"err_tree": jax.tree.structure(tree), "refuse": refuse}


def is_check(eqn: JaxprEqn) -> bool:
    """Return whether an equation is a check, of this package or of a user's JAX function."""
    return eqn.primitive in (check_p, _checkify.check_p)


def failed_check(eqn: JaxprEqn, operands: Sequence[Any]) -> Exception | None:
    """Return what is wrong if a ``check`` equation fails for these operands, else None."""
    return jax.tree.unflatten(eqn.params["err_tree"], operands).get_exception()


def has_checks(closed: ClosedJaxpr) -> bool:
    """Return whether a program, or one inside its equations, has checks."""
    return any(isinstance(effect, _checkify.ErrorEffect) for effect in closed.jaxpr.effects)


def checked(function: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Return a function that also returns, first, the first error that its checks find."""
    return functools.wraps(function)(_checkify.checkify(function, _checkify.user_checks))
