"""Lists of arrays, which are resolved while emitting."""

import aesara
import aesara.tensor as at
import aesara.typed_list as tl
import jax
import numpy as np
import pytest
from aesara.tensor.type_other import make_slice
from aesara.typed_list import TypedListType
from laws import assert_agrees, assert_same, equations, refusal

import jaxprgen
from jaxprgen.errors import IndexOutOfBoundsError, InvalidGraphError, StaticShapeError

x, y, v = at.dvectors("x", "y", "v")
n = at.lscalar("n")
A, B = np.array([1.0, 2.0]), np.array([3.0, np.nan, 5.0])
both = tl.make_list([x, y])


def lists():
    return {
        "made": both,
        "appended": tl.append(both, x * 2),
        "extended": tl.extend(both, tl.make_list([y + 1])),
        "inserted": tl.insert(both, n, x - 1),
        "inserted before": tl.insert(both, -n, x - 1),
        "reversed": tl.reverse(tl.append(both, x)),
        "a slice": tl.append(both, x)[0:2:1],
        "a slice by values": tl.getitem(tl.append(both, x), make_slice(n, None, None)),
    }


@pytest.mark.parametrize("name", lists())
def test_lists_hold_what_aesara_s_hold(name):
    made = lists()[name]
    f = assert_agrees([x, y, n], [made[0], made[-1], tl.length(made)], [A, B, 1])
    assert len(equations(f, A, B, 1)) <= 1


def test_items_by_values_make_one_program_each():
    f = assert_agrees([x, y, n], both[n], [A, B, 1])
    assert f(A, B, 0).shape == (2,)
    assert jaxprgen.check([x, y, n], both[n]).static == ("n",)
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(A, B, 0)
    assert (
        refusal(IndexOutOfBoundsError, f, A, B, 2)[0]
        == "Index 2 is out of bounds for a list of 2 items."
    )


def test_lists_of_lists_and_lists_of_constants():
    nested = tl.make_list([both, tl.reverse(both)])
    assert_agrees([x, y], [nested[1][0], tl.length(nested)], [A, B])
    held = tl.make_list([A, A + 1])
    assert equations(assert_agrees([], [held[1], tl.count(held, at.constant(A))], [])) == []


def test_items_are_found_and_counted():
    four = tl.make_list([y, x, x * 2, x])
    outputs = [tl.count(four, x), tl.index_(four, x), tl.count(four, y), tl.index_(four, x * 2)]
    f = assert_agrees([x, y], outputs, [A, B])
    assert [float(v[0]) for v in jax.jit(jax.vmap(f))(A[None], B[None])] == [2, 1, 1, 2]
    nested = tl.make_list([both, tl.reverse(both), tl.append(both, x)])
    lists = [tl.count(nested, both), tl.index_(nested, tl.reverse(both))]
    # Aesara's own function fails where there is none.
    missing = [tl.count(both, x + 1), tl.index_(both, x + 1)]
    found = jaxprgen.compile([x, y], [*lists, *missing])(A, B)
    np.testing.assert_array_equal(found, [1, 1, 0, np.nan])


def test_known_items_are_removed():
    known = tl.make_list([x.shape, y.shape, x.shape])
    left = tl.remove(known, x.shape)
    f = assert_agrees([x, y], [left[0], left[1], tl.length(left)], [A, B])
    assert equations(f, A, B) == []


def test_arguments_decide_which_item_is_removed():
    """One program for each item that is, and one where none is."""
    left = tl.remove(tl.make_list([y, x, x * 2, x]), v)
    f = jaxprgen.compile([x, y, v], [left[-1], left[1] + 1, tl.length(left)])
    for a, b, c, number in ((A, B, A, 1), (A + 1, B, A + 1, 1), (A, A, A, 2), (A, B, B[:1], 3)):
        theirs = [b, a, a * 2, a]
        equal = (i for i, each in enumerate(theirs) if np.array_equal(each, c))
        theirs.pop(next(equal, len(theirs))) if number < 3 else None
        for mine, yours in zip(f(a, b, c), [theirs[-1], theirs[1] + 1, len(theirs)], strict=True):
            assert_same(mine, np.asarray(yours))
        assert f.cache_info().misses == number
    found = jaxprgen.check([x, y, v], tl.length(left))
    assert found.compiles
    assert found.static == ("x", "y", "v")
    assert refusal(StaticShapeError, jax.jit(f), A, B, A)[:2] == [
        "The values of the items decide which one is removed, and are known only when the program "
        "runs. Remove an item by its position instead: join the slices before and after it.",
        "A shape depends on the value of input 'x', which is a tracer (DynamicJaxprTracer) under "
        "a JAX transformation.",
    ]


LISTS = TypedListType(at.dvector)("values")
DEEP = TypedListType(TypedListType(at.dvector))("deep")
GRAPHS_OF_LISTS = {
    "item": ([LISTS], LISTS[1] * 2, [[A, B]]),
    "beside arrays": ([x, LISTS, n], [LISTS[n] + x, tl.length(LISTS) * n], [A, [B, A], 1]),
    "two": ([LISTS, DEEP], tl.extend(LISTS, DEEP[0])[2], [[A, B], [[B], [], [A]]]),
    "of lists": ([DEEP], [DEEP[1][0].sum(), tl.length(DEEP), tl.length(DEEP[0])], [[[], [B, A]]]),
    "empty": ([LISTS, x], [tl.length(LISTS), tl.append(LISTS, x)[0]], [[], A]),
    "unused": ([LISTS, x], x + 1, [[A], A]),
}


@pytest.mark.parametrize("name", GRAPHS_OF_LISTS)
def test_lists_are_arguments_of_the_mode(name):
    inputs, outputs, args = GRAPHS_OF_LISTS[name]
    options = {"on_unused_input": "ignore"}
    f = aesara.function(inputs, outputs, mode="JAXPR", **options)
    theirs = aesara.function(inputs, outputs, mode="FAST_COMPILE", **options)(*args)
    single = not isinstance(outputs, list)
    for found in (f(*args), f(*[list(v) if isinstance(v, list) else v for v in args])):
        pairs = [(found, theirs)] if single else zip(found, theirs, strict=True)
        for mine, yours in pairs:
            assert_same(mine, yours)


def test_lists_of_other_lengths_have_other_programs():
    f = aesara.function([LISTS], tl.length(LISTS) + LISTS[-1].sum(), mode="JAXPR")
    assert [float(f([A] * k)) for k in (1, 3, 1)] == [4, 6, 4]
    assert len(f.vm.programs.others) == 2


def test_updates_read_lists():
    total = aesara.shared(0.0, name="total")
    f = aesara.function([LISTS], updates={total: total + LISTS[0].sum()}, mode="JAXPR")
    f([A])
    f([A, B])
    assert float(total.get_value()) == 6


def test_a_list_among_the_ends_of_a_graph_is_refused_with_a_remedy():
    first, second, third = refusal(InvalidGraphError, jaxprgen.compile, [LISTS], LISTS[0])
    assert first.startswith("Input values has type TypedList <")
    assert second == (
        "Take its arrays as inputs, and let aesara.typed_list.make_list make the list; or compile "
        'in mode "JAXPR", which takes lists.'
    )
    assert "built at LINE: " in third
    first, second, third = refusal(InvalidGraphError, jaxprgen.compile, [x, y], both)
    assert first.startswith("Output")
    assert second == "Return its arrays one by one."
    assert "built at LINE: " in third
