"""Parameters that a pattern leaves out have the values that `jax.lax` gives them by default."""

from collections import Counter

import jax
import numpy as np
import pytest
from jax import lax

from jaxprgen import _jax
from jaxprgen.errors import DuplicateRuleError, InvalidRuleError
from jaxprgen.rewrite import apply, explain, rule, table, terms
from jaxprgen.rewrite.graph import Graph
from jaxprgen.rewrite.matching import Matcher
from jaxprgen.rewrite.terms import NOTHING, Param, Product, Variable, primitive, variables

ACCURATE = getattr(lax, "AccuracyMode", None) and lax.AccuracyMode.HIGHEST

f32 = jax.ShapeDtypeStruct((4, 4), "float32")
image = jax.ShapeDtypeStruct((1, 1, 4, 4), "float32")
whole = jax.ShapeDtypeStruct((4, 4), "int32")
scalar = jax.ShapeDtypeStruct((), "float32")
place = jax.ShapeDtypeStruct((), "int32")
matrix = (((1,), (0,)), ((), ()))
numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
scattered = lax.ScatterDimensionNumbers((1,), (0,), (0,))
rows = jax.ShapeDtypeStruct((3, 1), "int32")
updates = jax.ShapeDtypeStruct((3, 4), "float32")

BY_DEFAULT = {
    **{
        name: (getattr(lax, name), f32)
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "tanh"),
            *("sqrt", "rsqrt", "cbrt", "conj", "cumsum", "cumprod", "cummax", "cummin"),
            *("cumlogsumexp", "sort", "round", "log2"),
        )
        if hasattr(lax, name)
    },
    "mul": (lax.mul, f32, f32),
    "erfc": (lax.erfc, f32),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), f32),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 3), f32),
    **{
        name: (lambda x, name=name: getattr(lax, name)(x, (1,)), f32)
        for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")
    },
    **{
        name: (lambda x, name=name: getattr(lax, name)(x, (1,)), whole)
        for name in ("reduce_and", "reduce_or", "reduce_xor")
    },
    "argmax": (lambda x: lax.argmax(x, 0, "int32"), f32),
    "argmin": (lambda x: lax.argmin(x, 0, "int32"), f32),
    "convert_element_type": (lambda x: lax.convert_element_type(x, "float16"), f32),
    "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, "int32"), f32),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 4, 4), (1, 2)), f32),
    "reshape": (lambda x: lax.reshape(x, (2, 8)), f32),
    "rev": (lambda x: lax.rev(x, (0,)), f32),
    "squeeze": (lambda x: lax.squeeze(x, (0,)), image),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), f32),
    "slice": (lambda x: lax.slice(x, (0, 1), (2, 3)), f32),
    "pad": (lambda x, y: lax.pad(x, y, ((1, 0, 0), (0, 0, 1))), f32, scalar),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 1), f32, f32),
    "dynamic_slice": (lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 2)), *(f32, place, place)),
    "gather": (lambda x, i: lax.gather(x, i, numbers, (1, 4)), f32, rows),
    **{
        name: (
            lambda x, i, y, name=name: getattr(lax, name)(x, i, y, scattered),
            f32,
            rows,
            updates,
        )
        for name in ("scatter", "scatter_add", "scatter_mul", "scatter_max", "scatter_min")
    },
    "dot_general": (lambda x, y: lax.dot_general(x, y, matrix), f32, f32),
    "conv_general_dilated": (
        lambda x, y: lax.conv_general_dilated(x, y, (1, 1), ((0, 0), (0, 0))),
        *(image, image),
    ),
    "triangular_solve": (lax.linalg.triangular_solve, f32, f32),
}
"""Calls of `jax.lax` without options, by the primitives of which they make an equation."""


