"""What an emitted expression can be: a variable, a known array, or a broadcast of either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Var, identity
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax

Array: TypeAlias = np.ndarray[Any, Any]
Dtype: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]


@final
class Broadcast(NamedTuple):
    """A scalar, or an array of equal rank, repeated to a shape: not an equation until needed.

    Elementwise primitives broadcast sizes of one and scalars by themselves, so most of the
    ones and zeros that differentiation fills arrays with never become equations.
    """

    operand: Var | Array
    shape: Shape


Value: TypeAlias = Var | Array | Broadcast

BOOL = np.dtype(bool)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)


def shape_of(x: Value) -> Shape:
    """The shape of a value."""
    return x.aval.shape if type(x) is Var else x.shape  # type: ignore[union-attr]


def dtype_of(x: Value) -> Dtype:
    """The dtype a value has inside the program, after JAX's canonicalization."""
    if type(x) is Var:
        return x.aval.dtype
    source = x.operand if type(x) is Broadcast else x
    return (
        source.aval.dtype if type(source) is Var else _jax.canonicalize_dtype(source.dtype)  # type: ignore[union-attr]
    )


def size_of(x: Value) -> int:
    """The number of elements of a value."""
    return math.prod(shape_of(x))


def known(x: Value) -> Array | None:
    """The value as a NumPy array where it is known (a read-only view if broadcast), or None."""
    if isinstance(x, np.ndarray):
        return x
    if type(x) is Broadcast and isinstance(x.operand, np.ndarray):
        return np.broadcast_to(x.operand, x.shape)
    return None


def splat(value: Any, dtype: Dtype, shape: Shape = ()) -> Value:
    """A known scalar filled to a shape."""
    scalar = np.asarray(value, dtype)
    return Broadcast(scalar, shape) if shape else scalar


def like(x: Value, value: Any) -> Array:
    """A known scalar in the dtype of ``x``."""
    return np.asarray(value, dtype_of(x))


def splat_value(x: Value) -> Any:
    """The scalar that a known value consists of everywhere, or None."""
    source = x.operand if type(x) is Broadcast else x
    return source[()] if isinstance(source, np.ndarray) and source.ndim == 0 else None


def atom(b: Builder, x: Value) -> Atom:
    """The value as an operand of an equation.

    Known scalars become literals, other known arrays hidden arguments of the program.
    """
    if type(x) is Var:
        return x
    if type(x) is Broadcast:
        return b.once(("broadcast", identity(x.operand), x.shape), lambda: _fill(b, x))[0]
    return b.literal(x) if x.ndim == 0 else b.constant(x)  # type: ignore[union-attr]


def _fill(b: Builder, x: Broadcast) -> tuple[Atom, Any]:
    operand = atom(b, x.operand)
    rank = len(operand.aval.shape)
    filled = lax.broadcast_in_dim(b, operand, x.shape, range(rank))
    return filled, x.operand  # Kept, so that its id is not reused while the key stands.


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting rule, with an error that tells the shapes."""
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1 and result[axis] != n:
                if result[axis] != 1:
                    text = " and ".join(map(str, dict.fromkeys(shapes)))
                    raise ShapeMismatchError(f"Shapes {text} do not broadcast together.")
                result[axis] = n
    return tuple(result)


def broadcast_to(b: Builder, x: Value, shape: Shape) -> Value:
    """``x`` repeated to a shape that it broadcasts to; no equation if that can wait."""
    own = shape_of(x)
    if own == shape:
        return x
    if broadcast_shapes(own, shape) != shape:
        raise ShapeMismatchError(f"Shape {own} does not broadcast to {shape}.")
    source = x.operand if type(x) is Broadcast else x
    rank = len(shape_of(source))
    if rank not in (0, len(shape)):
        source = expand_rank(b, x, len(shape))
        source = source.operand if type(source) is Broadcast else source
    return Broadcast(source, shape)


def expand_rank(b: Builder, x: Value, rank: int) -> Value:
    """``x`` with leading axes of size one, up to a rank."""
    own = shape_of(x)
    missing = rank - len(own)
    if not missing:
        return x
    shape = (1,) * missing + own
    if type(x) is Broadcast and len(shape_of(x.operand)) == 0:
        return Broadcast(x.operand, shape)
    if type(x) is Broadcast:
        inner = expand_rank(b, x.operand, len(shape_of(x.operand)) + missing)
        return Broadcast(inner, shape)  # type: ignore[arg-type]
    if isinstance(x, np.ndarray):
        return x.reshape(shape)
    if not own:
        return Broadcast(x, shape)  # type: ignore[arg-type]
    return lax.broadcast_in_dim(b, x, shape, range(missing, rank))  # type: ignore[arg-type]


def elementwise(b: Builder, construct: Any, *operands: Value) -> Value:
    """Append an n-ary primitive of `jaxprgen.ir.primitives` that broadcasts by itself.

    Operands broadcast as in NumPy. What all of them merely repeat is computed once and
    repeated afterwards, so the result may be a `Broadcast`.
    """
    shape: Shape = ()
    variables = True
    for x in operands:  # Most are scalars, or of one shape.
        if type(x) is Var:
            own = x.aval.shape
        else:
            own, variables = x.shape, False  # type: ignore[union-attr]
        if own and own != shape:
            if shape:
                shape, variables = broadcast_shapes(*map(shape_of, operands)), False
                break
            shape = own
    if variables:
        return construct(b, *operands)
    out = construct(b, *[_operand(b, x, len(shape)) for x in operands])
    return out if out.aval.shape == shape else Broadcast(out, shape)


def _operand(b: Builder, x: Value, rank: int) -> Atom:
    """An operand of a primitive that broadcasts sizes of one and scalars."""
    source = x.operand if type(x) is Broadcast else x
    if type(source) is Var:
        fits = len(source.aval.shape) in (0, rank)
        return source if fits else atom(b, expand_rank(b, source, rank))
    if source.size == 1:  # One number: a literal of any rank.
        return b.literal(source.reshape(()) if source.ndim else source)
    return atom(b, expand_rank(b, source, rank))


def full_rank(b: Builder, construct: Any, *operands: Value) -> Value:
    """Append a primitive that takes operands of one shape: each is broadcast before."""
    shape = broadcast_shapes(
        *(shape_of(x.operand if type(x) is Broadcast else x) for x in operands)
    )
    target = broadcast_shapes(*map(shape_of, operands))
    atoms = [
        atom(b, broadcast_to(b, x.operand if type(x) is Broadcast else x, shape)) for x in operands
    ]
    out = construct(b, *atoms)
    return broadcast_to(b, out, target)


def value_of(x: Atom) -> Value:
    """An operand of an equation as a value: a literal is known."""
    return x if type(x) is Var else np.asarray(x.val)


def atoms(b: Builder, xs: Sequence[Value]) -> list[Atom]:
    """Every value as an operand of an equation."""
    return [atom(b, x) for x in xs]
