"""Values: arrays of the program that is being emitted, with NumPy's operators.

A `Value` is a variable of the program or a known NumPy array, repeated to a shape. Its operators
append equations to the current builder (`jaxprgen.ir.current_builder`) and mean what NumPy's mean:
operands broadcast, and dtypes promote. A number takes the dtype of the value that it meets, unless
the number's kind is higher: an integer and 0.5 make a float. A known array counts as a number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from types import EllipsisType
from typing import Any, NoReturn, TypeAlias, TypeVar, final

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Size, Var, identity
from jaxprgen.emit.sizes import conform, is_known, is_symbolic, require_equal, shape_of, size_atom
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Atom, current_builder, primitives as lax

Array: TypeAlias = np.ndarray[Any, Any]
Dtype: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[Size, ...]
EmitT = TypeVar("EmitT", bound="Emit")
T = TypeVar("T")
Method: TypeAlias = Callable[[Any, "ValueLike"], T]

BOOL = np.dtype(bool)
INT8 = np.dtype(np.int8)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)


def both_ways(emit: Callable[[Any, Any], T]) -> tuple[Method[T], Method[T]]:
    """Return the methods of an operator whose left, or whose right, operand has them."""
    return emit, lambda y, x: emit(x, y)


def _comparison(construct: Construct, strict: Construct) -> Method[Value]:
    return lambda x, y: _compare(construct, strict, x, y)


_COMPARED = 1 << 16
"""Known arrays of at most so many bytes are compared by value."""


@final
class Value:
    """An array of the program: a variable or a known array, repeated to a shape.

    Elementwise primitives broadcast scalars and axes of size one by themselves, so most of the ones
    and zeros with which differentiation fills arrays never become equations.

    Parameters
    ----------
    source
        The variable or the known array.
    shape
        The shape of the value, by default that of the source. The source is a scalar, or has one
        axis for each axis of the shape, of the same size or of size one.
    """

    __slots__ = ("shape", "source")
    __array_ufunc__ = None  # Arrays and NumPy scalars defer to the operators below.

    source: Var | Array
    shape: Shape

    def __init__(self, source: Var | Array, shape: Shape | None = None) -> None:
        self.source = source
        self.shape = shape_of(source) if shape is None else shape

    def __repr__(self) -> str:
        return f"Value({self.dtype.name}{list(self.shape)}, {self.source!r})"

    @property
    def dtype(self) -> Dtype:
        """Return the dtype in the program; narrower than the source's where x64 is off."""
        source = self.source
        if type(source) is Var:
            return source.aval.dtype
        return _jax.canonicalize_dtype(source.dtype)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def static(self) -> Array | None:
        """Return the value as a read-only NumPy array, or None if it is not known."""
        source = self.source
        if type(source) is Var:
            return None
        if source.shape == self.shape:
            return source
        return np.broadcast_to(source, self.shape) if is_known(self.shape) else None

    @property
    def is_uniform(self) -> bool:
        """Return whether the value is one scalar, known or not, filled to a shape."""
        return not shape_of(self.source)

    @property
    def is_repeated(self) -> bool:
        """Return whether the source has fewer elements, or fewer axes, than the value."""
        return shape_of(self.source) != self.shape

    @property
    def fill_value(self) -> Any:
        """Return the known number that fills the whole value, or None."""
        source = self.source
        return None if type(source) is Var or source.size != 1 else source.reshape(())[()]

    def atom(self) -> Atom:
        """Return the value as an operand of an equation.

        A known scalar becomes a literal, another known array a hidden argument of the program.
        Equal small arrays are one, so that XLA computes what depends on them once.
        """
        source = self.source
        if self.is_repeated:
            key = "fill", identity(source), self.shape
            return current_builder().memoized(key, self._filled)[0]
        if type(source) is Var:
            return source
        b = current_builder()
        if not source.ndim:
            return b.literal(source)
        return b.constant(source, equal=source.nbytes <= _COMPARED)

    def _filled(self) -> tuple[Atom, Any]:
        """Return the broadcast source, and the source itself to keep its identity in use."""
        b, x = current_builder(), Value(self.source)
        return lax.broadcast_in_dim(b, x.atom(), self.shape, range(x.ndim)), self.source

    def like(self, number: Any) -> Value:
        """Return a known number, an array of numbers, or a symbolic size in this value's dtype."""
        return _number(number, self.dtype)

    def astype(self, dtype: Dtype) -> Value:
        """Convert to another dtype; a complex value loses its imaginary part."""
        if self.dtype == dtype:
            return self
        source = self.source
        if type(source) is Var:
            return Value(_converted(source, dtype), self.shape)
        if source.dtype.kind == "c" and dtype.kind not in "cb":
            source = source.real
        with np.errstate(invalid="ignore"):  # A graph may convert NaN to integers.
            return Value(source.astype(dtype), self.shape)

    # --- Operators: for booleans, + means "or" and * means "and", as in NumPy ----------------

    __add__, __radd__ = both_ways(lambda x, y: _binary(lax.add, x, y, _either))
    __sub__, __rsub__ = both_ways(lambda x, y: _binary(lax.sub, x, y))
    __mul__, __rmul__ = both_ways(lambda x, y: _multiply(x, y))
    __truediv__, __rtruediv__ = both_ways(lambda x, y: _divide(x, y))
    __and__, __rand__ = both_ways(lambda x, y: _binary(lax.bitwise_and, x, y, _both))
    __or__, __ror__ = both_ways(lambda x, y: _binary(lax.bitwise_or, x, y, _either))
    __xor__, __rxor__ = both_ways(lambda x, y: _binary(lax.bitwise_xor, x, y))
    __lshift__, __rlshift__ = both_ways(lambda x, y: _shift(lax.shift_left, lax.shift_left, x, y))
    __rshift__, __rrshift__ = both_ways(
        lambda x, y: _shift(lax.shift_right_arithmetic, lax.shift_right_logical, x, y)
    )
    __lt__ = _comparison(lax.lt, lax.lt)
    __le__ = _comparison(lax.le, lax.lt)
    __gt__ = _comparison(lax.gt, lax.gt)
    __ge__ = _comparison(lax.ge, lax.gt)

    def __neg__(self) -> Value:
        if self.fill_value is not None:
            return Value(np.negative(np.asarray(self.fill_value)), self.shape)
        return elementwise(lax.neg, self)

    def __invert__(self) -> Value:
        return elementwise(lax.bitwise_not, self)

    # --- Operators that other modules of this package implement ------------------------------

    __pow__, __rpow__ = both_ways(lambda x, y: _power(x, y))
    __floordiv__, __rfloordiv__ = both_ways(lambda x, y: _OPERATORS["floor_divide"](*alike(x, y)))
    __mod__, __rmod__ = both_ways(lambda x, y: _OPERATORS["remainder"](*alike(x, y)))
    __matmul__, __rmatmul__ = both_ways(lambda x, y: _OPERATORS["matmul"](*alike(x, y)))

    def __abs__(self) -> Value:
        return _OPERATORS["modulus"](self)

    def __getitem__(self, index: Entry | tuple[Entry, ...]) -> Value:
        """Return `numpy.ndarray.__getitem__`; a mask must be known.

        An index that is known only at run time is moved into the axis if it is out of bounds.
        """
        return _OPERATORS["getitem"](self, index)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("A Value of a program has no numbers that NumPy could read.")