OPTIONS = {
    "a reversed sum": ("cumsum", lambda x: lax.cumsum(x, reverse=True), f32),
    "a sum along columns": ("cumsum", lambda x: lax.cumsum(x, axis=1), f32),
    "a sort along rows": ("sort", lambda x: lax.sort(x, 0), f32),
    "a sort that is not stable": ("sort", lambda x: lax.sort(x, is_stable=False), f32),
    "rounding to even": ("round", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), f32),
    "a precise product": (
        "dot_general",
        lambda x, y: lax.dot_general(x, y, matrix, precision="highest"),
        *(f32, f32),
    ),
    "a wide product": (
        "dot_general",
        lambda x, y: lax.dot_general(x, y, matrix, preferred_element_type="float64"),
        *(f32, f32),
    ),
    "a lower triangle": (
        "triangular_solve",
        lambda x, y: lax.linalg.triangular_solve(x, y, lower=True),
        *(f32, f32),
    ),
    "the other side": (
        "triangular_solve",
        lambda x, y: lax.linalg.triangular_solve(x, y, left_side=True),
        *(f32, f32),
    ),
    "clipped indices": (
        "gather",
        lambda x, i: lax.gather(x, i, numbers, (1, 4), mode="clip"),
        *(f32, rows),
    ),
    "spread windows": (
        "conv_general_dilated",
        lambda x, y: lax.conv_general_dilated(x, y, (1, 1), ((0, 0), (0, 0)), rhs_dilation=(1, 2)),
        *(image, image),
    ),
    **(
        {"an accurate exponential": ("exp", lambda x: lax.exp(x, accuracy=ACCURATE), f32)}
        if ACCURATE
        else {}
    ),
}
"""Calls of `jax.lax` with one option."""


def equation(name, function, *types):
    """Return the equation of a primitive in a function's program."""
    wanted = _jax.primitive(name).name
    found = jax.make_jaxpr(function)(*types).jaxpr.eqns
    return next(eqn for eqn in reversed(found) if eqn.primitive.name == wanted)


def matches(pattern, eqn):
    """Return whether a pattern matches the result of an equation."""
    graph = Graph({}, Counter(), frozenset())
    graph.define(eqn)
    return any(True for _ in Matcher(graph).matches(pattern, eqn.outvars[0], NOTHING))


def operands_of(eqn):
    return [Variable(f"x{i}") for i in range(len(eqn.invars))]


def named(eqn, names):
    return {name: Param(name) for name in names if name in eqn.params}


def another(value):
    """Return a value that differs from a parameter's, whether or not JAX would accept it."""
    if isinstance(value, (bool, np.bool_)):
        return not value
    if isinstance(value, np.dtype):
        return np.dtype("int8")
    return value + 1 if isinstance(value, int) else ("another", value)


@pytest.mark.parametrize("name", BY_DEFAULT)
def test_an_option_matches_its_default_alone(name):
    eqn = equation(name, *BY_DEFAULT[name])
    function, operands, required = primitive(name), operands_of(eqn), _jax.required_params(name)
    assert set(required) <= set(eqn.params)
    left_out = function(*operands, **named(eqn, required))
    rule(left_out, 0)
    assert matches(left_out, eqn)
    for param in eqn.params:
        other = eqn.replace(params={**eqn.params, param: another(eqn.params[param])})
        assert matches(function(*operands, ...), other)
        if param not in required:
            assert not matches(left_out, other)
            assert matches(function(*operands, **named(eqn, {*required, param})), other)
            assert matches(function(*operands, **{**named(eqn, required), param: ...}), other)


@pytest.mark.parametrize("name", [n for n in BY_DEFAULT if _jax.required_params(n)])
def test_a_parameter_without_a_default_is_named(name):
    eqn, required = equation(name, *BY_DEFAULT[name]), _jax.required_params(name)
    for param in required:
        given = named(eqn, set(required) - {param})
        call = primitive(name)(*operands_of(eqn), **given)
        with pytest.raises(InvalidRuleError) as caught:
            rule(call, 0, name="short", place="model.py:3")
        shown = ", ".join(map(str, call.operands))
        assert str(caught.value).splitlines() == [
            f"short (model.py:3): the pattern {call} leaves out {param}, for which jax.lax has no "
            "default.",
            f"Name it, {param}=Param({param!r}) or a value, or accept any value: "
            f"{call.function.name}({shown}, ...).",
        ]
        rule(primitive(name)(*operands_of(eqn), ..., **given), 0)
        with pytest.raises(InvalidRuleError, match=f"the replacement .* leaves out {param}, for"):
            rule(primitive("erf")(*operands_of(eqn)), call)


