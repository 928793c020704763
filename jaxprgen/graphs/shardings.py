"""The option ``shardings``: variables of a graph, and where their data live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen.arguments.shardings import placed, sharding_of
from jaxprgen.errors import InvalidGraphError, ShardingError
from jaxprgen.graphs.library import Variables, is_array, is_sparse, name_of, named
from jaxprgen.ir import canonical_dtype
from jaxprgen.lowering.names import Apply, Variable, is_a


def shardings_of(
    given: Mapping[Any, Any], inputs: Variables, outputs: Variables, nodes: Sequence[Apply]
) -> dict[Variable, NamedSharding]:
    """Return the shardings of variables.

    Parameters
    ----------
    given
        For variables or names, a `NamedSharding`, or a `PartitionSpec` for the mesh that is set, or
        else for the mesh of another sharding.
    inputs, outputs, nodes
        The graph.

    Raises
    ------
    InvalidGraphError
        A variable or name is not that of an input, an output, a shared variable or a constant.
    ArgumentTypeError, ShardingError
        A value is not a sharding, or a sharding does not fit its variable.
    """
    if not given:
        return {}
    roles = dict.fromkeys(outputs, "output") | dict.fromkeys(inputs, "input")
    for v in (*inputs, *(v for node in nodes for v in node.inputs), *outputs):
        if is_a(v, "compile.SharedVariable", "graph.Constant"):
            roles[v] = "constant" if is_a(v, "graph.Constant") else "shared variable"
    shardings = (x.mesh for x in given.values() if isinstance(x, NamedSharding))
    mesh = _jax.ambient_mesh() or next(shardings, None)
    found: dict[Variable, NamedSharding] = {}
    for key, spec in given.items():
        variable = key
        if isinstance(key, str):
            variable = named(key, roles, "shardings", "variables", _UNKNOWN)
        if variable in roles and is_sparse(variable):
            raise _of_matrix(roles[variable], name_of(variable))
        if variable not in roles or not is_array(variable):
            what = name_of(variable) if is_a(variable, "graph.Variable") else repr(variable)
            raise InvalidGraphError(f"shardings: {what} {_UNKNOWN}.")
        what = f"{roles[variable]} {name_of(variable)!r}"
        rank = getattr(variable.type, "ndim", 0)
        found[variable] = sharding_of(spec, what, _type_text(variable), rank, mesh)
    return found


def placed_constants(shardings: Mapping[Variable, NamedSharding]) -> dict[Variable, Any]:
    """Return the data of the constants among some variables, put where they are to live."""
    found: dict[Variable, Any] = {}
    for v, sharding in shardings.items():
        if is_a(v, "graph.Constant"):
            canonical_dtype(v.data)  # It refuses integers that would be wrapped.
            found[v] = placed(v.data, sharding, f"Constant {name_of(v)!r}")
    return found


def _type_text(variable: Variable) -> str:
    shape = getattr(variable.type, "shape", ())
    sizes = ", ".join("?" if n is None else str(n) for n in shape)
    return f"{np.dtype(variable.type.dtype)}[{sizes}]"


def _of_matrix(role: str, name: str) -> ShardingError:
    """Return the error of a sparse matrix, whose parts the arguments of a call decide."""
    if role == "output":
        remedy = "Give the sharding to a dense result, such as a product with the matrix."
    else:
        remedy = "Pass jaxprgen.split_rows(A, sharding) as the argument: it splits the rows of A."
        if role != "input":
            remedy = f"Make it an input of the graph. {remedy}"
    return ShardingError(
        f"shardings: {role} {name!r} is a sparse matrix, which this option cannot split.\n{remedy}"
    )


_UNKNOWN = "is not an input, an output, a shared variable or a constant of this graph"


def to_device(arrays: Sequence[Any]) -> list[Any]:
    """Put arrays on the device: outside of any trace that is going on, and by one equation.

    Arrays that several devices hold stay there.
    """
    others = [array for array in arrays if not _jax.is_on_several_devices(array)]
    for array in others:
        canonical_dtype(array)  # It refuses integers that would be wrapped.
    with _jax.eval_context():
        found = iter(jax.device_put(others) if others else ())
    return [array if _jax.is_on_several_devices(array) else next(found) for array in arrays]