ValueLike: TypeAlias = Value | Array | complex
"""An operand: a value, or numbers, which take the dtype of the values that they meet."""
Emit: TypeAlias = Callable[..., Value]
"""A function of values that appends equations and returns a value."""
Entry: TypeAlias = int | slice | Value | Array | EllipsisType | None
"""An entry of an index."""
Construct: TypeAlias = Callable[..., Var]
"""A function of `jaxprgen.ir.primitives`, which takes a builder and atoms."""

_OPERATORS: dict[str, Emit] = {}


def operator(emit: EmitT) -> EmitT:
    """Let operators of values call a function of a module that imports this one."""
    _OPERATORS[emit.__name__] = emit
    return emit


def _converted(x: Var, dtype: Dtype) -> Var:
    if x.aval.dtype.kind == "c" and dtype.kind == "b":
        return truth(Value(x)).source  # type: ignore[return-value]
    if x.aval.dtype.kind == "c" and dtype.kind != "c":
        return _converted(lax.real(current_builder(), x), dtype)
    return lax.convert_element_type(current_builder(), x, dtype) if x.aval.dtype != dtype else x


# --- Making values ------------------------------------------------------------------------


def full(shape: Shape, fill_value: Any, dtype: Dtype) -> Value:
    """Fill a shape with a known scalar, or with a symbolic size."""
    return Value(_number(fill_value, dtype).source, shape)


def _number(x: Any, dtype: Dtype) -> Value:
    """Return a known number, an array of numbers, or a symbolic size in a dtype."""
    if is_symbolic(x):
        return value_of(size_atom(current_builder(), x)).astype(dtype)
    return Value(np.asarray(x, dtype))


def value_of(x: Atom) -> Value:
    """Return an operand of an equation as a value; a literal is known."""
    return Value(x if type(x) is Var else np.asarray(x.val, x.aval.dtype))


def atoms(xs: Iterable[Value]) -> list[Atom]:
    """Return every value as an operand of an equation."""
    return [x.atom() for x in xs]