@pytest.mark.parametrize("name", OPTIONS)
def test_equations_with_an_option_are_left_alone(name):
    kind, function, *types = OPTIONS[name]
    closed, eqn = jax.make_jaxpr(function)(*types), equation(kind, function, *types)
    pattern = primitive(kind)(*operands_of(eqn), **named(eqn, _jax.required_params(kind)))
    assert apply(closed, [rule(pattern, 0)]) is closed
    assert "which is not as by default" in str(explain(rule(pattern, 0), closed))
    assert apply(closed, [rule(primitive(kind)(*operands_of(eqn), ...), 0)]) is not closed


def test_the_table_of_equations_is_complete():
    """It has all primitives of arrays that `jax.lax` makes with parameters, and one result."""
    absent = {"top_k", "eig", "eigh", "lu", "qr", "svd", "schur", "hessenberg", "tridiagonal"}
    absent |= {"iota", "fft", "cholesky", "tridiagonal_solve", "rng_uniform", "rng_bit_generator"}
    absent |= {"dynamic_update_slice", "stop_gradient", "create_token"}  # Without parameters.
    absent |= {"polynomial"}  # Its function takes operands in a list.
    known = [n for n in primitives_of_jax() if n not in absent]
    wanted = {
        n for n in known if _jax.required_params(n) or _jax.primitives._options_with_default(n)
    }
    assert wanted <= set(BY_DEFAULT)


def primitives_of_jax():
    return [name[:-2] for name in dir(_jax.primitives._primitives()) if name.endswith("_p")]


def test_a_traced_product_matches_every_dtype():
    """Its result's dtype follows from the operands, and is no condition."""
    found = rule(
        lambda x, y: lax.dot_general(x, y, matrix), lambda x, y: (y.T @ x.T).T, examples=[f32] * 2
    )
    for dtype in ("float16", "float32", "float64", "int32", "complex64"):
        x = np.ones((2, 2), dtype)
        closed = jax.make_jaxpr(lambda x: lax.dot_general(x, x, matrix))(x)
        assert matches(found.pattern, closed.jaxpr.eqns[0])
        wide = jax.make_jaxpr(lambda x: lax.dot_general(x, x, matrix, None, np.complex128))(x)
        assert not matches(found.pattern, wide.jaxpr.eqns[0])


def test_defaults_are_those_of_the_settings():
    """A product without a precision has that of the user's settings."""
    x, y = variables("x y")
    pattern = primitive("dot_general")(x, y, dimension_numbers=matrix)
    eqn = equation(*("dot_general", *BY_DEFAULT["dot_general"]))
    with jax.default_matmul_precision("highest"):
        precise = equation(*("dot_general", *BY_DEFAULT["dot_general"]))
        assert matches(pattern, precise)
    assert matches(pattern, eqn) and not matches(pattern, precise)


def test_a_replacement_gets_the_defaults():
    x, y = variables("x y")
    sort, cumsum, solve = map(primitive, ("sort", "cumsum", "triangular_solve"))
    for term, function in (
        (sort(x), lax.sort),
        (cumsum(x, reverse=True), lambda x: lax.cumsum(x, reverse=True)),
    ):
        closed = apply(jax.make_jaxpr(lax.erf)(f32), [rule(primitive("erf")(x), term)])
        assert str(closed) == str(jax.make_jaxpr(function)(f32))
    closed = jax.make_jaxpr(lax.atan2)(f32, f32)
    found = apply(closed, [rule(primitive("atan2")(x, y), solve(x, y, lower=True))])
    wanted = jax.make_jaxpr(lambda x, y: lax.linalg.triangular_solve(x, y, lower=True))(f32, f32)
    assert str(found) == str(wanted)


def test_only_patterns_accept_any_value():
    x, axes = Variable("x"), Param("axes")
    for term in (terms.reduce_sum(x, ...), terms.reduce_sum(x, axes=...)):
        assert str(term) in ("reduce_sum(x, ...)", "reduce_sum(x, axes=...)")
        with pytest.raises(InvalidRuleError, match="which only patterns can contain"):
            rule(terms.reduce_sum(x, axes=axes), term)


