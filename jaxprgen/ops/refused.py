"""Ops that have no rule on purpose, with the reason and what to do instead."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprgen.lowering.names import entry_of, is_a


class Refusal(NamedTuple):
    """Why an Op has no rule, and what to do instead, each without capital and full stop."""

    why: str
    instead: str


_MPI = Refusal(
    "it exchanges messages of MPI; XLA orders the work of a program as it likes, so that two "
    "processes could wait for each other for ever",
    "place arrays on a mesh of the devices of all processes, and JAX exchanges them; see "
    "docs/scale.md",
)

_REFUSED: dict[Any, Refusal] = {
    "sandbox.GradTodo": Refusal(
        "Aesara has not implemented it: its `perform` raises NotImplementedError",
        "use aesara.tensor.fft, whose transforms have gradients",
    ),
    "scalar.SymPyCCode": Refusal(
        "only SymPy's C source defines it", "write the expression with Aesara's own functions"
    ),
    **{f"tensor.MPI{name}": _MPI for name in ("Recv", "RecvWait", "Send", "SendWait")},
}


def refusal_of(op: Any) -> Refusal | None:
    """Return why an Op, or the scalar Op that it applies, has no rule; None if nothing is said."""
    return entry_of(_REFUSED, type(op.scalar_op if is_a(op, "tensor.Elemwise") else op))
