"""Aesara behind the walk's protocol: reference evaluation, and what to call things."""

from __future__ import annotations

import copy
import functools
import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

import aesara
import numpy as np
from aesara.compile.builders import OpFromGraph
from aesara.compile.function.types import FunctionMaker
from aesara.compile.mode import Mode
from aesara.graph.basic import Apply, Constant, NoParams, Variable
from aesara.graph.fg import FunctionGraph
from aesara.ifelse import IfElse
from aesara.raise_op import CheckAndRaise
from aesara.scalar.basic import ScalarType, complex_types, float_types
from aesara.scan.op import Scan
from aesara.tensor.basic import Default, Eye, Tri
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.type import DenseTensorType, TensorType
from aesara.tensor.type_other import SliceType

from jaxprgen._jax import Frame
from jaxprgen.aesara.ifelse import Branches
from jaxprgen.aesara.traversal import toposort
from jaxprgen.emit.values import Value
from jaxprgen.errors import (
    FailedAssertionError,
    IndexOutOfBoundsError,
    JaxprGenError,
    LinearAlgebraError,
    ParameterError,
)


class AesaraLibrary:
    """The `jaxprgen.lowering.graph.Library` of Aesara graphs."""

    def evaluate(
        self, node: Apply, inputs: Sequence[Any], wanted: Sequence[int] | None = None
    ) -> list[Any]:
        """The node's outputs by its Op's ``perform``: Aesara's own meaning, by definition.

        It works on a copy of the node, because ``perform`` may leave notes in the node's tag,
        and on copies of inputs that the Op would overwrite. Of an Op that is made of a graph the
        nodes inside are evaluated instead, which need not be compiled: those of the outputs that
        are ``wanted``, and the others are None.
        """
        if isinstance(node.op, OpFromGraph):
            return self._evaluate_inside(node.op.fgraph, inputs, wanted)[: len(node.outputs)]
        if isinstance(node.op, Branches):
            which = 0 if inputs[0] else 1
            given = [inputs[i] for i in node.op.positions[which]]
            return self._evaluate_inside(node.op.regions[which], given, wanted)
        if isinstance(node.op, IfElse):
            return list(
                inputs[1 : node.op.n_outs + 1] if inputs[0] else inputs[node.op.n_outs + 1 :]
            )
        if isinstance(node.op, Scan):
            with _RUNNING:
                return self._perform(node, _apart(node.op), inputs)
        function = _ufunc_of(node)
        if function is not None:
            with np.errstate(all="ignore"):
                return [np.asarray(function(*inputs), node.outputs[0].type.dtype)]
        return self._perform(node, node.op, inputs)

    def _perform(self, node: Apply, op: Any, inputs: Sequence[Any]) -> list[Any]:
        users, node = node, Apply(op, node.inputs, ())
        node.outputs, node.tag = users.outputs, copy.copy(users.tag)
        # The Op is told of each node: `Elemwise` notes in which dtype NumPy is to compute.
        node.op.prepare_node(node, None, None, "py")
        arrays = [_own(v, x) for v, x in zip(node.inputs, inputs, strict=True)]
        cells: list[list[Any]] = [[None] for _ in node.outputs]
        params = node.run_params()
        try:
            with np.errstate(all="ignore"):
                if params is NoParams:
                    node.op.perform(node, arrays, cells)
                else:
                    params = node.op.params_type.filter(params)  # type: ignore[union-attr]
                    node.op.perform(node, arrays, cells, params)
        except Exception as error:
            if isinstance(node.op, CheckAndRaise) and isinstance(error, node.op.exc_type):
                raise failed_check(node.op) from error
            ours = next((ours for kind, ours in _OURS.items() if isinstance(error, kind)), None)
            if ours is None:
                raise
            raise ours(f"{str(error).removesuffix('.')}.") from error
        return [
            np.asarray(cell[0], v.type.dtype)
            if isinstance(v.type, (TensorType, ScalarType))
            else cell[0]
            for cell, v in zip(cells, node.outputs, strict=True)
        ]

    def _evaluate_inside(
        self, graph: Any, inputs: Sequence[Any], wanted: Sequence[int] | None
    ) -> list[Any]:
        outputs = graph.outputs if wanted is None else [graph.outputs[i] for i in wanted]
        values = dict(zip(graph.inputs, inputs, strict=True))
        for inner in toposort(outputs, set(graph.inputs)):
            given = [v.data if isinstance(v, Constant) else values[v] for v in inner.inputs]
            values.update(zip(inner.outputs, self.evaluate(inner, given), strict=True))
        return [v.data if isinstance(v, Constant) else values.get(v) for v in graph.outputs]

    def describe(self, node: Apply, inputs: Sequence[Any]) -> str:
        """The node, its inputs with their types and shapes, and the user's line."""
        rows = [f"  in {describe_op(node)}"]
        for variable, value in zip(node.inputs, inputs, strict=True):
            if not _is_small_constant(variable):  # Whose name is its value.
                rows.append(f"    {name_of(variable)}: {_describe_value(variable, value)}")
        rows.append(f"  {origin(node)}")
        return "\n".join(rows)

    def name(self, variable: Variable) -> str:
        """The user's name of a variable; empty if there is none."""
        return variable.name or ""

    def label(self, variable: Variable) -> str:
        """The user's name of a variable, or what computes it, or its value."""
        return name_of(variable)


