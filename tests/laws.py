"""The laws the tests assert, each as one helper."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.compile.mode import Mode
from aesara.compile.sharedvalue import SharedVariable
from aesara.graph.basic import Constant, ancestors, io_toposort
from aesara.scalar.basic import ScalarType
from aesara.scan.op import Scan
from aesara.tensor.type import DenseTensorType
from jax.experimental import checkify
from operands import values
from profiles import sample

import jaxprgen
from jaxprgen._jax import check_jaxpr, eval_jaxpr, sub_jaxprs

DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

TOLERANCE = {
    # Of integers NumPy computes functions in the smallest float that holds them all.
    **dict.fromkeys(["bool", "int8", "uint8", "float16"], 4e-3),
    **dict.fromkeys(["int16", "uint16", "float32", "complex64"], 5e-6),
    **dict.fromkeys(["int32", "uint32", "int64", "uint64", "float64", "complex128"], 1e-12),
}
"""How far apart two correct evaluations may be, relative and absolute, by the dtype computed in."""

MATRICES = 50
"""How many times as far apart decompositions and solutions of small linear systems may be."""


def tolerance(*dtypes: Any, times: float = 1) -> float:
    """Return how far apart results may be that are computed in several dtypes."""
    return times * max(TOLERANCE[np.dtype(dtype).name] for dtype in dtypes)


# --- Reference -----------------------------------------------------------------------------


def reference(inputs: Sequence[Any], outputs: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Return what Aesara computes in Python, node by node, without any rewriting.

    Every node runs as Aesara's Python linker runs it, without the function around them, whose
    making takes longer than running it.
    """
    found = {v: v.type.filter(x) for v, x in zip(inputs, args, strict=True)}

    def value(variable: Any) -> Any:
        if variable in found:
            return found[variable]
        if isinstance(variable, Constant):
            return variable.data
        assert isinstance(variable, SharedVariable), f"{variable} has no value."
        return variable.get_value()

    for node in io_toposort(inputs, outputs):
        results = perform(node, [value(v) for v in node.inputs])
        found.update(zip(node.outputs, results, strict=True))
    return [value(v) for v in outputs]


def perform(node: Any, values: Sequence[Any]) -> list[Any]:
    """Return the outputs of a node whose inputs have these values, as Aesara computes them.

    A copy of the node runs, because that leaves notes in it, and on copies of values that the Op
    overwrites.
    """
    if isinstance(node.op, OpFromGraph):
        inner = node.op.fgraph
        return reference(inner.inputs, inner.outputs, values)[: len(node.outputs)]
    node = node.clone()
    node.op = _apart(node.op) if isinstance(node.op, Scan) else node.op
    # An index that is an array without axes would copy what NumPy otherwise writes to.
    scalars = [isinstance(v.type, ScalarType) for v in node.inputs]
    values = [
        np.asarray(x)[()] if is_scalar else x for x, is_scalar in zip(values, scalars, strict=True)
    ]
    storage = {v: [x] for v, x in zip(node.inputs, values, strict=True)}
    for i in {i for each in node.op.destroy_map.values() for i in each}:
        storage[node.inputs[i]] = [copy.deepcopy(values[i])]
    storage.update({v: [None] for v in node.outputs})
    computed = {v: [v not in node.outputs] for v in storage}
    with np.errstate(all="ignore"):
        node.op.make_thunk(node, storage, computed, no_recycling=[], impl="py")()
    found = [storage[v][0] for v in node.outputs]
    arrays = [isinstance(v.type, DenseTensorType) for v in node.outputs]
    assert all(x is not None or not y for x, y in zip(found, arrays, strict=True)), "No result."
    return [np.asarray(x) if y else x for x, y in zip(found, arrays, strict=True)]


_loops: WeakKeyDictionary[Scan, Scan] = WeakKeyDictionary()


def _apart(op: Scan) -> Scan:
    """Return the same loop with a graph of its own, which Aesara changes where it compiles it."""
    twin = _loops.get(op)  # Once, because the key may be an equal loop that is about to die.
    if twin is None:
        mode = Mode(linker="vm", optimizer=None)
        twin = _loops[op] = op.clone()
        twin.mode_instance = mode.clone(link_kwargs={"allow_gc": False})
    return twin


