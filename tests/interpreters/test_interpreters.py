"""Interpreters: default rules compute what JAX does, own rules apply, and errors say where."""

import functools
from dataclasses import dataclass
from typing import Any

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from laws import all_equations
from messages import built, lines
from profiles import sample

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import (
    ArgumentCountError,
    DuplicateRuleError,
    InterpretationError,
    MissingRuleError,
)
from jaxprgen.interpreters import STEPWISE, TRACED, Domain, Interpreter, bind, refuse

KINDS = {"traced": TRACED, "stepwise": STEPWISE}


def interpreters():
    return [Interpreter(name, programs=programs) for name, programs in KINDS.items()]


# --- Evaluation --------------------------------------------------------------------------


def counted(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))


def until_large(x):
    return lax.while_loop(lambda y: jnp.abs(y) < 9, lambda y: 2 * y + 1, x)


def nested(x):
    def powers(c):
        return lax.fori_loop(0, 2, lambda i, c: c * i, c)

    def step(carry, row):
        carry = lax.cond(
            row > 1, lambda c: lax.fori_loop(0, 2, lambda i, c: c * i, c), jnp.tanh, carry
        )
        return carry + row, (carry, jnp.stack([row, carry.sum()]))

    return lax.scan(step, x, x[::-1], reverse=True, unroll=2)


def with_condition_each(x):
    """Each lane of the loop has its own condition."""
    return jax.vmap(until_large)(x), jax.vmap(jax.vmap(until_large))(x.reshape(2, -1))


@jax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvps(lambda t, _, x: 2 * t)


@jax.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, None), lambda _, ct: (ct / 2,))

x = jnp.linspace(-1.5, 2.0, 4)
table = at.dvector("v")
compiled = jaxprgen.compile([table], at.exp(-at.sum(table**2)) + at.arange(table.shape[0]))
NAMES = "abs sin tanh log1p cbrt sign sort argsort cumsum std max argmin diff flip isnan round"
FUNCTIONS = {name: getattr(jnp, name) for name in NAMES.split()} | {
    "identity": lambda x: x,
    "no argument": lambda x: (jnp.arange(3), 2.0, np.float32(1)),
    "the same twice": lambda x: [x, x, None, {"x": x}],
    "weak": lambda x: jnp.asarray(1.0) * 2 + x.astype(np.float32),
    "matmul": lambda x: jnp.outer(x, x) @ x,
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x.reshape(2, 2), x.reshape(2, 2)),
    "index": lambda x: (x[1], x[::2], x[jnp.array([0, -1])], x[x.argmax()]),
    "set": lambda x: (x.at[1].set(3), x.at[jnp.array([0, 0])].add(1), x.at[2:].multiply(x[:2])),
    "where": lambda x: jnp.where(x > 0, x, -x),
    "clip": lambda x: jnp.clip(x, 0, 1),
    "power": lambda x: (x**3, jnp.abs(x) ** 1.5, 2.0**x),
    "whole": lambda x: (x.astype(int) // 2, x.astype(int) % 3, x.astype(np.int8) << 1),
    "complex": lambda x: jnp.abs(jnp.exp(1j * x)),
    "pad": lambda x: jnp.pad(x, 2, mode="reflect"),
    "roll": lambda x: jnp.roll(x, 2),
    "convolve": lambda x: jnp.convolve(x, x),
    "fft": lambda x: jnp.fft.irfft(jnp.fft.rfft(x)),
    "solve": lambda x: jnp.linalg.solve(jnp.diag(x + 3) + 1, x),
    "cholesky": lambda x: jnp.linalg.cholesky(jnp.diag(x + 3)),
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(jnp.outer(x, x)),
    "logsumexp": jax.nn.logsumexp,
    "softmax": jax.nn.softmax,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "lgamma": jax.scipy.special.gammaln,
    "interpolate": lambda x: jnp.interp(x, jnp.arange(3.0), jnp.arange(3.0) ** 2),
    "search": lambda x: jnp.searchsorted(jnp.sort(x), 0.0),
    "top": lambda x: lax.top_k(x, 2),
    "random": lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
    "legacy key": lambda x: jax.random.uniform(jax.random.PRNGKey(1), x.shape),
    "jit": lambda x: jax.jit(lambda y: jax.jit(jnp.sin)(y) + y)(x),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(x) * x),
    "custom jvp": doubled,
    "custom vjp": halved,
    "derivative": jax.grad(lambda x: jnp.sum(jnp.sin(halved(doubled(x))) ** 2)),
    "hessian": jax.hessian(lambda x: jnp.sum(x**3)),
    "linearized": lambda x: jax.linearize(jnp.sin, x)[1](x),
    "transposed": jax.grad(lambda x: lax.scan(lambda c, r: (c * r, c), 1.0, x)[0]),
    "vmap": jax.vmap(lambda row: jnp.tanh(row) + 1),
    "counted": counted,
    "until": with_condition_each,
    "fori": lambda x: lax.fori_loop(0, 4, lambda i, y: y * i + x[i], x),
    "while up to": lambda x: lax.fori_loop(0, jnp.int32(x[-1]) + 2, lambda i, y: y + i, x),
    "scan": nested,
    "scan of nothing": lambda x: lax.scan(lambda c, r: (c + r, (c, r)), x[0], x[:0]),
    "scan without rows": lambda x: lax.scan(lambda c, _: (c * 2, None), x, length=3),
    "scan of jit": lambda x: lax.scan(jax.jit(lambda c, r: (c + r, c)), 0.0, x),
    "map": lambda x: lax.map(lambda y: jnp.sin(y), x),
    "associative": lambda x: lax.associative_scan(jnp.add, x),
    "cond": lambda x: lax.cond(x[0] < 0, lambda y: -y, lambda y: y + 1, x),
    "switch": lambda x: lax.switch(jnp.int32(x[-1]) + 7, [jnp.sin, jnp.cos, doubled], x),
    "cond each": lambda x: jax.vmap(lambda y: lax.cond(y < 0, jnp.sin, jnp.cos, y))(x),
    "emitted": compiled,
    "barrier": lambda x: lax.optimization_barrier((x, x + 1)),
}  # fmt: skip


