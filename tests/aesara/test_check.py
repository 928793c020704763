"""What `jaxprgen.check` says of graphs, and that it is true of what `compile` makes of them."""

import sys
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.graph.basic import Apply
from aesara.graph.fg import FunctionGraph
from aesara.graph.op import Op
from aesara.ifelse import ifelse
from aesara.link.c.type import generic
from aesara.raise_op import Assert
from aesara.scalar.basic import UnaryScalarOp, same_out
from aesara.scan.utils import until
from aesara.tensor import fft
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.fft import RFFTOp
from aesara.tensor.random.utils import RandomStream
from aesara.tensor.shape import specify_shape
from aesara.tensor.subtensor import set_subtensor
from catalogue import FAMILIES
from hypothesis import given, strategies as st
from laws import inputs_among, refusal
from profiles import amount, examples, is_deep, sample

import jaxprgen
from jaxprgen.errors import (
    InvalidGraphError,
    JaxprGenError,
    StaticShapeError,
    UnsupportedOpError,
)
from jaxprgen.graphs.library import name_of
from jaxprgen.lowering import registry

x, y = at.dvectors("x", "y")
X = at.dmatrix("X")
n, m, p = at.lscalars("n", "m", "p")
sizes = at.lvector("sizes")
flags = at.tensor("bool", shape=(None,), name="flags")
ONES = np.arange(1.0, 7.0)
KEY = jax.random.key(0)


