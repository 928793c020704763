"""Notes that `VmapRepeats` and `ScanRepeats` take of what they find, if somebody listens."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn
from jaxprgen.ir.describe import place_text
from jaxprgen.texts import visible


class Repeat(NamedTuple):
    """Equations that a program repeats, and what became of them.

    Attributes
    ----------
    how : str
        "batched", "looped" or "left alone".
    times : int
        The number of repetitions: of copies, of terms of a sum, or of steps. 0 if the whole program
        was left alone.
    primitives : tuple of str
        The primitives of one repetition.
    name, line : str
        The name of the first repetition and the user's line that made it, or nothing.
    carried : tuple of str
        The types of what a loop carries from step to step.
    reason : str
        Why the equations were left alone, or what they cost beside those that were written.
    """

    how: str
    times: int
    primitives: tuple[str, ...]
    name: str
    line: str
    carried: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        if not self.times:
            return self.reason
        what = Counter(self.primitives).items()
        parts = [
            f"× {self.times}  {', '.join(f'{n} {p}' if n > 1 else p for p, n in what)}",
            f"carries {', '.join(self.carried)}" if self.carried else "",
            visible(self.name, _LONGEST),
            place_text(self.line) if self.line else "",
            self.reason,
        ]
        return "  ".join(filter(None, parts))


_LONGEST = 40
"""The number of characters of a name that are shown."""


class Repeats(NamedTuple):
    """What a program repeats; ``str`` describes it.

    Attributes
    ----------
    found : tuple of Repeat
        What became a batched computation or a loop.
    left : tuple of Repeat
        What was left alone.
    """

    found: tuple[Repeat, ...]
    left: tuple[Repeat, ...]

    @property
    def summary(self) -> str:
        """How many batched equations and loops there are, and of what sizes, on one line."""
        batches = [r.times for r in self.found if r.how == "batched" for _ in r.primitives]
        loops = [r.times for r in self.found if r.how == "looped"]
        texts = _counted("batch", "es", batches), _counted("loop", "s", loops, " steps")
        return ", ".join(filter(None, texts))

    def __str__(self) -> str:
        lines: list[str] = []
        for how in ("batched", "looped", "left alone"):
            some = [f"    {each}" for each in (*self.found, *self.left) if each.how == how]
            lines += [f"{how.capitalize()}:", *some] if some else []
        return "\n".join(lines) or "Nothing repeats."


def _counted(what: str, plural: str, times: Sequence[int], unit: str = "") -> str:
    if not times:
        return ""
    sizes = " to ".join(str(n) for n in dict.fromkeys([min(times), max(times)]))
    return f"{len(times)} {what}{plural * (len(times) > 1)} of {sizes}{unit}"


class Found(NamedTuple):
    """What became of some equations of a program.

    Attributes
    ----------
    repeat : Repeat
        The description.
    results : list of Var
        The variables that the equations bind, first those of the first repetition.
    equations : list of JaxprEqn
        The equations that replace them.
    """

    repeat: Repeat
    results: list[Any]
    equations: list[JaxprEqn]


class Notes:
    """Notes of one listener.

    Attributes
    ----------
    found : list of Found
        What became batched computations and loops.
    """

    def __init__(self) -> None:
        self.found: list[Found] = []
        self._left: list[tuple[Repeat, set[Any]]] = []
        self._whole: dict[str, Repeat] = {}

    def leave(self, first: Sequence[JaxprEqn], times: int, reason: str) -> None:
        """Note why equations that repeat stay as they are."""
        left = self.described("left alone", first, times, reason=reason)
        self._left.append((left, {v for eqn in first for v in eqn.outvars}))

    def leave_all(self, name: str, reason: str) -> None:
        """Note why a pass leaves a whole program alone; its last program is the outermost."""
        self._whole[name] = self.described("left alone", [], 0, reason=f"{name}: {reason}")

    def described(
        self,
        how: str,
        first: Sequence[JaxprEqn],
        times: int,
        carried: Sequence[str] = (),
        reason: str = "",
    ) -> Repeat:
        """Describe equations by those of the first repetition."""
        names = (_jax.scope_of(eqn.source_info) for eqn in first)
        frames = (_jax.frame_of(eqn.source_info) for eqn in first)
        frame = next(filter(None, frames), None)
        return Repeat(
            how,
            times,
            tuple(eqn.primitive.name for eqn in first),
            next(filter(None, names), ""),
            frame.place if frame else "",
            tuple(carried),
            reason,
        )

    def repeats(self) -> Repeats:
        """Return the notes without those that say nothing new."""
        found = _merged([each.repeat for each in self.found])
        taken = {v for each in self.found for v in each.results}
        left = _merged([note for note, bound in self._left if taken.isdisjoint(bound)])
        return Repeats(found, left if found else (*left, *self._whole.values()))


def _merged(notes: Sequence[Repeat]) -> tuple[Repeat, ...]:
    """Return one note for all batches that differ only in their primitives.

    Equations with effects were noted one by one, and are counted here.
    """
    kinds: dict[Any, list[Repeat]] = {}
    for i, note in enumerate(notes):
        stays = note.primitives if note.times == 1 else i if note.how == "looped" else None
        kinds.setdefault((note._replace(primitives=()), stays), []).append(note)
    found: list[Repeat] = []
    for first, *others in kinds.values():
        if first.times > 1:
            every = tuple(p for note in (first, *others) for p in note.primitives)
            found.append(first._replace(primitives=every))
        elif others:
            found.append(first._replace(times=1 + len(others)))
    return tuple(found)


# --- Listeners ------------------------------------------------------------------------------


class _Listeners(threading.local):
    def __init__(self) -> None:
        self.notes: list[Notes] = []


_listeners = _Listeners()


@contextmanager
def listening() -> Generator[Notes]:
    """Take notes of what passes find in this thread while the context lasts."""
    notes = Notes()
    _listeners.notes.append(notes)
    try:
        yield notes
    finally:
        _listeners.notes.pop()


@contextmanager
def forgotten_on_failure() -> Generator[None]:
    """Forget what was noted for the innermost listener in this context, if an error leaves it."""
    notes = listener()
    before = {} if notes is None else {name: kept.copy() for name, kept in vars(notes).items()}
    try:
        yield
    except BaseException:
        if notes is not None:
            vars(notes).update(before)
        raise


def listener() -> Notes | None:
    """Return the notes of the innermost listener in this thread, if there is one."""
    return _listeners.notes[-1] if _listeners.notes else None
