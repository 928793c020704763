"""A graph library: evaluation of nodes in Python, names, lines and types of variables."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Frame
from jaxprgen.emit.values import Value
from jaxprgen.errors import (
    FailedAssertionError,
    IndexOutOfBoundsError,
    InvalidGraphError,
    JaxprGenError,
    LinearAlgebraError,
)
from jaxprgen.lowering.names import (
    Apply,
    FunctionGraph,
    Variable,
    entry_of,
    is_a,
    keys_of,
    library_of,
    module_of,
    own_keys,
)
from jaxprgen.lowering.traversal import toposort
from jaxprgen.ops import sizes
from jaxprgen.ops.identity import failed_check
from jaxprgen.ops.ifelse import IF_ELSE, Branches
from jaxprgen.texts import LONGEST, visible

Variables: TypeAlias = Sequence[Variable]


class GraphLibrary:
    """The `jaxprgen.lowering.graph.Library` of Aesara's and PyTensor's graphs.

    Parameters
    ----------
    compiled_loop
        Returns a loop's Op, or a copy, whose ``perform`` runs in Python.
    lowered
        Rewrites what has no rule: returns the outputs to plan for the inputs, the outputs and the
        classes of all Ops of a graph. By default, nothing is rewritten.
    """

    def __init__(
        self,
        compiled_loop: Callable[[Any], Any],
        lowered: Callable[..., Variables] = lambda inputs, outputs, kinds: outputs,
    ) -> None:
        self._compiled_loop = compiled_loop
        self.lowered = lowered

    def evaluate(
        self, node: Apply, inputs: Sequence[Any], wanted: Sequence[int] | None = None
    ) -> list[Any]:
        """Return the node's outputs, computed by its Op's ``perform``, which defines its meaning.

        If the Op holds a graph, the nodes inside are evaluated instead, because ``perform`` would
        compile the graph first; of such a node, outputs that are not ``wanted`` are None.
        Inputs may hold symbolic sizes, as for `jaxprgen.ops.sizes.evaluate`.
        """
        if is_a(node.op, "compile.OpFromGraph"):
            return self._evaluate_inside(node.op.fgraph, inputs, wanted)[: len(node.outputs)]
        if isinstance(node.op, Branches):
            which = 0 if inputs[0] else 1
            given = [inputs[i] for i in node.op.positions[which]]
            return self._evaluate_inside(node.op.regions[which], given, wanted)
        if is_a(node.op, *IF_ELSE):
            count = node.op.n_outs
            return list(inputs[1 : count + 1] if inputs[0] else inputs[count + 1 :])
        if is_a(node.op, "scan.Scan"):
            with _RUNNING:
                return _perform(node, self._compiled_loop(node.op), inputs)
        if is_a(node.op, "link.JAXShapeTuple"):  # Its own implementation fails.
            return [np.stack(inputs)]
        if any(map(sizes.is_symbolic_value, inputs)):
            return sizes.evaluate(node, inputs)
        return _perform(node, node.op, inputs)

    def _evaluate_inside(
        self, graph: Any, inputs: Sequence[Any], wanted: Sequence[int] | None
    ) -> list[Any]:
        outputs = graph.outputs if wanted is None else [graph.outputs[i] for i in wanted]
        values = dict(zip(graph.inputs, inputs, strict=True))
        for inner in toposort(outputs, set(graph.inputs)):
            given = [v.data if is_a(v, "graph.Constant") else values[v] for v in inner.inputs]
            values.update(zip(inner.outputs, self.evaluate(inner, given), strict=True))
        return [v.data if is_a(v, "graph.Constant") else values.get(v) for v in graph.outputs]

    def describe(self, node: Apply, inputs: Sequence[Any]) -> str:
        """Describe the node, its inputs with types and shapes, and the user's line."""
        rows = [f"  in {describe_op(node)}"]
        for variable, value in zip(node.inputs, inputs, strict=True):
            if not _is_small_constant(variable):  # Whose name is its value.
                rows.append(f"    {name_of(variable)}: {_describe_value(variable, value)}")
        rows.append(f"  {origin(node)}")
        return "\n".join(rows)

    def rank(self, variable: Variable) -> int | None:
        """Return the rank that a variable is declared with; None if it is not an array."""
        return variable.type.ndim if is_array(variable) else None

    def label(self, variable: Variable) -> str:
        """Return the user's name of a variable, or its value, or the Op that computes it."""
        return name_of(variable)


