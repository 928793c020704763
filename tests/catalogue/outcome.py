"""What becomes of an example: what Aesara computes, what we make of it, and whether both agree."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from aesara.graph.basic import Variable, io_toposort
from laws import assert_same, by_equation, reference, tolerance

import jaxprgen
from catalogue.example import Example, outputs_of
from jaxprgen._jax import eval_jaxpr
from jaxprgen.arguments.inputs import KEY
from jaxprgen.errors import JaxprGenError

HOW = ("emitted", "staged", "called back", "free", "folded", "refused", "not built")
"""What can become of an Op; of several nodes the first of these counts."""


class Case(NamedTuple):
    """An example of one dtype.

    Attributes
    ----------
    inputs, outputs, args
        The graph and its arguments.
    wanted
        What Aesara computes, in the dtypes that the outputs declare; nothing if it fails.
    """

    example: Example
    dtype: str
    inputs: list[Variable]
    outputs: list[Variable]
    args: list[np.ndarray]
    wanted: list[np.ndarray] | None


def _array(result: Any) -> np.ndarray:
    if result is None:
        raise ValueError("Nothing was computed.")
    return np.asarray(result)


class Outcome(NamedTuple):
    """What becomes of an Op: one of `HOW`, and why where it is refused."""

    how: str
    why: str = ""


NO_RULE = Outcome("refused", "no rule")


def case_of(example: Example, dtype: str) -> Case | None:
    """The example of a dtype; None if Aesara does not build its graph."""
    args = example.arrays(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inputs, outputs = example.graph(dtype)
        except Exception:
            return None
        if not any(_is_of(example, node.op) for node in io_toposort([], outputs)):
            return None  # As of a cast to the dtype that there is.
        try:
            meant = outputs_of(example.meaning, inputs) if example.meaning else outputs
            found = [_array(y) for y in reference(inputs, meant, args)]
            # Some of its Ops compute in another dtype than they declare.
            pairs = zip(found, outputs, strict=True)
            with np.errstate(all="ignore"):
                wanted = [y.astype(v.type.dtype) for y, v in pairs]
        except Exception:  # Whatever its Ops raise of dtypes that they do not take.
            wanted = None
    return Case(example, dtype, inputs, outputs, args, wanted)


def compiled(example: Example) -> tuple[list[Variable], jaxprgen.CompiledFunction, list[Any]]:
    """The inputs, the function and the arguments, in double precision where it may be."""
    dtype = "float64" if "float64" in example.dtypes else example.dtypes[-1]
    try:
        inputs, outputs = example.graph(dtype)
        return inputs, jaxprgen.compile(inputs, outputs), example.arrays(dtype)
    except (TypeError, NotImplementedError):
        pytest.skip("Aesara makes no such node, or it has no rule.")


def outcome_of(case: Case) -> Outcome:
    """How the Op is handled, as the report on the program has it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Checks that are left out.
            f = _compiled(case)
            nodes = f.observe(*_arguments(case, f)).nodes
    except JaxprGenError as error:
        first, *lines = (line.strip() for line in str(error).splitlines())
        if not first.endswith("have no rule:"):
            return Outcome("refused", first)
        said = [line for line in lines if line.startswith(("why: ", "instead: "))]
        said = "; ".join(dict.fromkeys(said)).removeprefix("why: ")
        return Outcome("refused", said) if said else NO_RULE
    names = {
        str(node.op) for node in io_toposort([], case.outputs) if _is_of(case.example, node.op)
    }
    found = {_how(node) for node in nodes if node.op in names}
    if names and not found:  # Other Ops have taken its place.
        found = {_how(node) for node in nodes}
    return Outcome(min(found, key=HOW.index))


def _how(node: Any) -> str:
    """What became of a node, apart from what passes did to equations that repeat."""
    return "emitted" if node.repeat else node.how


def _is_of(example: Example, op: Any) -> bool:
    return example.op in (type(op), type(getattr(op, "scalar_op", None)))


def _arguments(case: Case, f: jaxprgen.CompiledFunction) -> list[Any]:
    """A key, if the program takes one, and the operands."""
    draws = f.inputs and f.inputs[0].dtype is KEY
    return [*([jax.random.key(0)] if draws else []), *case.args]


def _compiled(case: Case, **options: Any) -> jaxprgen.CompiledFunction:
    return jaxprgen.compile(case.inputs, case.outputs, **options)


def can_be_called_back(case: Case) -> bool:
    """Whether the Op's Python implementation can be run while the program runs."""
    try:
        compare(case, fallback="callback")
    except Exception:  # Whatever its own implementation raises.
        return False
    return case.wanted is not None


def compare(case: Case, **options: Any) -> None:
    """Values, dtypes and shapes are those of Aesara's Python linker."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = _compiled(case, **options)
        ours = by_equation(f, *_arguments(case, f))
    _assert_as_wanted(case, ours)


def compare_together(cases: Sequence[Case]) -> None:
    """Compare cases as `compare` does, in one program; of draws, compare the program's types.

    Those that are refused are left out.
    """
    taken: list[tuple[Case, Any]] = []
    args: list[list[Any]] = []
    for case in cases:
        with warnings.catch_warnings(), contextlib.suppress(JaxprGenError):
            warnings.simplefilter("ignore")
            f = _compiled(case)
            own = _arguments(case, f)
            taken.append((case, f.jaxpr(*own)))
            args.append(own)

    @jax.jit
    def run(args: list[list[Any]]) -> list[list[Any]]:
        each = zip(taken, args, strict=True)
        return [[] if c.example.is_drawn else eval_jaxpr(p, x) for (c, p), x in each]

    for (case, program), found in zip(taken, run(args), strict=True):
        _assert_as_wanted(case, found or program.out_avals)


def _assert_as_wanted(case: Case, ours: Sequence[Any]) -> None:
    for mine, yours in zip(ours, case.wanted or (), strict=False):
        where = f"{case.example.op.__name__} of {case.dtype}"
        if case.example.is_drawn:
            assert (mine.dtype, mine.shape) == (yours.dtype, yours.shape), where
        else:
            allowed = max(tolerance(mine.dtype, case.dtype), case.example.rtol or 0)
            assert_same(mine, yours, allowed, where)
