"""A replacement has the shape and dtype of what it replaces."""

import itertools
import re
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from laws import all_equations

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.emit.shape import reshape
from jaxprgen.emit.values import Value, full, lift
from jaxprgen.errors import EquationError, InvalidRuleError
from jaxprgen.ir import Builder
from jaxprgen.passes import Simplify, simplify, stabilize
from jaxprgen.rewrite import apply, rule, table, terms
from jaxprgen.rewrite.terms import (
    NOTHING,
    Call,
    Number,
    Once,
    Param,
    Product,
    Term,
    Variable,
    exp,
    logistic,
    primitive,
    reduce_sum,
    variables,
    walk,
)

x, y = variables("x y")
sin, add = primitive("sin"), primitive("add")
ones = np.ones(3)

REMEDY = (
    "A replacement has the shape and dtype of what it replaces: convert it with .astype and "
    ".reshape, or refuse these types in the rule's check."
)
WRONG = {
    "another dtype": (
        (sin(x), lambda x: jnp.sin(x).astype("float16")),
        lambda x: jnp.sin(x),
        "sin(x) is float64[3], but its replacement <lambda> is float16[3], for x: float64[3].",
    ),
    "a wider dtype": (
        (sin(x), lambda x: jnp.sin(x).astype("complex128")),
        lambda x: jnp.sin(x),
        "sin(x) is float64[3], but its replacement <lambda> is complex128[3], for x: float64[3].",
    ),
    "a constant of another dtype": (
        (sin(x), lambda x: jnp.int32(0)),
        lambda x: jnp.sin(x)[0],
        "sin(x) is float64[3], but its replacement <lambda> is int32[], for x: float64[3].",
    ),
    "a shape that broadcasts": (
        (sin(x), lambda x: jnp.sin(x).sum()),
        lambda x: jnp.sin(x),
        "sin(x) is float64[3], but its replacement <lambda> is float64[], for x: float64[3].",
    ),
    "an axis of size 1": (
        (sin(x), lambda x: jnp.sin(x[:1])),
        lambda x: jnp.sin(x),
        "sin(x) is float64[3], but its replacement <lambda> is float64[1], for x: float64[3].",
    ),
    "an axis too many": (
        (sin(x), lambda x: jnp.sin(x)[None]),
        lambda x: jnp.sin(x),
        "sin(x) is float64[3], but its replacement <lambda> is float64[1,3], for x: float64[3].",
    ),
    "a term of another shape": (
        (reduce_sum(x, axes=Param("axes")), x),
        lambda x: jnp.sum(x),
        "reduce_sum(x, axes=axes) is float64[], but its replacement x is float64[3], for "
        "x: float64[3]; axes = (0,).",
    ),
    "a factor of another shape": (
        (Product((exp(x), y)), lambda x, y: jnp.exp(x).sum() * y.sum()),
        lambda x: x * jnp.exp(x),
        "product(exp(x), y) is float64[3], but its replacement <lambda> is float64[], for "
        "x: float64[3]; y: float64[3].",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_replacement_of_another_type_is_an_error(name):
    parts, function, says = WRONG[name]
    wrong = rule(*parts, name="wrong", place="model.py:3")
    with pytest.raises(InvalidRuleError) as caught:
        apply(jax.make_jaxpr(function)(ones), [wrong])
    first, second, place = str(caught.value).splitlines()
    assert (first, second) == (f"wrong (model.py:3): {says}", REMEDY)
    assert re.fullmatch(f"  in [a-z_]+, built at {__file__}:[0-9]+, in .*", place)


def failing(x):
    raise ValueError("an even number is needed")


def joined(x):
    return lax.add(x, jnp.ones(2))


@pytest.mark.parametrize(
    ("replacement", "says"),
    [
        (failing, "ValueError: an even number is needed."),
        (joined, "TypeError: add got incompatible shapes for broadcasting: (3,), (2,)."),
    ],
)
def test_a_replacement_that_fails_names_the_rule(replacement, says):
    wrong = rule(sin(x), replacement, name="wrong", place="model.py:3")
    with pytest.raises(InvalidRuleError) as caught:
        apply(jax.make_jaxpr(jnp.sin)(ones), [wrong])
    assert str(caught.value).splitlines()[:2] == [
        f"wrong (model.py:3): the replacement {wrong.replacement} of sin(x) failed for "
        f"x: float64[3]: {says}",
        "Refuse these types in the rule's check, or correct the replacement.",
    ]
    assert type(caught.value.__cause__).__name__ == says.split(":")[0]


@pytest.mark.parametrize("number", [0.5, -1, 300, np.nan, np.inf, 1j])
@pytest.mark.parametrize("replacement", [lambda n: Number(n), lambda n: x * n])
def test_a_number_that_the_dtype_does_not_hold_is_an_error(number, replacement):
    rules = [rule(x + x, replacement(number), name="wrong", place="model.py:3")]
    with pytest.raises(InvalidRuleError) as caught:
        apply(jax.make_jaxpr(lambda x: x + x)(np.ones(3, np.uint8)), rules)
    first = str(caught.value).splitlines()[0]
    assert first.startswith("wrong (model.py:3): the replacement ")
    assert first.endswith(f": ValueError: uint8 does not hold the number {Number(number)}.")


def test_numbers_take_the_type_of_what_they_replace():
    rules = table((x + x, 2 * x), (sin(x), 0.1), (x - x, 0))
    for dtype, shape in itertools.product(("float16", "float32", "int8"), ((), (3,), (0, 2))):
        given = np.ones(shape, dtype)
        closed = apply(jax.make_jaxpr(lambda x: (x + x, x - x))(given), rules)
        check_jaxpr(closed.jaxpr)
        assert [v.aval.dtype for v in closed.jaxpr.outvars] == [dtype] * 2
    closed = apply(jax.make_jaxpr(jnp.sin)(np.ones(3, "float32")), rules)
    (found,) = jaxprgen.jaxpr_as_fun(closed)(np.ones(3, "float32"))
    np.testing.assert_array_equal(found, np.full(3, 0.1, "float32"))


def test_scalar_literals_broadcast():
    """An equation may read a number without axes beside an array."""
    for function in (
        lambda x: 2.0 * jnp.ones(3),
        lambda x: 2.0 - jnp.full(3, -0.0),
        lambda x: jnp.full(3, -0.0) - 2.0,
        lambda x: x * 3.0 / x,
    ):
        closed = jax.make_jaxpr(function)(ones)
        for passes in (Simplify(), Simplify(reassociate=True), stabilize.Stabilize()):
            found = passes(closed)
            check_jaxpr(found.jaxpr)
            np.testing.assert_array_equal(*jaxprgen.jaxpr_as_fun(found)(ones), function(ones))
    rules = table((Product((x,), (x,)), 1))
    for function in (lambda x: x * 3.0 / x, lambda x: -x / x, lambda x: -(3.0 / x * x)):
        found = apply(jax.make_jaxpr(function)(ones), rules)
        assert not {"mul", "div"} & {e.primitive.name for e in all_equations(found.jaxpr)}
        np.testing.assert_array_equal(*jaxprgen.jaxpr_as_fun(found)(ones), function(ones))


@pytest.mark.parametrize("shapes", [((3, 1), (3, 2)), ((1, 2), (3, 2)), ((), (2,))], ids=str)
def test_the_number_of_a_rule_may_have_the_larger_shape(shapes):
    """Operands of elementwise primitives broadcast, so `x * 1` may be larger than `x`."""
    small, large = shapes

    def f(x):
        one, zero = jnp.ones(large), jnp.zeros(large)
        return x * one, one * x, x / one, x - zero, x + -zero, jnp.log(x * one) - zero

    x = np.linspace(0.5, 2.0, int(np.prod(small))).reshape(small)
    closed = jax.make_jaxpr(f)(x)
    found = Simplify(reassociate=True)(closed)
    check_jaxpr(found.jaxpr)
    assert len(found.jaxpr.eqns) < len(closed.jaxpr.eqns)
    for before, after in zip(f(x), jax.core.eval_jaxpr(found.jaxpr, found.consts, x), strict=True):
        np.testing.assert_array_equal(after, before)


def test_real_numbers_conjugated_twice_are_left_alone():
    """The result is complex, so it is not the operand."""
    for dtype in (np.float32, np.float64):
        closed = jax.make_jaxpr(lambda x: lax.conj(lax.conj(x)))(dtype(2))
        assert Simplify()(closed) is closed
    closed = jax.make_jaxpr(lambda x: lax.conj(lax.conj(x)))(np.complex64(2j))
    assert not Simplify()(closed).jaxpr.eqns


def test_integers_that_choose_are_not_negated():
    """``~p`` changes 0 and 1 into -1 and -2, which choose nothing."""

    def function(p, x):
        return lax.select_n(~p, x, -x)

    closed = jax.make_jaxpr(function)(np.int32(-1), 1.0)
    assert Simplify()(closed) is closed
    assert len(Simplify()(jax.make_jaxpr(function)(True, 1.0)).jaxpr.eqns) == 2


# --- Rules of the package -----------------------------------------------------------------------

RULES = {
    str(found): found
    for found in (
        *simplify.EXACT,
        *simplify.REASSOCIATED,
        *simplify.UNTRANSPOSED,
        *stabilize.STABLE,
        *stabilize.NORMAL,
        *stabilize.CHOSEN,
        *stabilize.GRADIENTS,
        *stabilize.LAST,
    )
}
KINDS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
KINDS += ("bool", "int8", "uint8", "int32", "int64")
SHAPES = ((), (3,), (2, 3), (0, 3), (3, 0), (1, 1), (2, 1, 2), (1, 2, 1, 2))
GATHER = {
    "dimension_numbers": lax.GatherDimensionNumbers((1,), (0,), (0,)),
    "indices_are_sorted": False,
    "unique_indices": False,
    "fill_value": None,
    "mode": lax.GatherScatterMode.CLIP,
}
DOT = {"numbers": (((1,), (0,)), ((), ())), "precision": None, "out_sharding": None}
SOLVE = {"lower": True, "transpose_a": False, "conjugate_a": False, "unit_diagonal": False}


SCATTER = {
    "gather_numbers": GATHER["dimension_numbers"],
    "scatter_numbers": lax.ScatterDimensionNumbers((1,), (0,), (0,)),
    "update_jaxpr": None,
    "update_consts": (),
    **{
        f"{k}_{x}": False
        for k in ("indices_are_sorted", "unique_indices")
        for x in ("taken", "put")
    },
}
FILLED = {
    "concatenate(v, logistic": {"v": 0.0, "w": 1.0},
    **{text: {"v": 0.0} for text in ("scatter-add(v", "scatter(v", "pad(")},
}
"""Operands of patterns that are numbers."""


@terms.emitted
def triangle(x):
    """Return a triangle of one row with the number of ``x``."""
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    update = {"update_jaxpr": None, "update_consts": (), "mode": GATHER["mode"]}
    promises = dict.fromkeys(("indices_are_sorted", "unique_indices"), True)
    put = {"dimension_numbers": numbers, **update, **promises}
    zeros, places = full(x.shape, 0, x.dtype), lift(np.zeros((1, 2), np.int32))[0]
    return primitive("scatter").emit(zeros, places, reshape(x, (1,)), **put)


MADE_BY = {
    "cholesky(": triangle,
    **dict.fromkeys(("scatter-add(v", "scatter(v", "pad("), exp),
    "log(add(y, exp(x)))": exp,
    "log(broadcast": exp,
    "product(x over x)": exp,
    "product(add(div(v, x)": exp,
    "product(sub(div(v, x)": exp,
    **dict.fromkeys((f"log1p(neg({name}(x" for name, *_ in stabilize._CHOICES), logistic),
    **dict.fromkeys((f"log({name}(x" for name, *_ in stabilize._CHOICES), logistic),
}
"""What computes the operands of a pattern, where its check asks for that."""


def given(pattern, shape, dtype):
    """Return the shapes of variables, and the parameters, for a pattern; None if none fits."""
    text, rank = str(pattern), len(shape)
    same = {t.name: shape for t in walk(pattern) if type(t) is Variable}
    if "dynamic_slice" in text:
        places = dict.fromkeys(set(same) - {"x"}, ())
        fits = rank == len(places) and 0 not in shape
        return ({"x": shape, **places}, {"slice_sizes": (1,) * rank}) if fits else None
    if "scatter" in text:
        if rank != 2 or not shape[0]:
            return None
        kept = {"left": (), "kept": (0, 1), "shape": (2, *shape[1:])}
        sizes = {"slice_sizes": (1, *shape[1:])}
        shapes = {"x": shape, "v": shape, "i": (2, 1), "y": (2, *shape[1:])}
        return shapes, {**GATHER, **SCATTER, **sizes, **kept}
    if "gather" in text:
        sizes = {"slice_sizes": (1, *shape[1:])}
        return ({"x": shape, "i": (2, 1)}, {**GATHER, **sizes}) if rank == 2 and shape[0] else None
    if "dot_general" in text or "triangular_solve" in text:
        square = {"order": (1, 0), "preferred_element_type": np.dtype(dtype), **DOT}
        return (same, {**square, **SOLVE, "left_side": True}) if shape[:1] == shape[1:] else None
    params = {"first": (*range(rank),), "then": (*range(rank),), "permutation": (*range(rank),)}
    params |= {"axes": (*range(1, rank),), "kept": (*range(min(rank, 1)),), "shape": shape}
    params |= {"start_indices": (0,) * rank, "limit_indices": shape, "strides": None}
    params |= {"axis": rank - 1}
    for name in ("start_indices", "limit_indices", "strides"):
        params |= {f"{name}_{x}": params[name] for x in "xy"}
    params |= {"dtype": np.dtype(dtype), "new_sizes": (*shape, 1), "dimensions": None, "left": ()}
    if "rev(x, dimensions=dimensions" in text:
        params["dimensions"] = (*range(rank),)
    if "squeeze(x" in text:
        return (same, {"dimensions": (0,)}) if shape[:1] == (1,) else None
    if "squeeze(div(y" in text:
        params |= {"kept": (*range(1, rank + 1),), "left": (0,), "shape": (1, *shape)}
        return {"x": shape, "y": ()}, params
    if "pad(" in text:
        params |= {"kept": (*range(rank),), "padding": ((0, 0, 0),) * rank}
        return {**same, "v": ()}, params
    if "reshape(reshape" in text:
        params |= {"first": (*shape, 1), "then": (1, *shape)}
    if "log(broadcast_in_dim(x" in text:
        params |= {"kept": (*range(1, rank + 1),), "shape": (2, *shape)}
    if text == "div(y, exp(x))":
        return {"x": (), "y": shape}, params
    if text == "div(y, broadcast_in_dim(exp(x), shape=shape, broadcast_dimensions=kept))":
        return {"x": shape[:1], "y": shape}, params
    if "div(y, reduce_sum" in text:
        return {"x": shape, "y": shape[:1]}, params
    if "integer_pow(x, y=power)" in text:
        params["power"] = 3
    if "broadcast" not in text and "axes" in text:
        params["axes"] = (*range(rank),)
    return same, params


def emitted(term: Term, match):
    """Return a pattern as the value of a program that it matches."""
    if isinstance(term, Call):
        parts = (part.call if isinstance(part, Once) else part for part in term.operands)
        term = replace(term, operands=tuple(parts))
    if not isinstance(term, Product):
        return term.emit(match)
    first, *factors = (factor.emit(match) for factor in term.factors)
    found = first
    for factor in factors:
        found = primitive("mul").emit(found, factor)
    for divisor in term.divisors:
        found = primitive("div").emit(found, divisor.emit(match))
    return found


def program_of(pattern, shape, dtype):
    """Return a program that a pattern matches, or None if there is none of this type."""
    found = given(pattern, shape, dtype)
    if found is None:
        return None
    shapes, params = found
    kinds = {"p": "bool", **dict.fromkeys("ijkl", "int32")}
    if "pow(x, convert" in str(pattern):
        kinds["y"] = "int32"
    types = [jax.core.ShapedArray(s, jnp.dtype(kinds.get(n, dtype))) for n, s in shapes.items()]
    with Builder(types) as b:
        try:
            atoms = dict(zip(shapes, b.inputs, strict=True))
            for name, made_by in MADE_BY.items():
                if name in str(pattern):
                    wanted = [n for n, x in atoms.items() if x.aval.dtype == dtype]
                    atoms |= {n: made_by.emit(Value(atoms[n])).atom() for n in wanted}
                    break
            for text, numbers in FILLED.items():
                if text in str(pattern):
                    for n, y in numbers.items():
                        atoms[n] = full(shapes[n], y, jnp.dtype(dtype)).atom()
            value = emitted(pattern, NOTHING._replace(atoms=atoms, params=params))
            return b.build([value.atom()])
        except (EquationError, ValueError, TypeError):
            return None  # There is no such function of this dtype, or number in it.


@pytest.mark.parametrize("name", RULES)
def test_rules_fire_only_into_equal_types(name):
    """Over dtypes, and shapes with empty axes; each rule fires somewhere."""
    own = RULES[name]
    fired = Counter()
    for dtype, shape in itertools.product(KINDS, SHAPES):
        closed = program_of(own.pattern, shape, dtype)
        if closed is None:
            continue
        found = apply(closed, [own])
        check_jaxpr(found.jaxpr)
        assert [v.aval for v in found.jaxpr.outvars] == [v.aval for v in closed.jaxpr.outvars]
        fired[found is not closed] += 1
    assert fired[True], fired
