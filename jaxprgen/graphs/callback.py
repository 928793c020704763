"""The rule for Ops without one: the program calls their Python implementation on the host."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives
from jaxprgen.emit.callback import call_back
from jaxprgen.emit.values import Array, Dtype, Shape, Value
from jaxprgen.errors import CallbackError, JaxprGenError, UndefinedGradientError
from jaxprgen.graphs.library import Variables, is_array, is_sparse, library_for
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, Variable, is_a, library_of, module_of
from jaxprgen.lowering.static import static_or_ones, static_value
from jaxprgen.lowering.traversal import toposort
from jaxprgen.ops import random
from jaxprgen.ops.changing_sizes import Sizes, sizes_of
from jaxprgen.ops.refused import refusal_of


def can_be_called_back(node: Apply) -> bool:
    """Return whether a node has a Python implementation that arrays and constants can call."""
    if refusal_of(node.op) or is_a(node.op, "graph._NoPythonOp"):
        return False
    if is_a(node.op, "tensor.RandomVariable"):  # Which draws by `rng_fn`, not by `perform`.
        base = module_of(node.op, "tensor.random.op").RandomVariable
        return type(node.op).perform is base.perform
    if not all(map(is_array, node.outputs)):
        return False
    return all(is_array(v) or _is_object(v) for v in node.inputs)


def _is_object(variable: Variable) -> bool:
    """Return whether a variable may be known while emitting, such as a slice."""
    is_computed = variable.owner is not None or is_a(variable, "graph.Constant")
    return is_computed and not is_sparse(variable)


def lower_by_callback(ctx: RuleContext, *xs: Any) -> Any:
    """Run the Op's ``perform`` on the host while the program runs on the device.

    A `RandomVariable` draws by its ``rng_fn``, with a NumPy generator seeded from the next key.

    Raises
    ------
    UndefinedGradientError
        JAX differentiates a result.
    CallbackError
        The shapes of inputs do not determine the shape of a result; or, when the program runs, a
        result has another shape than they promise.
    """
    node: Apply = ctx.node
    if is_a(node.op, "tensor.RandomVariable"):
        return _draw(ctx, *xs)
    shapes = _inferred_shapes(ctx, xs) or _tried_shapes(node, xs)
    types = [
        (shape, ew.canonical(np.dtype(v.type.dtype)))
        for shape, v in zip(shapes, node.outputs, strict=True)
    ]
    given = [static_value(x) for x in xs]
    places = [i for i, v in enumerate(node.inputs) if is_array(v) and given[i] is None]

    def perform(*arrays: Any) -> list[Array]:
        inputs = given.copy()
        for place, array in zip(places, arrays, strict=True):
            inputs[place] = array
        results = _evaluate(node, inputs)
        return [_as_told(node, x, *kind) for x, kind in zip(results, types, strict=True)]

    return call_back(perform, types, [xs[place] for place in places], _refusal(ctx, xs))


def _draw(ctx: RuleContext, rng: Any, size: Value | None, *others: Value) -> tuple[Any, Any]:
    """Return the advanced stream and a draw; Aesara's nodes hold a dtype before parameters."""
    op, first = ctx.op, len(others) - len(ctx.op.ndims_params)
    parameters, dtypes = others[first:], [v.type.dtype for v in ctx.node.inputs[2 + first :]]
    refuse = _refusal(ctx, (rng, size, *others))
    sizes = Sizes(()) if size is None else sizes_of(ctx, [1], [size])

    def sampler(key: Value, dtype: Dtype, shape: Shape, *xs: Value) -> Value:
        def perform(seed: Array, *arrays: Array) -> list[Array]:
            generator = np.random.default_rng(np.asarray(seed))
            drawn = op.rng_fn(generator, *map(np.asarray, arrays, dtypes), sizes.shape or None)
            return [_as_told(ctx.node, np.asarray(drawn), shape, dtype)]

        seed = primitives.random_bits(key, 32, (4,))
        return call_back(perform, [(shape, dtype)], [seed, *xs], refuse)[0]

    stream, drawn = random.draw(ctx, rng, sizes.shape, parameters, sampler)
    return stream, sizes.of(drawn)


def _refusal(ctx: RuleContext, xs: Sequence[Any]) -> Callable[[], JaxprGenError]:
    node, where = ctx.node, ctx.lowering.plan.library.describe(ctx.node, xs)
    return lambda: _no_derivative(node).at(where)


