"""`Pipeline(validate=True)`: passes change no more than their classes of meaning allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType

import jaxprgen
from jaxprgen._jax import Primitive
from jaxprgen.errors import PassError
from jaxprgen.passes import (
    DEFAULT,
    AssociativeScan,
    CostModel,
    DistributeScan,
    EliminateDeadCode,
    Meaning,
    Pipeline,
    ReduceInScan,
    Simplify,
    Stabilize,
    VmapRepeats,
    defaults,
)
from jaxprgen.passes.inputs import inputs_of
from jaxprgen.passes.meaning import meaning_of
from jaxprgen.passes.observers import Print

ORDER = list(Meaning)
vector = np.zeros(12)


def replacing(other, meaning=None):
    """Return a pass that replaces any program by that of a function."""

    def rewrite(closed):
        return jax.make_jaxpr(other)(*closed.in_avals)

    if meaning is not None:
        rewrite.meaning = meaning
    return rewrite


def validated(f, other, meaning, *args):
    return Pipeline((replacing(other, meaning),), validate=True)(jax.make_jaxpr(f)(*args))


def message(f, other, meaning, *args):
    with pytest.raises(PassError) as error:
        validated(f, other, meaning, *args)
    return str(error.value)


@pytest.fixture
def at_once(monkeypatch):
    """Do not look for simpler inputs."""
    monkeypatch.setattr("jaxprgen.passes.validation.MOST_TRIALS", 1)


@pytest.fixture
def few_equations(monkeypatch):
    monkeypatch.setattr("jaxprgen.passes.validation.MOST_EQUATIONS", 1000)


def is_allowed(f, other, meaning, *args):
    try:
        validated(f, other, meaning, *args)
    except PassError:
        return False
    return True


# --- Classes ------------------------------------------------------------------------------


def in_order(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def summed(a):
    return in_order([jnp.exp(a[i]) for i in range(12)])


def differences(a, b):
    return in_order([a[i] - b[i] for i in range(12)])


def pluses_and_minuses(a, b):
    total = 0.0
    for i in range(12):
        total = total + a[i] - b[i]
    return total


# Two functions that are equal on paper, and the classes that allow to replace the first by the
# second: in order, "same bits", "same terms", "better" and "same reals".
ONE, TWO, THREE = [vector], [vector] * 2, [vector] * 3
PAIRS = {
    "the same": (jnp.sin, lambda x: jnp.sin(jnp.asarray(x)), ONE, "1111"),
    "swapped operands": (lambda a, b: a + b, lambda a, b: b + a, TWO, "1111"),
    "another order of terms": (
        summed,
        lambda a: jnp.exp(a).reshape(3, 4).sum(0).sum(),
        ONE,
        "0111",
    ),
    "a backward sum": (summed, lambda a: in_order(jnp.exp(a)[::-1]), ONE, "0111"),
    "dots": (lambda a, b: a @ b, lambda a, b: in_order((a * b)[::-1]), TWO, "0111"),
    "sums apart": (differences, lambda a, b: a.sum() - b.sum(), TWO, "0001"),
    "signs apart": (pluses_and_minuses, lambda a, b: a.sum() - b.sum(), TWO, "0001"),
    "parentheses moved": (
        lambda x, a, b: jnp.sin(x + (a - b)),
        lambda x, a, b: jnp.sin((x + a) - b),
        THREE,
        "0001",
    ),
    "sign of zero": (lambda x: x + 0.0, lambda x: x, ONE, "0111"),
    "softplus": (lambda x: jnp.log(1 + jnp.exp(x)), lambda x: jnp.logaddexp(x, 0), ONE, "0111"),
    "unstable": (lambda x: jnp.logaddexp(x, 0), lambda x: jnp.log(1 + jnp.exp(x)), ONE, "0001"),
    "log1p": (lambda x: jnp.log(1 + x * x), lambda x: jnp.log1p(x * x), ONE, "0111"),
    "inaccurate": (lambda x: jnp.log1p(x * x), lambda x: jnp.log(1 + x * x), ONE, "0001"),
    "variance": (
        lambda x: jnp.mean((x - jnp.mean(x)) ** 2),
        lambda x: jnp.mean(x**2) - jnp.mean(x) ** 2,
        ONE,
        "0001",
    ),
    "a lost NaN": (lambda x: x * 0.0, lambda x: x * 0.0 + 0.0 * jnp.nan_to_num(x), ONE, "1111"),
    "no NaN": (lambda x: 0.0 * x, jnp.zeros_like, ONE, "0011"),
    "wrong": (jnp.sin, jnp.cos, ONE, "0000"),
    "wrong at one element": (jnp.sin, lambda x: jnp.sin(x).at[7].add(1e-9), ONE, "0000"),
    "wrong in one output": (lambda x: (x, jnp.exp(x)), lambda x: (x, jnp.exp2(x)), ONE, "0000"),
    "wrong where equal": (jnp.abs, lambda x: jnp.where(x == 1, 5.0, jnp.abs(x)), ONE, "0001"),
    "wrong integers": (lambda i: i // 2, lambda i: i >> 2, (np.arange(3),), "0000"),
    "wrong at a bound": (
        lambda i: jnp.abs(i),
        lambda i: jnp.where(i == np.iinfo(np.int32).max, 0, jnp.abs(i)),
        (np.arange(12, dtype=np.int32),),
        "0001",
    ),
    "wrong booleans": (jnp.logical_not, lambda b: b, (np.ones(3, bool),), "0000"),
    "another draw": (
        lambda k: jax.random.normal(k),
        lambda k: jax.random.normal(jax.random.fold_in(k, 0)),
        (jax.random.key(0),),
        "0000",
    ),
    "complex": (lambda z: z * z, lambda z: z * z + 1e-9, (vector + 0j,), "0000"),
    "a conjugate": (jnp.conj, lambda z: z, (vector + 0j,), "0000"),
    "float32": (
        differences,
        lambda a, b: a.sum() - b.sum(),
        [np.zeros(12, np.float32)] * 2,
        "0001",
    ),
    "float16": (
        lambda a, b: pluses_and_minuses(a, b).astype(np.float16),
        lambda a, b: (a.sum() - b.sum()).astype(np.float16),
        [np.zeros(12, np.float16)] * 2,
        "0001",
    ),
    "bfloat16": (lambda x: x / 3, lambda x: 0.4 * x, (jnp.zeros(12, jnp.bfloat16),), "0000"),
    "in a loop": (
        lambda a: lax.scan(lambda c, r: (c + jnp.log1p(r * r), r), 0.0, a),
        lambda a: lax.scan(lambda c, r: (c + jnp.log(1 + r * r), r), 0.0, a),
        ONE,
        "0001",
    ),
    "nothing": (lambda: jnp.sin(1.0), lambda: jnp.cos(1.0), (), "0000"),
    "empty arrays": (jnp.sin, jnp.cos, (np.zeros((0, 3)),), "1111"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_class_allows_what_it_says(name, at_once):
    f, other, args, expected = PAIRS[name]
    found = "".join("01"[is_allowed(f, other, meaning, *args)] for meaning in ORDER)
    assert found == expected


def test_a_program_that_ended_must_end(few_equations):
    def f(n):
        return lax.while_loop(lambda i: i < n, lambda i: i + 1, 0)

    def endless(n):
        return lax.while_loop(lambda i: i != n, lambda i: i + 1, 0)

    with pytest.raises(PassError, match=r"takes more than \d+ equations, and may not end"):
        validated(f, endless, None, np.int64(3))


def test_a_pass_of_ones_own_must_keep_effects_too():
    def f(x):
        jax.debug.print("here")
        return jnp.sin(x)

    assert "changed the effects of the program" in message(f, jnp.sin, None, vector)


# --- Declarations -------------------------------------------------------------------------


def test_a_pass_declares_its_class():
    assert meaning_of(Stabilize()) is Meaning.BETTER
    assert meaning_of(VmapRepeats()) is Meaning.SAME_BITS
    assert meaning_of(VmapRepeats(reassociate=True)) is Meaning.SAME_TERMS
    assert meaning_of(Simplify(reassociate=True)) is Meaning.SAME_REALS
    assert meaning_of(lambda closed: closed) is Meaning.SAME_BITS
    for name in jaxprgen.passes.__all__:
        kind = getattr(jaxprgen.passes, name)
        if hasattr(kind, "__dataclass_fields__") and kind not in (CostModel, Pipeline):
            assert any("meaning" in vars(base) for base in kind.__mro__), name


def test_no_default_pass_preserves_only_the_reals():
    assert Meaning.SAME_REALS not in map(meaning_of, DEFAULT)


# --- Errors -------------------------------------------------------------------------------


def test_the_error_shows_the_smallest_difference_found():
    def f(a, b):
        return a, a * b

    def wrong(a, b):
        return a, jnp.where(jnp.arange(12) == 5, a * b + 1, a * b)

    text = message(f, wrong, Meaning.SAME_TERMS, vector, np.zeros(12, np.float32))
    assert text.splitlines() == [
        "The pass rewrite changed what the program computes. Its class is same terms: sums are "
        "added in another order; nothing overflows or cancels that did not before.",
        "Output 1 at [5] is 0.0 before the pass and 1.0 after it, which may differ by 2.2e-305, "
        "for",
        "  a: float64[12] = 12 × 0.0",
        "  b: float32[12] = 12 × 0.0",
        "Correct the pass, or declare as its attribute `meaning` a class of "
        "jaxprgen.passes.Meaning that allows this.",
    ]


def test_inputs_are_simplified_as_far_as_they_still_show_it():
    text = message(
        lambda x: jnp.sum(x), lambda x: jnp.sum(jnp.where(x > 20, 0.0, x)), Meaning.BETTER, vector
    )
    (line,) = (line for line in text.splitlines() if line.startswith("  x: "))
    parts = line.removeprefix("  x: float64[12] = ").split(", ")
    assert len(parts) <= 4 and any(float(part.split()[-1]) > 20 for part in parts)


def test_the_error_names_one_pass_of_several():
    closed = jax.make_jaxpr(summed)(vector)
    passes = (EliminateDeadCode(), Pipeline((replacing(jnp.sum),)), EliminateDeadCode())
    with pytest.raises(PassError, match="The pass rewrite changed what the program computes"):
        Pipeline(passes, validate=True)(closed)
    assert Pipeline(passes)(closed) is not closed


def test_a_default_pass_that_changes_values_raises(monkeypatch):
    wrong = replacing(jnp.cos)
    monkeypatch.setitem(defaults._made, id(wrong), wrong)
    with pytest.raises(PassError):
        Pipeline((wrong,), validate=True)(jax.make_jaxpr(jnp.sin)(vector))


def test_a_program_that_fails_after_a_pass_is_an_error():
    def failing(closed):
        eqn = closed.jaxpr.eqns[0]
        other = Primitive("unknown")
        other.def_abstract_eval(lambda x: x)
        eqns = [eqn.replace(primitive=other, params={})]
        return type(closed)(closed.jaxpr.replace(eqns=eqns), closed.consts)

    closed = jax.make_jaxpr(jnp.sin)(vector)
    with pytest.raises(PassError, match="after the pass fails \\(NotImplementedError\\)"):
        Pipeline((failing,), validate=True)(closed)


# --- Programs that are not compared -------------------------------------------------------


def prints(x):
    jax.debug.print("here")
    return jnp.log(1 + jnp.exp(x))


def calls_back(x):
    y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return jnp.log(1 + jnp.exp(y))


def long(x):
    return lax.fori_loop(0, 10**6, lambda i, y: jnp.log(1 + jnp.exp(y)), x)


def symbolic(f):
    (n,) = jax.export.symbolic_shape("n")
    return jax.make_jaxpr(f)(jax.ShapeDtypeStruct((n,), np.float64))


def on_a_mesh(f):
    mesh = jax.make_mesh((2,), ("d",), (AxisType.Explicit,))
    kind = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    with jax.sharding.use_mesh(mesh) if hasattr(jax.sharding, "use_mesh") else jax.set_mesh(mesh):
        return jax.make_jaxpr(f)(jax.ShapeDtypeStruct((12,), np.float64, sharding=kind))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: jax.make_jaxpr(prints)(vector), "it has effects"),
        (lambda: jax.make_jaxpr(calls_back)(vector), "it calls Python"),
        (lambda: jax.make_jaxpr(long)(vector), "it takes too many equations"),
        (lambda: symbolic(lambda x: jnp.log(1 + jnp.exp(x))), "its sizes are symbolic"),
        (lambda: on_a_mesh(jnp.sin), "its values are split over a mesh"),
    ],
)
def test_a_record_says_why_programs_are_not_compared(make, reason, few_equations, capsys):
    closed, seen = make(), []

    def copied(closed):
        return type(closed)(closed.jaxpr.replace(), closed.consts)

    def observer(record):
        seen.append(record)
        Print()(record)

    Pipeline((copied,), observer, validate=True)(closed)
    assert [r.not_validated for r in seen] == [reason]
    assert capsys.readouterr().out.endswith(f", results not compared: {reason}\n")


def test_programs_that_read_traced_values_are_not_compared():
    seen = []

    def f(c):
        inner = jaxprgen.transform(
            lambda x: jnp.log(1 + jnp.exp(c * x)), Pipeline((Stabilize(),), seen.append, True)
        )
        return inner(vector)

    jax.jit(f)(2.0)
    assert [r.not_validated for r in seen] in (["JAX is tracing its constants"], [""])


def test_validation_works_while_jax_traces():
    f = jaxprgen.transform(lambda x: jnp.log(1 + jnp.exp(x)), Pipeline(DEFAULT, validate=True))
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: f(x).sum()))(vector), 0.5)


def test_validation_works_without_x64():
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        closed = jax.make_jaxpr(lambda x, i: jnp.log(1 + jnp.exp(x)) * i)(np.float32(1), 2)
        assert Pipeline(DEFAULT, validate=True)(closed) is not closed


def test_inputs_are_the_same_every_time():
    avals = jax.make_jaxpr(lambda *xs: xs)(vector, np.int32(1), True, vector + 1j).in_avals
    one, two = (list(inputs_of(avals)) for _ in range(2))
    for x, y in zip(one, two, strict=True):
        assert all(map(np.array_equal, map(repr, x.values), map(repr, y.values)))
        for value, aval in zip(x.values, avals, strict=True):
            assert (value.shape, value.dtype) == (aval.shape, aval.dtype)


# --- Passes of this package -----------------------------------------------------------------


def stable(x):
    return jnp.log(1 + jnp.exp(x)), 1 - lax.erf(x), jnp.log(jnp.sum(jnp.exp(x)))


def reduced(x):
    def step(c, r):
        c = jnp.tanh(0.9 * c + jnp.exp(r))
        return c, jnp.sin(c) * jnp.exp(r)

    return lax.scan(step, 0.0, x)[1].sum()


@pytest.mark.parametrize(
    ("f", "rewrite"),
    [
        (stable, Stabilize()),
        (jax.jacobian(stable), Stabilize()),
        (summed, VmapRepeats(reassociate=True)),
        (reduced, DistributeScan(reassociate=True)),
        (reduced, ReduceInScan(reassociate=True)),
        (
            lambda x: lax.scan(lambda c, r: (0.9 * c + r, c), 0.0, x),
            AssociativeScan(reassociate=True),
        ),
    ],
)
def test_passes_of_this_package_keep_their_classes(f, rewrite):
    closed = jax.make_jaxpr(f)(vector)
    assert Pipeline((rewrite,), validate=True)(closed) is not closed
