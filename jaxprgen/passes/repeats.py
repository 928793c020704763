"""Find what a program repeats: equations that do the same to operands that were made alike.

Equations get numbers, their *colours*. Two equations have one colour if they have the same
primitive, parameters and types, and their operands have the same colours, pairwise. So equations of
one colour are the last ones of isomorphic histories. None of them depends on another one, because
all have histories of the same depth. Before colouring, chains of additions become sums of any
number of terms, as do chains of other associative operations. See `jaxprgen.passes.sums` for the
order of their terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import Jaxpr, JaxprEqn, Var, identity
from jaxprgen.ir.liveness import uses_of
from jaxprgen.ir.redundancy import Identities, commutes, literal_key
from jaxprgen.passes.sums import Stretch, Term, stretches

CHAINS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("add", "add_any", "sub"), "add"),
        **{name: name for name in ("mul", "max", "min", "and", "or")},
    }
)
"""The associative operation that each primitive is part of."""
_RARE = 8
"""An atom is shared if it is one of this many or fewer in places like its own."""
_OFTEN = 8
"""A result is shared if it is read more often than this."""


class Node:
    """An equation, or a chain of equations that combines terms.

    Attributes
    ----------
    place : int
        The position of the (last) equation in the program.
    equations : list of JaxprEqn
        The equations.
    eqn : JaxprEqn
        The last equation.
    outvars : list of Var
        The variables that it binds.
    operands : list of Atom
        The atoms that they read, in an order that equals that of alike nodes.
    terms : list of Term
        The terms of a chain; empty for an equation alone.
    stretches : list of Stretch
        The terms, by what repeats in them; those of alike nodes have the same kinds.
    is_ordered : bool
        Whether the terms are added in their order, which is that of the program. Others are in any
        order, such as those of integer sums and maxima.
    commutes : bool
        Whether the order of the operands does not matter.
    kind : int
        A number that nodes share which differ only in their operands.
    colour : int
        The colour.
    """

    __slots__ = (
        "colour",
        "commutes",
        "eqn",
        "equations",
        "is_ordered",
        "kind",
        "operands",
        "outvars",
        "place",
        "stretches",
        "terms",
    )

    def __init__(self, place: int, equations: list[JaxprEqn], terms: list[Term]) -> None:
        self.place = place
        self.equations = equations
        self.eqn: Any = equations[-1]
        self.outvars: Sequence[Any] = self.eqn.outvars
        self.terms = terms
        self.stretches: list[Stretch] = []
        self.is_ordered = bool(terms) and _is_ordered(self.eqn)
        self.operands: list[Any] = [t.atom for t in terms] or list(self.eqn.invars)
        self.commutes = not terms and commutes(self.eqn)
        self.kind = self.colour = -1

    def role(self, i: int) -> tuple[int, int]:
        """Return what alike nodes read in the place of the i-th operand."""
        return self.kind, 0 if self.commutes or self.terms else i


def _is_ordered(eqn: Any) -> bool:
    """Return whether the order of the terms of a chain matters: in sums that are rounded."""
    return CHAINS[eqn.primitive.name] == "add" and eqn.outvars[0].aval.dtype.kind not in "biu"


def reads_a_block(eqn: JaxprEqn) -> bool:
    """Return whether an equation is a slice at a known place."""
    return eqn.primitive.name == "slice" and all(map(is_known, eqn.params["start_indices"]))


def is_known(size: Any) -> bool:
    """Return whether a size is a number, not symbolic; JAX's gradients have sizes of NumPy's."""
    return isinstance(size, int | np.integer)


# --- Chains ---------------------------------------------------------------------------------


class _Chain(NamedTuple):
    """A chain of equations, at the place of the last one."""

    place: int
    family: str
    equations: list[Any]
    terms: list[Term]


def _chained(jaxpr: Jaxpr, reassociate: bool) -> list[Node]:
    """Return nodes, with chains of three or more terms as one node each."""
    uses = uses_of(jaxpr.eqns, jaxpr.outvars)
    chains: dict[Any, _Chain] = {}
    inside: set[int] = set()
    for place, eqn in enumerate(jaxpr.eqns):
        if _may_chain(eqn, reassociate):
            (chain, *others) = _parts(eqn, chains, uses)
            for other in others:
                chain.terms.extend(other.terms)
                chain.equations.extend(other.equations)
            inside.update(part.place for part in (chain, *others) if part.place >= 0)
            chain.equations.append(eqn)
            chains[eqn.outvars[0]] = chain._replace(place=place)
    long = {c.place: c for c in chains.values() if c.place not in inside and len(c.terms) > 2}
    inside = {eqn_place for c in long.values() for eqn_place in _places(c, chains)}
    return [
        Node(i, long[i].equations, long[i].terms) if i in long else Node(i, [eqn], [])
        for i, eqn in enumerate(jaxpr.eqns)
        if i in long or i not in inside
    ]


def _parts(eqn: Any, chains: Mapping[Any, _Chain], uses: Mapping[Any, int]) -> list[_Chain]:
    """Return the operands of an equation as chains, the longest first.

    The longest takes the other in, so that the cost stays linear. In a sum whose order matters, the
    other is a single term, because parentheses around it stay, and so is what is subtracted.
    """
    family, is_ordered = CHAINS[eqn.primitive.name], _is_ordered(eqn)
    signs = (1, -1 if eqn.primitive.name == "sub" else 1)
    found: list[tuple[_Chain, _Chain]] = []
    for sign, x in zip(signs, eqn.invars, strict=True):
        alone = _Chain(-1, family, [], [Term(sign, x)])
        chain = chains.get(x) if type(x) is Var and uses[x] == 1 else None
        if chain is None or chain.family != family or (is_ordered and sign < 0):
            chain = alone
        elif sign < 0:
            chain = chain._replace(terms=[t._replace(sign=-t.sign) for t in chain.terms])
        found.append((chain, alone))
    (first, _), second = sorted(found, key=lambda pair: -len(pair[0].terms))
    return [first, second[is_ordered]]


def _places(chain: _Chain, chains: Mapping[Any, _Chain]) -> list[int]:
    """Return the places of all equations of a chain but the last one."""
    return [chains[eqn.outvars[0]].place for eqn in chain.equations[:-1]]


def _may_chain(eqn: Any, reassociate: bool) -> bool:
    name = eqn.primitive.name
    if name not in CHAINS:
        return False
    aval: Any = eqn.outvars[0].aval
    if any(x.aval.shape != aval.shape for x in eqn.invars):
        return False
    kind = getattr(aval.dtype, "kind", "V")
    return kind in "biu" or (kind in "fc" and reassociate and name != "mul")


# --- Colours --------------------------------------------------------------------------------


class Colouring:
    """Colours the nodes of a program.

    Literals, inputs and constants of one type have the same colour, unless they are *shared*: read
    by many equations that are alike, such as a parameter of all terms of a likelihood. A literal is
    shared at that place only, because the same number has other meanings elsewhere.

    Parameters
    ----------
    jaxpr : Jaxpr
        The program.
    identities : Identities
        How equations are compared.
    reassociate : bool
        Whether sums of numbers that are rounded are chains.
    steps : bool
        Whether the steps of a recurrence are looked for. Then a result that many equations read is
        shared as well, such as a function of a parameter. Otherwise it may be that of a group.

    Attributes
    ----------
    nodes : list of Node
        The nodes of the program, in order.
    maker : dict of Var to int
        The position of the node that binds a variable.
    """

    def __init__(
        self, jaxpr: Jaxpr, identities: Identities, reassociate: bool, steps: bool = False
    ) -> None:
        self.nodes = _chained(jaxpr, reassociate)
        self.maker = {v: i for i, node in enumerate(self.nodes) for v in node.outvars}
        self._identities = identities
        self._numbers: dict[Hashable, int] = {}
        self._leaves: dict[Any, int] = {}
        reads = (node.eqn.invars[0] for node in self.nodes if reads_a_block(node.eqn))
        self._slices: Counter[Any] = Counter(x for x in reads if type(x) is Var)
        for node in self.nodes:
            node.kind = self._number(self._kind(node))
        self._shared = self._shared_atoms(steps)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _kind(self, node: Node) -> Hashable:
        """Return what there is to say of a node apart from its operands."""
        eqn = node.eqn
        types = tuple(self._number(("type", v.aval)) for v in node.outvars)
        if node.terms:
            return CHAINS[eqn.primitive.name], types
        if eqn.effects:
            return "apart", node.place
        if reads_a_block(eqn):
            return "slice", types, eqn.params["strides"]
        return self._identities.parameters(eqn), types

    def leaf(self, x: Any, role: tuple[int, int]) -> int:
        """Return the colour of a literal, an input or a constant in a role."""
        known = x if type(x) is Var else (role, identity(x))
        found = self._leaves.get(known)
        if found is None:
            key = _leaf_key(x, role)
            named = key if key in self._shared else (type(x) is Var, x.aval)
            found = self._leaves[known] = self._number(("leaf", named))
        return found

    def colour(self, cut: Mapping[int, int] = MappingProxyType({})) -> None:
        """Give all nodes their colours, and order their operands alike.

        Parameters
        ----------
        cut : mapping of int to int
            Positions of nodes whose results count as inputs, each with a number that says which
            are alike. So the steps of a recurrence become alike. What a step reads from a part of
            its own values is told apart by the place, which is the same in all steps. What is read
            of one value in many places comes after the loop, and may be a pack.
        """
        number, colours = self._number, dict[Any, int]()
        looped: set[int] = set()

        def of(x: Any, role: tuple[int, int]) -> int:
            found = colours.get(x) if type(x) is Var else None
            return self.leaf(x, role) if found is None else found

        for i, node in enumerate(self.nodes):
            if node.terms:
                found: Any = self._kinds_of_terms(node, of)
                read = [colour for kinds in found for _, colour in kinds]
            else:
                if node.commutes:
                    role = node.role(0)
                    node.operands.sort(key=lambda x, role=role: of(x, role))
                found = read = tuple(of(x, node.role(i)) for i, x in enumerate(node.operands))
            kind: Hashable = node.kind
            is_looped = cut and not looped.isdisjoint(read)
            if is_looped and reads_a_block(node.eqn) and self._slices[node.operands[0]] < _RARE:
                kind = kind, node.eqn.params["start_indices"]
            node.colour = number((kind, found))
            same = ("cut", cut[i]) if i in cut else node.colour
            for j, v in enumerate(node.outvars):
                colours[v] = number(("leaf", v) if v in self._shared else (same, j))
                if is_looped or i in cut:
                    looped.add(colours[v])

    def tell_apart(self, marks: Sequence[int]) -> None:
        """Give nodes of one colour different ones if their marks differ."""
        for node, mark in zip(self.nodes, marks, strict=True):
            node.colour = self._number(("marked", node.colour, mark))

    def _kinds_of_terms(
        self, node: Node, of: Callable[[Any, tuple[int, int]], int]
    ) -> tuple[tuple[Any, ...], ...]:
        """Split the terms of a node by what repeats in them, and return the kinds of each part."""
        role = node.role(0)
        read = [((t.sign, of(t.atom, role)), t) for t in node.terms]
        if not node.is_ordered:
            read.sort(key=lambda pair: (-pair[0][0], pair[0][1]))
        node.terms = [t for _, t in read]
        node.operands = [t.atom for t in node.terms]
        node.stretches = stretches(node.terms, [kind for kind, _ in read])
        return tuple(stretch.kinds for stretch in node.stretches)

    def _shared_atoms(self, steps: bool) -> set[Any]:
        """Return the keys of atoms that many alike nodes read; results only with ``steps``."""
        taken: Counter[Any] = Counter()
        roles: Counter[Any] = Counter()
        for node in self.nodes:
            for i, x in enumerate(node.operands):
                is_made = type(x) is Var and x in self.maker
                if is_made and not steps:
                    continue
                role = node.role(i)
                taken[role, _leaf_key(x, role), is_made] += 1
                roles[role, is_made] += 1
        return {
            key
            for (role, key, is_made), count in taken.items()
            if count > (_OFTEN if is_made else 1) and count * _RARE >= roles[role, is_made]
        }


def _leaf_key(x: Any, role: tuple[int, int]) -> Hashable:
    return x if type(x) is Var else (role, literal_key(x))
