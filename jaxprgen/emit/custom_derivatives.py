"""Functions with derivatives of their own, where JAX's are missing or not exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import Emit, Shape, Value, ValueLike, broadcast_to, common_shape, lift
from jaxprgen.errors import UndefinedGradientError
from jaxprgen.ir import Builder, current_builder


def with_derivatives(function: Emit, *derivatives: Emit) -> Emit:
    """Give an elementwise function of real numbers its partial derivatives.

    A derivative is emitted only when JAX differentiates with respect to its operand, into the
    program of the derivative. If it consists of functions with derivatives as well, all orders are
    available.

    Parameters
    ----------
    function
        A function of values.
    derivatives
        One function per operand, of the same operands as ``function``.
    """

    def emit(*operands: ValueLike) -> Value:
        b, values = current_builder(), lift(*operands)
        sources = [Value(x.source) for x in values]
        shape = common_shape(*sources)
        # A known operand has no tangent, and its value may save equations.
        free = [i for i, x in enumerate(sources) if x.fill_value is None]
        atoms = b.vary_alike([broadcast_to(sources[i], shape).atom() for i in free])
        types = [x.aval for x in atoms]

        def filled(variables: Sequence[Var]) -> list[Value]:
            found = dict(zip(free, map(Value, variables), strict=True))
            return [found.get(i, x) for i, x in enumerate(sources)]

        def derivative(*zeros: bool) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
            moving = [i for i, zero in enumerate(zeros) if not zero]
            with Builder([*types, *(types[i] for i in moving)]) as inner:
                xs = filled(inner.inputs[: len(free)])
                outputs = [emit(*xs)]
                for i, tangent in zip(moving, inner.inputs[len(free) :], strict=True):
                    part = derivatives[free[i]](*xs) * Value(tangent)
                    outputs[1:] = [outputs[1] + part if outputs[1:] else part]
                return _build(inner, outputs, shape), (not moving,)

        with b.nested(types) as inner:
            program = _build(inner, [function(*filled(inner.inputs))], shape)
        (out,) = lax.custom_jvp_call(program, derivative, atoms)
        return broadcast_to(out, common_shape(*values))

    emit.__name__ = emit.__qualname__ = function.__name__
    emit.__doc__ = function.__doc__
    return emit


def with_pullback(x: Value, pullback: Emit, name: str) -> Value:
    """Return ``x`` with the cotangent ``pullback(cotangent)``; it has no forward mode."""
    b, operand = current_builder(), x.atom()
    same, back = b.nested([operand.aval]), b.nested([operand.aval])
    program = same.build(same.inputs, name=name)
    with back:
        outputs = [pullback(*map(Value, back.inputs)).atom()]
    closed = back.build(outputs, name=f"{name}_pullback")
    call = _jax.jit_params(closed, f"{name}_pullback")
    params = _jax.custom_vjp_params(
        program, program, (), lambda cotangent: _jax.jit_p.bind(cotangent, **call), lambda _: None
    )
    return Value(b.call(_jax.custom_vjp_call_p, program, [operand], params)[0])


def forward_only(x: Value, refuse: Callable[[], Exception]) -> Value:
    """Return ``x``, which JAX differentiates in forward mode; reverse mode raises ``refuse()``.

    Numbers without tangents, such as integers, are returned as they are.
    """
    if x.dtype.kind not in "fc":
        return x
    operand = x.atom()
    aval = operand.aval

    def derivative(is_zero: bool) -> tuple[ClosedJaxpr, tuple[bool]]:
        with Builder([aval] * (1 if is_zero else 2)) as inner:
            same, *tangents = inner.inputs
            moved = [inner.bind(_jax.forward_only_p, [t], {"refuse": refuse}) for t in tangents]
            return inner.build([same, *moved], name="forward_only"), (is_zero,)

    with current_builder().nested([aval]) as same:
        program = same.build(same.inputs, name="forward_only")
    return lax.custom_jvp_call(program, derivative, [operand])[0]


def _build(b: Builder, outputs: Sequence[Value], shape: Shape) -> ClosedJaxpr:
    atoms = [broadcast_to(x, shape).atom() for x in outputs]
    return b.build(atoms, name="with_derivatives")


def undefined(message: str) -> Callable[..., NoReturn]:
    """Return a derivative that raises an `UndefinedGradientError` with this message."""

    def emit(*operands: object) -> NoReturn:
        raise UndefinedGradientError(message)

    return emit