class Opaque(Op):
    """An Op that nobody has a rule for; its result is as its input, or of another type."""

    __props__ = ("result",)

    def __init__(self, result=None):
        self.result = result

    def make_node(self, *xs):
        return Apply(self, list(xs), [(self.result or xs[0].type)()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]


class Cube(UnaryScalarOp):
    """``x ** 3`` of a scalar, without a rule."""

    def impl(self, value):
        return value**3


sized = OpFromGraph([n, x], [at.arange(n), x.reshape((n, -1))])
lengths = OpFromGraph([n, x], [n + x.shape[0], x * 2.0])


def shared(value, name="held"):
    return aesara.shared(np.asarray(value), name=name)


def logistic(p):
    """A regression with a horseshoe prior, of ``p`` coefficients."""
    stream = RandomStream(1)
    tau = stream.halfcauchy(0, 1)
    scales = stream.halfcauchy(0, 1, size=(p,))
    beta = stream.normal(0, tau * scales)
    return stream.bernoulli(at.sigmoid(-X @ beta))


def scan(step, **options):
    return aesara.scan(step, **options)[0]


def doubled(**options):
    """A loop that doubles the first element of `x`."""
    return scan(lambda a: a * 2, outputs_info=[x[0]], **options)


def ended(bound=9):
    """One that ends when it is above a bound."""
    return scan(lambda a: (a * 2, until(a > bound)), outputs_info=[x[0]], n_steps=5)


VALUES = {x: ONES, y: ONES, X: np.eye(3), flags: ONES > 0, sizes: np.array([2, 3])}
VALUES |= {n: 2, m: 3, p: 1}
"""The inputs of the graphs below, and what they are if a row does not say otherwise."""


class Row:
    """A graph, and what is found of it: as words, names of what decides shapes, and verdicts.

    The verdicts are those that are not "jit", in order of computing: by default one "static" if
    anything decides a shape. A graph compiles if they are all "static" and no input is missing.
    """

    def __init__(self, outputs, static="", verdicts=None, inputs=None, **values):
        self.outputs = outputs if isinstance(outputs, list) else [outputs]
        self.inputs = inputs or inputs_among(VALUES, *self.outputs)
        self.args = [values.get(v.name, VALUES[v]) for v in self.inputs]
        self.static = static.split()
        self.verdicts = ["static"] * bool(static) if verdicts is None else verdicts.split()
        self.compiles = {*self.verdicts} <= {"static"} and inputs is None


GRAPHS = {
    # --- What compiles ---
    "elementwise": Row(at.exp(x) * y),
    "arange": Row(at.arange(n * 2), "n"),
    "arange of a shape": Row(at.arange(x.shape[0])),
    "slice": Row(x[:n], "n"),
    "slice of a slice": Row(x[n:][:m], "n m", "static static"),
    "half": Row(x[: x.shape[0] // 2]),
    "an integer among slices": Row(X[n, m:], "m", m=2),
    "write": Row(set_subtensor(x[:n], 0.0), "n"),
    "write at an integer": Row(set_subtensor(x[n], 0.0)),
    "reshape": Row(x.reshape(sizes, ndim=2), "sizes"),
    "reshape by shapes": Row(x.reshape((y.shape[0], -1)), y=ONES[:2]),
    "zeros": Row(at.zeros((n, m)), "n m"),
    "empty": Row(at.empty((n,)).shape, "n"),
    "a value repeated": Row(at.alloc(x[0], n), "n"),
    "broadcast": Row(at.broadcast_to(x, (n, 6)), "n"),
    "zeros_like": Row(at.arange(at.cast(at.zeros_like(x).sum(), "int64") + 2), x=np.ones(2000)),
    "filled": Row(at.arange(at.fill(x, n)[0]), "n"),
    "a graph inside": Row(sized(n, x), "n"),
    "a graph inside, by a shape": Row(sized(x.shape[0], x)),
    "what one output needs": Row(at.arange(lengths(n, x)[0]), "n"),
    "a window": Row(x[n : n + 3]),
    "no window": Row(x[n : 2 * n + 3], "n"),
    "write by a mask": Row(set_subtensor(x[y > 0], x)),
    "sum by a mask": Row((x[x > 2] * 2.0).sum() / x[x > 2].shape[0]),
    "gradient by a mask": Row(aesara.grad(at.exp(x[x > 2]).sum(), x)),
    "eye": Row(at.eye(n, n + 1, m), "n"),
    "where": Row(at.switch(x > 2, x, 0.0).sum()),
    "split": Row(at.split(x, sizes, 2, axis=0), "sizes", sizes=np.array([2, 4])),
    "join": Row(at.join(n, X, X), "n", n=1),
    "specified": Row(specify_shape(x, (n,)), "n", n=6),
    "shared": Row(x[: shared(2)], "held"),
    "both": Row(at.arange(shared(2), n), "n held", n=4),
    "asserted": Row(at.arange(Assert("m is positive")(n, m > 0)), "n"),
    "asserted shape": Row(at.arange(Assert()(x.shape[0], m > 0))),
    "vector of sizes": Row(at.arange(at.stack([n, x.shape[0], m])[1]), "n m"),
    "a value of an array": Row(at.arange(at.cast(x.sum(), "int64")), "x"),
    "repeat": Row(at.repeat(x, sizes), "sizes", x=ONES[:2]),
    "unique of constants": Row(x * at.unique(at.constant([2, 1, 2]))[0]),
    "sort": Row(at.sort(X, n), "n", n=1),
    "largest": Row(at.topk(x, n, sorted=False), "n"),
    "spectrum": Row(RFFTOp()(X, sizes), "sizes", sizes=np.array([4])),
    "window": Row(at.bartlett(n), "n"),
    "search": Row(at.searchsorted(x, y)),
    "constant": Row(at.zeros(3) + at.arange(3) + x[:3]),
    "booleans by integers": Row(flags[sizes]),
    "constant mask": Row(x[at.constant([True, False] * 3)]),
    "mask of a shape": Row(x[at.arange(x.shape[0]) > 2]),
    "mask of a long shape": Row(x[at.arange(x.shape[0]) % 2 > 0], x=np.ones(2000)),
    "write where": Row(set_subtensor(x[y > 2], 0.0)),
    "write rows where": Row(set_subtensor(X[:, y > 2], y[:, None]), X=np.eye(6)),
    "nonzero of a shape": Row(at.nonzero(at.zeros_like(x))[0]),
    "slice object": Row(X[:n, sizes], "n", sizes=np.array([1, 0])),
    "choice": Row(at.choose(n, [x, y]), n=1),
    "triangle": Row(at.tri(n, m, p), "n m"),
    "mask": Row(x[x > 0], "x"),
    "mask of another": Row(x[y > 0], "y"),
    "write by masks": Row(set_subtensor(X[y > 0, y < 9], 0.0), "y", X=np.eye(6)),
    "nonzero": Row(at.nonzero(x)[0], "x"),
    "shape of a mask": Row(at.arange(x[x > 0].shape[0]), "x"),
    "unique": Row(at.unique(x * y), "x y"),
    "steps": Row(doubled(n_steps=n)[-1]),
    "all steps": Row(doubled(n_steps=n), "n"),
    "steps of a map": Row(scan(lambda a: a * 2, non_sequences=[x], n_steps=n), "n"),
    "last step of a map": Row(scan(lambda a: a * 2, non_sequences=[x], n_steps=n)[-1]),
    "until": Row(ended()[-1]),
    "row until": Row(ended()[1:][n] + ended(8)[3], n=1),
    "sum until": Row(ended().sum()),
    "gradient of steps": Row(aesara.grad(doubled(n_steps=n)[-1] ** 2, x), "n"),
    "sequence": Row(scan(lambda a: a * 2, sequences=[x])),
    "branches": Row(ifelse(n > 0, x, x + 1)),
    "all until": Row(ended(), "x"),
    "gradient of until": Row(aesara.grad(ended().sum(), x), "x"),
    "model": Row(logistic(X.shape[1])),
    "model of p": Row(logistic(p), "p", p=3),
    # --- What does not ---
    "own Op": Row(at.exp(Opaque()(x + 1)), verdicts="callback"),
    "own scalar Op": Row(Elemwise(Cube(same_out))(x), verdicts="callback"),
    "no array": Row(Opaque(at.dvector)(Opaque(generic)(x)), verdicts="refused refused"),
    "through an own Op": Row(at.arange(Opaque()(n)), "n", "callback static"),
    "missing": Row(x[:n] + 1, "n", inputs=[n]),
}
COMPILE = [name for name, row in GRAPHS.items() if row.compiles]
REFUSED = [name for name in GRAPHS if name not in COMPILE]
NOTHING_LEFT = "no array", "own scalar Op"


def deciding(found):
    return [d.name for d in found.deciding]


def keys(inputs, outputs, args, *, abstract=False):
    """The names of the variables on whose values a program for these arguments depends.

    With ``abstract``, the arguments that `check` does not name have no values.
    """
    f = jaxprgen.compile(inputs, outputs)
    if abstract:
        static = jaxprgen.check(inputs, outputs).static
        args = [x if v.name in static else as_type(x) for v, x in zip(inputs, args, strict=True)]
        args = [*([KEY] if len(f.inputs) > len(inputs) else []), *args]
    f.jaxpr(*args)
    needs = [*f._specializer._needs.values()]
    declared = [*f._plan.inputs, *f._plan.shared]
    positions = {i for need in needs for i in (*need.static, *need.deciding)}
    return [declared[i].name for i in sorted(positions)]


def as_type(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.mark.parametrize("name", GRAPHS)
def test_verdicts_subset_and_text(name):
    row = GRAPHS[name]
    found = jaxprgen.check(row.inputs, row.outputs)
    assert [v for v in (node.verdict for node in found.nodes) if v != "jit"] == row.verdicts
    assert deciding(found) == row.static
    assert found.compiles == row.compiles
    for node in found.nodes:
        assert bool(node.reason) == (node.verdict != "jit")
        assert bool(node.remedy) == (node.verdict not in ("jit", "static"))
    text = str(found)
    assert text.splitlines()[-1] == found.verdict
    assert all(f"{decision.role} {decision.name} " in text for decision in found.deciding)
    subset = found.subset
    if name in NOTHING_LEFT:
        assert subset == ((), (), 0)
        return
    jaxprgen.compile(subset.inputs, subset.outputs)
    again = jaxprgen.check(subset.inputs, subset.outputs)
    assert again.compiles
    assert len(again.nodes) >= subset.nodes > 0


@pytest.mark.parametrize("name", COMPILE)
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
def test_programs_depend_on_the_values_that_check_names(name):
    row = GRAPHS[name]
    key = [KEY] if name.startswith("model") else []
    assert keys(row.inputs, row.outputs, [*key, *row.args]) == row.static


def dtypes_of(example):
    """All dtypes in deep runs, else one."""
    one = ["float64"] if "float64" in example.dtypes else example.dtypes[:1]
    return example.dtypes if is_deep() else one


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")  # Of Aesara's Ops, and of checks that are left out.
def test_check_and_compile_agree_on_every_op(family):
    for example, dtype in (
        (each, d) for each in sample(FAMILIES[family], 12) for d in dtypes_of(each)
    ):
        try:
            inputs, outputs = example.graph(dtype)
        except Exception:  # Whatever Aesara raises of dtypes that an Op does not take.
            continue
        found = jaxprgen.check(inputs, outputs)
        try:
            names = keys(inputs, outputs, example.arrays(dtype), abstract=True)
        except JaxprGenError:
            unclear = [node for node in found.nodes if node.verdict == "unclear"]
            assert unclear or not found.compiles, example
        else:
            assert found.compiles, example
            assert deciding(found) == names, example


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_blocked_is_refused(name):
    row = GRAPHS[name]
    with pytest.raises((UnsupportedOpError, InvalidGraphError, StaticShapeError)):
        args = (np.ones([1] * v.ndim, v.dtype) for v in row.inputs)
        jaxprgen.compile(row.inputs, row.outputs).jaxpr(*args)


def test_the_graph_stays_as_it_is():
    fgraph = FunctionGraph([x, n], [x[:n].sum()], clone=True)
    before = aesara.dprint(fgraph, file="str")
    assert jaxprgen.check(fgraph).static == ("n",)
    assert aesara.dprint(fgraph, file="str") == before


# --- What decides -------------------------------------------------------------------------


STEPS = [
    lambda a, b, v: a + b,
    lambda a, b, v: at.stack([a, v.shape[0], b])[0],
    lambda a, b, v: at.zeros_like(v).sum() + v.shape[0],
    lambda a, b, v: at.fill(v, a).sum(),
    lambda a, b, v: v.sum() + b,
    lambda a, b, v: Assert()(a, at.eq(v.sum(), v.sum())),
    lambda a, b, v: at.arange(a) + 1,
    lambda a, b, v: v[:a],
    lambda a, b, v: at.alloc(v[0], a, b).flatten(),
    lambda a, b, v: at.join(0, v, v[::-1]),
    lambda a, b, v: at.switch(v > a, v, b),
]


def draw_sizes(data):
    """Random vectors, and random sizes computed from values, shapes and both."""
    scalars, vectors = [n, m, shared(2)], [x]
    for _ in range(data.draw(st.integers(1, 8))):
        a, b, v = (data.draw(st.sampled_from(pool)) for pool in (scalars, scalars, vectors))
        made = data.draw(st.sampled_from(STEPS))(a, b, v)
        # Sizes stay small, and none is zero.
        made = at.cast(at.clip(made, 1, 4), "int64")
        (vectors if made.ndim else scalars).append(made)
    return [*scalars[3:], *vectors[1:]]


@examples(2)
@given(st.data())
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
def test_random_programs_depend_on_the_values_that_check_names(data):
    outputs = draw_sizes(data)
    found = deciding(jaxprgen.check([x, n, m], outputs))
    assert sorted(keys([x, n, m], outputs, [ONES, 2, 3])) == sorted(found)


def test_chains_are_shortest():
    size = n + 1
    double = size * 2
    values = at.arange(double)
    size.name, double.name, values.name = "size", "double", "values"
    found = jaxprgen.check([n], [values, at.zeros(double * 3)])
    (decision,) = found.deciding
    assert [node.name for node in decision.chain] == ["size", "double", "values"]
    assert decision.length == 3
    assert {node.line.rpartition(":")[0] for node in decision.chain} == {__file__}
    assert found.nodes[2:3] == decision.chain[2:]


def test_an_input_may_be_computed():
    """Then it is what counts, not what it is computed from."""
    size = n + 1
    size.name = "size"
    assert jaxprgen.check([size], at.arange(size)).static == ("size",)
    found = jaxprgen.check([size, n], at.arange(size) + n)
    assert found.static == ("size",)
    assert found.subset.inputs == (size, n)
    first, second = at.split(x, at.constant([2, 4]), 2, axis=0)
    subset = jaxprgen.check([x, first], [at.exp(first), second, Opaque()(x)]).subset
    assert subset.inputs == (x, first)
    jaxprgen.compile(subset.inputs, subset.outputs)
    thing = Opaque(generic)(x)
    (node,) = jaxprgen.check([thing], Opaque(at.dvector)(thing)).nodes
    assert node.verdict == "refused"


def test_a_rule_says_by_asking_what_decides(monkeypatch):
    """No table and no declaration repeats what rules do."""
    monkeypatch.setattr(registry, "_rules", registry._rules.copy())
    positions = Opaque(at.lvector)(x)
    assert jaxprgen.check([x], positions).nodes[0].verdict == "callback"
    jaxprgen.lowers(Opaque)(lambda ctx, x: x.astype(np.dtype(int)))
    assert jaxprgen.check([x], positions).static == ()
    jaxprgen.lowers(Opaque, override=True)(lambda ctx, x: ctx.static(0).astype(int))
    assert jaxprgen.check([x], positions).static == ("x",)


# --- Sizes --------------------------------------------------------------------------------


def test_undeclared_sizes_are_found_by_those_of_data():
    """In the product, the last axis of the data meets the parameters, and the first the others."""
    data, observed = shared(np.ones((100, 3))), shared(np.ones(100))
    weights, offsets = at.dvectors("weights", "offsets")
    loss = at.square(data @ (weights * 2.0) + offsets - observed).sum()
    outputs = [loss, *aesara.grad(loss, [weights, offsets])]
    assert {node.verdict for node in jaxprgen.check([weights, offsets], outputs).nodes} == {"jit"}
    other = at.constant(np.ones((4, 3)))
    assert {node.verdict for node in jaxprgen.check([X], X @ other).nodes} == {"jit"}


@pytest.mark.parametrize("output", [X.reshape((5, 7)), X[10, 12], X[:, 20:] + np.ones((3, 4))])
def test_sizes_that_no_one_declares_may_be_any(output):
    assert {node.verdict for node in jaxprgen.check([X], output).nodes} == {"jit"}


def test_a_node_that_runs_for_no_size_tried_is_unclear():
    """Nor for symbols: XLA transforms signals of known length only."""
    found = jaxprgen.check([X], fft.rfft(X[:, 9:]))
    verdicts = [node.verdict for node in found.nodes]
    assert verdicts.count("unclear") == 1
    assert found.compiles
    assert found.verdict == f"jit-able: all of {len(verdicts)} nodes, but 1 unclear"
    (node,) = (node for node in found.nodes if node.verdict == "unclear")
    assert node.reason.startswith("it may fail: with sizes chosen by `check`, ")
    assert node.remedy == "declare the sizes of the inputs in their types"


def test_a_rule_refuses_for_every_size():
    draw = RandomStream(1).poisson(3.0)
    found = jaxprgen.check([x], [at.exp(x), at.arange(draw)])
    assert [node.verdict for node in found.nodes].count("refused") == 1
    assert found.nodes[-1].reason.startswith("A shape depends on a random draw")
    assert found.nodes[-1].remedy == "Draw in a function of its own, and pass what it returns."
    assert not found.compiles
    assert found.subset.nodes == 1


def test_a_shape_inside_of_a_branch_is_found_there():
    head = x[:n]
    head.name = "head"
    found = jaxprgen.check([x, n, m], ifelse(m > 0, head.sum(), x[0]))
    assert [node.name for node in found.nodes if node.verdict == "static"] == ["head"]


# --- The subset ---------------------------------------------------------------------------


def test_the_subset_is_the_largest_stage():
    before = at.exp(x) * y
    kept = Opaque()(before)
    after = at.log(at.exp(at.cumsum(kept).sum() + n))
    subset = jaxprgen.check([x, y, n], [after, at.zeros(n)]).subset
    assert subset.inputs == (n, kept)
    assert subset.outputs[0] is after
    assert subset.nodes == 6

    longer = at.tanh(at.tanh(at.tanh(at.tanh(at.tanh(before)))))
    subset = jaxprgen.check([x, y], [kept, longer]).subset
    assert subset.inputs == (x, y)
    assert subset.outputs == (before, longer)


def test_what_does_not_depend_on_a_blocked_node_joins_the_later_stage():
    """Or the earlier one: the stages are counted from both ends."""
    beside = at.exp(at.exp(y))
    last = at.tanh(at.tanh(Opaque()(x)) + beside)
    subset = jaxprgen.check([x, y], last).subset
    assert subset.outputs == (last,)
    assert subset.nodes == 5
    assert [name_of(v) for v in subset.inputs] == ["y", "result of Opaque{result=None}"]


class TakeSlice(Op):
    """``x[index]``, for an index that is a variable."""

    __props__ = ()

    def make_node(self, x, index):
        return Apply(self, [x, index], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0][inputs[1]]


def test_a_slice_is_made_again_in_the_stage_that_uses_it(monkeypatch):
    monkeypatch.setattr(registry, "_rules", registry._rules.copy())
    jaxprgen.lowers(TakeSlice)(lambda ctx, x, index: x)
    stop, kept = Opaque()(n), Opaque()(at.exp(x))
    index = at.type_other.make_slice(None, stop, None)
    found = jaxprgen.check([x, n], at.exp(TakeSlice()(kept, index)))
    assert found.subset.inputs == (kept, stop)
    assert found.subset.nodes == 2
    jaxprgen.compile(found.subset.inputs, found.subset.outputs)


def test_the_whole_graph_is_the_subset_if_nothing_is_blocked():
    output = x + 1
    assert jaxprgen.check([x, y], [output, x]).subset == ((x, y), (output, x), 2)
    assert jaxprgen.check([y], [output]).subset == ((y, x), (output,), 2)


# --- Oddities -----------------------------------------------------------------------------


def test_missing_inputs_and_things_that_are_no_arrays_are_found():
    thing = generic()
    thing.name = "thing"
    found = jaxprgen.check([thing, n], [Opaque(at.dvector)(thing), x[:m], thing])
    assert found.missing == tuple((v.name, str(v.type), "missing input") for v in (m, x))
    assert [(odd.name, odd.role) for odd in found.no_arrays] == [
        ("thing", "input"),
        ("thing", "output"),
    ]
    assert found.static == ()
    assert [(d.name, d.role) for d in found.deciding] == [("m", "missing input")]
    assert not found.compiles
    assert found.subset.inputs == (m, x)
    assert str(found).splitlines()[-1] == (
        f"not jit-able as a whole: 1 of {len(found.nodes)} nodes blocked (1 refused); missing m "
        "and x; not an array: thing"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (([x], None), "Pass a FunctionGraph, or variables of a graph as inputs and outputs; "),
        (([x, 1], x), "the inputs contain 1."),
        ((FunctionGraph([x], [x + 1], clone=False), x), "A FunctionGraph has outputs of its own"),
        (([x], []), "The graph has no outputs: there is nothing to compute."),
        (([x, y, x], x), "x is given as an input twice."),
        (([at.constant(2.0)], x), "2.0 is a constant, not an input."),
    ],
)
def test_what_is_no_graph_is_an_error(given, text):
    assert text in "\n".join(refusal(InvalidGraphError, jaxprgen.check, *given))


def test_long_graphs():
    """A chain longer than Python's stack is deep, every hundredth node of it blocked."""
    length = amount(quick=2, deep=20) * sys.getrecursionlimit()
    value = n
    for i in range(length):
        value = Opaque()(value) if i % 100 == 99 else at.neg(value)
    found = jaxprgen.check([n], at.arange(value))
    assert len(found.nodes) == length + 1
    (decision,) = found.deciding
    assert decision.length == length + 1
    assert len(decision.chain) == 20
    assert decision.chain[-1] is found.nodes[-1]
    assert found.subset.nodes == 99
    assert len(str(found).splitlines()) < 100


# --- Text ---------------------------------------------------------------------------------


def text_of(inputs, outputs):
    """The report, with the texts of this file's lines instead of their numbers."""
    rows = [" ".join(row.split()) for row in str(jaxprgen.check(inputs, outputs)).splitlines()]
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1):
        rows = [row.replace(f"{__file__}:{number} ", f"[{line.strip()}] ") for row in rows]
    return rows


def test_text_of_a_mask():
    mask = x > 0
    kept = x[mask]
    kept.name = "kept"
    assert text_of([x], at.cumsum(kept)) == [
        "4 nodes: 3 jit, 1 static",
        "",
        "static [kept = x[mask]] AdvancedSubtensor -> kept",
        "its shape is decided by the value of x",
        "",
        "input x must be static:",
        "[mask = x > 0] Elemwise{gt,no_inplace}",
        "[kept = x[mask]] AdvancedSubtensor -> kept",
        "",
        "jit-able with x static: all of 4 nodes",
    ]


def test_text_of_sizes():
    stop = n + shared(1)
    values = at.arange(stop)
    chain = [
        "[stop = n + shared(1)] Elemwise{add,no_inplace}",
        "[values = at.arange(stop)] ARange{dtype='int64'}",
    ]
    assert text_of([n], values) == [
        "2 nodes: 1 jit, 1 static",
        "",
        "static [values = at.arange(stop)] ARange{dtype='int64'}",
        "its shape is decided by the value of n, held",
        "",
        "input n must be static:",
        *chain,
        "shared variable held decides a shape, so each of its values gets a program:",
        *chain,
        "",
        "jit-able with n static: all of 2 nodes",
    ]
    rows = str(jaxprgen.check([n], values)).splitlines()
    assert rows[2].startswith(f"static    {__file__}:")
    assert rows[3].startswith("          its shape")


def test_text_of_a_missing_input_and_of_equal_troubles():
    first = Opaque()(x)
    second = Opaque()(y)
    assert text_of([x], at.tanh(at.add(first, second))) == [
        "4 nodes: 2 jit, 2 callback",
        "",
        "callback [first = Opaque()(x)] Opaque{result=None}",
        "callback [second = Opaque()(y)] Opaque{result=None}",
        "no rule; its `perform` can run instead",
        'instead: jaxprgen.compile(..., fallback="callback"), or register a rule with '
        "@jaxprgen.lowers(Opaque)",
        "",
        f"missing y, a {y.type}",
        "",
        "largest part that can be compiled: 2 of 4 nodes",
        "from result of Opaque{result=None}, result of Opaque{result=None}",
        "to result of Elemwise{tanh,no_inplace}",
        "",
        "not jit-able as a whole: 2 of 4 nodes blocked (2 callback); missing y",
    ]


def test_long_lists_are_elided():
    value = n
    for _ in range(60):
        value = Opaque()(value)
    rows = str(jaxprgen.check([n], at.arange(value))).splitlines()
    assert rows[22:23] == ["    … 20 more …"]
    assert rows.count("    … 41 more …") == 1
