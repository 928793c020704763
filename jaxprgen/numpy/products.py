"""Products and contractions."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import linalg, matrix, reduce
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.shape import axis_of, expand_dims, reshape, transpose
from jaxprgen.emit.values import BOOL, INT32, Value, ValueLike
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.numpy.ufuncs import promoted

__all__ = ["dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot"]


def _operands(*xs: ValueLike) -> list[Value]:
    return list(promoted(*xs))


def matmul(x: ValueLike, y: ValueLike) -> Value:
    """Return matrix products over broadcast leading axes, as the operator ``@``."""
    return linalg.matmul(*_operands(x, y))


def dot(x: ValueLike, y: ValueLike) -> Value:
    """Return sums over the last axis of ``x`` and the last but one of ``y``, if it has two."""
    x, y = _operands(x, y)
    if not x.ndim or not y.ndim:
        return x * y
    return tensordot(x, y, ([x.ndim - 1], [max(0, y.ndim - 2)]))


def inner(x: ValueLike, y: ValueLike) -> Value:
    """Return sums of products over the last axes."""
    x, y = _operands(x, y)
    return tensordot(x, y, ([x.ndim - 1], [y.ndim - 1])) if x.ndim and y.ndim else x * y


def vdot(x: ValueLike, y: ValueLike) -> Value:
    """Return the sum of products of all elements, those of ``x`` conjugated."""
    x, y = (reshape(v, (-1,)) for v in _operands(x, y))
    return linalg.dot(ew.conjugate(x), y)


def outer(x: ValueLike, y: ValueLike) -> Value:
    """Return the products of all pairs of elements."""
    return linalg.outer(*(reshape(v, (-1,)) for v in _operands(x, y)))


def kron(x: ValueLike, y: ValueLike) -> Value:
    """Return the Kronecker product of matrices."""
    return matrix.kron(*_operands(x, y))


def tensordot(
    x: ValueLike, y: ValueLike, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Value:
    """Return sums of products over axes of both operands: the last and the first, or pairs."""
    x, y = _operands(x, y)
    if isinstance(axes, int):
        axes = range(x.ndim - axes, x.ndim), range(axes)
    first, second = ([axis_of(d, v.ndim) for d in a] for v, a in zip((x, y), axes, strict=True))
    return _contract(x, y, (first, second), ([], []))


def _contract(
    x: Value,
    y: Value,
    contract: tuple[list[int], list[int]],
    batch: tuple[list[int], list[int]],
) -> Value:
    """Sum products over axes; for booleans, "or" of "and"."""
    for i, j in (*zip(*contract, strict=True), *zip(*batch, strict=True)):
        if x.shape[i] != y.shape[j]:
            raise ShapeMismatchError(
                f"Cannot multiply shapes {x.shape} and {y.shape}: axis {i} of the first has size "
                f"{x.shape[i]}, axis {j} of the second {y.shape[j]}."
            )
    if x.dtype == BOOL:
        return ew.truth(_contract(x.astype(INT32), y.astype(INT32), contract, batch))
    return lax.dot_general(x, y, contract, batch)


def einsum(subscripts: str, *operands: ValueLike) -> Value:
    """Return `numpy.einsum`, such as ``einsum("...ij,...jk->...ik", x, y)``.

    Operands are multiplied from left to right.
    """
    xs = _operands(*operands)
    inputs, output = _parsed(subscripts.replace(" ", ""), [x.ndim for x in xs])
    terms = [_diagonals(x, names) for x, names in zip(xs, inputs, strict=True)]
    found, names = terms[0]
    for i, (other, others) in enumerate(terms[1:], 2):
        later = {*output, *(name for _, used in terms[i:] for name in used)}
        found, names = _product(found, names, other, others, later)
    found, names = _summed(found, names, set(output))
    return transpose(found, [names.index(name) for name in output])


def _parsed(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the axes' names of each operand and of the result, with names for ``...``."""
    left, arrow, output = subscripts.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise ShapeMismatchError(
            f"einsum: {subscripts!r} names {len(inputs)} operands, but {len(ranks)} were given."
        )
    unused = [c for c in string.ascii_letters if c not in subscripts]
    longest = 0
    for i, (text, rank) in enumerate(zip(inputs, ranks, strict=True)):
        count = rank - len(text.replace("...", ""))
        if count < 0 or (count and "..." not in text):
            raise ShapeMismatchError(f"einsum: {text!r} does not name {rank} axes.")
        longest = max(longest, count)
        inputs[i] = text.replace("...", "".join(unused[:count][::-1]))
    dots = "".join(unused[:longest][::-1])
    if not arrow:
        named = "".join(inputs)
        output = dots + "".join(
            c for c in sorted({*named}) if named.count(c) == 1 and c not in dots
        )
    return inputs, output.replace("...", dots)


def _diagonals(x: Value, names: str) -> tuple[Value, str]:
    """Return an operand whose axes have different names: take diagonals of equal ones."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ShapeMismatchError(
                    f"einsum: axes {name!r} have sizes {x.shape[i]} and {x.shape[j]}."
                )
            rows = np.arange(x.shape[i])
            mask = (rows[:, None] == rows).reshape(
                [n if d in (i, j) else 1 for d, n in enumerate(x.shape)]
            )
            x = reduce.sum(ew.where(Value(mask), x, 0), (j,))
            names = names[:j] + names[j + 1 :]
    return x, names


def _summed(x: Value, names: str, kept: set[str]) -> tuple[Value, str]:
    axes = [d for d, name in enumerate(names) if name not in kept]
    return reduce.sum(x, axes), "".join(name for name in names if name in kept)


def _product(x: Value, x_names: str, y: Value, y_names: str, later: set[str]) -> tuple[Value, str]:
    """Multiply two operands, and sum over the axes that nothing else names."""
    x, x_names = _summed(x, x_names, later | {*y_names})
    y, y_names = _summed(y, y_names, later | {*x_names})
    both = [name for name in x_names if name in y_names]
    alike_sizes = [n for n in both if x.shape[x_names.index(n)] == y.shape[y_names.index(n)]]
    if alike_sizes != both:  # An axis of size one broadcasts.
        return _broadcast_product(x, x_names, y, y_names, later)
    batch = [name for name in both if name in later]
    summed = [name for name in both if name not in later]
    places = [
        ([u.index(n) for n in names], [v.index(n) for n in names])
        for u, v in [(x_names, y_names)]
        for names in (summed, batch)
    ]
    found = _contract(x, y, places[0], places[1])
    rest = [name for u in (x_names, y_names) for name in u if name not in both]
    return found, "".join((*batch, *rest))


def _broadcast_product(
    x: Value, x_names: str, y: Value, y_names: str, later: set[str]
) -> tuple[Value, str]:
    names = x_names + "".join(name for name in y_names if name not in x_names)
    spread = (
        expand_dims(
            transpose(v, sorted(range(v.ndim), key=lambda d, own=own: names.index(own[d]))),
            [d for d, name in enumerate(names) if name not in own],
        )
        for v, own in ((x, x_names), (y, y_names))
    )
    first, second = spread
    return _summed(first * second, names, later)
