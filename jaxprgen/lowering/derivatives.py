"""Graphs with overridden derivatives, which are graphs as well.

JAX takes one rule for a program: a pullback, which only serves reverse mode, or a pushforward,
which JAX transposes for reverse mode. The rules are emitted when JAX differentiates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.emit.values import Value, atoms, full
from jaxprgen.errors import LoweringError, StaticShapeError, UndefinedGradientError
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.nested import lower
from jaxprgen.lowering.static import ValueNeededError


class OverriddenGraph(NamedTuple):
    """A graph with overridden derivatives, and its program.

    Attributes
    ----------
    ctx : RuleContext
        The context of the rule that lowers the graph.
    graph
        The graph, as `jaxprgen.lowering.nested.lower` takes it.
    name : str
        The Op's name.
    inputs : list of (Value or None)
        The static values of the graph's inputs. None stands for the next operand of the program.
    closed : ClosedJaxpr
        The program, whose inputs are its constants, then the inputs that are not static.
    constants : list
        The values of the constants.
    """

    ctx: RuleContext
    graph: Any
    name: str
    inputs: list[Value | None]
    closed: ClosedJaxpr
    constants: list[Any]

    @classmethod
    def of(
        cls,
        ctx: RuleContext,
        graph: Any,
        inputs: Sequence[Value],
        name: str,
        free: Sequence[int] = (),
    ) -> OverriddenGraph:
        """Lower a graph for these inputs, of which those at ``free`` may have other values, too."""
        given = [None if x.static is None or i in free else x for i, x in enumerate(inputs)]
        types = [x.atom().aval for x, k in zip(inputs, given, strict=True) if k is None]
        b = ctx.builder.nested(types)
        outputs, _ = lower(ctx, graph, b, _filled(given, b.inputs))
        with b:
            outputs = atoms(outputs[: len(ctx.node.outputs)])
        closed, constants = _jax.hoist_constants(b.build(outputs, name=name))
        return cls(ctx, graph, name, given, closed, constants)

    def operands(self, inputs: Sequence[Value]) -> list[Atom]:
        """Return the program's operands: the constants, then the inputs that are not static."""
        b, pairs = self.ctx.builder, zip(inputs, self.inputs, strict=True)
        return [*map(b.constant, self.constants), *(x.atom() for x, k in pairs if k is None)]

    def once(self, b: Builder, operands: Sequence[Atom]) -> list[Var]:
        """Append the program as one equation. The operands include the constants."""
        params = _jax.jit_params(self.closed, self.name)
        return b.call(_jax.jit_p, self.closed, operands, params)

    def rule(self, graph: Any, b: Builder, inputs: Sequence[Value]) -> list[Value]:
        """Lower the graph of a derivative, and return its outputs.

        Raises
        ------
        StaticShapeError
            A shape in the graph depends on a value that is not static.
        """
        try:
            return lower(self.ctx, graph, b, inputs)[0]
        except ValueNeededError as needed:
            raise StaticShapeError(
                f"A shape in the derivative of {self.name} depends on a value that is known only "
                f"when the program runs.\n{needed.request.where}"
            ) from None


def _filled(given: Sequence[Value | None], operands: Sequence[Var]) -> list[Any]:
    """Return the given values, with the operands in the places of None."""
    rest = map(Value, operands)
    return [next(rest) if x is None else x for x in given]


def _derivative(x: Value, of: Any, name: str) -> Value:
    """Return a derivative in the dtype of ``of``.

    Raises
    ------
    LoweringError
        The derivative has another shape than ``of``.
    """
    if x.shape != of.shape:
        raise LoweringError(
            f"The overridden derivative of {name} has shape {x.shape}, not {of.shape}."
        )
    return x.astype(of.dtype)


def _has_tangents(aval: Any) -> bool:
    return aval.dtype.kind in "fc"


