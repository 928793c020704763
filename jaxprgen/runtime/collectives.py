"""The collectives of a compiled program: what its devices send each other, and which line is why.

They are read from the text of XLA's optimized HLO, which says as much on all versions of JAX.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

KINDS = (
    *("all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute"),
    *("ragged-all-to-all", "reduce-scatter"),
)


class Cause(NamedTuple):
    """A variable of the graph, and the line that built it; empty if XLA does not say."""

    name: str
    line: str


class Collective(NamedTuple):
    """One exchange of data between devices.

    Attributes
    ----------
    kind
        XLA's name, such as "all-reduce". The two halves of an asynchronous one count once.
    nbytes
        The size of the data at one device, in one call: of its part before or after the exchange,
        whichever is larger.
    devices
        How many devices exchange data with each other.
    axes
        The axes of the mesh along which they do; empty if they are not known.
    per_step
        Whether it is part of a loop, and so happens in each step.
    causes
        What it computes. XLA combines small collectives, which then have several causes.
    """

    kind: str
    nbytes: int
    devices: int
    axes: tuple[str, ...]
    per_step: bool
    causes: tuple[Cause, ...]

    @property
    def along(self) -> str:
        """The axes and the number of devices, such as ``data=8``."""
        return f"{','.join(self.axes)}={self.devices}" if self.axes else f"{self.devices} devices"


def collectives_of(
    compiled: jax.stages.Compiled, names: Collection[str] = ()
) -> tuple[Collective, ...] | None:
    """Return what the devices of a compiled program exchange.

    Parameters
    ----------
    compiled : jax.stages.Compiled
        Any program, such as ``jax.jit(f).lower(...).compile()``.
    names : collection of str
        The names of variables that may be causes; other causes have only lines.

    Returns
    -------
    tuple of Collective, or None
        None if the program runs on one device.
    """
    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    if all(sharding.num_devices == 1 for sharding in shardings):
        return None
    meshes = (s.mesh for s in shardings if isinstance(s, NamedSharding))
    mesh: Any = next((m for m in meshes if m.size > 1), None)
    return collectives_in(compiled.as_text() or "", dict(mesh.shape) if mesh else {}, names)


def collectives_in(
    text: str, mesh: Mapping[str, int], names: Collection[str] = ()
) -> tuple[Collective, ...]:
    """Return the collectives in the text of an HLO module.

    Parameters
    ----------
    text
        The module.
    mesh
        The sizes of the mesh's axes, by name.
    names
        The names of variables that may occur in the module's metadata.
    """
    module = _Module(text)
    found: list[Collective] = []
    for instruction in module.instructions.values():
        kind = instruction.opcode.removesuffix("-done")
        if kind not in KINDS:
            continue
        # The start names the groups of devices.
        is_start = kind == instruction.opcode
        first = instruction if is_start else next(module.operands(instruction), instruction)
        groups = _groups(first.attributes, module.devices)
        devices = max(map(len, groups))
        axes = _axes(groups, mesh)
        if kind == "collective-permute":
            devices = math.prod(mesh[axis] for axis in axes) if axes else module.devices
        nbytes = _nbytes(instruction.shape) * (devices if kind == "reduce-scatter" else 1)
        causes = tuple(dict.fromkeys(module.causes(instruction, names)))
        per_step = instruction.computation in module.loops
        found.append(Collective(kind, nbytes, devices, axes, per_step, causes))
    return tuple(found)


class _Instruction(NamedTuple):
    """One line of a module. ``operands`` are names."""

    computation: str
    name: str
    shape: str
    opcode: str
    operands: list[str]
    attributes: str


_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?(\S+) = (.*?) ([a-z][\w-]*)\((.*)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) .*\{$")
_NAME = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"\b(\w+)=\{?(%[\w.-]+(?:, %[\w.-]+)*)")
_LOCATION = re.compile(r"(\d+) \{file_name_id=(\d+) function_name_id=\d+ line=(\d+)")
_FRAME = re.compile(r"(\d+) \{file_location_id=(\d+)")
_FILE = re.compile(r'(\d+) "(.*)"$')


class _Module:
    """The instructions of a module, by name, and the tables of lines in its text."""

    def __init__(self, text: str) -> None:
        self.instructions: dict[str, _Instruction] = {}
        self._calls: dict[str, set[str]] = {}
        self._files: dict[str, str] = {}
        self._locations: dict[str, tuple[str, str]] = {}
        self._frames: dict[str, str] = {}
        heading, _, body = text.partition("\n")
        counts = re.findall(r"(?:num_partitions|replica_count)=(\d+)", heading)
        self.devices = math.prod(map(int, counts))
        self._read(body)
        self._parts: dict[str, list[_Instruction]] = {}
        for i in self.instructions.values():
            if i.opcode == "get-tuple-element":
                self._parts.setdefault(i.operands[0] if i.operands else "", []).append(i)

    def _read(self, body: str) -> None:
        section, loops = "", set[str]()
        for line in body.splitlines():
            if found := _INSTRUCTION.match(line):
                name, shape, opcode, rest = found.groups()
                operands = _NAME.findall(rest.partition("), ")[0])
                self.instructions[name] = _Instruction(section, name, shape, opcode, operands, rest)
                for key, called in _CALLED.findall(rest):
                    names = _NAME.findall(called)
                    self._calls.setdefault(section, set()).update(names)
                    loops.update(names if key in ("body", "condition") else ())
            elif found := _COMPUTATION.match(line):
                section = found[1]
            elif found := _LOCATION.match(line):
                self._locations[found[1]] = found[2], found[3]
            elif found := _FRAME.match(line):
                self._frames[found[1]] = found[2]
            elif section == "FileNames" and (found := _FILE.match(line)):
                self._files[found[1]] = found[2]
            elif line and not line[0].isdigit():
                section = line.strip()
        self.loops = self._reached(loops)

    def _reached(self, start: Collection[str]) -> set[str]:
        """Return these computations and all that they call."""
        found = dict.fromkeys(start)
        pending = list(found)
        for computation in pending:  # It grows.
            pending += self._calls.get(computation, set()) - found.keys()
            found.update(dict.fromkeys(pending))
        return set(found)

    def operands(self, instruction: _Instruction) -> Iterator[_Instruction]:
        """Yield the instructions that compute the operands."""
        found = map(self.instructions.get, instruction.operands)
        return (operand for operand in found if operand is not None)

    def causes(self, instruction: _Instruction, names: Collection[str]) -> Iterator[Cause]:
        """Yield the variable and the line of each result of a collective, or of each operand."""
        parts = self._parts.get(instruction.name)
        if parts is None and len(instruction.operands) > 1:
            parts = list(self.operands(instruction))
        return (self._cause(part, names) for part in parts or [instruction])

    def _cause(self, instruction: _Instruction | None, names: Collection[str]) -> Cause:
        """Return the variable and line of an instruction, or of what it was computed from."""
        seen = set[str]()
        while instruction is not None and instruction.name not in seen:
            seen.add(instruction.name)
            attributes = instruction.attributes
            path = _attribute(attributes, 'op_name="((?:[^"\\\\]|\\\\.)*)"')
            if path:
                return Cause(_innermost(path, names), self._line(attributes))
            instruction = next(self.operands(instruction), None)
        return Cause("", "")

    def _line(self, attributes: str) -> str:
        frame = self._frames.get(_attribute(attributes, r"\bstack_frame_id=(\d+)"), "")
        if frame in self._locations:
            file, line = self._locations[frame]
            return f"{self._files.get(file, '')}:{line}"
        file = _attribute(attributes, r'\bsource_file="([^"]*)"')
        return f"{file}:{_attribute(attributes, r'source_line=([0-9]+)')}" if file else ""


def _attribute(attributes: str, pattern: str) -> str:
    found = re.search(pattern, attributes)
    return found[1] if found else ""


def _innermost(path: str, names: Collection[str]) -> str:
    """Return the last of these names in the name stack of an operation."""
    ends = {name: f"/{path}".rfind(f"/{name}/") for name in names}
    found = [name for name, end in ends.items() if end >= 0]
    return max(found, key=lambda name: ends[name] + len(name), default="")


def _nbytes(shape: str) -> int:
    """Return the size of all arrays in the text of a shape, such as ``(f64[3,2]{1,0}, pred[])``."""
    return sum(
        -(-_bits(dtype) * math.prod(map(int, re.findall(r"\d+", sizes))) // 8)
        for dtype, sizes in re.findall(r"\b([a-z]\w*)\[([^\]]*)\]", shape)
    )


def _bits(dtype: str) -> int:
    """Return the size of an element: XLA's names of dtypes say it, but for ``pred``."""
    return 8 if dtype == "pred" else int((re.findall(r"\d+", dtype) or [0])[0])


