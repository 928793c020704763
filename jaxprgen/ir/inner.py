"""The programs inside equations: the one table of primitives that hold them.

For each primitive, `HOLDERS` says where in the parameters its programs are, which operands their
inputs stand for, which results their outputs become, and how to write the equation with other
programs. Traversal, liveness, counting, batching, constant folding, verification and evaluation all
read it. A primitive that is not in the table is opaque: its programs, if it has any, are left
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn

Kind: TypeAlias = Literal["call", "cond", "scan", "while", "shard_map"]
"""How an equation runs its programs: one of them once ("call"), the one that the first operand
selects ("cond"), one for every slice ("scan"), one as long as another one returns true ("while"),
or one on every device ("shard_map", whose programs have other types than the equation)."""


class Inner(NamedTuple):
    """A program inside an equation.

    Attributes
    ----------
    program : ClosedJaxpr or Jaxpr
        The program, as the equation's parameters hold it.
    operands : sequence of int
        For each input of the program, the position of the operand that it stands for: the operand
        itself, one slice of it, or, for the carry of a loop, its initial value.
    results : sequence of (int or None)
        For each output of the program, the position of the result that it becomes, or one slice of;
        None for an output that the equation itself reads, such as the condition of a loop.
    """

    program: Any
    operands: Sequence[int]
    results: Sequence[int | None]


Restrict: TypeAlias = Callable[[JaxprEqn, Sequence[bool], Sequence[bool]], dict[str, Any]]
"""``restrict(eqn, operands, results)``: the parameters, other than programs, that say how many
operands and results there are, for an equation that keeps the operands and results marked true."""


@dataclass(frozen=True)
class Holder:
    """How the equations of one primitive hold programs.

    Attributes
    ----------
    kind
        How an equation runs its programs.
    find : callable
        ``find(eqn)``: the programs.
    store : callable
        ``store(eqn, programs)``: the parameters that hold other programs in the places of those
        found.
    restrict : callable or None
        How to keep only some operands and results; None if the equation needs them all, as a custom
        derivative does, whose rule counts on them.
    carries : callable
        ``carries(eqn)``: pairs of positions of an operand and a result that a loop carries: the
        operand is the initial value, the result the final one.
    only_runs : bool
        Whether the equation does nothing but run its program. Custom derivatives and
        rematerialization, for example, do more.
    """

    kind: Kind
    find: Callable[[JaxprEqn], Sequence[Inner]]
    store: Callable[[JaxprEqn, Sequence[Any]], dict[str, Any]]
    restrict: Restrict | None = None
    carries: Callable[[JaxprEqn], Iterable[tuple[int, int]]] = lambda eqn: ()
    only_runs: bool = False


def holder_of(eqn: JaxprEqn) -> Holder | None:
    """Return the table's entry for an equation, or None if it holds no programs, or is opaque."""
    return HOLDERS.get(eqn.primitive.name)


def inner_programs(eqn: JaxprEqn) -> Sequence[Inner]:
    """Return the programs inside an equation; none if its primitive is not in the table."""
    holder = HOLDERS.get(eqn.primitive.name)
    return () if holder is None else holder.find(eqn)


def has_constants(eqn: JaxprEqn) -> bool:
    """Return whether a program inside an equation holds constants of its own."""
    return any(_jax.open_jaxpr(inner.program).constvars for inner in inner_programs(eqn))


def with_programs(eqn: JaxprEqn, programs: Sequence[Any]) -> JaxprEqn:
    """Return an equation with other programs of the same types in place of its own, in order.

    The equation itself is returned if it holds these programs already.
    """
    holder = HOLDERS[eqn.primitive.name]
    if all(new is old.program for new, old in zip(programs, holder.find(eqn), strict=True)):
        return eqn
    return eqn.replace(params={**eqn.params, **holder.store(eqn, programs)})


def restricted(
    eqn: JaxprEqn, programs: Sequence[Any], operands: Sequence[bool], results: Sequence[bool]
) -> JaxprEqn:
    """Return an equation that keeps only some operands and results, with programs that do likewise.

    Parameters
    ----------
    eqn : JaxprEqn
        An equation whose `Holder` has ``restrict``.
    programs : sequence of ClosedJaxpr or Jaxpr
        Programs without the inputs and outputs that belong to operands and results left out.
    operands, results : sequence of bool
        Which ones are kept. A loop keeps both sides of a carry, or neither.
    """
    holder = HOLDERS[eqn.primitive.name]
    assert holder.restrict is not None
    params = {
        **eqn.params,
        **holder.restrict(eqn, operands, results),
        **holder.store(eqn, programs),
    }
    return eqn.replace(
        invars=kept_of(eqn.invars, operands), outvars=kept_of(eqn.outvars, results), params=params
    )


def kept_of(xs: Iterable[Any], kept: Iterable[bool]) -> list[Any]:
    """Return the elements marked true."""
    return [x for x, keep in zip(xs, kept, strict=True) if keep]