_RUNNING = threading.RLock()


def library_for(x: object) -> GraphLibrary:
    """Return the graph library of a variable, a node's Op or a type."""
    return importlib.import_module(f"jaxprgen.{library_of(x)}").LIBRARY


# --- Evaluation ---------------------------------------------------------------------------


def _perform(node: Apply, op: Any, inputs: Sequence[Any]) -> list[Any]:
    """Run an Op's ``perform`` for a node of that Op or of an equal one.

    It gets a copy of the node, because it may write into the node's tag, and copies of the inputs,
    because it may overwrite them.
    """
    twin = module_of(op, "graph.basic").Apply(op, node.inputs, ())
    twin.outputs, twin.tag = node.outputs, copy.copy(node.tag)
    op.prepare_node(twin, None, None, "py")  # `Elemwise` chooses NumPy's dtype here.
    arrays = [_copied(v, x) for v, x in zip(node.inputs, inputs, strict=True)]
    cells: list[list[Any]] = [[None] for _ in node.outputs]
    try:
        with np.errstate(all="ignore"):
            op.perform(twin, arrays, cells, *sizes.params_of(twin))
    except Exception as error:
        if is_a(op, "raise_op.CheckAndRaise") and isinstance(error, op.exc_type):
            raise failed_check(op) from error
        ours = next((ours for kind, ours in _ERRORS.items() if isinstance(error, kind)), None)
        if ours is None:
            raise
        raise ours(f"{str(error).removesuffix('.')}.") from error
    return [
        np.asarray(x, v.type.dtype) if is_array(v) else x
        for (x,), v in zip(cells, node.outputs, strict=True)
    ]


def _copied(variable: Variable, value: Any) -> Any:
    """Return an input as ``perform`` takes it: a copy, or a NumPy scalar for a scalar type.

    An array without axes as an index would make NumPy copy an array that it else writes into.
    """
    if is_sparse(variable):
        return value.copy()
    if not isinstance(value, np.ndarray):
        return value
    return value[()] if is_a(variable.type, "scalar.ScalarType") else np.array(value)


_ERRORS: dict[type[Exception], type[JaxprGenError]] = {
    AssertionError: FailedAssertionError,
    IndexError: IndexOutOfBoundsError,
    np.linalg.LinAlgError: LinearAlgebraError,
}
"""The classes under which errors of Ops are raised again."""


# --- Names and lines ----------------------------------------------------------------------

_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
SMALL = 4
"""Largest number of elements of arrays that messages show."""


@functools.cache
def _not_users(library: str) -> tuple[str, ...]:
    """Return the files of a library's lines: its own, and that of ``singledispatch``."""
    folders = map(str, importlib.import_module(library).__path__)
    return (*(folder + os.sep for folder in folders), functools.__file__)


def _describe_value(variable: Variable, value: Any) -> str:
    if isinstance(value, Value):
        kind = f"{value.dtype}{list(value.shape)}"
        array = None if value.is_repeated else value.static
        return kind if array is None or array.size > SMALL else f"{kind} = {array.tolist()}"
    return str(variable.type)


def name_of(variable: Variable, longest: int | None = LONGEST) -> str:
    """Return the user's name of a variable, or its value, or the Op that computes it."""
    if variable.name:
        return visible(variable.name, longest)
    if _is_small_constant(variable):
        return str(np.asarray(variable.data).tolist())
    if variable.owner is None:
        return f"<{variable.type}>"
    op = variable.owner.op
    if is_a(op, "tensor.ScalarFromTensor", "tensor.TensorFromScalar"):  # As in an index.
        return name_of(variable.owner.inputs[0])
    return visible(f"result of {op}", longest)


def _is_small_constant(variable: Variable) -> TypeGuard[Any]:
    if not is_a(variable, "graph.Constant") or variable.name:
        return False
    return not _jax.is_on_several_devices(variable.data) and np.size(variable.data) <= SMALL


def describe_op(node: Apply) -> str:
    """Return a node as text: its Op, applied to the names of its inputs."""
    inputs = ", ".join(name_of(v) for v in node.inputs)
    named = ", ".join(name_of(v) for v in node.outputs if v.name)
    return f"{visible(node.op)}({inputs})" + (f" -> {named}" if named else "")