# --- Groups of devices ----------------------------------------------------------------------

_LISTS = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{} ]*\})\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(?\[[^\]]*\]\)?)? \{([^}]*)\}")
_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def _groups(attributes: str, devices: int) -> list[list[int]]:
    """Return which devices exchange data; for a permutation, the pairs that do."""
    if found := _LISTS.search(attributes):
        return [_integers(group) for group in found[1].strip("{}").split("},{")]
    if found := _IOTA.search(attributes):
        shape, sizes, order = (_integers(x or "") for x in found.groups())
        ids = np.arange(math.prod(sizes)).reshape(sizes)
        return np.transpose(ids, order or None).reshape(shape).tolist()
    if found := _MESH.search(attributes):
        return _mesh_groups(*found.groups())
    return [list(range(devices))]


def _mesh_groups(mesh: str, axes: str) -> list[list[int]]:
    """Return the groups along axes such as ``'data'``, or ``'data':(2)4``: a part of an axis.

    Such a part has a factor of the axis's size; the number in parentheses is the product of the
    factors before it.
    """
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", mesh)}
    parts = {a: (int(before or 1), int(n or sizes[a])) for a, before, n in _AXIS.findall(axes)}
    factors, along = [], []
    for name, size in sizes.items():
        before, n = parts.get(name, (1, 1))
        along.append(len(factors) + 1)
        factors += [before, n, size // (before * n)]
    ids = np.moveaxis(np.arange(math.prod(factors)).reshape(factors), along, range(-len(along), 0))
    return ids.reshape(-1, math.prod(n for _, n in parts.values())).tolist()


def _axes(groups: Sequence[Sequence[int]], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Return the mesh axes along which the devices of each group differ."""
    sizes = tuple(mesh.values())
    if max(map(max, groups)) >= math.prod(sizes):
        return ()
    places = [np.transpose(np.unravel_index(group, sizes)) for group in groups]
    differ = np.any([np.any(place != place[0], axis=0) for place in places], axis=0)
    return tuple(axis for axis, moves in zip(mesh, differ, strict=True) if moves)


def _integers(text: str) -> list[int]:
    return [int(x) for x in re.findall(r"\d+", text)]
