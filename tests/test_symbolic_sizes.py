"""One exported program serves every size: its values are Aesara's at each of them."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from catalogue import FAMILIES
from catalogue.outcome import compiled
from catalogue.sizes import CALLS, GRAPHS, KEY, SHAPES, exported, operands, specs_of
from laws import assert_same, reference
from profiles import sample

import jaxprgen
from jaxprgen.errors import SymbolicSizeError

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def assert_agrees(program, inputs, outputs, values, rtol, *, is_drawn):
    """A call of a program has the values of Aesara, or their types if it draws."""
    key = [jax.random.key(0)] if len(program.in_avals) > len(values) else []
    theirs = reference(inputs, outputs, values)
    for ours, wanted in zip(program.call(*key, *values), theirs, strict=True):
        if is_drawn:
            assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
        else:
            assert_same(np.asarray(ours), wanted, rtol)


@pytest.mark.parametrize("graph", sample(GRAPHS, 28), ids=lambda g: f"{g.family}: {g.name}")
def test_one_program_serves_every_size(graph):
    inputs, outputs = graph.variables()
    shapes = [",".join(SHAPES[v.name]) for v in inputs]
    program = exported(inputs, outputs, shapes, graph.constraints)
    for sizes in CALLS:
        values = operands(graph.inputs, sizes)
        assert_agrees(program, inputs, outputs, values, 1e-8, is_drawn=graph.is_drawn)


# --- The examples of all Ops ----------------------------------------------------------------


def larger(x, factor, offset):
    """An array of other sizes: repeated, or a square matrix with more threes on its diagonal."""
    sizes = [factor * n + offset if n > 1 else n for n in x.shape]
    if x.ndim != 2 or x.shape[0] != x.shape[1] or x.dtype.kind not in "fc":
        return np.resize(x, sizes)
    found = np.eye(sizes[0], dtype=x.dtype) * 3
    found[: len(x), : len(x)] = x
    return found


def symbols(arrays):
    """A shape for each array: a letter for each size above one, the same where sizes are equal."""
    sizes = sorted({n for x in arrays for n in x.shape if n > 1})
    letter = dict(zip(sizes, "abcdefgh", strict=False))
    return [",".join(letter.get(n, str(n)) for n in x.shape) for x in arrays]


REFUSED = {
    # Values of arguments decide a shape.
    *("Reshape", "ARange", "Alloc", "AllocEmpty", "Eye", "MakeSlice", "Nonzero", "Tri"),
    *("Bartlett", "Repeat", "Unique", "AdvancedSubtensor", "RFFTOp", "GetItem", "Remove"),
    # One program cannot serve all sizes.
    *("Choose", "DiagonalSubtensor", "IncDiagonalSubtensor"),
    *("PdbBreakpoint", "Print"),  # They call back into Python.
    "CAReduce",  # Its example is of integers.
}
"""The Ops of which some example is refused."""
OF_ENTRIES = {
    *(
        "AddSD_ccode",
        "CSMGrad",
        "CSMGradC",
        "GetItem2ListsGrad",
        "MulSDCSC",
        "MulSDCSR",
        "MulSVCSR",
    ),
    *("SamplingDotCSR", "StructuredAddSVCSR", "StructuredDotCSC", "StructuredDotCSR"),
    *("StructuredDotGradCSC", "StructuredDotGradCSR", "UsmmCscDense"),
}
"""Their examples take the entries of a matrix apart, and values decide how many there are."""
OPS = [(family, item) for family, items in FAMILIES.items() for item in items]


@pytest.mark.parametrize(
    ("family", "item"), sample(OPS, 12), ids=lambda x: x if isinstance(x, str) else x.op.__name__
)
def test_examples_of_ops_are_those_of_direct_calls_or_refused(family, item):
    """Where the graph itself fixes a size, a direct call refuses other sizes, too."""
    inputs, f, arrays = compiled(item)
    key = [jax.random.key(0)] if f.inputs[: -len(inputs)] else []
    try:
        program = f.export(*[KEY for _ in key], *specs_of(inputs, symbols(arrays)))
    except jaxprgen.JaxprGenError:
        assert item.op.__name__ in REFUSED | OF_ENTRIES
        return
    for factor, offset in ((1, 0), (1, 2), (2, 1)):
        values = [larger(x, factor, offset) for x in arrays]
        try:
            theirs = f(*key, *values)
        except jaxprgen.JaxprGenError:
            continue
        for ours, wanted in zip(program.call(*key, *values), theirs, strict=True):
            assert_same(np.asarray(ours), np.asarray(wanted), 1e-9)


# --- What one program cannot do -------------------------------------------------------------


def test_a_program_that_differs_by_size_says_which_constraint_it_needs():
    x = at.dvector("x")
    part = x[: x.shape[0] - 3]  # Below three elements, it counts from the back.
    with pytest.raises(SymbolicSizeError) as caught:
        exported([x], [part], ["n"])
    text = str(caught.value)
    assert 'constraints=["n - 3 >= 0"]), or ["n - 3 <= -1"]' in text
    assert "Subtensor" in text
    assert "part = x[: x.shape[0] - 3]" in text
    (n,) = jax.export.symbolic_shape("n", constraints=["n - 3 >= 0"])
    f = jaxprgen.compile([x], part)
    program = jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((n,), np.dtype("float64")))
    assert_same(np.asarray(program.call(np.arange(5.0))), np.arange(2.0))


def test_a_shape_that_symbols_cannot_express_is_refused():
    x = at.dvector("x")
    root = at.cast(at.sqrt(x.shape[0]), "int64")
    with pytest.raises(SymbolicSizeError, match=r"sqrt.* of symbolic sizes"):
        exported([x], [at.zeros((root,))], ["n"])


def test_sizes_that_have_to_fit_are_checked_in_calls():
    x, y = at.dvectors("x", "y")
    program = exported([x, y], [x + y], ["n", "m"])
    assert_same(np.asarray(program.call(np.ones(3), np.ones(3))[0]), 2 * np.ones(3))
    with pytest.raises(ValueError, match="refining shapes") as caught:  # What JAX says.
        program.call(np.ones(3), np.ones(4))
    assert "needs n == m, but n is 3 and m is 4" in str(caught.value.__cause__)