ASKING = ("counted", "until", "while up to", "scan", "cond", "switch")
"""The functions whose control flow depends on values."""


def everything(x):
    return {name: f(x) for name, f in FUNCTIONS.items()}


def assert_alike(ours, theirs, rtol=0.0, weak=True):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    paths = jax.tree_util.tree_leaves_with_path(theirs)
    for got, (path, wanted) in zip(jax.tree.leaves(ours), paths, strict=True):
        assert jnp.shape(got) == jnp.shape(wanted) and got.dtype == wanted.dtype, path
        assert not weak or jax.typeof(got).weak_type == jax.typeof(wanted).weak_type, path
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol, err_msg=str(path))


def test_default_rules_compute_what_jax_does():
    assert len(FUNCTIONS) >= 60
    closed, shapes = jax.make_jaxpr(everything, return_shape=True)(x)

    def evaluated(x):
        outputs = _jax.eval_jaxpr(closed, [x])
        return jax.tree.unflatten(jax.tree.structure(shapes), outputs)

    traced, stepwise = interpreters()
    decided = {name: f for name, f in FUNCTIONS.items() if name not in ASKING}

    def each(x):
        return {name: stepwise(f)(x) for name, f in decided.items()}

    def all_three(x):
        return evaluated(x), traced(everything)(x), each(x)

    wanted, ours, others = jax.jit(all_three)(x)
    assert_alike(ours, wanted, 1e-12)
    assert_alike(others, {name: wanted[name] for name in decided}, 1e-12, weak=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*ASKING, "solve"])
def test_control_flow_on_concrete_values(name, kind):
    f = FUNCTIONS[name]
    assert_alike(Interpreter(kind, programs=KINDS[kind])(f)(x), f(x), 1e-12)


def loss(parameters, rows, *, scale=1.0):
    def step(h, row):
        h = jnp.tanh(parameters["W"] @ row + h) * scale
        return lax.cond(h[0] > 0, lambda h: h, lambda h: h / 2, h), jnp.sin(h)

    last, outs = lax.scan(step, jnp.zeros(2), rows)
    return jnp.sum(last) + jnp.sum(until_large(outs[0, 0])) + jnp.sum(outs**2)


PARAMETERS = {"W": np.array([[0.3, -0.5], [0.2, 1.0]]), "unused": None}
ROWS = np.arange(6.0).reshape(3, 2) / 5


def smooth(parameters, rows):
    return jnp.sum(nested(parameters["W"] @ rows[0])[0] * rows[1])


def counted_steps(parameters, rows):
    """A function whose control flow depends on no value."""
    return lax.scan(lambda h, row: (jnp.tanh(parameters["W"] @ row + h), h), rows[0], rows)[0][0]


TWICE = np.stack([ROWS, ROWS + 1])
CHANGES = {
    "jit": (jax.jit, ROWS, loss),
    "vmap": (lambda f: jax.vmap(f, (None, 0)), TWICE, loss),
    "jacfwd": (jax.jacfwd, ROWS, loss),
    "keywords": (lambda f: functools.partial(f, scale=0.5), ROWS, loss),
    "grad": (lambda f: jax.grad(f, 1), ROWS, smooth),
    "hessian": (lambda f: jax.hessian(f, 1), ROWS, smooth),
}


