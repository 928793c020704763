"""What a rule is told about the node it lowers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Array, Dtype, Shape, Value, known
from jaxprgen.errors import JaxprGenError
from jaxprgen.ir import Builder
from jaxprgen.lowering.graph import Plan, Step
from jaxprgen.lowering.known import FOLD_LIMIT

D = TypeVar("D", bound=Hashable)


class Driver(Protocol):
    """What a rule can ask of the one who calls it; see the methods of `RuleContext`."""

    plan: Plan
    values: list[Any]
    asked: bool
    programs: dict[Any, Any]

    def static(self, step: Step, position: int) -> Array:
        """The value of a step's input."""
        ...

    def known(self, step: Step, position: int) -> Array | None:
        """The value of a step's input, if no argument's is needed for it."""
        ...

    def label(self, step: Step, position: int) -> str:
        """What to call a step's input."""
        ...

    def producer(self, step: Step, position: int) -> tuple[Step, int] | None:
        """The step that computes a step's input, and which of its outputs that is."""
        ...

    def decided(
        self, step: Step, positions: Sequence[int], decide: Callable[[list[Any]], D]
    ) -> D | None:
        """What a step decides by values of its inputs, if it is to."""
        ...

    def undecided(self, step: Step, positions: Sequence[int], text: str) -> JaxprGenError:
        """The error of what is not decided; none if it can be asked for."""
        ...

    def require(
        self,
        ctx: RuleContext,
        condition: Callable[[Builder], Value],
        error: type[JaxprGenError],
        message: str,
        announced: bool,
    ) -> None:
        """A run-time check."""
        ...

    def inside(
        self,
        step: Step,
        plan: Plan,
        builder: Builder,
        inputs: Sequence[Any],
        positions: Sequence[int | None] | None = None,
    ) -> Driver:
        """One that lowers the plan of what is inside a step, for values of the step's inputs."""
        ...

    def run(self) -> list[Value]:
        """The values of the plan's outputs."""
        ...


class RuleContext(NamedTuple):
    """The node being lowered and the builder to emit into. A rule changes nothing else."""

    builder: Builder
    step: Step
    driver: Driver

    @property
    def node(self) -> Any:
        """The graph library's node."""
        return self.step.node

    @property
    def op(self) -> Any:
        """The node's Op."""
        return self.step.node.op

    @property
    def dtype(self) -> Dtype:
        """The declared dtype of the first output, as JAX computes it."""
        declared = self.step.types[0]
        assert declared is not None
        return declared.dtype

    def static(self, position: int) -> Array:
        """The value of an input that decides a shape.

        It is known, or follows from known values, or from arguments on which the program is
        then specialized.

        Raises
        ------
        StaticShapeError
            It depends on an argument whose value is not known: a tracer.
        """
        return self.driver.static(self.step, position)

    def static_int(self, position: int) -> int:
        """`static` of an integer scalar."""
        return int(self.static(position))

    def known(self, position: int) -> Array | None:
        """The value of an input, if it follows from shapes and constants; else None."""
        return self.driver.known(self.step, position)

    def producer(self, position: int) -> tuple[Step, int] | None:
        """The step that computes an input, and which of its outputs that is; None for constants.

        Nor is there one for what is given to a program.
        """
        return self.driver.producer(self.step, position)

    def decided(self, positions: Sequence[int], decide: Callable[[list[Any]], D]) -> D | None:
        """What ``decide`` makes of the values of inputs, where a program depends on it.

        That is where `undecided` was called for the node before. The inputs stay arguments of the
        program, which does for all values of which the same is decided.
        """
        return self.driver.decided(self.step, positions, decide)

    def undecided(self, positions: Sequence[int], text: str) -> JaxprGenError:
        """The error of a program that depends on what values of inputs decide.

        There is none where arguments tell them: then the graph is lowered anew, and this node
        finds it `decided`. ``text`` says what depends on it, and what else to do.
        """
        return self.driver.undecided(self.step, positions, text)

    @property
    def size(self) -> int | None:
        """The size that the user gives to what the node gives, where its values would decide."""
        sizes = self.driver.plan.sizes
        return next((sizes[place] for place in self.step.outputs if place in sizes), None)

    def located(self, error: JaxprGenError) -> JaxprGenError:
        """The error with the node and the user's line: for one that is raised elsewhere."""
        if error.located:
            return error
        values = [self.driver.values[place] for place in self.step.inputs]
        return error.at(self.driver.plan.library.describe(self.node, values))

    def made(self, x: Any) -> Any:
        """An input that is an array, which is made now if it was deferred.

        Raises
        ------
        StaticShapeError
            Only the program that runs knows how many elements there are.
        """
        found = x.made(self.builder) if isinstance(x, Deferred) else x
        if type(found) is Selected:
            raise found.refuse()
        return found

    def label(self, position: int) -> str:
        """What to call an input."""
        return self.driver.label(self.step, position)

    def evaluate(self, *inputs: Any) -> Sequence[Array]:
        """The node's outputs for known inputs, by the graph library's own implementation."""
        return self.driver.plan.library.evaluate(self.step.node, inputs)

    def fold(self, inputs: Sequence[Value], shape: Shape) -> Sequence[Array] | None:
        """The outputs, if all inputs are known and a result of this shape is small."""
        if math.prod(shape) > FOLD_LIMIT:
            return None
        arrays = [known(x) for x in inputs]
        return None if any(a is None for a in arrays) else self.evaluate(*arrays)

    def require(
        self,
        condition: Callable[[Builder], Value],
        error: type[JaxprGenError],
        message: str,
        *,
        announced: bool = True,
    ) -> None:
        """Check, at run time, a boolean scalar that ``condition(builder)`` emits.

        That is if checks were asked for; else the check is left out, and announced once, unless
        the result itself shows what is wrong. ``error`` is what a failed check is told as.
        """
        self.driver.require(self, condition, error, message, announced)