_RUNNING = threading.RLock()
_copies: WeakKeyDictionary[Scan, Scan] = WeakKeyDictionary()


def _apart(op: Scan) -> Scan:
    """The same loop with a graph of its own: Aesara changes that in place where it compiles it.

    It is compiled without rewriting, and by a Python linker whatever Aesara's mode is.
    """
    if op not in _copies:
        twin = op.clone()
        twin.fgraph = op.fgraph.clone_get_equiv(clone_inner_graphs=True)[0]
        for node in twin.fgraph.apply_nodes:
            if isinstance(node.op, Scan):
                node.op = _apart(node.op)
        inputs, outputs = twin.prepare_fgraph(twin.fgraph)
        maker = FunctionMaker(
            inputs,
            [FunctionMaker.wrap_out(v) for v in outputs],
            Mode(linker="vm", optimizer="None"),
            accept_inplace=False,
            fgraph=twin.fgraph,
            on_unused_input="ignore",
        )
        twin._fn = maker.create([x.value for x in inputs])  # pyright: ignore[reportPrivateUsage]
        _copies[op] = twin
    return _copies[op]


def error_of(op: CheckAndRaise) -> type[FailedAssertionError]:
    """What a check is told as that fails: a ValueError, too, if the Op's error is one."""
    return ParameterError if issubclass(op.exc_type, ValueError) else FailedAssertionError


def failed_check(op: CheckAndRaise) -> FailedAssertionError:
    """The error of a condition that is known not to hold."""
    text = op.msg.removesuffix(".")
    return error_of(op)(f"{op.exc_type.__name__}: {text}. The condition is false.")


def _ufunc_of(node: Apply) -> np.ufunc | None:
    """What `Elemwise.perform` of inexact numbers calls, if that is a function of NumPy's.

    The rest of it, and what has to be prepared for it, takes 75 µs more.
    """
    if type(node.op) is not Elemwise or node.inputs[0].type.dtype not in _INEXACT:
        return None
    name, inputs, outputs = getattr(node.op.scalar_op, "nfunc_spec", None) or ("", 0, 0)
    found = getattr(np, name, None) if (inputs, outputs) == (len(node.inputs), 1) else None
    return found if isinstance(found, np.ufunc) else None


def _own(variable: Variable, value: Any) -> Any:
    """A known input as ``perform`` takes it: a copy, or a NumPy scalar for a scalar type.

    (An index that is an array without axes would copy what NumPy otherwise writes into.)
    """
    if not isinstance(value, np.ndarray):
        return value
    return value[()] if isinstance(variable.type, ScalarType) else np.array(value)