# --- Agreement -----------------------------------------------------------------------------


def difference(
    ours: Any, theirs: Any, rtol: float | None = None, *, atol: float | None = None
) -> str:
    """Return how results differ by more than rounding; empty if they do not.

    Dtypes and shapes are equal, and so are booleans and integers. Floating-point numbers differ by
    at most ``atol + rtol * abs(theirs)``, or both are NaN or the same infinity.

    Parameters
    ----------
    rtol, atol
        By default the `tolerance` of the dtype, and the value of ``rtol``.
    """
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
    if ours.dtype.kind in "biu":
        same = ours == theirs
    else:
        rtol = tolerance(ours.dtype) if rtol is None else rtol
        with np.errstate(all="ignore"):
            same = np.isclose(ours, theirs, rtol, rtol if atol is None else atol, equal_nan=True)
    return "" if np.all(same) else f"{ours[~same]}, not {theirs[~same]}"


def assert_same(ours: Any, theirs: Any, rtol: float | None = None, where: str = "") -> None:
    """Results are equal up to rounding; see `difference`."""
    found = difference(ours, theirs, rtol)
    assert not found, f"{where}: {found}" if where else found


def by_equation(f: jaxprgen.CompiledFunction, *args: Any) -> list[Any]:
    """Return the outputs of a program, computed one equation after the other.

    JAX then compiles every primitive once for each of its types, instead of every program: the
    hundreds of combinations of dtypes that an Op takes share most of their equations.
    """
    return eval_jaxpr(f.jaxpr(*args), args)


def at_once(f: jaxprgen.CompiledFunction, *args: Any) -> Sequence[Any]:
    """Return the outputs of a program, one after the other."""
    return jax.tree.leaves(f(*args))


