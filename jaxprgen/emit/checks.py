"""Checks in a running program, for `jax.experimental.checkify`."""

from __future__ import annotations

from typing import NamedTuple

from jaxprgen import _jax
from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.shape import reshape, squeeze
from jaxprgen.emit.values import INT64, Value, broadcast_to, full
from jaxprgen.errors import UncollectedCheckError
from jaxprgen.ir import current_builder


class Check(NamedTuple):
    """A check that fails where booleans are true.

    Attributes
    ----------
    failed, shown
        A boolean and a number, or one of each for every step of a loop.
    error, message, where
        As for `check`.
    """

    failed: Value
    shown: Value
    error: type[Exception]
    message: str
    where: str

    def emit(self) -> None:
        """Emit the check, or leave it to the loop around the step that is being emitted."""
        if 0 in self.failed.shape:  # No draw, or a loop of no step.
            return
        failed, shown = _first(self.failed, self.shown)
        b = current_builder()
        if b.postponed is not None:
            b.postponed.append(self._replace(failed=failed, shown=shown))
            return
        # JAX keeps errors apart by the types of their values, and knows no order between them.
        atom = shown.atom()
        code, params = _jax.check_params(
            self.error, self.message, self.where, [atom.aval], len(b), _uncollected
        )
        b.bind_multiple(_jax.check_p, (failed.atom(), b.literal(code), atom), params)


def _uncollected(where: str) -> Exception:
    return UncollectedCheckError(
        "This function has run-time checks (checks=True), which cannot raise inside jax.jit, "
        "jax.grad, jax.vmap or another transformation.\n"
        "Collect what they find: error, result = checkify.checkify(jax.grad(f))(...), then "
        "error.throw(), with jax.experimental.checkify; or compile without checks=True."
    ).at(where)


def check(
    holds: Value, error: type[Exception], message: str, where: str, shown: Value | None = None
) -> None:
    """Emit a check that booleans are all true.

    Whatever runs the program must find its failed checks by `jax.experimental.checkify`.

    Parameters
    ----------
    holds
        The booleans.
    error
        The class of the error that a failed check raises.
    message
        Its message.
    where
        Lines that name the place in the graph.
    shown
        Numbers that broadcast to the same shape. The first one for which the check fails takes the
        place of ``{}`` in the message.
    """
    known = holds.static
    if known is not None and known.all():
        return
    integer = ew.canonical(INT64)
    if shown is None:
        failed, shown = reduce.bitwise_or(~holds, range(holds.ndim)), full((), 0, integer)
    else:
        failed, shown = ~holds, shown if shown.dtype.kind in "fc" else shown.astype(integer)
    Check(failed, shown, error, message, where).emit()


def _first(failed: Value, shown: Value) -> tuple[Value, Value]:
    """Return whether a check fails anywhere, and the first of some numbers where it does.

    One reduction finds both, because XLA compiles each on its own.
    """
    if not failed.ndim:
        return failed, shown
    flat, size = (failed.size,), failed.size
    positions = lax.iota(ew.canonical(INT64), flat, 0)
    first = reduce.min(ew.where(reshape(failed, flat), positions, size), (0,))
    shown = reshape(broadcast_to(shown, failed.shape), flat)
    return first < size, squeeze(lax.dynamic_slice(shown, [first], (1,)), [0])