def test_jax_transformations_compose_with_interpreters():
    """Transform interpreted functions, and interpret transformed ones."""
    traced, stepwise = interpreters()

    def results(parameters):
        found = {}
        for name, (change, rows, f) in sample(CHANGES.items(), 4):
            of_traced = change(traced(f)), traced(change(f))
            found[name] = [(g(parameters, rows), change(f)(parameters, rows)) for g in of_traced]
            if name != "keywords":
                ours, theirs = change(stepwise(counted_steps)), change(counted_steps)
                found[name].append((ours(parameters, rows), theirs(parameters, rows)))
        return found

    for pairs in jax.jit(results)(PARAMETERS).values():
        for ours, theirs in pairs:
            assert_alike(ours, theirs, 1e-10)
    assert traced(loss).__name__ == "loss"


def test_programs_and_compiled_functions_are_interpreted():
    (traced, stepwise) = interpreters()
    closed = compiled.jaxpr(x)
    for interpreter in (traced, stepwise):
        (found,) = interpreter(closed)(x)
        assert_alike(found, compiled(x), 1e-14)
    assert lines(ArgumentCountError, traced(closed), x, x) == [
        "The jaxpr takes 1 argument, but 2 were given."
    ]


def test_equations_keep_names_and_lines():
    def f(y):
        with jax.named_scope("inner"):
            return jnp.exp(y) + lax.fori_loop(0, 2, lambda _, y: jnp.sin(y), y)

    closed, again = (jax.make_jaxpr(g)(x) for g in (f, Interpreter("same")(f)))
    for name in ("exp", "sin"):
        old, new = (
            next(e for e in all_equations(c.jaxpr) if e.primitive.name == name)
            for c in (closed, again)
        )
        assert _jax.frame_of(new.source_info) == _jax.frame_of(old.source_info)
        assert "inner" in str(new.source_info.name_stack) or name == "sin"


# --- Rules -------------------------------------------------------------------------------


def test_rules_apply_in_inner_programs_and_once():
    shifted = Interpreter("shifted")

    @shifted.rule("sin")
    def cosine(context, x, **params):
        assert context.primitive == "sin" and context.interpreter == "shifted"
        assert context.avals_in == context.avals_out == [jax.typeof(x)] or context.within
        return jnp.cos(x)

    def f(x, sin):
        inside = lax.scan(lambda c, r: (sin(c) + r, lax.cond(r > 0, sin, jnp.tan, r)), 0.3, x)
        return sin(x), jax.jit(sin)(x), counted_with(sin, x), inside

    def counted_with(sin, x):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, sin(s[1])), (0, x))

    found = shifted(functools.partial(f, sin=jnp.sin))(x)
    assert_alike(found, f(x, jnp.cos), 1e-12)
    assert shifted.table == {"sin": cosine}
    assert repr(shifted) == "<interpreter 'shifted', 1 rules>"


def test_a_rule_can_change_parameters_and_run_programs():
    """One rule keeps calls, another reverses cumulative sums."""
    other = Interpreter("other")

    @other.rule(_jax.jit_p)
    def call(context, *operands, jaxpr, name, **params):
        return jax.jit(functools.partial(context.run, jaxpr))(*operands)

    @other.rule("cumsum")
    def backwards(context, x, **params):
        return bind(context, x, **{**params, "reverse": not params["reverse"]})

    def f(x):
        return jax.jit(lambda x: jnp.sin(lax.cumsum(x)))(x)

    closed = jax.make_jaxpr(other(f))(x)
    assert [e.primitive.name for e in closed.jaxpr.eqns] == ["jit"]
    assert_alike(other(f)(x), jnp.sin(lax.cumsum(x, reverse=True)), 1e-14)


def test_registering_twice_is_an_error():
    mine = Interpreter("mine")
    mine.rules({"sin": bind, "cos": bind})
    message = [
        "The interpreter 'mine' already has a rule for cos, sin; pass override=True to replace it."
    ]
    assert (
        lines(DuplicateRuleError, mine.rules, dict.fromkeys(["tan", "cos", "sin"], refuse))
        == message
    )
    assert lines(DuplicateRuleError, mine.rule("cos", "sin"), refuse) == message
    assert mine.table == {"sin": bind, "cos": bind}
    mine.rule("sin", override=True)(refuse)
    assert mine.table == {"sin": refuse, "cos": bind}
    # Replacing a built-in rule, such as the one that inlines calls, needs no override.
    mine.rules({"jit": bind})
    assert_alike(mine(jax.jit(jnp.sin))(x), jnp.sin(x))