# --- Calls -------------------------------------------------------------------------------


def _one_program(param: str, kind: Kind = "call", **options: Any) -> Holder:
    """Return the entry of a primitive that hands all operands to one program, and all results
    back."""

    def find(eqn: JaxprEqn) -> Sequence[Inner]:
        return (Inner(eqn.params[param], range(len(eqn.invars)), range(len(eqn.outvars))),)

    def store(eqn: JaxprEqn, programs: Sequence[Any]) -> dict[str, Any]:
        return {param: programs[0]}

    return Holder(kind, find, store, **options)


def _nothing(eqn: JaxprEqn, operands: Sequence[bool], results: Sequence[bool]) -> dict[str, Any]:
    return {}


def _per_position(of_operands: Sequence[str], of_results: Sequence[str]) -> Restrict:
    """Return how to restrict parameters that have one element per operand, or per result."""

    def restrict(
        eqn: JaxprEqn, operands: Sequence[bool], results: Sequence[bool]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for names, kept in ((of_operands, operands), (of_results, results)):
            for name in names:
                value = eqn.params[name]
                found[name] = tuple(kept_of(value, kept)) if isinstance(value, tuple) else value
        return found

    return restrict


def _find_solve(eqn: JaxprEqn) -> Sequence[Inner]:
    """Return the program that solves a linear system; the others serve derivatives."""
    lengths = eqn.params["const_lengths"]
    place = lengths._fields.index("solve")
    first, count = sum(lengths[:place]), lengths[place]
    sides = range(sum(lengths), len(eqn.invars))
    operands = [*range(first, first + count), *sides]
    return (Inner(eqn.params["jaxprs"].solve, operands, range(len(eqn.outvars))),)


# --- Branches and loops ------------------------------------------------------------------


def _find_branches(eqn: JaxprEqn) -> Sequence[Inner]:
    operands, results = range(1, len(eqn.invars)), range(len(eqn.outvars))
    return [Inner(branch, operands, results) for branch in eqn.params["branches"]]


def _while_counts(eqn: JaxprEqn) -> tuple[int, int]:
    return eqn.params["cond_nconsts"], eqn.params["body_nconsts"]


def _find_while(eqn: JaxprEqn) -> Sequence[Inner]:
    of_test, of_body = _while_counts(eqn)
    first = of_test + of_body
    carries = range(first, len(eqn.invars))
    return (
        Inner(eqn.params["cond_jaxpr"], [*range(of_test), *carries], (None,)),
        Inner(eqn.params["body_jaxpr"], range(of_test, len(eqn.invars)), range(len(carries))),
    )


def _store_while(eqn: JaxprEqn, programs: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("cond_jaxpr", "body_jaxpr"), programs, strict=True))


def _restrict_while(
    eqn: JaxprEqn, operands: Sequence[bool], results: Sequence[bool]
) -> dict[str, Any]:
    of_test, of_body = _while_counts(eqn)
    return {
        "cond_nconsts": sum(operands[:of_test]),
        "body_nconsts": sum(operands[of_test : of_test + of_body]),
    }


def _while_carries(eqn: JaxprEqn) -> Iterable[tuple[int, int]]:
    return zip(range(sum(_while_counts(eqn)), len(eqn.invars)), range(len(eqn.outvars)))  # noqa: B905


def _scan_carries(eqn: JaxprEqn) -> Iterable[tuple[int, int]]:
    constants, carries = _jax.scan_counts(eqn)
    return zip(range(constants, constants + carries), range(carries), strict=True)


HOLDERS: Mapping[str, Holder] = MappingProxyType(
    {
        "jit": _one_program(
            "jaxpr",
            only_runs=True,
            restrict=_per_position(
                ("in_shardings", "in_layouts", "donated_invars"), ("out_shardings", "out_layouts")
            ),
        ),
        **dict.fromkeys(
            ("closed_call", "eval_jaxpr"),  # The second is the name from JAX 0.11.1 on.
            _one_program("call_jaxpr", only_runs=True, restrict=_nothing),
        ),
        "remat2": _one_program("jaxpr", restrict=_per_position(("prevent_cse",), ())),
        "custom_jvp_call": _one_program("call_jaxpr"),
        "custom_vjp_call": _one_program("call_jaxpr"),
        "custom_linear_solve": Holder(
            "call",
            _find_solve,
            lambda eqn, programs: {"jaxprs": eqn.params["jaxprs"]._replace(solve=programs[0])},
        ),
        "shard_map": _one_program(
            "jaxpr", "shard_map", restrict=_per_position(("in_specs",), ("out_specs",))
        ),
        "cond": Holder(
            "cond", _find_branches, lambda eqn, programs: {"branches": tuple(programs)}, _nothing
        ),
        "while": Holder("while", _find_while, _store_while, _restrict_while, _while_carries),
        "scan": _one_program(
            "jaxpr", "scan", restrict=_jax.restricted_scan_params, carries=_scan_carries
        ),
    }
)
"""The primitives that hold programs, by name."""
