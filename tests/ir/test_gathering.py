"""Gather and scatter make the equations of `jax.lax`, which read and write the right elements."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import DTYPES
from profiles import examples

from jaxprgen import _jax
from jaxprgen.errors import EquationError
from jaxprgen.ir import Builder, primitives as ours

NUMBERS = [d for d in DTYPES if d != "bool"]
MODES = {True: "promise_in_bounds", False: "clip"}


class Case(NamedTuple):
    """A shape to index, the indexed axes, the shape of the indices, and the places of its axes.

    ``paired`` are other axes of the shape, with the axes of the indices that they go along with.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    points: tuple[int, ...]
    places: tuple[int, ...]
    paired: tuple[tuple[int, int], ...] = ()

    @property
    def region(self) -> tuple[int, ...]:
        """The shape that is read or written."""
        taken = (*self.axes, *dict(self.paired))
        sizes = [n for d, n in enumerate(self.shape) if d not in taken]
        for d, n in zip(self.places, self.points, strict=True):
            sizes.insert(d, n)
        return tuple(sizes)

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.region)) if d not in self.places)

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """The dimension numbers, as JAX counts them."""
        pairs = sorted(self.paired)
        along = tuple(d for d, _ in pairs), tuple(i for _, i in pairs)
        return self.kept, tuple(sorted(self.axes)), self.axes, *along


@st.composite
def cases(draw: Any) -> Case:
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    count = draw(st.integers(1, len(shape)))
    axes = draw(st.permutations(range(len(shape))))[:count]
    points = draw(st.lists(st.integers(0, 3), max_size=2))
    free = [d for d in range(len(shape)) if d not in axes]
    pairs = [(d, i) for d, i in zip(free, draw(st.permutations(range(len(points)))), strict=False)]
    paired = tuple((d, i) for d, i in pairs if shape[d] == points[i] and draw(st.booleans()))
    rank = len(shape) - count - len(paired) + len(points)
    places = draw(st.sampled_from(list(itertools.combinations(range(rank), len(points)))))
    return Case(tuple(shape), tuple(axes), tuple(points), places, paired)


def emitted(construct: Any, case: Case, *types: Any, **options: Any) -> Any:
    b = Builder([_jax.array_type(t.shape, t.dtype) for t in types])
    options["paired"] = dict(case.paired)
    closed = b.build([construct(b, *b.inputs, case.axes, case.places, **options)])
    _jax.check_jaxpr(closed.jaxpr)
    (eqn,) = closed.jaxpr.eqns
    return eqn


def assert_same_equation(mine: Any, theirs: Any) -> None:
    assert mine.primitive is theirs.primitive
    assert list(mine.params) == list(theirs.params)
    for key, value in theirs.params.items():
        if key == "update_jaxpr":
            assert (str(mine.params[key]), type(mine.params[key])) == (str(value), type(value))
        else:
            assert (type(mine.params[key]), mine.params[key]) == (type(value), value), key
    assert [v.aval for v in mine.outvars] == [v.aval for v in theirs.outvars]


def operands(case: Case, dtype: str) -> list[jax.ShapeDtypeStruct]:
    indices = jax.ShapeDtypeStruct((*case.points, len(case.axes)), "int32")
    return [
        jax.ShapeDtypeStruct(case.shape, dtype),
        indices,
        jax.ShapeDtypeStruct(case.region, dtype),
    ]


@examples(2)
@given(cases(), st.sampled_from(DTYPES), st.booleans(), st.booleans())
def test_gather_is_that_of_lax(case, dtype, in_bounds, unique):
    numbers = lax.GatherDimensionNumbers(*case.numbers)
    single = (*case.axes, *dict(case.paired))
    sizes = tuple(1 if d in single else n for d, n in enumerate(case.shape))
    types = operands(case, dtype)[:2]
    theirs = jax.make_jaxpr(
        lambda x, i: lax.gather(x, i, numbers, sizes, mode=MODES[in_bounds], unique_indices=unique)
    )(*types)
    mine = emitted(ours.gather, case, *types, in_bounds=in_bounds, unique=unique)
    assert_same_equation(mine, theirs.jaxpr.eqns[-1])
    assert mine.outvars[0].aval.shape == case.region


@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
@examples(2)
@given(case=cases(), dtype=st.sampled_from(NUMBERS), in_bounds=st.booleans(), unique=st.booleans())
def test_scatter_is_that_of_lax(name, case, dtype, in_bounds, unique):
    numbers = lax.ScatterDimensionNumbers(*case.numbers)
    options = {"mode": MODES[in_bounds], "unique_indices": unique}
    types = operands(case, dtype)
    theirs = jax.make_jaxpr(lambda x, i, y: getattr(lax, name)(x, i, y, numbers, **options))(*types)
    mine = emitted(getattr(ours, name), case, *types, in_bounds=in_bounds, unique=unique)
    assert_same_equation(mine, theirs.jaxpr.eqns[-1])


@given(cases(), st.randoms())
def test_elements_are_read_and_written_at_the_indices(case, random):
    x = np.arange(1.0, 1 + np.prod(case.shape)).reshape(case.shape)
    y = 100.0 + np.arange(np.prod(case.region)).reshape(case.region)
    indices = np.zeros((*case.points, len(case.axes)), np.int32)
    for place in np.ndindex(*case.points):
        indices[place] = [random.randrange(case.shape[d]) for d in case.axes]
    b = Builder([_jax.array_type(a.shape, a.dtype) for a in (x, indices, y)])
    options = {"in_bounds": False, "paired": dict(case.paired)}
    read = ours.gather(b, *b.inputs[:2], case.axes, case.places, **options)
    added = ours.scatter_add(b, *b.inputs, case.axes, case.places, **options)
    got_read, got_added = _jax.eval_jaxpr(b.build([read, added]), [x, indices, y])
    want_read, want_added = np.zeros(case.region), x.copy()
    for place in np.ndindex(*case.points):
        there, here = [slice(None)] * x.ndim, [slice(None)] * y.ndim
        for d, i in zip(case.axes, indices[place], strict=True):
            there[d] = i
        for d, i in case.paired:
            there[d] = place[i]
        for d, i in zip(case.places, place, strict=True):
            here[d] = i
        want_read[tuple(here)] = x[tuple(there)]
        want_added[tuple(there)] += y[tuple(here)]
    np.testing.assert_array_equal(got_read, want_read)
    np.testing.assert_array_equal(got_added, want_added)


def test_operands_that_do_not_fit_are_refused():
    case = Case((3, 4), (0,), (2,), (0,))
    x, indices, y = operands(case, "float64")
    emitted(ours.scatter, case, x, indices, y, in_bounds=True)
    for types in [
        (x, indices, jax.ShapeDtypeStruct((2, 5), "float64")),
        (x, indices, jax.ShapeDtypeStruct((2, 4), "float32")),
        (x, jax.ShapeDtypeStruct((2, 1), "float32"), y),
        (x, jax.ShapeDtypeStruct((2, 2), "int32"), y),
    ]:
        for name in ("scatter", "scatter_add"):
            with pytest.raises(EquationError):
                emitted(getattr(ours, name), case, *types, in_bounds=True)
    with pytest.raises(EquationError):
        emitted(ours.gather, case, x, jax.ShapeDtypeStruct((2, 2), "int32"), in_bounds=True)
    for paired in ((1, 0),), ((0, 0),), ((1, 1),):  # Sizes differ; an indexed axis; no such axis.
        with pytest.raises(EquationError):
            emitted(ours.gather, case._replace(paired=paired), x, indices, in_bounds=True)
