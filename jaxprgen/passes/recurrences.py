"""Find recurrences that are written out step by step.

The steps of a recurrence are not alike, because each has a longer history than the one before. They
become alike if the values that pass from step to step, the *carries*, count as inputs. Which ones
to cut is guessed from how equations look close by, and what follows from a guess is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.passes.copies import Copies, Read, is_proven
from jaxprgen.passes.repeats import Colouring, Node


def cuts(colouring: Colouring, rounds: int, least: int) -> dict[int, int]:
    """Guess the carries of recurrences.

    Parameters
    ----------
    colouring : Colouring
        The nodes of a program.
    rounds : int
        How far equations are compared: they look alike if their operands do, and the operands of
        these, and so on.
    least : int
        The number of steps from which on a recurrence counts.

    Returns
    -------
    dict of int to int
        Positions of nodes whose results are carried, with the number of the carry.
    """
    classes, sources, targets = _look_alikes(colouring, rounds)
    many = np.bincount(classes) >= least
    inside = many[classes[sources]] & many[classes[targets]]
    pairs = np.unique(np.stack([classes[sources[inside]], classes[targets[inside]]], 1), axis=0)
    after: dict[int, set[int]] = {}
    for source, target in pairs.tolist():
        after.setdefault(source, set()).add(target)
    edges = np.stack([sources[inside], targets[inside]])
    chosen: set[int] = set()
    pending = cycles(after)
    while pending:
        carry_of = np.full(len(many), -1)  # For each class, the carry of its cycle.
        smaller: list[set[int]] = []  # The cycles that are left without the carries.
        for cycle in pending:
            own = {x: after.get(x, set()) & cycle for x in cycle}
            incoming = {x: sum(x in others for others in own.values()) for x in cycle}
            carry = max(cycle, key=lambda x: (x in own[x], incoming[x] * len(own[x]), -x))
            carry_of[[*cycle]] = carry
            rest = cycle - {carry}
            smaller += cycles({x: own[x] & rest for x in rest})
        source, target = carry_of[classes[edges]]
        edges = edges[:, (source == target) & (source >= 0)]
        times = _in_turn(classes, edges, carry_of)
        chosen.update(carry for carry, count in times.items() if count >= least)
        pending = smaller
    return _with_first_steps(colouring, classes, chosen, least) if chosen else {}


def _in_turn(
    classes: np.ndarray[Any, Any], edges: np.ndarray[Any, Any], carry_of: np.ndarray[Any, Any]
) -> Counter[int]:
    """Return how often each carry is computed from itself in turn.

    Several computations in one step may look alike, and wait for each other, as the slopes of a
    Runge-Kutta method. They form a cycle of classes, but too few are in turn for a recurrence.

    Parameters
    ----------
    classes
        The class of each node.
    edges
        The nodes at both ends of each edge inside of a cycle, in the order of the program.
    carry_of
        For each class of a cycle, the class of the carry.
    """
    carries = carry_of[classes]
    counts = (carries == classes).astype(int).tolist()
    found: Counter[int] = Counter()
    before: dict[int, int] = {}
    for source, target, carry in zip(*edges.tolist(), carries[edges[1]].tolist(), strict=True):
        times = before.get(source, counts[source]) + counts[target]
        if times > before.get(target, 0):
            before[target] = times
            found[carry] = max(found[carry], times)
    return found


def _look_alikes(
    colouring: Colouring, rounds: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the class of each node, and the nodes at both ends of each edge between nodes."""
    maker, nodes = colouring.maker, colouring.nodes
    sources: list[int] = []
    targets: list[int] = []
    places: list[int] = []
    own = [0] * len(nodes)
    for i, node in enumerate(nodes):
        is_ordered = not node.terms and not node.commutes
        for j, x in enumerate(node.operands):
            made = maker.get(x) if type(x) is Var else None
            place = 2 * j + 1 if is_ordered else 1
            if made is None:
                if not node.terms:
                    own[i] += (colouring.leaf(x, node.role(j)) + 1) * place
            else:
                sources.append(made)
                targets.append(i)
                places.append(place)
    kinds = _mixed(np.asarray([node.kind for node in nodes], np.uint64)) + _mixed(
        np.asarray(own, np.uint64)
    )
    source, target = np.asarray(sources, int), np.asarray(targets, int)
    weight = np.asarray(places, np.uint64)
    colours = kinds
    for _ in range(rounds):
        read = np.zeros(len(nodes), np.uint64)
        np.add.at(read, target, _mixed(colours[source]) * weight)
        colours = _mixed(kinds + read)
    _, classes = np.unique(colours, return_inverse=True)
    return classes, source, target


