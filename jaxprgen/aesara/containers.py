"""Aesara's containers, which tell cells who asks for values."""

from __future__ import annotations

from aesara.compile.sharedvalue import shared_constructor
from aesara.link.basic import Container

from jaxprgen.graphs.containers import CellMixin, give_cells


class CellContainer(CellMixin, Container):
    """A container of a shared variable that has a cell."""


give_cells(shared_constructor, CellContainer)
