"""Names and source lines of equations, as JAX's messages, StableHLO and XLA show them."""

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

from jax._src import config as _config, source_info_util as _source_info_util

from jaxprgen.texts import visible

SourceInfo = _source_info_util.SourceInfo
NO_SOURCE = _source_info_util.new_source_info()

cache_by_lines = _config.compilation_cache_include_metadata_in_key
"""A context: given True, JAX's persistent cache tells programs apart that differ in lines alone."""


class Frame(NamedTuple):
    """A line of the user's Python code."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The file and the line number."""
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The text of the line, or an empty string if it cannot be read."""
        try:
            return linecache.getline(self.file, self.line).strip()
        except ValueError:  # Code compiled from a string may have any file name.
            return ""

    @property
    def built(self) -> str:
        """A sentence that names this line as the one that built something."""
        return visible(f"built at {self.place}, in {self.function}: ", None) + visible(self.text)


# JAX shows the innermost line of an equation's traceback that is the user's. Exclude this package.
_source_info_util.register_exclusion(str(Path(__file__).parents[1]) + os.sep)


def source_infos(origins: Sequence[tuple[str, Frame | None]]) -> list[SourceInfo]:
    """Return what equations store for these names and lines: a name stack and a traceback each."""
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
    # Replace lone surrogates, which StableHLO cannot encode.
    stack = _source_info_util.new_name_stack(name.encode(errors="replace").decode())
    return SourceInfo(traceback, stack)


def _columnless(source: str) -> CodeType:
    """Compile an expression without column numbers, because Aesara records none."""
    tree = ast.parse(source, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset = node.end_col_offset = 0
    return compile(tree, "", "eval")


_CODE = _columnless("put(capture())")
_tracebacks: dict[Frame | None, Any] = {}
_MOST = 65536  # The number of tracebacks to keep.


def _captured(frames: Iterable[Frame]) -> list[Any]:
    """Return a traceback that consists of one line, for each line.

    JAX can only capture a traceback of running code. This function therefore runs code that claims
    to stand on the line. It does so in a new thread without a Python caller, so that the traceback
    has no other lines.
    """
    captured: queue.SimpleQueue[Any] = queue.SimpleQueue()
    known = {"put": captured.put, "capture": _source_info_util.Traceback.get_traceback}
    functions = [
        FunctionType(
            _CODE.replace(
                co_filename=visible(frame.file, None),
                co_firstlineno=frame.line,
                co_name=visible(frame.function, None),
                co_qualname=visible(frame.function, None),
            ),
            known,
        )
        for frame in frames
    ]
    _thread.start_new_thread(collections.deque, (map(operator.call, functions), 0))
    return [captured.get() for _ in functions]


def within(outer: SourceInfo, inner: SourceInfo) -> SourceInfo:
    """Return the name of ``inner`` inside that of ``outer``, with the innermost line."""
    return SourceInfo(inner.traceback or outer.traceback, outer.name_stack + inner.name_stack)


def marked(source_info: SourceInfo, name: str) -> SourceInfo:
    """Return the name and line of an equation, with the name of a transformation appended."""
    return SourceInfo(source_info.traceback, source_info.name_stack.transform(name))


def unnamed(source_info: SourceInfo) -> SourceInfo:
    """Return the line without names."""
    return SourceInfo(source_info.traceback, NO_SOURCE.name_stack)


def without_line(source_info: SourceInfo) -> SourceInfo:
    """Return the names without the line."""
    return SourceInfo(NO_SOURCE.traceback, source_info.name_stack)


def scope_of(source_info: SourceInfo) -> str:
    """Return the innermost name of an equation, other than the names of transformations."""
    scopes = reversed(source_info.name_stack.stack)
    return next((s.name for s in scopes if isinstance(s, _source_info_util.Scope)), "")


def is_transposed(source_info: SourceInfo) -> bool:
    """Return whether reverse-mode differentiation made an equation from one of a derivative."""
    stack = source_info.name_stack.stack
    return any(isinstance(s, _source_info_util.Transform) and s.name == "transpose" for s in stack)


def frame_of(source_info: SourceInfo) -> Frame | None:
    """Return the innermost line of an equation that belongs to the user's code."""
    found = _source_info_util.user_frame(source_info.traceback)
    return Frame(found.file_name, found.start_line, found.function_name) if found else None
