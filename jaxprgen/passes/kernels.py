"""Model which kernels XLA compiles for a program: what it fuses, and what it compiles only once.

XLA fuses an elementwise function with those that read its result, so that one *kernel* computes
all of them without writing the values between them to memory. Kernels that do the same are
compiled once, however often they are called: on a CPU, 180 functions ``exp(0.5 * x).sum()`` of
separate arrays take 0.1 s, and 4 s if each has another factor. Copies of a body that differ only in
their operands are therefore cheap to compile. Copies that read slices of one array at different
places are not: each needs its own kernel. Here, operands count by their types alone.

Kernels compute cheap values again rather than read them. So sums that grow from layer to layer may
take compile time that grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from jaxprgen._jax import Var
from jaxprgen.ir.inner import holder_of
from jaxprgen.ir.redundancy import literal_key
from jaxprgen.passes.costs import Work, elements, is_fused, is_reduction, is_slow, work_of
from jaxprgen.passes.repeats import Node, reads_a_block


class Kernels:
    """The kernels of a program, as far as its equations tell.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes of the program, in order.
    outputs : iterable of atoms
        What the program returns.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[Any]) -> None:
        stored = _stored(nodes, outputs)
        self._number: dict[Hashable, int] = {}
        self._inside: dict[int, Work] = {}
        self._kernel: dict[int, int] = {}
        self._again: dict[int, int] = {}  # Equations that a kernel computes as others do.
        keys: dict[Any, int] = {}  # Of values that are fused with what reads them.
        fused: dict[Any, Node] = {}  # The nodes that make them.
        owned: set[int] = set()  # Nodes that a kernel has computed.

        def operand(x: Any) -> Hashable:
            if type(x) is not Var:
                return literal_key(x)
            return keys.get(x, ("stored", x.aval))

        for node in nodes:
            if not _fuses(node):
                inside, holder = work_of(node.equations), holder_of(node.eqn)
                if holder is not None and holder.only_runs:
                    key = self._key((node.kind, *map(operand, node.operands)))
                    self._end(node, key, fused, owned)
                    inside = inside._replace(kernels=max(inside.kernels, 1))
                elif inside.kernels:
                    self._kernel[id(node)] = self._key(id(node))
                self._inside[id(node)] = inside
                continue
            what = [operand(x) for x in node.operands]
            if node.terms:
                what.append(tuple(term.sign for term in node.terms))
            elif reads_a_block(node.eqn):
                what.append(node.eqn.params["start_indices"])
            v, key = node.outvars[0], self._key((node.kind, *what))
            if v not in stored or _is_computed_again(node, fused):
                keys[v], fused[v] = key, node
            if v in stored and not _is_view(node):
                self._end(node, key, fused, owned)

    def _end(self, node: Node, key: int, fused: Mapping[Any, Node], owned: set[int]) -> None:
        """Note that a kernel ends with a node, and what it computes again."""
        self._kernel[id(node)] = key
        if key not in self._again:
            nodes = _cone(node, fused)
            self._again[key] = sum(len(n.equations) for n in nodes if id(n) in owned)
            owned.update(map(id, nodes))

    def _key(self, what: Hashable) -> int:
        return self._number.setdefault(what, len(self._number))

    def is_stored(self, node: Node) -> bool:
        """Return whether a node's result is written to memory, so that a kernel ends there."""
        return id(node) in self._kernel

    def work(self, nodes: Iterable[Node]) -> Work:
        """Return the work to compile nodes: alike kernels count once."""
        kernels: dict[int, float] = {}
        equations = 0
        for node in nodes:
            inside = self._inside.get(id(node), Work(1, len(node.equations)))
            equations += inside.equations
            key = self._kernel.get(id(node))
            if key is not None:
                kernels[key] = inside.kernels
        again = sum(self._again.get(key, 0) for key in kernels)
        return Work(sum(kernels.values()), equations + again)


def _cone(node: Node, fused: Mapping[Any, Node]) -> list[Node]:
    """Return a node and those that are fused with it, up to a number."""
    found, seen = [node], {id(node)}
    for reader in found:
        for x in reader.operands:
            maker = fused.get(x) if type(x) is Var else None
            if maker is not None and id(maker) not in seen and len(found) < _MOST:
                seen.add(id(maker))
                found.append(maker)
    return found


_MOST = 256
"""How many nodes a kernel is taken to compute at most."""


def is_kernel(node: Node) -> bool:
    """Return whether a node reads its operands from memory, and writes its results there.

    XLA fuses others. A row that this node reads by itself has to be taken out of its array.
    """
    return not (node.terms or is_fused(node.eqn) or is_reduction(node.eqn))


def is_join(node: Node) -> bool:
    """Return whether a node joins arrays: rows of one pack that it reads stay together."""
    return node.eqn.primitive.name in ("concatenate", "stack")


def _fuses(node: Node) -> bool:
    """Return whether XLA may fuse a node with what makes its operands."""
    return not is_kernel(node) or is_join(node) or node.eqn.primitive.name in _MOVING


def _is_view(node: Node) -> bool:
    """Return whether a node only gives its operand's memory another shape."""
    eqn = node.eqn
    if eqn.primitive.name not in _RESHAPING:
        return False
    return elements(eqn.invars[0]) == elements(eqn.outvars[0])


def _is_costly(eqn: Any) -> bool:
    """Return whether XLA computes an elementwise function once rather than in several kernels."""
    return is_slow(eqn) or eqn.primitive.name in ("div", "rem", "sqrt", "rsqrt")


def _is_computed_again(node: Node, fused: Mapping[Any, Node]) -> bool:
    """Return whether a kernel that reads a stored value computes it again, as XLA decides.

    That reads no more memory if all operands but one are spread over the result.
    """
    eqn = node.eqn
    if not is_fused(eqn) or _is_costly(eqn):
        return False
    size = elements(eqn.outvars[0])
    whole = [x for x in eqn.invars if type(x) is Var and elements(x) == size]
    spread = [x for x in whole if x in fused and fused[x].eqn.primitive.name in _SPREADING]
    return len(whole) - len(spread) <= 1


_SPREADING = ("broadcast_in_dim", "iota")


def _stored(nodes: Sequence[Node], outputs: Iterable[Any]) -> set[Any]:
    """Return the variables whose values are written to memory.

    XLA computes others again in each kernel that reads them, if they are cheap and few kernels do.
    """
    stored = {x for x in outputs if type(x) is Var}
    needed: dict[Any, frozenset[Any]] = {}  # The results of the kernels that need a value.
    nowhere = frozenset[Any]()
    for node in reversed(nodes):
        if not _fuses(node):
            stored.update(x for x in node.operands if type(x) is Var)
            continue
        v, is_view = node.outvars[0], _is_view(node)
        own = needed.pop(v, nowhere)
        if is_reduction(node.eqn) or len(own) > (1 if _is_costly(node.eqn) else _FEW):
            stored.add(v)
        if v in stored:
            own = frozenset([v])
        for x in node.operands:
            if type(x) is not Var:
                continue
            if v in stored and is_view:
                stored.add(x)
            elif len(known := needed.get(x, nowhere)) <= _FEW:
                needed[x] = known | own
    return stored


_FEW = 8
"""A cheap value that more kernels than this need is stored, not computed again."""
_MOVING = frozenset({"gather", "dynamic_slice", "dynamic_update_slice"})
_RESHAPING = frozenset({"reshape", "squeeze", "broadcast_in_dim"})