def assert_agrees(
    inputs: Sequence[Any], outputs: Any, args: Sequence[Any], *, rtol: float | None = None
) -> jaxprgen.CompiledFunction:
    """A compiled graph is well typed, and computes what Aesara does in the dtypes it declares.

    Some of Aesara's Ops compute in another dtype than they declare: ``Lstsq`` returns an int32
    rank for an int64. The declared one counts.
    """
    f = jaxprgen.compile(inputs, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    variables = jax.tree.leaves(outputs)
    theirs = reference(inputs, variables, args)
    for variable, mine, yours in zip(variables, at_once(f, *args), theirs, strict=True):
        with np.errstate(all="ignore"):
            declared = np.asarray(yours).astype(variable.type.dtype)
        assert_same(mine, declared, rtol, where=str(variable.owner))
    return f


def assert_agrees_of_every_dtype(
    build: Callable[[Any, np.ndarray], Sequence[Any]],
    shape: Sequence[int],
    *more: tuple[Any, Any],
    quick: int = 17,
) -> None:
    """A function of an array agrees with Aesara for every dtype, evenly many in a quick run.

    Parameters
    ----------
    build
        Makes outputs of a variable of each dtype, and of the values that it has.
    shape
        That of the array.
    more
        Other inputs and their values.
    """
    inputs, args = ([*each] for each in zip(*more, strict=True)) if more else ([], [])
    outputs = []
    for dtype in DTYPES:
        inputs.append(at.tensor(dtype, shape=(None,) * len(shape)))
        args.append(values(dtype)[: np.prod(shape)].reshape(shape))
        outputs += build(inputs[-1], args[-1])
    assert_agrees(inputs, sample(outputs, quick), args)


def assert_derivatives(
    inputs: Sequence[Any],
    costs: Any,
    args: Sequence[Any],
    wrt: Sequence[Any] | None = None,
    *,
    rtol: float = 1e-10,
) -> None:
    """Gradients that Aesara makes are those of its Python mode, and those that JAX finds.

    By default, those with respect to all inputs.
    """
    costs = costs if isinstance(costs, list) else [costs]
    wrt = inputs if wrt is None else wrt
    slopes = [g for c in costs for g in aesara.grad(c, wrt, disconnected_inputs="ignore")]
    places = tuple(inputs.index(v) for v in wrt)
    by_jax = [jax.grad(jaxprgen.compile(inputs, cost), places) for cost in costs]
    ours = at_once(assert_agrees(inputs, slopes, args), *args)
    theirs = jax.tree.leaves(in_one_program(by_jax, *args))
    for mine, yours, slope in zip(ours, theirs, slopes, strict=True):
        assert_same(mine, yours, rtol, where=str(slope.owner))


# --- Errors and checks ---------------------------------------------------------------------


def refusal(error: type[Exception], call: Callable[..., Any], *args: Any) -> list[str]:
    """Return the lines of the error that a call raises, with places in files as "LINE"."""
    with pytest.raises(error) as caught:
        call(*args)
    return re.sub(r"at .*, in .*?: ", "at LINE: ", str(caught.value)).splitlines()


def failures(inputs: Sequence[Any], outputs: Any, *calls: Sequence[Any]) -> list[str | None]:
    """Return what the checks of a compiled graph find in each call, None if nothing."""
    checked = jax.jit(checkify.checkify(jaxprgen.compile(inputs, outputs, checks=True)))
    return [checked(*args)[0].get() for args in calls]


def without_x64() -> Any:
    """A context in which JAX has no 64 bits."""
    return (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(False)


# --- Programs ------------------------------------------------------------------------------


def inputs_among(candidates: Iterable[Any], *outputs: Any) -> list[Any]:
    """Return those of some variables from which outputs are computed, in order."""
    used = set(ancestors(outputs))
    return [v for v in candidates if v in used]


def in_one_program(functions: Sequence[Any], *args: Any) -> list[list[Any]]:
    """Return the leaves of what each JAX function returns, all compiled as one program."""
    return jax.jit(lambda *args: [jax.tree.leaves(f(*args)) for f in functions])(*args)


def total(values: Any) -> Any:
    """Return one number that depends on all floating-point leaves, to differentiate."""
    leaves = [x for x in jax.tree.leaves(values) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return sum((jnp.sum(jnp.sin(jnp.real(x))) for x in leaves), jnp.zeros(()))


def assert_close(ours: Any, theirs: Any, rtol: float = 1e-12, atol: float = 0.0) -> None:
    """Leaves have the same types, and values that differ by no more than this."""
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert x.dtype == y.dtype
        assert getattr(x, "weak_type", None) == getattr(y, "weak_type", None)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = map(jax.random.key_data, (x, y))
        if x.dtype == jnp.bfloat16:
            x, y = (np.asarray(each, float) for each in (x, y))
        np.testing.assert_allclose(x, y, rtol, atol)


def assert_computes(
    program: Any,
    f: Any,
    *args: Any,
    rtol: float = 1e-12,
    atol: float = 0.0,
    slopes: Sequence[int] = (),
) -> None:
    """A program is well typed and computes what a JAX function does, compiled together.

    So do the derivatives of a `total` of both with respect to the arguments at ``slopes``.
    """
    check_jaxpr(program.jaxpr)
    run, by = jaxprgen.jaxpr_as_fun(program), tuple(slopes)
    derived = [jax.grad(lambda *xs, g=g: total(g(*xs)), by) for g in (run, f) if by]
    ours, theirs, *both = in_one_program([run, f, *derived], *args)
    assert_close(ours, theirs, rtol, atol)
    if both:
        assert_close(*both, 1e-10, 1e-12)


def primitives(program: Any) -> list[str]:
    """Return the names of the primitives of a program and of all programs inside."""
    return [eqn.primitive.name for eqn in all_equations(program.jaxpr)]


def equations(f: Any, *args: Any) -> list[str]:
    """Return the names of the primitives of a compiled function's program, in order."""
    return [eqn.primitive.name for eqn in f.jaxpr(*args).jaxpr.eqns]


def all_equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a program and of all programs inside."""
    for eqn in jaxpr.eqns:
        yield eqn
        for _, inner in sub_jaxprs(eqn):
            yield from all_equations(inner)