def _no_derivative(node: Apply) -> JaxprGenError:
    """Return the error of a gradient through a node that is called back."""
    name, library = type(node.op).__name__, library_of(node.op)
    way = "samples" if is_a(node.op, "tensor.RandomVariable") else "lowers"
    way = f"Register a rule with @jaxprgen.{way}({name})"
    if _has_gradient(node.op):
        way += f", or take the gradient by {library}.grad, which knows that of this Op"
    return UndefinedGradientError(
        f"JAX cannot differentiate {node.op}, which runs in Python as a callback.\n{way}; "
        f"{library}.gradient.disconnected_grad stops gradients."
    )


def _has_gradient(op: Any) -> bool:
    """Return whether an Op tells its library its gradient, by a method of any version."""
    methods = ("L_op", "grad", "pullback")
    base = module_of(op, "graph.op").Op
    return any(getattr(type(op), m, None) is not getattr(base, m, None) for m in methods)


def _evaluate(node: Apply, inputs: Sequence[Any]) -> list[Array]:
    """Return the Op's results for inputs in their declared dtypes; JAX may pass 32 bits."""
    pairs = zip(node.inputs, inputs, strict=True)
    wide = [np.asarray(x, v.type.dtype) if is_array(v) else x for v, x in pairs]
    return [np.asarray(x) for x in library_for(node.op).evaluate(node, wide)]


def _as_told(node: Apply, result: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    if result.shape != shape:
        raise CallbackError(
            f"{node.op} returns a result of shape {result.shape}, but the shapes of its inputs "
            f"promise {shape}: the size of the result depends on their values."
        )
    return result.astype(dtype)


def _inferred_shapes(ctx: RuleContext, xs: Sequence[Any]) -> list[tuple[int, ...]] | None:
    """Return the outputs' shapes by the Op's ``infer_shape``; None if it does not tell them."""
    node: Apply = ctx.node
    infer_shape = getattr(node.op, "infer_shape", None)
    if infer_shape is None:
        return None
    as_tensor_variable = module_of(node.op, "tensor.basic").as_tensor_variable
    given = [
        tuple(map(as_tensor_variable, x.shape)) if is_array(v) else None
        for v, x in zip(node.inputs, xs, strict=True)
    ]
    try:
        inferred = infer_shape(*_before_node(library_of(node.op)), node, given)
    except (NotImplementedError, module_of(node.op, "tensor.exceptions").ShapeError):
        return None  # By which Ops say that they do not tell.
    if any(sizes is None for sizes in inferred):
        return None
    sizes = [[as_tensor_variable(size) for size in sizes] for sizes in inferred]
    found = iter(_values_of(ctx, xs, [size for each in sizes for size in each]))
    return [tuple(int(next(found)) for _ in each) for each in sizes]


@functools.cache
def _before_node(library: str) -> tuple[None, ...]:
    """Return what a library passes to ``infer_shape`` before the node: a graph, in older ones."""
    own = importlib.import_module(f"{library}.compile.ops").DeepCopyOp.infer_shape
    return (None,) * (len(inspect.signature(own).parameters) - len(("self", "node", "shapes")))


def _values_of(ctx: RuleContext, xs: Sequence[Any], wanted: Variables) -> list[Any]:
    """Return values of expressions of a node's inputs, of some of which only the shape is known.

    Inputs that determine a value become static.
    """
    places = {v: i for i, v in enumerate(ctx.node.inputs)}
    found: dict[Variable, Any] = {}

    def value(variable: Variable, shape_only: bool = False) -> Any:
        if variable in found:
            return found[variable]
        if variable not in places:
            return variable.data  # type: ignore[attr-defined]
        place = places[variable]
        return static_or_ones(xs[place]) if shape_only else ctx.static(place)

    for node in toposort(wanted, set(places)):
        shape_only = is_a(node.op, "tensor.Shape", "tensor.Shape_i")
        inputs = [value(v, shape_only) for v in node.inputs]
        found.update(zip(node.outputs, library_for(node.op).evaluate(node, inputs), strict=True))
    return [value(v) for v in wanted]


def _tried_shapes(node: Apply, xs: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the outputs' shapes that the Op gives for arrays of ones."""
    if all(v.type.ndim == 0 for v in node.outputs):
        return [()] * len(node.outputs)
    try:
        results = _evaluate(node, [static_or_ones(x) for x in xs])
    except Exception as error:
        raise CallbackError(
            f"The shape of the result of {node.op} is not known before it runs: it has no "
            f"infer_shape method, and fails on arrays of ones: {error}\n"
            "Give the Op an infer_shape method, or register a rule with "
            f"@jaxprgen.lowers({type(node.op).__name__})."
        ) from error
    return [x.shape for x in results]