LIBRARY = AesaraLibrary()
_INEXACT = frozenset(t.dtype for t in (*float_types, *complex_types))
_OURS: dict[type[Exception], type[JaxprGenError]] = {
    AssertionError: FailedAssertionError,
    IndexError: IndexOutOfBoundsError,
    np.linalg.LinAlgError: LinearAlgebraError,
}
"""What the errors are told as that Ops raise for values that are known."""
SMALL = 4
"""Elements up to which messages show an array's values."""
_NOT_USERS = (str(Path(aesara.__file__).parent) + os.sep, functools.__file__)
"""Where lines of Aesara's are: in its files, and in the dispatch of its generic functions."""


def _describe_value(variable: Variable, value: Any) -> str:
    if isinstance(value, Value):
        kind = f"{value.dtype}{list(value.shape)}"
        array = None if value.is_repeated else value.static
        return kind if array is None or array.size > SMALL else f"{kind} = {array.tolist()}"
    return str(variable.type)


def name_of(variable: Variable) -> str:
    """The user's name of a variable, or what computes it, or its value."""
    if variable.name:
        return variable.name
    if _is_small_constant(variable):
        return str(np.asarray(variable.data).tolist())
    if variable.owner is not None:
        return f"result of {variable.owner.op}"
    return f"<{variable.type}>"


def _is_small_constant(variable: Variable) -> TypeGuard[Constant]:
    return isinstance(variable, Constant) and np.size(variable.data) <= SMALL and not variable.name


def describe_op(node: Apply) -> str:
    """The Op applied to its inputs' names."""
    inputs = ", ".join(name_of(v) for v in node.inputs)
    named = ", ".join(v.name for v in node.outputs if v.name)
    return f"{node.op}({inputs})" + (f" -> {named}" if named else "")


def frame_of(*variables: Variable) -> Frame | None:
    """The line of the user's that made a variable, or the first that has one of several.

    That is the innermost line outside of Aesara, and of an Op, as Aesara recorded it (see its
    ``traceback__limit``). None where it recorded nothing, or only lines of its own, as for most
    of what `aesara.grad` makes.
    """
    return next(filter(None, map(_frame_of, variables)), None)


def _frame_of(variable: Variable) -> Frame | None:
    trace = getattr(variable.tag, "trace", None)
    if not trace or not trace[0]:
        return None
    lines = [frame for frame in trace[0] if not frame[0].startswith(_NOT_USERS)]
    if not lines:
        return None
    outside = list(itertools.takewhile(lambda frame: frame[2] != "make_node", lines))
    return Frame(*(outside or lines)[-1][:3])


def origin(node: Apply) -> str:
    """Where the user built a node: file, line and text."""
    frame = frame_of(*node.outputs) or _in_aesara(node)
    if frame is None:
        return "built at a line that was not recorded (see Aesara's traceback__limit)"
    return frame.built


def _in_aesara(node: Apply) -> Frame | None:
    """The innermost line that Aesara recorded for a node, its own or not."""
    traces = (getattr(variable.tag, "trace", None) for variable in node.outputs)
    return next((Frame(*trace[0][-1][:3]) for trace in traces if trace and trace[0]), None)


def is_array(variable: Variable) -> bool:
    """Whether a variable is a dense tensor or a scalar, whatever its Op."""
    # A sparse matrix has a type that is derived from that of dense tensors.
    return isinstance(variable.type, (DenseTensorType, ScalarType))


_MAY_BE_NONE: dict[type, tuple[int, ...]] = {Default: (0, 1), Eye: (1,), Tri: (1,)}
"""The positions of inputs that Ops declare as tensors and that may be None."""


def may_be_none_or_slice(graph: FunctionGraph, variable: Variable) -> bool:
    """Return whether a variable is a slice, or feeds only inputs that may be None."""
    if isinstance(variable.type, SliceType):
        return True
    clients: Any = graph.clients[variable]
    return bool(clients) and all(
        node != "output" and i in _MAY_BE_NONE.get(type(node.op), ()) for node, i in clients
    )


def is_none_or_slice(x: Any) -> bool:
    """Return whether an argument is None or a slice."""
    return x is None or isinstance(x, slice)
