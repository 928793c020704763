"""The error of nodes that no rule takes."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen.errors import UnsupportedOpError
from jaxprgen.graphs.callback import can_be_called_back
from jaxprgen.graphs.library import describe_op, origin
from jaxprgen.lowering.names import Apply, is_a
from jaxprgen.ops.refused import refusal_of


def unsupported_error(
    found: Sequence[tuple[Apply, Apply | None]], callbacks: bool
) -> UnsupportedOpError:
    """Return the error of nodes without a rule, each with the node whose Op holds it, if any."""
    rows: list[str] = []
    for node, holder in found:
        rows.append(f"  {describe_op(node)}\n    {origin(node)}")
        rows += [f"    inside of {describe_op(holder)}"] if holder else []
        refusal = refusal_of(node.op)
        rows += [f"    why: {refusal.why}\n    instead: {refusal.instead}"] if refusal else []
    nodes = [node for node, _ in found]
    return UnsupportedOpError(
        f"{len(nodes)} node(s) of this graph have no rule:\n"
        + "\n".join(rows)
        + "\nRegister a JAX function with @jaxprgen.implements(OpClass), a rule with "
        "@jaxprgen.lowers(OpClass)"
        + _samples_text(nodes)
        + _callbacks_text(nodes, callbacks)
        + "\njaxprgen.check lists other remedies, and the part of the graph that compiles."
    )


def _samples_text(unsupported: Sequence[Apply]) -> str:
    if any(is_a(node.op, "tensor.RandomVariable") for node in unsupported):
        return (
            ", or, for a RandomVariable, a function of jax.random with @jaxprgen.samples(OpClass)"
        )
    return ""


def _callbacks_text(unsupported: Sequence[Apply], callbacks: bool) -> str:
    if callbacks:
        return (
            "; these cannot be called back: they have no Python implementation, or take or return "
            "something that is not an array."
        )
    if any(map(can_be_called_back, unsupported)):
        return (
            ', or run its Python implementation on the host: pass fallback="callback" to this '
            'function, or to the linker of mode "JAXPR".'
        )
    return "."