_LEVELS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_DEFAULTS = {"i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}


def _promoted_dtype(dtypes: Collection[Dtype], kinds: Collection[str]) -> Dtype:
    """Return the dtype to which NumPy promotes arrays and Python numbers.

    Parameters
    ----------
    dtypes : collection of dtype
        The dtypes of the arrays.
    kinds : collection of str
        The kinds of the numbers, as `numpy.dtype.kind`. They matter if they are above those of the
        arrays: booleans, integers, floats, complex numbers.
    """
    dtype = np.result_type(*dtypes) if len(dtypes) > 1 else next(iter(dtypes))
    level = _LEVELS.get(dtype.kind, 2)
    highest = max(kinds, key=lambda kind: _LEVELS[kind], default="b")
    if _LEVELS[highest] <= level:
        return dtype
    if dtype.kind == "f":
        return np.result_type(dtype, np.complex64)
    return np.dtype(_DEFAULTS[highest])


def lift(*operands: ValueLike) -> Sequence[Value]:
    """Return the operands as values: numbers in the dtype of the first non-boolean value."""
    values = [x for x in operands if type(x) is Value]
    if len(values) == len(operands):
        return values
    if not values:
        return [Value(np.asarray(x)) for x in operands]
    model = next((x for x in values if x.dtype != BOOL), values[0])
    return [x if type(x) is Value else model.like(x) for x in operands]


def alike(*operands: ValueLike) -> Sequence[Value]:
    """Return the operands as values of one dtype, to which NumPy promotes them."""
    values = [x for x in operands if type(x) is Value]
    dtypes = {x.dtype for x in values}
    if len(dtypes) == 1 and len(values) == len(operands):
        return values
    if not dtypes:
        return lift(*operands)
    numbers = (x for x in operands if type(x) is not Value)
    kinds = {"i" if is_symbolic(x) else np.asarray(x).dtype.kind for x in numbers}
    dtype = _jax.canonicalize_dtype(_promoted_dtype(dtypes, kinds))
    return [x.astype(dtype) if type(x) is Value else _number(x, dtype) for x in operands]


# --- Broadcasting -------------------------------------------------------------------------


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the common shape, as `numpy.broadcast_shapes`, or raise a ShapeMismatchError.

    A symbolic size does not broadcast. It is taken to equal the size that it meets.
    """

    def fails() -> ShapeMismatchError:
        text = " and ".join(map(str, dict.fromkeys(shapes)))
        return ShapeMismatchError(f"Shapes {text} do not broadcast together.")

    rank = max(map(len, shapes))
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1 and result[axis] != n:
                if result[axis] != 1:
                    require_equal(result[axis], n, fails)
                if type(result[axis]) is not int or result[axis] == 1:
                    result[axis] = n
    return tuple(result)


def common_shape(*xs: Value) -> Shape:
    """Return the shape that the values broadcast to."""
    return broadcast_shapes(*(x.shape for x in xs))


def broadcast_to(x: Value, shape: Shape) -> Value:
    """Repeat ``x`` to a shape that it broadcasts to; without an equation where that can wait."""
    if x.shape == shape:
        return x
    x = conform(x, shape)
    if broadcast_shapes(x.shape, shape) != shape:
        raise ShapeMismatchError(f"Shape {x.shape} does not broadcast to {shape}.")
    return Value(expand_rank(x, len(shape)).source, shape)


def expand_rank(x: Value, rank: int) -> Value:
    """Insert leading axes of size one, up to a rank."""
    missing = rank - x.ndim
    if not missing:
        return x
    source, shape = x.source, (1,) * missing + x.shape
    if x.is_uniform:
        return Value(source, shape)
    inner = (1,) * missing + shape_of(source)
    if type(source) is Var:
        b = current_builder()
        return Value(lax.broadcast_in_dim(b, source, inner, range(missing, rank)), shape)
    return Value(source.reshape(inner), shape)


def elementwise(construct: Construct, *operands: Value) -> Value:
    """Append a primitive that broadcasts its operands, as NumPy does."""
    shape = operands[0].shape
    if len(operands) > 1 and any(x.shape != shape for x in operands):
        shape = common_shape(*operands)
        operands = tuple(conform(x, shape) for x in operands)
    atoms = [_operand(x, len(shape)) for x in operands]
    return Value(construct(current_builder(), *atoms), shape)


def _operand(x: Value, rank: int) -> Atom:
    """Return an operand of a primitive that broadcasts scalars and axes of size one."""
    source = x.source
    if type(source) is not Var and source.size == 1:  # One number is a literal of any rank.
        return current_builder().literal(source.reshape(()))
    if len(shape_of(source)) not in (0, rank):
        source = expand_rank(x, rank).source
    return source if type(source) is Var else Value(source).atom()


def full_rank(construct: Construct, *operands: Value) -> Value:
    """Append a primitive whose operands must have one shape: broadcast them first."""
    sources = [Value(x.source) for x in operands]
    atoms = [broadcast_to(x, common_shape(*sources)).atom() for x in sources]
    return broadcast_to(Value(construct(current_builder(), *atoms)), common_shape(*operands))


# --- The meaning of operators -------------------------------------------------------------


def _binary(number: Construct, x: ValueLike, y: ValueLike, boolean: Emit | None = None) -> Value:
    x, y = alike(x, y)
    return boolean(x, y) if boolean and x.dtype == BOOL else elementwise(number, x, y)


def _combined(construct: Construct, neutral: bool, x: Value, y: Value) -> Value:
    """Combine booleans; where one is known everywhere or nowhere, without an equation."""
    for known, other in ((x, y), (y, x)):
        found = decided(known)
        if found is not None:
            chosen = other if found is neutral else Value(np.asarray(found))
            return broadcast_to(chosen, common_shape(x, y))
    return elementwise(construct, x, y)


_both = functools.partial(_combined, lax.bitwise_and, True)
_either = functools.partial(_combined, lax.bitwise_or, False)


def _multiply(x: ValueLike, y: ValueLike) -> Value:
    """Multiply. A known factor of 1 emits nothing; a factor of 0 does, for NaN and signs."""
    x, y = alike(x, y)
    for factor, other in ((x, y), (y, x)):
        if factor.fill_value is not None and factor.fill_value == 1:
            return broadcast_to(other, common_shape(x, y))
    return _both(x, y) if x.dtype == BOOL else elementwise(lax.mul, x, y)


def _divide(x: ValueLike, y: ValueLike) -> Value:
    """Divide; integers as float64."""
    x, y = alike(x, y)
    if x.dtype.kind in "biu":
        dtype = _jax.canonicalize_dtype(np.dtype(np.float64))
        x, y = x.astype(dtype), y.astype(dtype)
    return elementwise(lax.div, x, y)


def _power(x: ValueLike, exponent: ValueLike) -> Value:
    if type(x) is Value and isinstance(exponent, int):
        return elementwise(functools.partial(lax.integer_pow, y=int(exponent)), x)
    return _OPERATORS["power"](*alike(x, exponent))


def _shift(signed: Construct, unsigned: Construct, x: ValueLike, count: ValueLike) -> Value:
    """Shift bits; booleans as int8."""
    x, count = alike(x, count)
    if x.dtype == BOOL:
        x, count = x.astype(INT8), count.astype(INT8)
    return elementwise(signed if x.dtype.kind == "i" else unsigned, x, count)


def _compare(construct: Construct, strict: Construct, x: ValueLike, y: ValueLike) -> Value:
    """Compare; complex numbers by real part, then imaginary part, and never where NaN."""
    x, y = alike(x, y)
    if x.dtype.kind != "c":
        return elementwise(construct, x, y)
    xr, yr, xi, yi = real(x), real(y), imag(x), imag(y)
    numbers = equal(xi, xi) & equal(yi, yi)
    return elementwise(strict, xr, yr) & numbers | equal(xr, yr) & elementwise(construct, xi, yi)


def equal(x: ValueLike, y: ValueLike) -> Value:
    """Return where two operands are equal, as `numpy.equal`."""
    return _binary(lax.eq, x, y)


def real(x: Value) -> Value:
    """Return the real part; a real value is returned as it is."""
    return elementwise(lax.real, x) if x.dtype.kind == "c" else x


def imag(x: Value) -> Value:
    """Return the imaginary part; for a real value, zeros."""
    return elementwise(lax.imag, x) if x.dtype.kind == "c" else full(x.shape, 0, x.dtype)


def truth(x: Value) -> Value:
    """Return where a value differs from zero (NaN does), known for a known value."""
    if x.dtype == BOOL:
        return x
    if type(x.source) is not Var:
        return Value(np.asarray(x.source != 0), x.shape)
    return elementwise(lax.ne, x, x.like(0))


def decided(condition: Value) -> bool | None:
    """Return whether a boolean is known to hold everywhere (True) or nowhere (False), else None."""
    source = condition.source
    if type(source) is Var or not source.size:
        return None
    return bool(source.flat[0]) if source.all() or not source.any() else None


def where(condition: Value, x: ValueLike, y: ValueLike) -> Value:
    """Return ``x`` where the boolean condition holds and ``y`` elsewhere, of one dtype."""
    x, y = lift(x, y)
    known = decided(condition)
    if known is not None:
        return broadcast_to(x if known else y, common_shape(condition, x, y))
    return full_rank(lambda b, c, x, y: lax.select_n(b, c, y, x), condition, x, y)
