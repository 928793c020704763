"""Join what a program writes to an array block by block, at places that are known.

A chain of writes such as ``y = y.at[i].set(x[i])`` makes every step wait for the one before, and so
hides what the steps have in common. Here an equation that reads a block gets what was written to
it, whatever is written elsewhere, and the blocks of a chain are written together.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.liveness import uses_of
from jaxprgen.ir.rewriting import as_weak_as, with_equations
from jaxprgen.passes.constant_folding import Constants
from jaxprgen.passes.costs import CostModel, Work
from jaxprgen.passes.packs import windows
from jaxprgen.passes.repeats import is_known

Place = tuple[int, ...]
Index = Callable[[Sequence[Any]], "list[int] | None"]
COMBINING: Mapping[str, Callable[..., Var]] = MappingProxyType(
    {"scatter-add": lax.add, "scatter-mul": lax.mul, "add": lax.add, "add_any": lax.add}
)
"""How primitives combine a block with what is there; others replace it."""
READING = ("slice", "dynamic_slice", "gather")
_SCATTERS = {"scatter", *(name for name in COMBINING if name.startswith("scatter"))}
WRITING = {"dynamic_update_slice", *_SCATTERS}


class Block(NamedTuple):
    """A part of an array that an equation reads or writes. No size of them is symbolic.

    Attributes
    ----------
    array : Atom or None
        The array; None for an equation that makes one of a block and zeros around it.
    start, sizes : tuple of int
        The place of the first element, and the size along each axis.
    value : Atom or None
        What is written.
    """

    array: Any
    start: Place
    sizes: Place
    value: Any = None


def written(eqn: Any, index: Index) -> Block | None:
    """Return the block that an equation writes, or None if it does not write one known block.

    Parameters
    ----------
    eqn : JaxprEqn
        The equation.
    index : callable
        Returns the value of an atom as a list of int, or None if it is not known.
    """
    name, operands = eqn.primitive.name, eqn.invars
    if name == "pad":
        if not pads_with_zeros(eqn):
            return None
        start = tuple(int(low) for low, _, _ in eqn.params["padding_config"])
        return Block(None, start, operands[0].aval.shape, operands[0])
    if name not in WRITING or not _has_known_sizes(operands[0]):
        return None
    if name == "dynamic_update_slice":
        sizes = operands[1].aval.shape
        return _clipped(operands[0], index(operands[2:]), sizes, operands[1])
    if name == "scatter" and eqn.params["update_jaxpr"] is not None:
        return None  # It applies a function to what is there.
    numbers = eqn.params["dimension_numbers"]
    axes = numbers.scatter_dims_to_operand_dims
    if len(operands[1].aval.shape) != 1 or numbers.operand_batching_dims:
        return None
    window = iter(operands[2].aval.shape)
    rank = range(len(operands[0].aval.shape))
    sizes = tuple(1 if d in numbers.inserted_window_dims else next(window) for d in rank)
    return _in_bounds(operands[0], axes, index(operands[1:2]), sizes, operands[2])


def read(eqn: Any, index: Index) -> Block | None:
    """Return the block that an equation reads, or None if it does not read one known block."""
    name, operands, params = eqn.primitive.name, eqn.invars, eqn.params
    if name not in READING or not _has_known_sizes(operands[0]):
        return None
    if name == "slice":
        start, stop, steps = params["start_indices"], params["limit_indices"], params["strides"]
        if not all(map(is_known, (*start, *stop))) or any(k != 1 for k in steps or ()):
            return None
        return Block(operands[0], start, tuple(j - i for i, j in zip(start, stop, strict=True)))
    if name == "dynamic_slice":
        return _clipped(operands[0], index(operands[1:]), params["slice_sizes"])
    if len(operands[1].aval.shape) != 1:
        return None
    numbers = params["dimension_numbers"]
    if numbers.operand_batching_dims:
        return None
    return _in_bounds(
        operands[0], numbers.start_index_map, index(operands[1:]), params["slice_sizes"]
    )


def _has_known_sizes(x: Any) -> bool:
    return all(map(is_known, x.aval.shape))


def _clipped(x: Any, at: Sequence[int] | None, sizes: Place, value: Any = None) -> Block | None:
    if at is None:
        return None
    bounds = zip(at, sizes, x.aval.shape, strict=True)
    return Block(x, tuple(min(max(i, 0), n - k) for i, k, n in bounds), sizes, value)


def _in_bounds(
    x: Any, axes: Sequence[int], at: Sequence[int] | None, sizes: Place, value: Any = None
) -> Block | None:
    if at is None:
        return None
    start = [0] * len(sizes)
    for d, i in zip(axes, at, strict=True):
        start[d] = i
    bounds = zip(start, sizes, x.aval.shape, strict=True)
    is_inside = all(0 <= i <= n - k for i, k, n in bounds)
    return Block(x, tuple(start), sizes, value) if is_inside else None


def pads_with_zeros(eqn: Any) -> bool:
    """Return whether an equation pads a block of known size with a known number of zeros."""
    if eqn.primitive.name != "pad" or not isinstance(eqn.invars[1], Literal):
        return False
    config = eqn.params["padding_config"]
    if not all(is_known(n) and n >= 0 for sizes in config for n in sizes):
        return False
    if not _has_known_sizes(eqn.invars[0]):
        return False
    return not any(between for _, _, between in config) and not np.any(eqn.invars[1].val)


# --- What is written together ---------------------------------------------------------------------


_INDEX = 64
"""The largest size in bytes of an index."""


class _Chain:
    """Writes to one array, one after the other, of blocks that are equal or do not overlap.

    Attributes
    ----------
    root : Atom or None
        The array before the first write; None for zeros.
    blocks : list of Block
        The blocks, in the order in which they are written.
    equations : list of JaxprEqn
        The equations that write them.
    values : list of Atom
        What is written to them, in the new program.
    overlap : bool
        Whether blocks overlap in part, or one is written often. Then all of them are added at once.
    is_sum : bool
        Whether this is a sum of blocks that zeros surround.
    needed : list of int
        After how many writes the whole array is needed, as far as it is known.
    """

    def __init__(self, first: Block) -> None:
        self.root = first.array
        self.sizes = first.sizes
        self.blocks: list[Block] = []
        self.equations: list[Any] = []
        self.values: list[Any] = []
        self.needed: list[int] = []
        self.overlap = False
        self.is_sum = True
        self._places: dict[Place, list[int]] = {}

    def add(self, block: Block, eqn: Any) -> None:
        """Append a write."""
        self.overlap |= bool(self.blocks) and not self.is_aligned(block)
        self.is_sum &= _is_term(eqn)
        self._places.setdefault(block.start, []).append(len(self.blocks))
        self.blocks.append(block)
        self.equations.append(eqn)

    def is_aligned(self, block: Block) -> bool:
        """Return whether a block is equal to each block of the chain, or apart from it."""
        return block.sizes == self.sizes and self.around(block.start, block.sizes) == block.start

    def around(self, start: Place, sizes: Place) -> Place | None:
        """Return the place of the block that contains another one, or None if none does."""
        found: list[int] = []
        first = self.blocks[0].start
        for i, k, own, origin in zip(start, sizes, self.sizes, first, strict=True):
            place = origin + (i - origin) // own * own
            if i + k > place + own or self.overlap:
                return None
            found.append(place)
        return tuple(found)

    @property
    def shape(self) -> Place:
        """The shape of the array."""
        return self.equations[0].outvars[0].aval.shape

    @property
    def most(self) -> int:
        """How often the block is written that is written most often."""
        return max(map(len, self._places.values()))

    def is_whole(self, first: int, last: int) -> bool:
        """Return whether some of the writes fill the array, if none of them overlap in part."""
        starts = {block.start for block in self.blocks[first:last]}
        return len(starts) * np.prod(self.sizes) == np.prod(self.shape)

    def done_before(self, count: int) -> int:
        """Return after how many writes the last version before ``count`` writes was needed."""
        older = bisect_left(self.needed, count)
        return self.needed[older - 1] if older else 0

    def last(self, start: Place, before: int) -> int | None:
        """Return which of the first ``before`` writes was the last to a block."""
        writes = self._places.get(start, ())
        count = bisect_left(writes, before)
        return writes[count - 1] if count else None


class _Forwarding:
    """Writes a program anew.

    Attributes
    ----------
    versions : dict of Var to (_Chain, int)
        The results of chains of writes, with the number of writes so far.
    """

    def __init__(
        self, closed: ClosedJaxpr, least: int, reassociate: bool, cost: CostModel | None
    ) -> None:
        self.jaxpr: Any = closed.jaxpr
        self.least = least
        self.reassociate = reassociate
        self.cost = cost
        self.b = Builder([v.aval for v in self.jaxpr.invars])  # Sets `plain` by the types.
        self.known = Constants(_INDEX)
        self.known.add(self.jaxpr.constvars, closed.consts)
        self.atoms: dict[Any, Any] = {}
        self.made: list[JaxprEqn] = []
        self.pads = self._pads() if reassociate else {}
        self.versions = self._find()

    def _index(self, atoms: Sequence[Any]) -> list[int] | None:
        """Return the value of an index, or None if it is not known."""
        if not self.known.are_known(atoms):
            return None
        return [int(i) for x in atoms for i in np.ravel(self.known.value(x))]

    def _pads(self) -> dict[Any, Any]:
        """Return the equations that pad with zeros, of which a sum reads each result."""
        found = {e.outvars[0]: e for e in self.jaxpr.eqns if pads_with_zeros(e)}
        uses = uses_of(self.jaxpr.eqns, self.jaxpr.outvars) if found else {}
        return {x: eqn for x, eqn in found.items() if uses[x] == 1}

    def _added(self, eqn: Any) -> Block | None:
        """Return the block to which a sum with a padded one adds, or None for other equations."""
        if eqn.primitive.name not in ("add", "add_any"):
            return None
        for x, array in (eqn.invars[::-1], eqn.invars):
            if type(x) is Var and x in self.pads and array.aval.shape == x.aval.shape:
                block = written(self.pads[x], self._index)
                return block and block._replace(array=array)
        return None

    def _find(self) -> dict[Any, tuple[_Chain, int]]:
        newest: dict[Any, _Chain] = {}
        versions: dict[Any, tuple[_Chain, int]] = {}
        for eqn in self.jaxpr.eqns:
            out: Any = eqn.outvars[0] if len(eqn.outvars) == 1 else None
            kind = getattr(getattr(getattr(out, "aval", None), "dtype", None), "kind", "V")
            if kind in "iu":
                self.known.evaluate(eqn)
            if type(out) is not Var or kind not in "biufc":
                continue
            block = written(eqn, self._index) or self._added(eqn)
            if block is None or not np.prod(block.sizes):
                continue
            chain = newest.pop(block.array, None) if type(block.array) is Var else None
            if chain is None or not self._continues(chain, block, eqn):
                chain = _Chain(block)
            chain.add(block, eqn)
            newest[out] = chain
            versions[out] = chain, len(chain.blocks)
        chains = {id(chain): chain for chain, _ in versions.values()}
        for chain in chains.values():
            chain.overlap |= self.reassociate and chain.is_sum and chain.most >= self.least
        paying = {key for key, chain in chains.items() if self._pays(chain)}
        return {v: x for v, x in versions.items() if id(x[0]) in paying}

    def _continues(self, chain: _Chain, block: Block, eqn: Any) -> bool:
        if chain.is_aligned(block):
            return True
        is_sum = self.reassociate and chain.is_sum and _is_term(eqn)
        return is_sum and chain.sizes == block.sizes

    def _pays(self, chain: _Chain) -> bool:
        """Return whether a chain is long and, if it is a sum, takes less time.

        XLA keeps what is added up in registers; joined, it is written to memory.
        """
        n, cost = len(chain.blocks), self.cost
        if n < self.least or not chain.is_sum or cost is None:
            return n >= self.least
        extra = cost.constants.element * n * float(np.prod(chain.sizes))
        return cost.calls * extra <= cost.compiling(Work(0, 2 * n))

    def equations(self) -> list[JaxprEqn]:
        """Return the equations of the program."""
        whole = self._read_whole()
        for eqn in self.jaxpr.eqns:
            self.b.source_info = eqn.source_info
            out: Any = eqn.outvars[0] if eqn.outvars else None
            block = self._to_forward(eqn)
            if out in self.versions:
                self._write(*self.versions[out])
                if out in whole:
                    self.atom(out)
            elif block is not None:
                value = self._typed(self._block(block), out.aval)
                self.atoms[out] = as_weak_as(self.b, value, out)
            else:
                invars = [self.atom(x) for x in eqn.invars]
                self._flush()
                is_same = all(x is y for x, y in zip(invars, eqn.invars, strict=True))
                self.made.append(eqn if is_same else eqn.replace(invars=invars))
        return self.made

    def outputs(self) -> list[Any]:
        """Return the outputs of the program."""
        found = [self.atom(x) for x in self.jaxpr.outvars]
        self._flush()
        return found

    def _read_whole(self) -> set[Any]:
        """Return the versions of arrays that equations read as a whole."""
        found = {x for x in self.jaxpr.outvars if type(x) is Var}
        for eqn in self.jaxpr.eqns:
            out = eqn.outvars[0] if eqn.outvars else None
            if out in self.versions:
                chain, count = self.versions[out]
                found.update(x for x in [chain.blocks[count - 1].value] if type(x) is Var)
            elif self._to_forward(eqn) is None:
                found.update(x for x in eqn.invars if type(x) is Var and x not in self.pads)
        return found

    def _to_forward(self, eqn: Any) -> Block | None:
        """Return the block that an equation reads, if it is part of one that a chain writes."""
        block = read(eqn, self._index) if eqn.primitive.name in READING else None
        if block is None or block.array not in self.versions:
            return None
        chain, _ = self.versions[block.array]
        return None if chain.around(block.start, block.sizes) is None else block

    def _flush(self) -> None:
        self.made += self.b.take()

    def atom(self, x: Any) -> Any:
        """Return what stands for an atom; emit an array if it was written to."""
        if type(x) is not Var:
            return x
        waiting = [x] if x in self.versions and x not in self.atoms else []
        while waiting:  # A program may write an array in any number of phases.
            before = self._before(*self.versions[waiting[-1]])
            if before in self.versions and before not in self.atoms:
                waiting.append(before)
            else:
                v = waiting.pop()
                self.atoms[v] = as_weak_as(self.b, self._joined(*self.versions[v]), v)
        return self.atoms.get(x, x)

    def _write(self, chain: _Chain, count: int) -> None:
        """Record the value of a block; a write that combines reads what is there.

        Zeros count as nothing where signs of zeros may change.
        """
        block, eqn = chain.blocks[count - 1], chain.equations[count - 1]
        value = self._typed(self.atom(block.value), block.value.aval)
        combine = COMBINING.get(eqn.primitive.name)
        is_first = chain.root is None and chain.last(block.start, count - 1) is None
        if combine is not None and not chain.overlap and not (is_first and self.reassociate):
            there = self._block(Block(block.array, block.start, block.sizes))
            value = combine(self.b, self._typed(there, value.aval), value)
        chain.values.append(value)

    # --- Blocks -----------------------------------------------------------------------------

    def _block(self, block: Block) -> Atom:
        """Return what was written to a block, or else what was there before."""
        x, start, sizes, _ = block
        while type(x) is Var and x in self.versions:
            chain, count = self.versions[x]
            place = chain.around(start, sizes)
            if place is None:
                break
            which = chain.last(place, count)
            if which is not None:
                within = [i - j for i, j in zip(start, place, strict=True)]
                return self._cut(self._shaped(chain.values[which], chain.sizes), within, sizes)
            x = chain.root
            if x is None:
                return self._zeros(chain, sizes)
        return self._cut(self.atom(x), start, sizes)

    def _zeros(self, chain: _Chain, shape: Place) -> Atom:
        return lax.full(self.b, 0, shape, chain.blocks[0].value.aval.dtype)

    def _cut(self, x: Atom, start: Sequence[int], sizes: Place) -> Atom:
        if x.aval.shape == sizes:
            return x
        stop = [i + k for i, k in zip(start, sizes, strict=True)]
        return lax.slice(self.b, x, start, stop)

    def _shaped(self, x: Atom, shape: Place) -> Atom:
        if x.aval.shape == shape:
            return x
        if not x.aval.shape:
            return lax.broadcast_in_dim(self.b, x, shape, [])
        return lax.reshape(self.b, x, shape)

    def _typed(self, x: Atom, aval: Any) -> Atom:
        """Return a value with a shape of the same size and without a weak type."""
        if x.aval.shape != aval.shape:
            x = self._shaped(x, aval.shape)
        return lax.convert_element_type(self.b, x, aval.dtype) if x.aval.weak_type else x

    # --- Whole arrays -----------------------------------------------------------------------

    def _before(self, chain: _Chain, count: int) -> Any:
        """Return the array that must be known before `_joined`, or None if there is none."""
        done = chain.done_before(count)
        if done:
            return chain.equations[done - 1].outvars[0]
        is_read = chain.overlap or not chain.is_whole(0, count)
        return chain.root if is_read and type(chain.root) is Var else None

    def _joined(self, chain: _Chain, count: int) -> Atom:
        """Return an array after some writes of a chain, from the last version that was needed."""
        done = chain.done_before(count)
        insort(chain.needed, count)
        before = self.atom(chain.equations[done - 1].outvars[0]) if done else None
        blocks = {chain.blocks[i].start: i for i in range(done, count)}
        if len(blocks) < self.least and not (chain.overlap or chain.is_whole(done, count)):
            return self._one_by_one(chain, before, done, count)
        which = range(done, count) if chain.overlap else [blocks[x] for x in sorted(blocks)]
        rows = [self._shaped(chain.values[i], (1, *chain.sizes)) for i in which]
        stacked = lax.concatenate(self.b, rows, 0)
        starts = np.asarray([chain.blocks[i].start for i in which])
        region = None if chain.overlap else self._region(starts, chain.sizes, stacked)
        if region is not None and region.aval.shape == chain.shape:
            return region
        before = self._root(chain) if before is None else before
        if region is not None:
            return self._updated(before, region, starts[0])
        axes = [d for d, n in enumerate(chain.shape) if chain.sizes[d] != n]
        indices = windows(starts[:, axes], [chain.sizes[d] for d in axes], [1] * len(axes))
        known = self.b.constant(indices.astype(np.int32), equal=True)
        along = [0, *(d + 1 for d in axes)]
        write = lax.scatter_add if chain.overlap else partial(lax.scatter, unique=True)
        return write(self.b, before, known, stacked, axes, along, in_bounds=True)

    def _one_by_one(self, chain: _Chain, before: Any, done: int, count: int) -> Atom:
        found = self._root(chain) if before is None else before
        for block, value in zip(chain.blocks[done:count], chain.values[done:count], strict=True):
            found = self._updated(found, self._shaped(value, chain.sizes), block.start)
        return found

    def _root(self, chain: _Chain) -> Atom:
        return self._zeros(chain, chain.shape) if chain.root is None else self.atom(chain.root)

    def _updated(self, x: Atom, block: Atom, start: Sequence[int]) -> Atom:
        places = [self.b.literal(np.asarray(int(i), np.int32)) for i in start]
        return lax.dynamic_update_slice(self.b, x, block, places)

    def _region(self, starts: np.ndarray[Any, Any], sizes: Place, rows: Atom) -> Atom | None:
        """Return blocks in order as one block, or None if they do not fill one."""
        low, high = starts[0], starts[-1]
        counts = [int(n) for n in (high - low) // np.asarray(sizes) + 1]
        if len(starts) != np.prod(counts):
            return None
        # All blocks differ and are aligned, so that this many in these bounds fill them.
        if np.any(starts < low) or np.any(starts > high):
            return None
        b, rank = self.b, len(sizes)
        grid = self._shaped(rows, (*counts, *sizes))
        moving = [d for d, n in enumerate(counts) if n > 1 and d and np.prod(sizes[:d]) > 1]
        if moving:
            grid = lax.transpose(b, grid, [x for d in range(rank) for x in (d, d + rank)])
        return self._shaped(grid, tuple(n * k for n, k in zip(counts, sizes, strict=True)))


def _is_term(eqn: Any) -> bool:
    """Return whether an equation adds a block to a sum, or is the first one of a sum."""
    return eqn.primitive.name in ("pad", "add", "add_any")


def with_writes_forwarded(
    closed: ClosedJaxpr, least: int, reassociate: bool, cost: CostModel | None
) -> ClosedJaxpr:
    """Return a program whose chains of writes are joined, or the given one if it has none.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program. It is not changed.
    least : int
        The number of writes from which on they are joined.
    reassociate : bool
        Whether a sum with a block that zeros surround is a write, which changes the sign of zeros,
        and whether blocks that overlap may be added in another order.
    cost : CostModel or None
        By which sums of blocks must take less time.
    """
    names = {eqn.primitive.name for eqn in closed.jaxpr.eqns}
    if names.isdisjoint({*WRITING, "pad"}):
        return closed
    joining = _Forwarding(closed, least, reassociate, cost)
    if not joining.versions or not joining.b.plain:
        return closed
    equations = joining.equations()
    outputs = joining.outputs()
    return with_equations(closed, equations, outputs, dict(joining.b.constants))
