"""The names and lines that equations carry to JAX's messages, StableHLO and XLA."""

from __future__ import annotations

import _thread
import ast
import collections
import functools
import linecache
import operator
import os
import queue
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from jax._src import source_info_util as _source_info_util

SourceInfo = _source_info_util.SourceInfo
NO_SOURCE = _source_info_util.new_source_info()


class Frame(NamedTuple):
    """A line of a user's program."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """File and number."""
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, if it can be read now."""
        try:
            return linecache.getline(self.file, self.line).strip()
        except ValueError:  # What was compiled from a string has any name its author gave it.
            return ""

    @property
    def built(self) -> str:
        """That something was built there, in words."""
        return f"built at {self.place}, in {self.function}: {self.text}"


# Lines of this package are not a user's. JAX looks for those in equations' tracebacks.
_source_info_util.register_exclusion(str(Path(__file__).parents[1]) + os.sep)


def source_infos(origins: Sequence[tuple[str, Frame | None]]) -> list[SourceInfo]:
    """What equations carry of names and lines: scopes on name stacks, and tracebacks."""
    found = {frame: _tracebacks.get(frame) for _, frame in origins}
    new = [frame for frame, traceback in found.items() if frame and not traceback]
    if new:
        captured: dict[Frame | None, Any] = dict(zip(new, _captured(new), strict=True))
        found.update(captured)
        if len(_tracebacks) + len(new) > _MOST:
            _tracebacks.clear()
        _tracebacks.update(captured)
    return [_source_info(name, found[frame]) for name, frame in origins]


@functools.lru_cache(maxsize=65536)
def _source_info(name: str, traceback: Any) -> SourceInfo:
    # A name can hold half of a surrogate pair, which no text of StableHLO can.
    stack = _source_info_util.new_name_stack(name.encode(errors="replace").decode())
    return SourceInfo(traceback, stack)


def _columnless(source: str) -> CodeType:
    """The code of an expression whose parts stand in no column, for Aesara records none."""
    tree = ast.parse(source, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset = node.end_col_offset = 0
    return compile(tree, "", "eval")


_CODE = _columnless("put(capture())")


_tracebacks: dict[Frame | None, Any] = {}
_MOST = 65536  # Of lines whose tracebacks are kept.


def _captured(frames: Iterable[Frame]) -> list[Any]:
    """A traceback of each line.

    JAX takes tracebacks of what runs. So code runs that claims to stand on that line; and it
    does so at the bottom of a thread, where it has no callers: what calls it there is no Python.
    """
    captured: queue.SimpleQueue[Any] = queue.SimpleQueue()
    known = {"put": captured.put, "capture": _source_info_util.Traceback.get_traceback}
    functions = [
        FunctionType(
            _CODE.replace(
                co_filename=frame.file,
                co_firstlineno=frame.line,
                co_name=frame.function,
                co_qualname=frame.function,
            ),
            known,
        )
        for frame in frames
    ]
    _thread.start_new_thread(collections.deque, (map(operator.call, functions), 0))
    return [captured.get() for _ in functions]


def within(outer: SourceInfo, inner: SourceInfo) -> SourceInfo:
    """The name of ``inner`` inside that of ``outer``, on the line of ``outer``."""
    return SourceInfo(outer.traceback, outer.name_stack + inner.name_stack)


def marked(source_info: SourceInfo, name: str) -> SourceInfo:
    """The name of a transformation behind the names of an equation, on its line."""
    return SourceInfo(source_info.traceback, source_info.name_stack.transform(name))


def unnamed(source_info: SourceInfo) -> SourceInfo:
    """The line alone."""
    return SourceInfo(source_info.traceback, NO_SOURCE.name_stack)


def scope_of(source_info: SourceInfo) -> str:
    """The innermost name on an equation's name stack; what transformations add is none."""
    scopes = reversed(source_info.name_stack.stack)
    return next((s.name for s in scopes if isinstance(s, _source_info_util.Scope)), "")


def frame_of(source_info: SourceInfo) -> Frame | None:
    """The line of an equation: the innermost outside of JAX."""
    found = _source_info_util.user_frame(source_info.traceback)
    return Frame(found.file_name, found.start_line, found.function_name) if found else None