def test_only_replacements_call_functions_that_emit():
    x = Variable("x")
    with pytest.raises(InvalidRuleError) as caught:
        rule(terms.log(terms.emitted(abs)(x)), x, name="soft", place="model.py:3")
    assert str(caught.value) == (
        "soft (model.py:3): the pattern <abs>(x) is what only replacements can contain."
    ).replace("pattern <abs>(x) is what", "pattern contains <abs>(x), which")


def test_a_parameter_that_does_not_exist_is_explained():
    x = Variable("x")
    closed = jax.make_jaxpr(lax.cumsum)(f32)
    found = explain(rule(terms.cumsum(x, dimension=0), 0), closed)
    assert "Nearest miss: cumsum has no parameter dimension." in str(found)


# --- Names and repetitions ------------------------------------------------------------------


def test_primitives_in_patterns_exist():
    with pytest.raises(InvalidRuleError) as caught:
        primitive("tanhh")
    assert str(caught.value) == f"JAX {jax.__version__} has no primitive 'tanhh'."


def test_names_are_those_of_equations():
    """JAX lists some primitives under another name than equations have."""
    x, i, y = variables("x i y")
    assert terms.scatter_add(x, i, y, ...).function.name == "scatter-add"


SHADOWED = {
    "the same pattern": lambda x, y: ((terms.sin(x), x), (terms.sin(x), 0)),
    "other names": lambda x, y: ((x - y, y), (y - x, x)),
    "a check after none": lambda x, y: ((terms.sin(x), x), (terms.sin(x), 0, is_a_vector)),
    "one check twice": lambda x, y: (
        (terms.sin(x), x, is_a_vector),
        (terms.sin(x), 0, is_a_vector),
    ),
    "other names of parameters": lambda x, y: (
        (terms.reduce_sum(x, axes=Param("axes")), 0),
        (terms.reduce_sum(y, axes=Param("others")), 1),
    ),
    "products": lambda x, y: ((Product((x,), (y,)), 1), (Product((y,), (x,)), 1)),
}
DISTINCT = {
    "a check before none": lambda x, y: ((terms.sin(x), x, is_a_vector), (terms.sin(x), 0)),
    "one check of other operands": lambda x, y: ((x - y, y, is_a_vector), (y - x, x, is_a_vector)),
    "numbers": lambda x, y: ((x + 1, x), (x + 2, x), (x + 0.0, x), (x + -0.0, x)),
    "equal operands": lambda x, y: ((x - x, 0), (x - y, 1)),
    "parameters": lambda x, y: (
        (terms.reduce_sum(x, axes=(0,)), 0),
        (terms.reduce_sum(x, axes=(1,)), 0),
        (terms.reduce_sum(x, ...), 0),
    ),
    "factors and divisors": lambda x, y: (
        (Product((terms.exp(x), y)), x),
        (Product((terms.exp(x),), (y,)), x),
    ),
}


def is_a_vector(x):
    return None if len(x.shape) == 1 else f"x has {len(x.shape)} axes"


@pytest.mark.parametrize("name", SHADOWED)
def test_a_rule_that_never_fires_is_refused(name):
    x, y = variables("x y")
    lines = SHADOWED[name](x, y)
    with pytest.raises(DuplicateRuleError) as caught:
        table(*lines)
    first, second = (str(line[0]) for line in lines)
    message, remedy = str(caught.value).splitlines()
    assert message.startswith(f"{second} ({__file__}:") and message.count(__file__) == 2
    assert f"never fires: {first} (" in message
    assert message.endswith(f"and its pattern {first} matches whatever {second} matches.")
    assert remedy == "Remove one of the rules, or give the first one a check."
    with pytest.raises(DuplicateRuleError):
        apply(jax.make_jaxpr(lax.sin)(f32), [rule(*line) for line in lines])


@pytest.mark.parametrize("name", DISTINCT)
def test_rules_that_differ_are_accepted(name):
    lines = DISTINCT[name](*variables("x y"))
    assert len(table(*lines)) == len(lines)