# --- Values of one's own -----------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclass
class Dual:
    """A number and its derivative."""

    value: Any
    slope: Any

    @property
    def shape(self):
        return jnp.shape(self.value)

    @property
    def dtype(self):
        return jnp.result_type(self.value)


class Duals(Domain):
    value_type = Dual

    def lift(self, x, aval):
        x = jnp.asarray(x, aval.dtype)
        return Dual(x, jnp.zeros_like(x))

    def array(self, value):
        return value.value


def differentiated(context, *operands, **params):
    """Apply the primitive's JVP rule."""

    def apply(*values):
        return bind(context, *values, **params)

    values, slopes = [x.value for x in operands], [x.slope for x in operands]
    slopes = [
        s if jnp.issubdtype(x.dtype, np.inexact) else np.zeros(x.shape, jax.dtypes.float0)
        for x, s in zip(values, slopes, strict=True)
    ]
    value, slope = jax.jvp(apply, tuple(values), tuple(slopes))
    if slope.dtype == jax.dtypes.float0:
        slope = jnp.zeros_like(value)
    return Dual(value, slope)


@pytest.mark.parametrize("kind", KINDS)
def test_values_may_be_pytrees(kind):
    dual = Interpreter("dual", Duals(), default=differentiated, programs=KINDS[kind])

    def f(x, *, factor):
        return {"y": (nested(jnp.sin(x))[0] * factor, x)}

    slopes = jnp.cos(x)
    value, slope = jax.jvp(lambda x: f(x, factor=2.0), (x,), (slopes,))
    found = dual(f)(Dual(x, slopes), factor=2.0)
    is_dual = dual.domain.is_value
    assert_alike(jax.tree.map(lambda d: d.value, found, is_leaf=is_dual), value, 1e-12)
    assert_alike(jax.tree.map(lambda d: d.slope, found, is_leaf=is_dual), slope, 1e-12)


class Either(Domain):
    """Sets of integers."""

    value_type = frozenset

    def lift(self, x, aval):
        return frozenset([int(x)])

    def stand_in(self, x):
        return np.int64(0) if isinstance(x, frozenset) else x

    def choices(self, value):
        return sorted(value)

    def join(self, first, second):
        return first | second


def each(context, *operands, **params):
    """Compute a primitive for every combination of integers."""
    found = {()}
    for x in operands:
        found = {(*before, y) for before in found for y in x}
    types = [aval.dtype for aval in context.avals_in]
    return frozenset(
        int(bind(context, *(t.type(y) for t, y in zip(types, row, strict=True)), **params))
        for row in found
    )


def test_undecided_branches_and_loops_are_joined(monkeypatch):
    either = Interpreter("either", Either(), default=each, programs=STEPWISE)

    def f(n, m):
        y = lax.switch(n, [lambda m: m + 1, lambda m: m * 10, lambda m: m * 100], m)
        return lax.while_loop(lambda y: y < 6, lambda y: y * 2 + 1, y)

    found = either(f)(frozenset([0, 1, 7]), frozenset([1, 2]))
    assert found >= {int(f(n, m)) for n in (0, 1, 7) for m in (1, 2)}
    assert either(f)(frozenset([1]), frozenset([0])) == {int(f(1, 0))}
    monkeypatch.setattr("jaxprgen.ir.evaluate.UNDECIDED", 5)
    forever = either(lambda n: lax.while_loop(lambda y: y != 0, lambda y: -y, n))
    assert lines(InterpretationError, forever, frozenset([0, 1]))[:2] == [
        "The condition of this loop is still undecided after 5 iterations.",
        "Limit the number of iterations, for example with lax.fori_loop.",
    ]


def test_a_value_without_shape_is_an_error():
    class Sets(Domain):
        value_type = frozenset

    sets = Interpreter("sets", Sets(), default=each)
    assert lines(InterpretationError, sets(jnp.sin), frozenset([1])) == [
        "A value of class frozenset has no shape or no dtype.",
        "Give the class both attributes: those of the array that the value stands for.",
    ]


def test_a_rule_is_told_the_name_of_the_primitive():
    seen = []
    spy = Interpreter("spy", default=lambda context, *xs, **params: seen.append(context) or xs[0])
    spy(jnp.sin)(x)
    assert [context.primitive for context in seen] == ["sin"]