def named(name: str, variables: Iterable[Variable], option: str, what: str, none: str) -> Variable:
    """Return the one of some variables that has a name by which an option of the user's means it.

    Raises
    ------
    InvalidGraphError
        There are several, of which ``what`` says what they are, or there is ``none``.
    """
    found = [v for v in variables if v.name == name]
    if len(found) > 1:
        raise InvalidGraphError(
            f"{option}: {len(found)} {what} are named {name!r}. Pass the variable itself."
        )
    if not found:
        raise InvalidGraphError(f"{option}: {name!r} {none}.")
    return found[0]


def frame_of(*variables: Variable) -> Frame | None:
    """Return the user's line that made the first of these variables that has one.

    It is the innermost line outside of Aesara and of any ``make_node``, as recorded by Aesara (see
    its ``traceback__limit``). It is None if Aesara recorded no line or only its own, as for most
    variables that `aesara.grad` makes.
    """
    return next(filter(None, map(_frame_of, variables)), None)


def _frame_of(variable: Variable) -> Frame | None:
    trace = getattr(variable.tag, "trace", None)
    return _users_line(tuple(trace[0]), library_of(variable)) if trace else None


@functools.lru_cache(maxsize=4096)
def _users_line(trace: tuple[tuple[str, int, str, str], ...], library: str) -> Frame | None:
    """Return the user's line in a trace as libraries record it; loops have the same per copy."""
    others = _not_users(library)
    lines = [frame for frame in trace if not frame[0].startswith(others)]
    if not lines:
        return None
    outside = list(itertools.takewhile(lambda frame: frame[2] != "make_node", lines))
    # The library that builds the graph may be another one, such as PyMC.
    own = [frame for frame in outside if not _INSTALLED.search(frame[0])]
    return Frame(*(own or outside or lines)[-1][:3])


def line_of(variable: Variable) -> Frame | None:
    """Return the line that made a variable: the user's if it was recorded, else Aesara's."""
    return _frame_of(variable) or _in_aesara(variable)


def origin(node: Apply) -> str:
    """Return the file, line and text where the user built a node."""
    frame = frame_of(*node.outputs) or _in_aesara(*node.outputs)
    limit = f"{library_of(node.op)}.config.traceback__limit"
    return frame.built if frame else f"built at a line that was not recorded (see {limit})"


def _in_aesara(*variables: Variable) -> Frame | None:
    """Return the innermost line recorded for one of these variables, even in Aesara's own files."""
    traces = (getattr(variable.tag, "trace", None) for variable in variables)
    return next((Frame(*trace[0][-1][:3]) for trace in traces if trace and trace[0]), None)


# --- Types --------------------------------------------------------------------------------


def is_array(variable: Variable) -> bool:
    """Return whether a variable is a dense tensor or a scalar."""
    return _is_of_arrays(type(variable.type))


@functools.cache
def _is_of_arrays(kind: type) -> bool:
    # Types of other tensors, such as sparse ones, derive from TensorType.
    return own_keys(kind)[-1] == "tensor.TensorType" or _ARRAYS & set(keys_of(kind)) != set()


def is_sparse(variable: Variable) -> bool:
    """Return whether a variable is a sparse matrix."""
    return is_a(variable.type, "sparse.SparseTensorType")


_ARRAYS = {"tensor.DenseTensorType", "scalar.ScalarType", "xtensor.XTensorType"}


_MAY_BE_NONE = {"tensor.Default": (0, 1), "tensor.Eye": (1,), "tensor.Tri": (1,)}
"""The positions of inputs that Ops declare as tensors and that may be None."""


def may_be_none_or_slice(graph: FunctionGraph, variable: Variable) -> bool:
    """Return whether a variable is a slice, or feeds only inputs that may be None."""
    if is_a(variable.type, "tensor.SliceType"):
        return True
    clients: Any = graph.clients[variable]
    return bool(clients) and all(
        node != "output" and i in (entry_of(_MAY_BE_NONE, type(node.op)) or ())
        for node, i in clients
    )


def is_none_or_slice(x: Any) -> bool:
    """Return whether an argument is None or a slice."""
    return x is None or isinstance(x, slice)
