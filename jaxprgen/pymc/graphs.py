"""Graphs of PyMC's models: their data, and what PyTensor must rewrite in them."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportUntypedFunctionDecorator=false, reportUntypedBaseClass=false
# Checks run without PyMC, too.

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import local_remove_check_parameter
from pytensor.gradient import DisconnectedType
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.eigen import Eigh

from jaxprgen.lowering.names import is_a


def lowered(outputs: Any, *, check_bounds: bool = True) -> Any:
    """Return graphs of tensors, without the checks of parameters if they are off.

    Eigenvectors in them have a gradient that is right where eigenvalues nearly coincide.

    Parameters
    ----------
    outputs : variable or pytree of variables
        The ends of the graphs.
    check_bounds : bool
        Keep the checks of parameters, as `pymc.Model` says.
    """
    flat, tree = jax.tree.flatten(outputs)
    rewrites, own = list[str](), [] if check_bounds else [local_remove_check_parameter]
    found = set(ancestors(flat))
    if any(is_a(v.type, "xtensor.XTensorType") for v in found):
        rewrites.append("lower_xtensor")
    if any(v.owner and getattr(v.owner.op, "is_inline", False) for v in found):
        rewrites.append("inline_ofg_expansion")  # Composed distributions, such as HalfCauchy.
    if any(v.owner and is_a(getattr(v.owner.op, "core_op", None), "tensor.Eigh") for v in found):
        rewrites += ["canonicalize_db", "eigh_of_diag"]
        own.append(_accurate_eigh)
    if rewrites or own:
        custom = in2out(*own) if own else None
        flat = rewrite_graph(flat, include=rewrites, custom_rewrite=custom, clone=True)
    return jax.tree.unflatten(tree, flat)


@node_rewriter([Blockwise])
def _accurate_eigh(_: Any, node: Any) -> Any:
    op = node.op
    if type(op.core_op) is not Eigh or len(node.inputs) > 1:
        return None
    accurate = _Eigh(**op.core_op._props_dict())
    return Blockwise(accurate, signature=op.signature).make_node(*node.inputs).outputs


class _Eigh(Eigh):
    """`Eigh` with the gradient of `jaxprgen.emit.matrix.eigh_cotangent`."""

    def pullback(self, inputs: Any, outputs: Any, output_grads: Any) -> Any:
        """Return the gradient of one matrix."""
        (x,), (w, v) = inputs, outputs
        gw, gv = (
            pt.zeros_like(y) if isinstance(g.type, DisconnectedType) else g
            for y, g in zip(outputs, output_grads, strict=True)
        )
        turned, gaps = v.T @ gv, w[None, :] - w[:, None]
        tied, own = pt.eq(gaps, 0), pt.eye(w.shape[0], dtype=bool)
        is_diagonal = pt.all(own | pt.eq(x, 0))
        unknown = pt.switch(own | ~is_diagonal, 0, np.nan)
        rates = pt.switch(tied, unknown, 1 / pt.switch(tied, 1, gaps))
        slope = v @ (pt.diag(gw) + rates * (turned - turned.T) / 2) @ v.T
        triangle = pt.tril if self.lower else pt.triu
        return [triangle(slope) + triangle(slope, -1 if self.lower else 1)]


def draws(outputs: Any) -> bool:
    """Return whether graphs draw random numbers."""
    return any(is_a(v.type, "tensor.RandomType") for v in ancestors(jax.tree.leaves(outputs)))


def data_of(outputs: Any) -> dict[str, Any]:
    """Return the shared variables of graphs that hold arrays, by name."""
    found = dict.fromkeys(ancestors(jax.tree.leaves(outputs)))
    shared = [v for v in found if is_a(v, "compile.SharedVariable")]
    return {v.name: v for v in shared if not is_a(v.type, "tensor.RandomType")}
