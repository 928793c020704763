"""Programs as JSON: their types, symbolic sizes and pytrees, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.inputs import KEY, Input
from jaxprgen.arguments.specs import parse_sizes, sizes_text
from jaxprgen.errors import ArgumentTypeError, ExportError

_KINDS = "biufcV"
_POWER = re.compile(r"\^\s*\d{3,}|\)\s*\^")
_LONGEST = 1000


class DescriptionError(Exception):
    """Raised if JSON does not describe what it should; the message says why."""


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
    try:
        key = re.fullmatch(r"key<(\w+)>", text)
        dtype = _jax.key_dtype(key[1]) if key else np.dtype(getattr(jax.numpy, text))
    except (KeyError, TypeError, AttributeError):
        raise DescriptionError(f"{text!r} is not a dtype") from None
    return dtype


def aval_json(aval: Any) -> dict[str, Any]:
    """Return the type of an array, whose sizes may be symbolic."""
    return {
        "dtype": dtype_text(aval.dtype),
        "sizes": sizes_text(aval.shape),
        "weak": bool(getattr(aval, "weak_type", False)),
    }


def aval_of(described: Any, scope: Any) -> Any:
    """Return the aval that `aval_json` described."""
    dtype = dtype_of(field(described, "dtype", str))
    shape = sizes_of(field(described, "sizes", str), scope)
    return _jax.array_aval(shape, dtype, weak_type=field(described, "weak", bool))


def sizes_of(text: str, scope: Any) -> tuple[Any, ...]:
    """Return the sizes that a text stands for.

    Expressions that would take JAX long, such as the hundredth power of a sum, are refused.
    """
    if len(text) > _LONGEST or _POWER.search(text):
        raise DescriptionError(f"the sizes {text[:50]!r} are too complicated")
    try:
        shape = parse_sizes(text, scope)
    except (ArgumentTypeError, RecursionError) as error:
        raise DescriptionError(str(error)) from None
    if any(type(n) is int and n < 0 for n in shape):
        raise DescriptionError(f"the sizes {text!r} are negative")
    return shape


def input_json(declared: Input) -> dict[str, Any]:
    """Return a declared input."""
    shape = list(declared.shape)
    return {"name": declared.name, "dtype": dtype_text(declared.dtype), "shape": shape}


def input_of(described: Any) -> Input:
    """Return the input that `input_json` described."""
    shape = field(described, "shape", list)
    if not all(n is None or (type(n) is int and n >= 0) for n in shape):
        raise DescriptionError(f"{shape} is not a shape")
    return Input(
        field(described, "name", str), dtype_of(field(described, "dtype", str)), tuple(shape)
    )


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
    try:
        return jax.tree.structure(_node_of(described))
    except RecursionError:
        raise DescriptionError("the outputs are nested too deep") from None


def _node_of(described: Any) -> Any:
    if described == "leaf":
        return 0
    if described is None:
        return None
    if isinstance(described, dict) and len(described) == 1:
        ((kind, children),) = described.items()
        if kind == "dict" and isinstance(children, dict):
            return {key: _node_of(x) for key, x in children.items()}
        if kind in ("list", "tuple") and isinstance(children, list):
            nodes = [_node_of(x) for x in children]
            return nodes if kind == "list" else tuple(nodes)
    raise DescriptionError("the arrangement of the outputs is not a pytree")


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
    version = field(described, "calling_convention_version", int)
    first = jax.export.minimum_supported_calling_convention_version
    last = jax.export.maximum_supported_calling_convention_version
    if not first <= version <= last:
        raise DescriptionError(
            f"JAX's calling convention has version {version}, and JAX {jax.__version__} takes "
            f"{first} to {last}"
        )
    in_avals = avals_of(field(described, "arguments", list), scope)
    out_avals = avals_of(field(described, "results", list), scope)
    kept = field(described, "kept_arguments", list)
    if not all(type(i) is int for i in kept) or not set(kept) <= set(range(len(in_avals))):
        raise DescriptionError("the arguments that a program keeps are not among its arguments")
    platforms = field(described, "platforms", list)
    if not platforms or not all(isinstance(x, str) for x in platforms):
        raise DescriptionError("the platforms of a program are not a list of names")
    exported = _jax.exported_of(
        {
            "fun_name": name,
            "in_tree": jax.tree.structure((tuple(range(len(in_avals))), {})),
            "in_avals": in_avals,
            "out_tree": jax.tree.structure(list(range(len(out_avals)))),
            "out_avals": out_avals,
            "platforms": tuple(platforms),
            "mlir_module_serialized": content,
            "calling_convention_version": version,
            "module_kept_var_idx": tuple(sorted(kept)),
            "uses_global_constants": field(described, "polymorphic", bool),
        }
    )
    order, batched = field(described, "order", int), field(described, "batched", bool)
    return Described(order, batched, field(described, "member", str), exported)


def avals_of(described: Sequence[Any], scope: Any) -> tuple[Any, ...]:
    """Return the avals that `aval_json` described."""
    return tuple(aval_of(x, scope) for x in described)


def field(described: Any, name: str, kind: type) -> Any:
    """Return a field of a JSON object, of which the kind is known."""
    value = described.get(name) if isinstance(described, dict) else None
    if type(value) is not kind:
        raise DescriptionError(f"{name!r} is not of type {kind.__name__}")
    return value
