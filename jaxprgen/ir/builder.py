"""A builder of jaxprs, which collects equations.

The design follows ``JaxprBuilder`` in JAX's tutorial *Autodidax*. To emit an equation is to compute
its types, make fresh variables, and append it. `Builder.build` returns a verified program; passes
take equations from `Builder.equations_from`, and put them among those of another program, which is
then verified as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Primitive, ShapedArray, Var, identity
from jaxprgen.errors import EquationError, IntegerRangeError
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.programs import verify

Atom: TypeAlias = Var | Literal
T = TypeVar("T")


class _AtHand(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder] = []


_at_hand = _AtHand()


def current_builder() -> Builder:
    """Return the builder of the innermost ``with builder:`` around the caller, in this thread.

    Raises
    ------
    EquationError
        No builder is at hand: a value was used outside the rule or block that it belongs to.
    """
    if not _at_hand.builders:
        raise EquationError(
            "No builder is at hand to append an equation to. Compute with values inside a rule or "
            "a `with builder:` block."
        )
    return _at_hand.builders[-1]


def outermost_builder() -> Builder:
    """Return the builder of the whole program around the caller, in this thread."""
    current_builder()
    return _at_hand.builders[0]


def canonical_dtype(array: np.ndarray[Any, Any]) -> np.dtype[Any]:
    """Return the dtype in which JAX computes with an array.

    Raises
    ------
    IntegerRangeError
        x64 is off, and the array holds an integer that JAX would wrap.
    """
    dtype = _jax.canonicalize_dtype(array.dtype)
    lost = _jax.wrapped(array, dtype)
    if lost is not None:
        raise IntegerRangeError(
            f"jax_enable_x64 is off: {array.dtype} is computed as {dtype}, which cannot hold "
            f"{lost}.\nRun jax.config.update('jax_enable_x64', True) before anything else of JAX."
        )
    return dtype


class Builder:
    """Collects the equations of one jaxpr.

    In a *plain* builder, types are shapes and dtypes. Under a mesh, they also say over which of its
    axes values vary (``shard_map``). Then operands are cast to vary over the same axes, as
    `jax.lax` does.

    Parameters
    ----------
    input_types : iterable of ShapedArray
        The types of the program's inputs.

    Attributes
    ----------
    plain : bool
        Whether the builder is plain.
    source_info : SourceInfo
        The name stack and the user's source line of the next equations.
    inlined : int
        The number of programs that were inlined.
    postponed : list or None
        Checks that the program around makes, if it does, so that the program has no effects.
    """

    __slots__ = (
        "_constants",
        "_context",
        "_equations",
        "_inputs",
        "_memo",
        "_taken",
        "inlined",
        "plain",
        "postponed",
        "source_info",
    )

    def __init__(self, input_types: Iterable[ShapedArray] = ()) -> None:
        self._inputs = [Var(aval) for aval in input_types]
        self._constants: dict[Any, tuple[Var, Any]] = {}
        self._equations: list[JaxprEqn] = []
        self._taken = 0
        self._memo: dict[Any, Any] = {}
        self._context = _jax.eqn_context()
        self.inlined = 0
        self.postponed: list[Any] | None = None
        self.source_info = _jax.NO_SOURCE
        self.plain = _jax.ambient_mesh_is_empty() and all(
            _jax.is_plain(v.aval) or v.aval.sharding.mesh.empty for v in self._inputs
        )

    @classmethod
    def in_place_of(cls, eqn: JaxprEqn) -> Builder:
        """Return a builder of equations that replace one of another program.

        It is plain if the equation's operands are. Equations have the line, names and context of
        that equation.
        """
        b = cls(x.aval for x in eqn.invars)  # type: ignore[misc]
        b.source_info, b._context = eqn.source_info, eqn.ctx
        return b

    def __enter__(self) -> Builder:
        """Make this builder the one that `current_builder` returns in this thread."""
        _at_hand.builders.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _at_hand.builders.pop()

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The program's inputs."""
        return tuple(self._inputs)

    def __len__(self) -> int:
        """Return the number of equations so far."""
        return len(self._equations)

    def equations_from(self, index: int) -> list[JaxprEqn]:
        """Return the equations so far, except the first ``index``."""
        return self._equations[index:]

    def take(self) -> list[JaxprEqn]:
        """Return the equations that were appended since this was called last."""
        start, self._taken = self._taken, len(self._equations)
        return self._equations[start:]

    def memoized(self, key: Any, make: Callable[[], T]) -> T:
        """Return ``make()``, which is called only once per key in this program."""
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = make()
        return found

    # --- Atoms ---------------------------------------------------------------------------

    def literal(self, value: np.ndarray[Any, Any]) -> Literal:
        """Return a scalar as a literal in the program, in JAX's canonical dtype."""
        dtype = canonical_dtype(value)
        if dtype != value.dtype:
            value = value.astype(dtype)
        return Literal(value[()], self.array_type((), dtype))

    def constant(self, value: Any, *, equal: bool = False) -> Var:
        """Return the variable of an array that is a constant of the program.

        Parameters
        ----------
        value : array
            The constant.
        equal : bool
            Whether arrays of equal types and bits share one variable. By default each array object
            has its own.
        """
        key = (value.shape, value.dtype, value.tobytes()) if equal else identity(value)
        known = self._constants.get(key)
        if known is None:
            known = Var(self.array_type(value.shape, canonical_dtype(value))), value
            self._constants[key] = known
        return known[0]

    def array_type(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ShapedArray:
        """Return the type of an array that is replicated on every device."""
        if self.plain:
            return _jax.array_type(shape, dtype)
        return ShapedArray(shape, dtype, sharding=_jax.replicated(len(shape)))

    @property
    def constants(self) -> list[tuple[Var, Any]]:
        """The constants of the program, with their variables."""
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

        Parameters
        ----------
        primitive : Primitive
            A primitive without effects.
        operands : sequence of Atom
        params : dict
            The primitive's parameters.
        aval : ShapedArray, optional
            The type of the output, if JAX cannot infer it.

        Returns
        -------
        Var
            The output.

        Raises
        ------
        EquationError
            JAX's typing rule refuses the equation.
        """
        if aval is not None:
            return self._append(primitive, operands, params, [aval], _jax.no_effects)[0]
        return self.bind_multiple(primitive, operands, params)[0]

    def bind_multiple(
        self, primitive: Primitive, operands: Sequence[Atom], params: dict[str, Any]
    ) -> list[Var]:
        """Append one equation, whose primitive may have effects, and return all its outputs.

        Parameters and errors are those of `bind`.
        """
        operands = self.vary_alike(operands)
        types = tuple(x.aval for x in operands)
        try:
            avals, effects = self._inferred(primitive, types, params)
        except (TypeError, ValueError, IndexError) as error:
            text = ", ".join(map(str, types))
            raise EquationError(f"JAX refuses {primitive} on ({text}): {error}") from error
        return self._append(primitive, operands, params, avals, effects)

    def _inferred(
        self, primitive: Primitive, types: Any, params: dict[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        """Return result types and effects. JAX takes 10 to 60 µs, so it is asked once for each."""
        key = primitive, types, tuple(params.items())
        try:
            hash(key)
        except TypeError:
            return _jax.abstract_eval(primitive, types, params)
        return self.memoized(key, lambda: _jax.abstract_eval(primitive, types, params))

    def call(
        self, primitive: Primitive, program: ClosedJaxpr, operands: Sequence[Atom], params: Any
    ) -> list[Var]:
        """Append an equation that runs a program, and return its outputs.

        Parameters
        ----------
        primitive : Primitive
            A primitive that runs a program, such as ``jit``.
        program : ClosedJaxpr
            The program, without constants.
        operands : sequence of Atom
            The program's operands.
        params : dict
            The primitive's parameters, which hold the program.
        """
        effects = program.effects or _jax.no_effects
        return self._append(primitive, operands, params, program.out_avals, effects)

    def inline(self, closed: ClosedJaxpr, operands: Sequence[Atom]) -> list[Any]:
        """Append a program's equations, with ``operands`` as its inputs, and return its outputs."""
        jaxpr = closed.jaxpr
        atoms: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
        for v, value in zip(jaxpr.constvars, closed.consts, strict=True):
            atoms[v] = self.constant(np.asarray(value))
        for eqn in jaxpr.eqns:
            atoms.update(self.copy(eqn, atoms))
        self.inlined += 1
        return [atoms[x] if type(x) is Var else x for x in jaxpr.outvars]

    def copy(self, eqn: JaxprEqn, atoms: Mapping[Any, Any]) -> dict[Any, Any]:
        """Append an equation of another program.

        Parameters
        ----------
        eqn : JaxprEqn
            The equation.
        atoms : mapping
            The atoms that replace the variables that the equation reads.

        Returns
        -------
        dict
            The variables that replace the equation's outputs.
        """
        fresh: list[Any] = [Var(v.aval) for v in eqn.outvars]
        invars = [atoms[x] if type(x) is Var else x for x in eqn.invars]
        source_info = _jax.within(self.source_info, eqn.source_info)
        self._equations.append(eqn.replace(invars=invars, outvars=fresh, source_info=source_info))
        return dict(zip(eqn.outvars, fresh, strict=True))

    def add_input(self, input_type: ShapedArray) -> Var:
        """Add one more input and return it."""
        self._inputs.append(Var(input_type))
        return self._inputs[-1]

    def hoist_constants(self, outer: Builder) -> dict[Var, Atom]:
        """Move the constants to another builder, and return their variables there."""
        found: dict[Var, Atom] = {v: outer.constant(x) for v, x in self._constants.values()}
        self._constants.clear()
        return found

    def nested(self, input_types: Iterable[ShapedArray]) -> Builder:
        """Return a builder for a program inside an equation of this one, at the same line.

        Its equations have empty name stacks, because JAX prepends that of the outer equation.
        """
        inner = Builder(input_types)
        inner.plain &= self.plain
        inner.source_info = _jax.unnamed(self.source_info)
        return inner

    def vary_alike(self, operands: Sequence[Atom]) -> Sequence[Atom]:
        """Return the operands; under a mesh, cast them to vary over the same mesh axes."""
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

        return (
            bind() if isinstance(x, Literal) else self.memoized(("pvary", identity(x), axes), bind)
        )

    def _append(
        self,
        primitive: Primitive,
        operands: Sequence[Atom],
        params: dict[str, Any],
        avals: Sequence[Any],
        effects: Any,
    ) -> list[Var]:
        outs = [Var(aval) for aval in avals]
        self._equations.append(
            JaxprEqn(
                list(operands), outs, primitive, params, effects, self.source_info, self._context
            )
        )
        return outs

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
        """Return the closed program of these equations.

        Constants that are not read are left out, and so are equations that are not read and have no
        effects. The result is verified: each variable is defined before it is read. With
        ``jax_enable_checks``, JAX also checks every type.

        Parameters
        ----------
        outputs : sequence of Atom
            The program's outputs.
        name : str
            The name in JAX's messages and in StableHLO.
        inputs : sequence of Var, optional
            The program's inputs; by default those of the builder.
        arg_names, result_names : sequence of str, optional
            The names of inputs and outputs in JAX's messages.

        Returns
        -------
        ClosedJaxpr
            The program.

        Raises
        ------
        EquationError
            The program reads or returns a variable of another program.
        """
        equations, live = live_equations(self._equations, outputs)
        inputs = self._inputs if inputs is None else list(inputs)
        constants = [(v, c) for v, c in self._constants.values() if v in live]
        closed = _jax.closed_jaxpr(
            inputs,
            list(outputs),
            equations,
            constants,
            name=name,
            arg_names=arg_names,
            result_names=result_names,
        )
        if _jax.checks_enabled.value or not live.issubset([*inputs, *closed.jaxpr.constvars]):
            verify(closed)  # Says which equation it is.
        return closed
