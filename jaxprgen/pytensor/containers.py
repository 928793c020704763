"""PyTensor's containers, which tell cells who asks for values."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportCallIssue=false
# Checks run without PyTensor, too.

from __future__ import annotations

from pytensor.compile.sharedvalue import shared_constructor
from pytensor.link.basic import Container

from jaxprgen.graphs.containers import CellMixin, give_cells


class CellContainer(CellMixin, Container):
    """A container of a shared variable that has a cell."""


give_cells(shared_constructor, CellContainer)