def _mixed(x: Any) -> Any:
    """Return well distributed 64-bit numbers, as splitmix64 does."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _with_first_steps(
    colouring: Colouring, classes: np.ndarray[Any, Any], chosen: Collection[int], least: int
) -> dict[int, int]:
    """Return the nodes of some classes, and those before them that only look different because
    they are close to the beginning."""
    nodes, maker, counts = colouring.nodes, colouring.maker, np.bincount(classes)
    found = {i: int(c) for i, c in enumerate(classes) if c in chosen}
    firsts = {carry: i for i, carry in reversed([*found.items()])}

    def may_be_alike(early: Node, late: Node, depth: int) -> bool:
        """Return whether no number or input shows that a node does something else than a later one.

        What is computed may differ: other values are carried to the first steps.
        """
        if early.kind != late.kind or early.terms or not depth:
            return True
        for i, (x, y) in enumerate(zip(early.operands, late.operands, strict=False)):
            made, other = (maker.get(v) if type(v) is Var else None for v in (x, y))
            if made is not None and other is not None:
                agree = may_be_alike(nodes[made], nodes[other], depth - 1)
            elif made is None and other is None:
                agree = colouring.leaf(x, early.role(i)) == colouring.leaf(y, late.role(i))
            else:
                agree = True
            if not agree:
                return False
        return True

    # In the order of the program: later recurrences do not look past an earlier one.
    for carry, first in sorted(firsts.items(), key=lambda item: item[1]):
        front, seen = [first], {first}
        while front and len(seen) < _NEAR:
            for x in nodes[front.pop(0)].operands:
                made = maker.get(x) if type(x) is Var else None
                if made is None or made in seen or found.get(made, carry) != carry:
                    continue
                seen.add(made)
                front.append(made)
                node = nodes[made]
                is_rare = node.kind == nodes[first].kind and counts[classes[made]] < least
                if is_rare and may_be_alike(node, nodes[first], _DEEP):
                    found.setdefault(made, carry)
    return found


_DEEP = 2
"""How many equations deep two nodes are compared."""
_NEAR = 200
"""How many equations before the first carry are searched for earlier ones."""


def cycles(after: Mapping[int, Collection[int]]) -> list[set[int]]:
    """Return the strongly connected components of a graph that contain a cycle.

    By Kosaraju's algorithm, without recursion: what reaches the nodes that are left last.
    """
    before: dict[int, list[int]] = {}
    order: list[int] = []
    seen: set[int] = set()
    pending = [(x, False) for x in after]
    while pending:
        x, is_left = pending.pop()
        if is_left:
            order.append(x)
        elif x not in seen:
            seen.add(x)
            pending.append((x, True))
            for y in after.get(x, ()):
                before.setdefault(y, []).append(x)
                pending.append((y, False))
    found: list[set[int]] = []
    for root in reversed(order):
        part, front = set[int](), [root]
        for x in front:
            if x in seen:
                seen.discard(x)
                part.add(x)
                front += before.get(x, ())
        if not part.isdisjoint(after.get(root, ())):
            found.append(part)
    return found


def connected(keys: Collection[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Split keys into parts that no edge connects; edges may lead to other numbers as well."""
    parent: dict[int, int] = {key: key for key in keys}

    def root(x: int) -> int:
        while parent.setdefault(x, x) != x:
            parent[x] = x = parent[parent[x]]
        return x

    for one, other in edges:
        parent[root(one)] = root(other)
    parts: dict[int, list[int]] = {}
    for key in keys:
        parts.setdefault(root(key), []).append(key)
    return [*parts.values()]


# --- Steps --------------------------------------------------------------------------------