@dataclass(frozen=True)
class _Pullback:
    """The pullback of a program: cotangents of its inputs from those of its outputs.

    Attributes
    ----------
    whole : OverriddenGraph
        The program.
    types : sequence of ShapedArray
        The types of the program's operands.
    graph : callable
        The ``pullback`` of `call_with_pullback`.
    """

    whole: OverriddenGraph
    types: Sequence[Any]
    graph: Callable[[], tuple[Any, Sequence[bool]]]

    @property
    def first(self) -> int:
        """The number of constants, which are the first operands."""
        return len(self.whole.constants)

    @functools.cached_property
    def program(self) -> tuple[ClosedJaxpr, list[Any], list[int]]:
        """The pullback's program, its constants, and the inputs that it differentiates by.

        These inputs are positions among the operands after the constants.
        """
        whole, outs, types = self.whole, self.whole.closed.out_avals, self.types[self.first :]
        b = whole.ctx.builder.nested([*types, *outs, *filter(_has_tangents, outs)])
        xs, ys = b.inputs[: len(types)], b.inputs[len(types) :][: len(outs)]
        rest = map(Value, b.inputs[len(types) + len(outs) :])
        grads = [next(rest) if _has_tangents(y) else full(y.shape, 0, y.dtype) for y in outs]
        given = [*_filled(whole.inputs, xs), *map(Value, ys), *grads]
        found = whole.rule(self.graph()[0], b, given)
        free = [x for x, k in zip(found, whole.inputs, strict=True) if k is None]
        wanted = [i for i, aval in enumerate(types) if _has_tangents(aval)]
        with b:
            results = [_derivative(free[i], types[i], whole.name).atom() for i in wanted]
        name = f"{whole.name}_pullback"
        return *_jax.hoist_constants(b.build(results, name=name)), wanted

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return a cotangent, or None, for each operand.

        Parameters
        ----------
        *arrays
            The operands after the constants, the outputs, and the cotangents of the outputs.
        """
        closed, constants, wanted = self.program
        outs = self.whole.closed.out_avals
        count = len(self.types) - self.first + len(outs)
        real = [x for x, y in zip(arrays[count:], outs, strict=True) if _has_tangents(y)]
        params = _jax.jit_params(closed, f"{self.whole.name}_pullback")
        results = iter(_jax.jit_p.bind(*constants, *arrays[:count], *real, **params))
        return [next(results) if i - self.first in wanted else None for i in range(len(self.types))]

    def refuse(self, perturbed: Sequence[bool]) -> None:
        """Raise `UndefinedGradientError` if a perturbed operand has no derivative."""
        whole = self.whole
        undefined = [u for u, k in zip(self.graph()[1], whole.inputs, strict=True) if k is None]
        if any(p and u for p, u in zip(perturbed[self.first :], undefined, strict=True)):
            raise UndefinedGradientError(
                f"{whole.name} says that it has no derivative with respect to one of its inputs. "
                "Differentiate with respect to something else, or stop the gradient with "
                "disconnected_grad."
            )


def call_with_pullback(
    ctx: RuleContext,
    graph: Any,
    inputs: Sequence[Value],
    name: str,
    pullback: Callable[[], tuple[Any, Sequence[bool]]],
) -> list[Value]:
    """Lower a graph as a ``custom_vjp_call``.

    Parameters
    ----------
    ctx : RuleContext
        The context of the rule that lowers the graph.
    graph
        The graph.
    inputs : sequence of Value
        The graph's inputs.
    name : str
        The Op's name.
    pullback : callable
        Returns a graph, and for each input whether its derivative is undefined. The graph computes
        the cotangents of the inputs from the inputs, the outputs, and the cotangents of the
        outputs. It is called when JAX differentiates.

    Returns
    -------
    list of Value
        The graph's outputs.
    """
    b, whole = ctx.builder, OverriddenGraph.of(ctx, graph, inputs, name)
    operands = whole.operands(inputs)
    types = [x.aval for x in operands]
    once = b.nested(types)
    results = whole.once(once, once.inputs)
    program = once.build(results, name=name)
    forward = once.build([*results, *results], name=name)
    pull = _Pullback(whole, types, pullback)
    kept = range(pull.first, len(types))
    params = _jax.custom_vjp_params(program, forward, kept, pull, pull.refuse)
    return [Value(v) for v in b.call(_jax.custom_vjp_call_p, program, operands, params)]


def call_with_pushforward(
    ctx: RuleContext, graph: Any, inputs: Sequence[Value], name: str, pushforward: Callable[[], Any]
) -> list[Value]:
    """Lower a graph as a ``custom_jvp_call``.

    Parameters
    ----------
    ctx, graph, inputs, name
        As for `call_with_pullback`.
    pushforward : callable
        Returns the graph that computes the tangents of the outputs from the inputs and their
        tangents. It is called when JAX differentiates.

    Returns
    -------
    list of Value
        The graph's outputs.
    """
    b, whole = ctx.builder, OverriddenGraph.of(ctx, graph, inputs, name)
    operands = whole.operands(inputs)
    types = [x.aval for x in operands]
    first = len(whole.constants)

    def push(*zeros: bool) -> tuple[ClosedJaxpr, list[bool]]:
        moving = [t for t, zero in zip(types, zeros, strict=True) if not zero]
        inner = b.nested([*types, *map(_jax.tangent_type, moving)])
        primals, tangents = inner.inputs[: len(types)], iter(inner.inputs[len(types) :])
        results = whole.once(inner, primals)
        moves = iter([None if zero else Value(next(tangents)) for zero in zeros][first:])
        xs = _filled(whole.inputs, primals[first:])
        dxs = [
            (next(moves) if known is None else None) or full(x.shape, 0, x.dtype)
            for x, known in zip(xs, whole.inputs, strict=True)
        ]
        found = whole.rule(pushforward(), inner, [*xs, *dxs])
        with inner:
            moved = [
                _derivative(t, y.aval, name).atom()
                for t, y in zip(found, results, strict=True)
                if _has_tangents(y.aval)
            ]
        fixed = [not _has_tangents(y.aval) for y in results]
        return inner.build([*results, *moved], name=f"{name}_pushforward"), fixed

    once = b.nested(types)
    program = once.build(whole.once(once, once.inputs), name=name)
    return [Value(v) for v in lax.custom_jvp_call(b, program, push, operands)]
