"""A builder of jaxprs: equations go in, one verified program comes out.

The design is that of ``JaxprBuilder`` in JAX's *autodidax*: emitting an equation is typing it,
making a fresh variable and appending; `Builder.build` is the only exit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Primitive, ShapedArray, Var, identity
from jaxprgen.errors import EquationError
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.programs import verify
from jaxprgen.ir.redundancy import Identities, merged, split_invariant

Atom: TypeAlias = Var | Literal


class _AtHand(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder] = []


_at_hand = _AtHand()


def current_builder() -> Builder:
    """The builder of the innermost ``with builder:`` around the caller, in this thread.

    Raises
    ------
    EquationError
        There is none: a value was used outside of the rule, or the block, that it belongs to.
    """
    if not _at_hand.builders:
        raise EquationError(
            "No builder is at hand to append an equation to. Compute with values inside of a rule, "
            "or within `with builder:`."
        )
    return _at_hand.builders[-1]


class Builder:
    """Collects the equations of one jaxpr.

    In a *plain* builder every type is all said by shape and dtype, and the typing rules of
    `jaxprgen.ir.primitives` apply. Under a mesh (``shard_map``, explicit sharding) types say
    more: JAX's own typing rules are asked then, and operands are cast to vary over the same
    mesh axes, as `jax.lax` does.

    Attributes
    ----------
    plain
        Whether the builder is plain.
    settings
        JAX's settings that decide which program is emitted, as one hashable value.
    source_info
        The name and the line of the user's that following equations get.
    inlined
        How many programs were inlined.
    """

    __slots__ = (
        "_constants",
        "_context",
        "_equations",
        "_inputs",
        "_memo",
        "inlined",
        "plain",
        "settings",
        "source_info",
    )

    def __init__(self, input_types: Iterable[ShapedArray] = ()) -> None:
        self._inputs = [Var(aval) for aval in input_types]
        self._constants: dict[Any, tuple[Var, Any]] = {}
        self._equations: list[JaxprEqn] = []
        self._memo: dict[Any, Any] = {}
        self._context = _jax.eqn_context()
        self.settings = _jax.trace_context()
        self.inlined = 0
        self.source_info = _jax.NO_SOURCE
        self.plain = _jax.ambient_mesh_is_empty() and all(
            _jax.is_plain(v.aval) or v.aval.sharding.mesh.empty for v in self._inputs
        )

    def __enter__(self) -> Builder:
        """Make this the builder at hand, which `current_builder` gives; of this thread."""
        _at_hand.builders.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _at_hand.builders.pop()

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The variables that stand for the program's arguments."""
        return tuple(self._inputs)

    def __len__(self) -> int:
        """The number of equations so far."""
        return len(self._equations)

    def equations_from(self, index: int) -> list[JaxprEqn]:
        """The equations so far, without the first ``index``."""
        return self._equations[index:]

    # --- Atoms ---------------------------------------------------------------------------

    def literal(self, value: np.ndarray[Any, Any]) -> Literal:
        """A scalar as part of the program's text, in the dtype JAX gives it."""
        dtype = _jax.canonicalize_dtype(value.dtype)
        if dtype != value.dtype:
            value = value.astype(dtype)
        return Literal(value[()], self.array_type((), dtype))

    def constant(self, value: np.ndarray[Any, Any], *, equal: bool = False) -> Var:
        """An array that travels beside the program as a hidden argument, once per object.

        If ``equal``, once for all arrays of the same bits that are said to be.
        """
        key = (value.shape, value.dtype, value.tobytes()) if equal else identity(value)
        known = self._constants.get(key)
        if known is None:
            dtype = _jax.canonicalize_dtype(value.dtype)
            known = Var(self.array_type(value.shape, dtype)), value
            self._constants[key] = known
        return known[0]

    def array_type(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ShapedArray:
        """The type of an array that is the same on every device."""
        if self.plain:
            return _jax.array_type(shape, dtype)
        return ShapedArray(shape, dtype, sharding=_jax.replicated(len(shape)))

    @property
    def constants(self) -> list[tuple[Var, Any]]:
        """The arrays that travel beside the program, with their variables."""
        return list(self._constants.values())

    # --- Equations -----------------------------------------------------------------------

    def bind(
        self,
        primitive: Primitive,
        operands: Sequence[Atom],
        params: dict[str, Any],
        aval: ShapedArray | None = None,
    ) -> Var:
        """Append one equation and return its only output.

        ``aval`` is the output's type where the caller's typing rule knows it; without it, or
        in a builder that is not plain, JAX's rule is asked.
        """
        if aval is None or not self.plain:
            operands, (aval,), _ = self._typed(primitive, operands, params)
        out = Var(aval)
        self._equations.append(
            JaxprEqn(
                list(operands),
                [out],
                primitive,
                params,
                _jax.no_effects,
                self.source_info,
                self._context,
            )
        )
        return out

    def bind_multiple(
        self,
        primitive: Primitive,
        operands: Sequence[Atom],
        params: dict[str, Any],
        avals: Sequence[ShapedArray] | None = None,
    ) -> list[Var]:
        """Append one equation with any number of outputs, and effects where it has them.

        ``avals`` are the outputs' types of one without effects, as in `bind`.
        """
        effects = _jax.no_effects
        if avals is None or not self.plain:
            operands, avals, effects = self._typed(primitive, operands, params)
        outs = [Var(aval) for aval in avals]
        self._equations.append(
            JaxprEqn(
                list(operands), outs, primitive, params, effects, self.source_info, self._context
            )
        )
        return outs

    def call(
        self, primitive: Primitive, program: ClosedJaxpr, operands: Sequence[Atom], params: Any
    ) -> list[Var]:
        """Append an equation that runs a program without constants, which ``params`` hold."""
        outs = [Var(aval) for aval in program.out_avals]
        effects = program.effects or _jax.no_effects
        self._equations.append(
            JaxprEqn(
                list(operands), outs, primitive, params, effects, self.source_info, self._context
            )
        )
        return outs

    def inline(self, closed: ClosedJaxpr, operands: Sequence[Atom]) -> list[Any]:
        """Append a program's equations, with ``operands`` for its inputs; return its outputs."""
        jaxpr = closed.jaxpr
        atoms: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
        for v, value in zip(jaxpr.constvars, closed.consts, strict=True):
            atoms[v] = self.constant(np.asarray(value))
        for eqn in jaxpr.eqns:
            atoms.update(self.copy(eqn, atoms))
        self.inlined += 1
        return [atoms[x] if type(x) is Var else x for x in jaxpr.outvars]

    def copy(self, eqn: JaxprEqn, atoms: Mapping[Any, Any]) -> dict[Any, Any]:
        """Append an equation of another program, with ``atoms`` for its variables.

        What stands for its results.
        """
        fresh: list[Any] = [Var(v.aval) for v in eqn.outvars]
        invars = [atoms[x] if type(x) is Var else x for x in eqn.invars]
        source_info = _jax.within(self.source_info, eqn.source_info)
        self._equations.append(eqn.replace(invars=invars, outvars=fresh, source_info=source_info))
        return dict(zip(eqn.outvars, fresh, strict=True))

    def nested(self, input_types: Iterable[ShapedArray]) -> Builder:
        """A builder for a program inside an equation of this one, on the same line.

        It carries no name, because JAX puts that of the equation in front.
        """
        inner = Builder(input_types)
        inner.source_info = _jax.unnamed(self.source_info)
        return inner

    def add_input(self, input_type: ShapedArray) -> Var:
        """One more variable that stands for an argument."""
        self._inputs.append(Var(input_type))
        return self._inputs[-1]

    def merge(self, same: dict[Any, Any], inside: bool = True) -> None:
        """Compute what is computed twice once; equations that hold equal programs if ``inside``.

        ``same`` tells which variables are others; those that turn out to be are added to it.
        """
        self._equations = merged(self._equations, same, Identities(inside))

    def hoist(self, outer: Builder, fixed: dict[Var, Atom]) -> None:
        """Move to ``outer`` what follows from ``fixed`` variables, and the constants.

        ``fixed`` tells what stands for these variables there; what is moved is added to it.
        Repetition stays, where it costs no memory, and what has an effect.
        """
        fixed.update(self.constants_outside(outer))
        moved, self._equations = split_invariant(self._equations, fixed)
        for eqn in moved:
            fixed.update(outer.copy(eqn, fixed))

    def constants_outside(self, outer: Builder) -> dict[Var, Atom]:
        """The constants, which are none any more, with what stands for them in ``outer``."""
        found: dict[Var, Atom] = {v: outer.constant(x) for v, x in self._constants.values()}
        self._constants.clear()
        return found

    def reads(self, outputs: Sequence[Atom]) -> set[Var]:
        """The variables that these outputs need and that no equation gives."""
        return live_equations(self._equations, outputs)[1]

    def once(self, key: Any, make: Any) -> Any:
        """The value of ``make()`` for this key, made at most once in this program."""
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = make()
        return found

    def _typed(
        self, primitive: Primitive, operands: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Sequence[Atom], list[ShapedArray], frozenset[Any]]:
        operands = self.vary_alike(operands)
        avals = tuple(x.aval for x in operands)
        try:
            out, effects = _jax.abstract_eval(primitive, avals, params)
        except (TypeError, ValueError) as error:
            types = ", ".join(str(aval) for aval in avals)
            raise EquationError(f"JAX refuses {primitive} on ({types}): {error}") from error
        return operands, out, effects

    def vary_alike(self, operands: Sequence[Atom]) -> Sequence[Atom]:
        """The operands, cast to vary over the same axes of a mesh where one is about."""
        if self.plain or len(operands) < 2:
            return operands
        axes = [_jax.varying_axes(x.aval) for x in operands]
        union = frozenset[Any]().union(*axes)
        return [
            x if own == union else self._vary(x, tuple(sorted(union - own, key=str)))
            for x, own in zip(operands, axes, strict=True)
        ]

    def _vary(self, x: Atom, axes: tuple[Any, ...]) -> Atom:
        def bind() -> Var:
            return self.bind_multiple(_jax.pvary_p, (x,), _jax.pvary_params(axes))[0]

        return bind() if isinstance(x, Literal) else self.once(("pvary", identity(x), axes), bind)

    # --- The exit ------------------------------------------------------------------------

    def build(
        self,
        outputs: Sequence[Atom],
        *,
        name: str = "main",
        inputs: Sequence[Var] | None = None,
        arg_names: Sequence[str] | None = None,
        result_names: Sequence[str] | None = None,
    ) -> ClosedJaxpr:
        """The closed program that returns ``outputs``, of these ``inputs`` or all there are.

        Equations that nobody reads and that have no effect are left out, and so are constants
        used by none. That every variable is defined before it is read is always verified (once,
        as each equation has fresh ones); with ``jax_enable_checks`` on, so is every type, by JAX.
        """
        equations, live = live_equations(self._equations, outputs)
        inputs = self._inputs if inputs is None else list(inputs)
        constants = [(v, c) for v, c in self._constants.values() if v in live]
        closed = _jax.closed_jaxpr(
            [v for v, _ in constants],
            inputs,
            list(outputs),
            equations,
            frozenset[Any]().union(*(eqn.effects for eqn in equations if eqn.effects)),
            [c for _, c in constants],
            name,
            arg_names if arg_names is not None else [""] * len(inputs),
            result_names if result_names is not None else [""] * len(outputs),
        )
        if _jax.checks_enabled.value or not live.issubset([*inputs, *closed.jaxpr.constvars]):
            verify(closed)  # Says which equation it is.
        return closed
