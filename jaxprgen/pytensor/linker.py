"""PyTensor's mode "JAXPR": what `pytensor.function` compiles with it is one JAX program."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportCallIssue=false
# Checks run without PyTensor, too.

from __future__ import annotations

from pytensor.compile.maker import FunctionMaker
from pytensor.compile.mode import Mode, predefined_modes, register_mode
from pytensor.link.basic import Container
from pytensor.link.jax.linker import JAXLinker
from pytensor.link.utils import map_storage

from jaxprgen.pytensor.containers import CellContainer
from jaxprgen.runtime.linked import LinkerMixin, MakerMixin


class JaxprLinker(LinkerMixin, JAXLinker):
    """A PyTensor linker that makes one JAX program of a graph, without tracing it.

    It derives from PyTensor's JAX linker, so that PyTensor's rewrites take JAX for their target.
    The parameters are those of `jaxprgen.runtime.linked.LinkerMixin`.
    """

    containers = CellContainer, Container
    map_storage = staticmethod(map_storage)
    required_rewrites = ("inline_ofg_expansion",)


class JaxprFunctionMaker(MakerMixin, FunctionMaker):
    """Makes functions of mode "JAXPR"."""


class JaxprMode(Mode):
    """A PyTensor mode that links by `JaxprLinker`, after the rewrites that are asked for."""

    function_maker = JaxprFunctionMaker


if "JAXPR" not in predefined_modes:
    register_mode("JAXPR", JaxprMode(JaxprLinker(), "None"))
