"""Sparse matrices at the ends of a graph: programs take and return the arrays of them.

An input that is a matrix becomes four: the entries, their indices, the pointers, and an empty array
whose type holds the matrix's shape. An output becomes the same four. See
`jaxprgen.arguments.sparse`, which takes matrices apart and puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.arguments.sparse import PARTS, parts_of, row_or_column
from jaxprgen.graphs.library import Variables, is_sparse
from jaxprgen.graphs.state import substitution
from jaxprgen.lowering.names import Apply, Variable, is_a, module_of


class OpenedGraph(NamedTuple):
    """A graph whose inputs and outputs are arrays.

    Attributes
    ----------
    inputs, outputs
        Its ends.
    replaced
        What takes the place of variables of the graph as it was.
    arguments, results
        The formats of the matrices among the inputs and outputs as they were, by position.
    """

    inputs: Variables
    outputs: Variables
    replaced: Mapping[Variable, Variable]
    arguments: Mapping[int, str]
    results: Mapping[int, str]

    def moved(self, carried: Mapping[int, int]) -> dict[int, int]:
        """Return a mapping from outputs to inputs, which are arrays, by their new positions."""

        def moved(position: int, matrices: Iterable[int]) -> int:
            return position + (len(PARTS) - 1) * sum(m < position for m in matrices)

        return {moved(o, self.results): moved(i, self.arguments) for o, i in carried.items()}


def opened(inputs: Variables, outputs: Variables, nodes: Sequence[Apply]) -> OpenedGraph | None:
    """Return the graph of the arrays of its matrices; None if no matrix is an end of the graph.

    Shared variables that are matrices are read as arrays, too.

    Parameters
    ----------
    inputs, outputs, nodes
        The graph and its sorted nodes.
    """
    arguments = {i: row_or_column(v.type) for i, v in enumerate(inputs) if is_sparse(v)}
    results = {i: row_or_column(v.type) for i, v in enumerate(outputs) if is_sparse(v)}
    read = dict.fromkeys([*(v for node in nodes for v in node.inputs), *outputs])
    shared = [
        v for v in read if v.owner is None and is_a(v, "compile.SharedVariable") and is_sparse(v)
    ]
    if not (arguments or results or shared):
        return None
    taken = {v: _parts(v) for v in inputs if is_sparse(v)}
    held = {v: _shared_parts(v) for v in shared if v not in taken}
    made = [(v, _matrix(v, parts)) for v, parts in {**taken, **held}.items()]
    replaced = substitution(outputs, made)
    whole = [replaced.get(v, v) for v in outputs]
    inputs = [part for v in inputs for part in taken.get(v, [v])]
    outputs = [part for v in whole for part in (_properties(v) if is_sparse(v) else [v])]
    return OpenedGraph(inputs, outputs, replaced, arguments, results)


def _types(variable: Any) -> list[Any]:
    """Return the types of the four arrays of a matrix."""
    make = module_of(variable, "tensor.type").TensorType
    dtypes = variable.type.dtype, "int32", "int32"
    return [*(make(d, (None,)) for d in dtypes), make("bool", (*variable.type.shape, 0))]


def _named_types(variable: Variable) -> list[tuple[Any, str | None]]:
    """Return the types of the four arrays of a matrix, and their names."""
    names = (variable.name and f"{variable.name}.{part}" for part in PARTS)
    return list(zip(_types(variable), names, strict=True))


def _parts(variable: Variable) -> list[Variable]:
    return [kind(name) for kind, name in _named_types(variable)]


def _matrix(variable: Any, parts: Sequence[Any]) -> Any:
    """Return the matrix of four arrays, under the name of a variable."""
    *arrays, like = parts
    op = module_of(variable, "sparse.basic").CSM(row_or_column(variable.type))
    made = op(*arrays, like.shape[:2])
    if variable.type.format == "bsr":  # Which the Op does not declare.
        made = type(made.owner)(op, made.owner.inputs, [variable.type()]).outputs[0]
    made.name = variable.name
    made.owner.tag.may_have_parts = op.format == "csr"
    return made


def all_entries(matrix: Any) -> Any:
    """Return ``csm_properties`` of a matrix, with its entries that are not stored.

    Only a matrix again may be made of them.
    """
    basic = module_of(matrix, "sparse.basic")
    if matrix.type.format == "bsr":  # Which the Op does not take.
        like = basic.csm_properties(basic.matrix("csr", dtype=matrix.type.dtype))
        node = type(like[0].owner)(basic.csm_properties, [matrix], [v.type() for v in like])
        found = node.outputs
    else:
        found = basic.csm_properties(matrix)
    found[0].owner.tag.has_all_entries = True
    return found


def _properties(matrix: Any) -> list[Any]:
    """Return the four arrays of a matrix."""
    basic = module_of(matrix, "tensor.basic")
    data, indices, pointers, _ = all_entries(matrix)
    shape = module_of(matrix, "tensor.shape").shape(matrix)
    data.name = matrix.name
    return [data, indices, pointers, basic.alloc(np.bool_(False), shape[0], shape[1], 0)]


def _shared_parts(variable: Any) -> list[Any]:
    """Return shared variables that hold the arrays of another one's matrix."""
    kind = module_of(variable, "tensor.sharedvar").TensorSharedVariable
    container = module_of(variable, "link.basic").Container
    found: list[Any] = []
    for i, (declared, name) in enumerate(_named_types(variable)):
        part = kind(declared, None, None, name=name, container=_Placeholder())
        part.container = container(part, _Part(variable.container.storage, i))
        found.append(part)
    return found


class _Placeholder:
    """Stands for the container of a shared variable that is about to get one."""

    storage = (None,)


class _Part(list[Any]):
    """The storage of one array of a matrix that another storage holds."""

    def __init__(self, storage: Any, position: int) -> None:
        super().__init__([None])
        self._storage, self._position = storage, position

    def __getitem__(self, index: Any) -> Any:
        matrix = self._storage[index]
        matrix = matrix.tocsr() if matrix.format == "bsr" else matrix
        return parts_of(matrix)[self._position]
