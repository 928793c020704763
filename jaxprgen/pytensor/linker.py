"""PyTensor's mode "JAXPR": what `pytensor.function` compiles with it is one JAX program."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportCallIssue=false
# Checks run without PyTensor, too.

from __future__ import annotations

from pytensor.compile.mode import Mode, predefined_modes, register_mode
from pytensor.link.jax.linker import JAXLinker

from jaxprgen.pytensor.containers import CellContainer
from jaxprgen.runtime.linked import LinkerMixin


class JaxprLinker(LinkerMixin, JAXLinker):
    """A PyTensor linker that makes one JAX program of a graph, without tracing it.

    It derives from PyTensor's JAX linker, so that PyTensor's rewrites take JAX for their target.
    The parameters are those of `jaxprgen.runtime.linked.LinkerMixin`.
    """

    container = CellContainer
    required_rewrites = ("inline_ofg_expansion",)


if "JAXPR" not in predefined_modes:
    register_mode("JAXPR", Mode(JaxprLinker(), "None"))
