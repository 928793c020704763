"""Lists of arrays, which both libraries have."""

import numpy as np
import pytest

import jaxprgen

pytensor = pytest.importorskip("pytensor")
tl = pytest.importorskip("pytensor.typed_list")
pt = pytensor.tensor

A, B = np.array([1.0, 2.0]), np.array([3.0, np.nan, 5.0])


def test_lists_are_resolved_while_emitting():
    x, y, n = pt.dvector("x"), pt.dvector("y"), pt.lscalar("n")
    both = tl.make_list([x, y])
    more = tl.insert(tl.extend(tl.append(both, x * 2), both), n, y + 1)
    outputs = [more[1], tl.reverse(more)[0], tl.length(more), tl.remove(both, x)[0]]
    found = jaxprgen.compile([x, y, n], outputs)(A, B, 1)
    for ours, wanted in zip(found, [B + 1, B, 6, B], strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_items_are_compared():
    x, y = pt.dvector("x"), pt.dvector("y")
    items = tl.make_list([x, y, x])
    outputs = [tl.count(items, x), tl.index_(items, y)]
    theirs = pytensor.function([x, y], outputs, mode=pytensor.compile.mode.Mode("py", None))
    wanted, found = theirs(A, B), jaxprgen.compile([x, y], outputs)(A, B)
    for ours, value in zip(found, wanted, strict=True):
        assert ours.dtype == value.dtype
        np.testing.assert_array_equal(ours, value)


def test_lists_are_arguments_of_the_mode():
    values = tl.TypedListType(pt.dvector)("values")
    f = pytensor.function([values], [values[1] * 2, tl.length(values)], mode="JAXPR")
    for ours, wanted in zip(f([A, B]), [B * 2, 2], strict=True):
        np.testing.assert_array_equal(ours, wanted)
    np.testing.assert_array_equal(f([A, A, B])[1], 3)
