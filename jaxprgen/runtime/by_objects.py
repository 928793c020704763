"""Programs for arguments that are not arrays: one for each None, slice or structure of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from jaxprgen.graphs.library import is_array, is_none_or_slice, is_sparse, may_be_none_or_slice
from jaxprgen.graphs.state import substitute
from jaxprgen.graphs.typed_lists import is_typed_list, opened_list
from jaxprgen.lowering.names import Variable
from jaxprgen.runtime.specialize import MOST_PROGRAMS
from jaxprgen.runtime.state import StatefulProgram

Make = Callable[[Sequence[Variable], Sequence[Variable], Mapping[Variable, Any]], StatefulProgram]
"""Makes a program of inputs, outputs, and variables that have one value for all calls."""


class ByObjects:
    """The programs of a graph by the values of inputs that need not be arrays.

    Parameters
    ----------
    graph
        The graph.
    storages
        The storage of its inputs, by variable.
    arguments, outputs
        The inputs that are arguments of the programs, and the outputs.
    make
        Makes a program.

    Attributes
    ----------
    plain : StatefulProgram
        The program for arrays. It is falsy if some value is never an array, or if the graph has no
        outputs.
    others : dict
        All other programs.
    """

    def __init__(
        self,
        graph: Any,
        storages: Mapping[Variable, list[Any]],
        arguments: Iterable[Variable],
        outputs: Sequence[Variable],
        make: Make,
    ) -> None:
        self._arguments, self._outputs, self._make = [*arguments], outputs, make
        special = [v for v in graph.inputs if may_be_none_or_slice(graph, v) or is_typed_list(v)]
        self._special = {v: storages[v] for v in special}
        self.others: dict[Any, StatefulProgram] = {}
        has_plain = graph.outputs and all(is_array(v) or is_sparse(v) for v in special)
        self.plain: Any = has_plain and self.program({})

    def find(self, operands: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Return the program for values of the arguments, and its own arguments."""
        values = {v: storage[0] for v, storage in self._special.items()}
        fixed = {v: x for v, x in values.items() if is_none_or_slice(x)}
        lists = {v: x for v, x in values.items() if is_typed_list(v)}
        fixed |= {v: jax.tree.structure(x) for v, x in lists.items()}
        if not fixed:
            return self.plain, operands
        key = tuple((v, repr(x)) for v, x in fixed.items())
        if key not in self.others:
            if len(self.others) >= MOST_PROGRAMS:
                self.others.clear()
            self.others[key] = self.program(fixed)
        given = zip(self._arguments, operands, strict=True)
        arrays = [jax.tree.leaves(x) if v in lists else [x] for v, x in given]
        return self.others[key], [x for some in arrays for x in some if not is_none_or_slice(x)]

    def program(self, fixed: Mapping[Variable, Any]) -> StatefulProgram:
        """Return the program for None, slices and structures of lists."""
        lists = {v: opened_list(v, x) for v, x in fixed.items() if is_typed_list(v)}
        inputs = [x for v in self._arguments for x in (lists[v][0] if v in lists else [v])]
        return self._make(
            [v for v in inputs if v not in fixed],
            substitute(self._outputs, [(v, x) for v, (_, x) in lists.items()]),
            {v: x for v, x in fixed.items() if v not in lists},
        )
