"""Graphs of PyMC's models: their data, and what PyTensor must rewrite in them."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

from typing import Any

import jax
from pymc.logprob.utils import local_remove_check_parameter
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors

from jaxprgen.lowering.names import is_a


def lowered(outputs: Any, *, check_bounds: bool = True) -> Any:
    """Return graphs of tensors, without the checks of parameters if they are off.

    Parameters
    ----------
    outputs : variable or pytree of variables
        The ends of the graphs.
    check_bounds : bool
        Keep the checks of parameters, as `pymc.Model` says.
    """
    flat, tree = jax.tree.flatten(outputs)
    rewrites: list[str] = []
    found = set(ancestors(flat))
    if any(is_a(v.type, "xtensor.XTensorType") for v in found):
        rewrites.append("lower_xtensor")
    if any(v.owner and getattr(v.owner.op, "is_inline", False) for v in found):
        rewrites.append("inline_ofg_expansion")  # Composed distributions, such as HalfCauchy.
    if any(v.owner and is_a(getattr(v.owner.op, "core_op", None), "tensor.Eigh") for v in found):
        rewrites += ["canonicalize_db", "eigh_of_diag"]  # Its derivative may be NaN.
    removal = None if check_bounds else in2out(local_remove_check_parameter)
    if rewrites or removal:
        flat = rewrite_graph(flat, include=rewrites, custom_rewrite=removal, clone=True)
    return jax.tree.unflatten(tree, flat)


def draws(outputs: Any) -> bool:
    """Return whether graphs draw random numbers."""
    return any(is_a(v.type, "tensor.RandomType") for v in ancestors(jax.tree.leaves(outputs)))


def data_of(outputs: Any) -> dict[str, Any]:
    """Return the shared variables of graphs that hold arrays, by name."""
    found = dict.fromkeys(ancestors(jax.tree.leaves(outputs)))
    shared = [v for v in found if is_a(v, "compile.SharedVariable")]
    return {v.name: v for v in shared if not is_a(v.type, "tensor.RandomType")}
