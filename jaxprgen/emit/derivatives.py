"""Functions whose derivative is given, where that of their equations is none or not exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import (
    Broadcast,
    Shape,
    Value,
    atom,
    broadcast_shapes,
    broadcast_to,
    shape_of,
    splat_value,
)
from jaxprgen.errors import UndefinedGradientError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def with_derivatives(function: ew.Emit, *derivatives: ew.Emit) -> ew.Emit:
    """An elementwise function of real numbers with its partial derivatives, one per operand.

    A derivative is emitted when JAX differentiates with respect to its operand, into the program
    of the derivative. It takes what the function takes. Where it consists of such functions as
    well, derivatives of any order are given.
    """

    def emit(b: Builder, *operands: Value) -> Value:
        target = broadcast_shapes(*map(shape_of, operands))
        sources = [x.operand if type(x) is Broadcast else x for x in operands]
        shape = broadcast_shapes(*map(shape_of, sources))
        # What is known has no tangent, and may spare the function equations.
        free = [i for i, x in enumerate(sources) if splat_value(x) is None]
        atoms = b.vary_alike([atom(b, broadcast_to(b, sources[i], shape)) for i in free])
        types = [x.aval for x in atoms]

        def filled(values: Sequence[Value]) -> list[Value]:
            found = dict(zip(free, values, strict=True))
            return [found.get(i, x) for i, x in enumerate(sources)]

        def derivative(*zeros: bool) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
            moving = [i for i, zero in enumerate(zeros) if not zero]
            inner = Builder([*types, *(types[i] for i in moving)])
            xs = filled(inner.inputs[: len(free)])
            outputs = [emit(inner, *xs)]
            for i, tangent in zip(moving, inner.inputs[len(free) :], strict=True):
                part = ew.multiply(inner, derivatives[free[i]](inner, *xs), tangent)
                outputs[1:] = [ew.add(inner, outputs[1], part) if outputs[1:] else part]
            return _build(inner, outputs, shape), (not moving,)

        inner = b.nested(types)
        program = _build(inner, [function(inner, *filled(inner.inputs))], shape)
        (out,) = lax.custom_jvp_call(b, program, derivative, atoms)
        return broadcast_to(b, out, target)

    emit.__name__ = emit.__qualname__ = function.__name__
    emit.__doc__ = function.__doc__
    return emit


def with_pullback(b: Builder, x: Var, pullback: ew.Emit, name: str) -> Var:
    """``x``, whose cotangent becomes ``pullback(builder, cotangent)``; it has no forward mode."""
    same, back = b.nested([x.aval]), b.nested([x.aval])
    program = same.build(same.inputs, name=name)
    closed = back.build([atom(back, pullback(back, *back.inputs))], name=f"{name}_pullback")
    call = _jax.jit_params(closed, f"{name}_pullback")
    params = _jax.custom_vjp_params(
        program, program, (), lambda cotangent: _jax.jit_p.bind(cotangent, **call), lambda _: None
    )
    return b.call(_jax.custom_vjp_call_p, program, [x], params)[0]


def _build(b: Builder, outputs: Sequence[Value], shape: Shape) -> ClosedJaxpr:
    atoms = [atom(b, broadcast_to(b, x, shape)) for x in outputs]
    return b.build(atoms, name="with_derivatives")


def undefined(message: str) -> Callable[..., NoReturn]:
    """A derivative that is not there."""

    def emit(*operands: object) -> NoReturn:
        raise UndefinedGradientError(message)

    return emit