def test_a_domain_without_join_is_an_error():
    class Unjoined(Either):
        join = Domain.join

    either = Interpreter("either", Unjoined(), default=each, programs=STEPWISE)
    found = lines(
        InterpretationError,
        either(lambda n: lax.cond(n > 1, lambda n: n + 1, lambda n: n - 1, n)),
        frozenset([1, 2]),
    )
    assert found[:2] == [
        "A branch or a loop depends on a value that is not decided.",
        "Define join(first, second) in the domain: a value that stands for either.",
    ]
    assert found[2].startswith("  as ")


# --- Errors ------------------------------------------------------------------------------


def test_a_missing_rule_is_an_error():
    strict = Interpreter("strict", default=refuse)

    def f(y):
        return jnp.sin(y) + 1

    assert lines(MissingRuleError, strict(f), x) == [
        "The interpreter 'strict' has no rule for sin.",
        'Register one with @strict.rule("sin"), on a function of (context, *operands, **params).',
        "  as sin.1:f64[4] = sin y",
        "  " + built("return jnp.sin(y) + 1", "test_a_missing_rule_is_an_error.<locals>.f"),
    ]
    assert issubclass(MissingRuleError, NotImplementedError)


def test_errors_in_rules_are_located():
    """The rules fail in a loop inside a call; the message has one location."""
    bad = Interpreter("bad", programs=STEPWISE)

    @bad.rule("sin")
    def rule(context, y, **params):
        return {}["no such key"] if context.within[-1].iteration else y

    @bad.rule("sort")
    def single(context, *operands, **params):
        return operands[0] if context.within else operands * 2

    def f(y):
        def step(c, row):
            return c + jnp.sin(row), lax.sort(row[None])

        return jax.jit(lambda y: lax.scan(step, 0.0, y)[0])(y)

    function = "test_errors_in_rules_are_located.<locals>.f.<locals>.step"
    line = "  " + built("return c + jnp.sin(row), lax.sort(row[None])", function)
    assert lines(InterpretationError, bad(f), x) == [
        "The rule of the interpreter 'bad' for sort returned one ArrayImpl.",
        "Return a list of 1: one for each result of the equation.",
        "  in iteration 0 of scan",
        "  as sort.1:f64[1] = sort[dimension=0 is_stable=True num_keys=1] broadcast_in_dim.1",
        line,
    ]
    bad.rule("sort", override=True)(bind)
    assert lines(InterpretationError, bad(f), x) == [
        "The interpreter 'bad' failed at sin: KeyError: 'no such key'",
        "  in iteration 1 of scan",
        "  as sin.1:f64[] = sin row",
        line,
    ]
    bad.rule("sort", override=True)(single)
    assert lines(InterpretationError, bad(lambda y: lax.sort(y)), x)[:2] == [
        "The rule of the interpreter 'bad' for sort returned 2 values.",
        "Return a list of 1: one for each result of the equation.",
    ]


def test_errors_in_compiled_functions_have_the_lines_of_the_graph():
    strict = Interpreter("strict", default=refuse)
    v = at.dvector("v")
    angle = at.arctan(v)
    f = jaxprgen.compile([v], angle * 2)
    for found in (strict(f), strict(f.jaxpr(x))):
        text = lines(MissingRuleError, found, x)
        assert text[0] == "The interpreter 'strict' has no rule for atan."
        assert text[-1] == "  " + built(
            "angle = at.arctan(v)", text[-1].split(", in ")[1].split(":")[0]
        )


def test_stepwise_control_flow_needs_concrete_values():
    (_, stepwise) = interpreters()
    found = lines(InterpretationError, jax.jit(stepwise(until_large)), 1.0)
    assert found[:2] == [
        "A branch or a loop depends on a value that is abstract while JAX traces.",
        "Call the function outside of JAX's transformations, or interpret it with programs=TRACED.",
    ]
    assert found[-1] == "  " + built("return lax.while_loop(lambda y: jnp.abs(y)", "until_large")


def test_primitives_whose_results_are_no_list_stay_as_they_are():
    """JAX returns the results of ``shard_map`` in a class of its own."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    split, whole = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()

    def parts(x):
        return x * 2, jax.lax.psum(x.sum(), "d")

    for results, specs in ((parts, (split, whole)), (lambda x: parts(x)[0], split)):
        f = jax.shard_map(results, mesh=mesh, in_specs=split, out_specs=specs)
        identity = Interpreter("identity")(f)
        for g in (identity, jax.jit(identity), Interpreter("outer")(identity)):
            pairs = jax.tree.map(np.array_equal, g(jnp.arange(4.0)), f(jnp.arange(4.0)))
            assert jax.tree.all(pairs)
