"""Programs as JSON: their types, symbolic sizes and pytrees, and back."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.inputs import KEY, Input
from jaxprgen.arguments.specs import parse_sizes, sizes_text
from jaxprgen.errors import ExportError

# --- Types --------------------------------------------------------------------------------


def dtype_text(dtype: Any) -> str:
    """Return the name of a dtype, which `dtype_of` takes."""
    if dtype is KEY:
        return "key"
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        return f"key<{_jax.key_implementation(dtype)}>"
    return np.dtype(dtype).name


def dtype_of(text: Any) -> Any:
    """Return the dtype of that name."""
    if text == "key":
        return KEY
    key = re.fullmatch(r"key<(\w+)>", text)
    return _jax.key_dtype(key[1]) if key else np.dtype(getattr(jax.numpy, text))


def aval_json(aval: Any) -> dict[str, Any]:
    """Return the type of an array, whose sizes may be symbolic."""
    return {
        "dtype": dtype_text(aval.dtype),
        "sizes": sizes_text(aval.shape),
        "weak": bool(getattr(aval, "weak_type", False)),
    }


def aval_of(described: Any, scope: Any) -> Any:
    """Return the aval that `aval_json` described."""
    shape = parse_sizes(described["sizes"], scope)
    return _jax.array_aval(shape, dtype_of(described["dtype"]), weak_type=described["weak"])


def input_json(declared: Input) -> dict[str, Any]:
    """Return a declared input."""
    shape = list(declared.shape)
    return {"name": declared.name, "dtype": dtype_text(declared.dtype), "shape": shape}


def input_of(described: Any) -> Input:
    """Return the input that `input_json` described."""
    shape = tuple(described["shape"])
    return Input(described["name"], dtype_of(described["dtype"]), shape)


# --- Pytrees ------------------------------------------------------------------------------


def tree_json(structure: Any) -> Any:
    """Return a pytree structure of dictionaries, lists, tuples and None.

    Raises
    ------
    ExportError
        The structure has other nodes.
    """
    return _node_json(jax.tree.unflatten(structure, range(structure.num_leaves)))


def _node_json(node: Any) -> Any:
    kind = type(node)
    if kind is int:
        return "leaf"
    if node is None:
        return None
    if kind is dict and all(type(key) is str for key in node):
        return {"dict": {key: _node_json(x) for key, x in node.items()}}
    if kind in (list, tuple):
        return {kind.__name__: [_node_json(x) for x in node]}
    raise ExportError(
        f"The outputs are arranged in a {kind.__name__}, which a file cannot hold.\nArrange them "
        "in dictionaries whose keys are strings, lists and tuples."
    )


def tree_of(described: Any) -> Any:
    """Return the pytree structure that `tree_json` described."""
    return jax.tree.structure(_node_of(described))


def _node_of(described: Any) -> Any:
    if not isinstance(described, dict):
        return {"leaf": 0, None: None}[described]
    ((kind, children),) = described.items()
    if kind == "dict":
        return {key: _node_of(x) for key, x in children.items()}
    return {"list": list, "tuple": tuple}[kind](map(_node_of, children))


# --- Programs -----------------------------------------------------------------------------


class Described(NamedTuple):
    """A program as a file has it.

    Attributes
    ----------
    order
        The order of its derivative; 0 for the function itself.
    batched
        Whether all its arguments that can be mapped, and its results, have an additional axis.
    member
        The member that holds its StableHLO.
    exported
        The program, of flat arguments and results.
    """

    order: int
    batched: bool
    member: str
    exported: jax.export.Exported


def program_json(program: Described) -> dict[str, Any]:
    """Return what a file says of a program beside its StableHLO."""
    exported = program.exported
    if not _jax.is_portable(exported):
        raise ExportError(
            f"{exported.fun_name} cannot be saved: it is for several devices, or has side effects."
        )
    return {
        "member": program.member,
        "order": program.order,
        "batched": program.batched,
        "arguments": [aval_json(aval) for aval in exported.in_avals],
        "results": [aval_json(aval) for aval in exported.out_avals],
        "platforms": list(exported.platforms),
        "calling_convention_version": exported.calling_convention_version,
        "kept_arguments": list(exported.module_kept_var_idx),
        "polymorphic": bool(exported.uses_global_constants),
    }


def program_of(described: Any, name: str, scope: Any, content: bytes) -> Described:
    """Return the program that `program_json` described.

    Parameters
    ----------
    described
        The description.
    name
        The name of the function.
    scope
        The scope of symbolic sizes.
    content
        Its StableHLO.
    """
    version = described["calling_convention_version"]
    first = jax.export.minimum_supported_calling_convention_version
    last = jax.export.maximum_supported_calling_convention_version
    if not first <= version <= last:
        raise ValueError(f"its calling convention is {version}, not one of {first} to {last}")
    in_avals, out_avals = (
        tuple(aval_of(x, scope) for x in described[ends]) for ends in ("arguments", "results")
    )
    exported = _jax.exported_of(
        {
            "fun_name": name,
            "in_tree": jax.tree.structure((tuple(range(len(in_avals))), {})),
            "in_avals": in_avals,
            "out_tree": jax.tree.structure(list(range(len(out_avals)))),
            "out_avals": out_avals,
            "platforms": tuple(described["platforms"]),
            "mlir_module_serialized": content,
            "calling_convention_version": version,
            "module_kept_var_idx": tuple(described["kept_arguments"]),
            "uses_global_constants": described["polymorphic"],
        }
    )
    return Described(described["order"], described["batched"], described["member"], exported)
