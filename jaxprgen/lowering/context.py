"""The context that a rule is called with: its node, the builder, and what it may ask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxprgen._jax import Size
from jaxprgen.emit.checks import check
from jaxprgen.emit.lazy import forced
from jaxprgen.emit.sizes import as_size, is_at_most
from jaxprgen.emit.values import Array, Dtype, Shape, Value
from jaxprgen.errors import JaxprGenError, LoweringError, StaticShapeError
from jaxprgen.ir import Builder
from jaxprgen.lowering.graph import Step
from jaxprgen.lowering.static import FOLD_LIMIT, Reader, Request, ValueNeededError, by_step

if TYPE_CHECKING:  # The driver makes contexts.
    from jaxprgen.lowering.driver import Lowering

D = TypeVar("D", bound=Hashable)


class RuleContext(NamedTuple):
    """The node to lower and the builder to emit into. A rule changes nothing else.

    Attributes
    ----------
    builder
        The builder of the program.
    step
        The node, with its rule and declared types.
    lowering
        The lowering of the graph around the node.
    """

    builder: Builder
    step: Step
    lowering: Lowering

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
        """Return the value of an input that decides a shape.

        It follows from constants or shapes, or from arguments: the program is then specialized on
        their values. Where sizes are symbolic, it is an array of objects: integers and JAX's
        symbolic dimensions.

        Raises
        ------
        StaticShapeError
            It depends on an argument that has no value while the program is emitted: a tracer.
        """
        return self._values([position], Request())[0]

    def static_int(self, position: int) -> Size:
        """Return `static` of an integer scalar."""
        return as_size(self.static(position))

    def static_or_none(self, position: int) -> Array | None:
        """Return the value of an input if it follows from constants and shapes, else None."""
        try:
            return self.static(position)
        except (ValueNeededError, StaticShapeError):
            return None

    def static_in_trace(self, position: int) -> Array | None:
        """Return the value of an input if it is static; under a transformation, make it static.

        A direct call then serves all values by one program. Under a JAX transformation, a program
        is specialized on the value, unless it depends on an argument that is a tracer.
        """
        guards = self.lowering.statics.guards
        guards.tells_traces = True
        if not guards.in_trace:
            return self.static_or_none(position)
        try:
            return self.static(position)
        except StaticShapeError:
            return None

    def decided(
        self,
        positions: Sequence[int],
        decide: Callable[[list[Any]], D],
        *,
        over_steps: bool = False,
    ) -> D | None:
        """Return what ``decide`` makes of the values of inputs, or None where it is not to decide.

        Call `undecided` then. The inputs stay arguments of the program, which serves all values of
        which the same is decided.

        With ``over_steps``, ``decide`` takes a list of such lists: one for each step of the loop
        around, if sequences of the loop decide the values.
        """
        guards = self.lowering.statics.guards
        if self.node not in guards.nodes:
            return None
        try:
            request = Request(decides=True, over_steps=over_steps)
            values = self._values(positions, request)
            found = decide(by_step(values) if over_steps else values)
        except StaticShapeError:
            found = None
        except ValueNeededError as needed:
            if needed.node is not None:  # Another node is to decide first.
                raise
            found = None
        guards.decided.append(found)
        return found

    def undecided(
        self, positions: Sequence[int], text: str = "", *, over_steps: bool = False
    ) -> JaxprGenError:
        """Return the error of a program that depends on what the values of inputs decide.

        If arguments have these values it does not return: the graph is lowered anew, and this node
        then finds something `decided`. ``text`` says what depends on the values, and what else to
        do.
        """
        statics, needed = self.lowering.statics, tuple[int, ...]()
        request = Request((Reader(statics, self.step, tuple(positions)),))
        # Outside of loops and other nodes, what is not static is not decided over steps either.
        decides = statics.is_inner or not over_steps
        try:
            self._values(positions, Request(decides=decides, over_steps=over_steps))
        except ValueNeededError as error:
            if error.node is not None:  # Another node is to decide first.
                raise
            needed, request = error.inputs, error.request
        except StaticShapeError as error:
            found = type(error)(f"{text}\n{error}" if text else str(error))
            found.located = True
            return found
        if not needed and self.node in statics.guards.nodes:
            raise LoweringError("The rule asks for a decision, and does not take it.")
        raise ValueNeededError(needed, request, self.node)

    def _values(self, positions: Sequence[int], request: Request) -> list[Any]:
        return self.lowering.statics.values_of(self.step, positions, request)

    def producer(self, position: int) -> tuple[Any, list[Any], int] | None:
        """Return the node that computes an input, the values of its inputs, and the output's index.

        Constants, and the inputs of a program, have none.
        """
        found = self.lowering.plan.producers.get(self.step.inputs[position])
        if found is None:
            return None
        step, output = found
        return step.node, [self.lowering.values[place] for place in step.inputs], output

    @property
    def size(self) -> int | None:
        """The user's size for the node's result, whose size would depend on values; or None."""
        sizes = self.lowering.plan.sizes
        return next((sizes[place] for place in self.step.outputs if place in sizes), None)

    def located(self, error: JaxprGenError) -> JaxprGenError:
        """Return an error with the node and the user's line, to be raised elsewhere."""
        if error.located:
            return error
        return error.at(self.lowering.statics.describe(self.step))

    def made(self, x: Any) -> Any:
        """Return an input as an array, computed now if it was deferred.

        Raises
        ------
        StaticShapeError
            Only the program that runs knows how many elements there are.
        """
        return forced(x)

    def label(self, position: int) -> str:
        """Return a name for an input."""
        return self.lowering.plan.library.label(self.node.inputs[position])

    def evaluate(self, *inputs: Any) -> Sequence[Array]:
        """Return the node's outputs for arrays, by the graph library's own implementation."""
        return self.lowering.plan.library.evaluate(self.step.node, inputs)

    def fold(self, inputs: Sequence[Value], shape: Shape) -> list[Array] | None:
        """Return the node's outputs as arrays, or None.

        They are computed if all inputs are static and a result of this shape is small.
        """
        if not is_at_most(shape, FOLD_LIMIT):
            return None
        arrays = [x.static for x in inputs]
        return None if any(a is None for a in arrays) else [*self.evaluate(*arrays)]

    def require(
        self,
        holds: Callable[[], Value],
        error: type[JaxprGenError],
        fails: str,
        unchecked: str = "",
        shown: Value | None = None,
    ) -> None:
        """Check at run time that a condition holds.

        Without the option ``checks`` the check is left out, and one warning says so.

        Parameters
        ----------
        holds
            Emits the condition: booleans that are all to be true.
        error
            The class of the error that a failed check raises.
        fails
            Its message. The node and the user's line follow.
        unchecked
            For the warning: what is not checked, and what Aesara and this program do where it does
            not hold. Without this text there is no warning, because the result shows what is wrong.
        shown
            Numbers that broadcast to the condition's shape. The first one for which it does not
            hold takes the place of ``{}`` in the message.
        """
        where = self.lowering.statics.describe
        if self.lowering.checks:
            check(holds(), error, fails, where(self.step), shown)
        elif unchecked:
            text = f"Not checked: {unchecked}.\n{_REMEDY}\n{where(self.step)}"
            self.lowering.announce(self.node, text)

    def warn(self, category: type[Warning], text: str) -> None:
        """Warn once of this node, when the program is made; the user's line follows the text."""
        where = self.lowering.statics.describe(self.step)
        self.lowering.announce(self.node, f"{text}\n{where}", category)


_REMEDY = (
    "Nothing has failed: this is said once, when the program is made. To have it checked in every "
    "call, compile with checks=True."
)