def steps_of(
    colouring: Colouring, groups: Mapping[int, Sequence[Node]], cut: Mapping[int, int]
) -> list[Copies]:
    """Return the steps of recurrences among groups of alike nodes."""
    group_of = {id(node): key for key, nodes in groups.items() for node in nodes}
    after: dict[int, set[int]] = {key: set() for key in groups}
    read: dict[int, list[int]] = {}
    for key, nodes in groups.items():
        for node in nodes:
            read[id(node)] = made = [x for x in _read_nodes(colouring, node) if x in group_of]
            for x in made:
                after[group_of[x]].add(key)
    carried = {id(colouring.nodes[i]) for i in cut}
    found: list[Copies] = []
    for cycle in cycles(after):
        members = sorted((node for key in cycle for node in groups[key]), key=lambda n: n.place)
        own = {id(node): node for node in members}
        edges = ((x, made) for x in own for made in read[x] if made in own)
        for part in connected(own, edges):
            steps = _steps(colouring, [own[x] for x in part], read, group_of, carried)
            if steps is not None and is_proven(steps, as_loop=True):
                found.append(steps)
    return found


def _read_nodes(colouring: Colouring, node: Node) -> list[int]:
    """Return the identities of the nodes that make the operands of a node."""
    nodes, maker = colouring.nodes, colouring.maker
    return [id(nodes[maker[x]]) for x in node.operands if type(x) is Var and x in maker]


def _steps(
    colouring: Colouring,
    nodes: Sequence[Node],
    read: Mapping[int, Sequence[int]],
    group_of: Mapping[int, int],
    carried: Collection[int],
) -> Copies | None:
    """Return the steps that nodes of a cycle seem to form, or None if there are none."""
    by_group: dict[int, dict[int, list[Node]]] = {}
    counts = Counter(group_of[id(node)] for node in nodes if id(node) in carried)
    if not counts:
        return None
    main = counts.most_common(1)[0][0]
    level: dict[int, int] = {}
    for node in nodes:
        before = [level[x] + (group_of[x] == main) for x in read[id(node)] if x in level]
        level[id(node)] = own = max(before, default=0)
        by_group.setdefault(group_of[id(node)], {}).setdefault(own, []).append(node)
    columns = [column for levels in by_group.values() for column in _columns(levels)]
    first = max(map(min, columns))
    last = min(map(max, columns))
    if last - first < 1 or any(
        t not in column for column in columns for t in range(first, last + 1)
    ):
        return None
    columns.sort(key=lambda column: column[last].place)
    rows = [[column[t] for column in columns] for t in range(first, last + 1)]
    inside = {id(node): (t, i) for t, row in enumerate(rows) for i, node in enumerate(row)}
    reads = [[_read(colouring, x, len(rows) - 1, inside) for x in n.operands] for n in rows[-1]]
    return Copies(rows, reads)


def _columns(levels: Mapping[int, Sequence[Node]]) -> list[dict[int, Node]]:
    """Return the nodes of one colour in columns, with one node for each step.

    A step may do the same several times, such as to queries, keys and values. They are told apart
    by their order. Of more nodes that do not follow a carry, the last ones belong to the first
    step.
    """
    ((many, _),) = Counter(map(len, levels.values())).most_common(1)
    return [
        {t: nodes[-1 - j] for t, nodes in levels.items() if j < len(nodes)} for j in range(many)
    ]


def _read(
    colouring: Colouring, x: Any, t: int, inside: Mapping[int, tuple[int, int]]
) -> Read | None:
    made = colouring.maker.get(x) if type(x) is Var else None
    if made is None:
        return None
    node = colouring.nodes[made]
    found = inside.get(id(node))
    if found is None:
        return None
    return Read(found[1], list(node.outvars).index(x), t - found[0])


def stages(colouring: Colouring, loops: Sequence[Copies]) -> list[int]:
    """Return, for each node outside of the loops, how many of them it waits for in turn.

    Nodes that are alike, of which a loop waits for one, and another one for the loop, cannot be
    computed together.
    """
    nodes = colouring.nodes
    owner = {id(node): k for k, steps in enumerate(loops) for node in steps.nodes}
    loop_of = [owner.get(id(node)) for node in nodes]
    made = [
        [colouring.maker[x] for x in n.operands if type(x) is Var and x in colouring.maker]
        for n in nodes
    ]
    before = [0] * len(loops)
    found = [0] * len(nodes)
    for _ in range(1 + len(loops)):
        last = [*before]
        for i, own in enumerate(loop_of):
            stage = 0
            for j in made[i]:
                other = loop_of[j]
                if other is None:
                    stage = max(stage, found[j])
                elif other != own:
                    stage = max(stage, before[other] + 1)
            found[i] = stage
            if own is not None:
                before[own] = max(before[own], stage)
        if before == last:
            break
    return found
