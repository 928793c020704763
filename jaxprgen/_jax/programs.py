"""Build, walk, print and run whole programs."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax._src import (
    api_util as _api_util,
    core as _core,
    mesh as _mesh,
    pjit as _pjit,
    source_info_util as _source_info_util,
    util as _util,
)
from jax._src.named_sharding import UNSPECIFIED as _UNSPECIFIED

from jaxprgen._jax.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jaxprgen._jax.types import Var


def closed_jaxpr(
    invars: Sequence[Var],
    outvars: Sequence[Any],
    eqns: Sequence[JaxprEqn],
    constants: Sequence[tuple[Var, Any]] = (),
    *,
    name: str = "main",
    arg_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    effects: Any = None,
    of: Jaxpr | None = None,
) -> ClosedJaxpr:
    """Close equations into a program.

    Parameters
    ----------
    invars, outvars, eqns
        The parts of the jaxpr.
    constants
        The variables of constants, each with its value.
    name, arg_names, result_names
        Names for JAX's messages and the StableHLO. Those of arguments or results do not count if
        there are more or fewer of them.
    effects
        The effects; by default those of the equations.
    of
        The program that the equations come from, if JAX traced all of them. JAX marks a program as
        "high" while some of its primitives must still be lowered to others.
    """

    def fitting(names: Sequence[str] | None, xs: Sequence[Any]) -> tuple[str, ...]:
        return tuple(names) if names and len(names) == len(xs) else ("",) * len(xs)

    names = fitting(arg_names, invars), fitting(result_names, outvars)
    if effects is None:
        effects = frozenset[Any]().union(*(eqn.effects for eqn in eqns if eqn.effects))
    is_high = of.is_high if of is not None else _is_high(eqns)
    variables, values = [v for v, _ in constants], [x for _, x in constants]
    debug_info = _core.DebugInfo("jit", name, *names)
    jaxpr = Jaxpr(variables, invars, outvars, eqns, effects, debug_info, is_high)  # type: ignore[arg-type]
    return ClosedJaxpr(jaxpr, values)


_CAN_TELL = "avals" in inspect.signature(Primitive.is_high).parameters  # Not in JAX 0.7.


def _is_high(eqns: Sequence[JaxprEqn]) -> bool:
    return _CAN_TELL and any(
        e.primitive.is_high(*(x.aval for x in e.invars), **e.params) for e in eqns
    )


def hoist_constants(
    closed: ClosedJaxpr, place: Callable[[Any], int] = lambda constant: 0
) -> tuple[ClosedJaxpr, list[Any]]:
    """Return the program with its constants as leading inputs, and the constants.

    Both are sorted by ``place``, a function of a constant.
    """
    jaxpr = closed.jaxpr
    pairs = sorted(zip(jaxpr.constvars, closed.consts, strict=True), key=lambda p: place(p[1]))
    consts = [constant for _, constant in pairs]
    if not consts:
        return closed, consts
    count = len(jaxpr.invars)
    names = (jaxpr.debug_info.arg_names or ("",) * count)[-count:] if count else ()
    hoisted = closed_jaxpr(
        [*(v for v, _ in pairs), *jaxpr.invars],
        jaxpr.outvars,
        jaxpr.eqns,
        name=jaxpr.debug_info.func_src_info,
        arg_names=[*(f"const_{i}" for i in range(len(consts))), *names],
        result_names=jaxpr.debug_info.result_paths,  # type: ignore[arg-type]
        effects=jaxpr.effects,
        of=jaxpr,
    )
    return hoisted, consts


def sub_jaxprs(eqn: JaxprEqn) -> list[tuple[str, Jaxpr]]:
    """Return the jaxprs in an equation's parameters, with the parameters' names."""
    found: list[tuple[str, Jaxpr]] = []
    for name, value in eqn.params.items():
        several = isinstance(value, (tuple, list))
        for i, x in enumerate(value if several else (value,)):
            if isinstance(x, (Jaxpr, ClosedJaxpr)):
                found.append((f"{name}[{i}]" if several else name, open_jaxpr(x)))
    return found


def every_jaxpr(jaxpr: Jaxpr) -> list[Jaxpr]:
    """Return a program and those inside its equations, outermost first, each of them once."""
    found = {id(jaxpr): jaxpr}
    for program in (every := [jaxpr]):
        inner = {id(x): x for eqn in program.eqns for _, x in sub_jaxprs(eqn)}
        every += [x for key, x in inner.items() if key not in found]
        found |= inner
    return every


def every_equation(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the equations of a program, and those of programs inside them once."""
    for program in every_jaxpr(jaxpr):
        yield from program.eqns


weakref_cache = _util.weakref_lru_cache
"""Cache a function of a program, its first argument, for as long as the program lives."""


@weakref_cache
def _primitives_in(jaxpr: Jaxpr) -> frozenset[str]:
    return frozenset[str]().union(*map(primitives_of, jaxpr.eqns))


def primitives_of(eqn: JaxprEqn) -> frozenset[str]:
    """Return the name of an equation's primitive and those of primitives in its inner programs."""
    inner = (_primitives_in(jaxpr) for _, jaxpr in sub_jaxprs(eqn))
    return frozenset((eqn.primitive.name,)).union(*inner)


def has_effects(eqn: JaxprEqn | Jaxpr) -> bool:
    """Return whether an equation or a program has side effects. Naming an axis does not count."""
    return bool(eqn.effects) and any(
        not isinstance(effect, _core.NamedAxisEffect) for effect in eqn.effects
    )


def open_jaxpr(jaxpr: Any) -> Jaxpr:
    """Return the jaxpr without the values of its constants."""
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def pretty_jaxpr(
    jaxpr: Jaxpr, names: Mapping[Var, str], *, source: bool, shapes: bool, color: bool, width: int
) -> str:
    """Return JAX's text of a jaxpr, with these names for its variables."""
    context = _core.JaxprPpContext()
    for v, name in names.items():
        context.var_names[v] = name
    settings = _core.JaxprPpSettings(print_shapes=shapes, source_info=source)
    return _core.pp_jaxpr(jaxpr, context, settings).format(width=width, use_color=color)


NonFiniteError = _api_util.InternalFloatingPointError
"""The error of a program whose results ``jax_debug_nans`` or ``jax_debug_infs`` refuses."""


def eval_jaxpr(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    """Run the program one equation at a time, and return its outputs.

    An error gets a note with the line of the equation that failed. JAX keeps this line in the cause
    of the error, which ``jit`` drops.
    """
    try:
        return _core.eval_jaxpr(closed.jaxpr, closed.consts, *operands)
    except Exception as error:
        if error.__cause__ is not None and error.__cause__.__traceback__ is not None:
            error.add_note("".join(traceback.format_tb(error.__cause__.__traceback__)).rstrip())
        raise


jit_p = _pjit.jit_p
_Inline: Any = getattr(jax, "Inline", None)  # JAX >= 0.11.0.
_INLINE = False if _Inline is None else _Inline.AUTO


def jit_params(closed: ClosedJaxpr, name: str) -> dict[str, Any]:
    """Return the parameters of a ``jit`` equation that runs a program without constants.

    Parameters
    ----------
    closed
        The program.
    name
        The name of the function in JAX's messages and the StableHLO.
    """
    n_in, n_out = len(closed.jaxpr.invars), len(closed.jaxpr.outvars)
    return {
        "jaxpr": closed,
        "in_shardings": (_UNSPECIFIED,) * n_in,
        "out_shardings": (_UNSPECIFIED,) * n_out,
        "in_layouts": (None,) * n_in,
        "out_layouts": (None,) * n_out,
        "donated_invars": (False,) * n_in,
        "ctx_mesh": _mesh.get_concrete_mesh(),
        "name": name,
        "keep_unused": False,
        "compiler_options_kvs": (),  # JAX refuses them in an equation inside another program.
        "inline": _INLINE,
    }


def is_bare_call(eqn: JaxprEqn) -> bool:
    """Return whether a ``jit`` equation sets no options, and its program has no constants."""
    params = eqn.params
    placed = *params["in_shardings"], *params["out_shardings"]
    is_free = all(x is _UNSPECIFIED for x in placed) and not any(params["donated_invars"])
    return is_free and not params["jaxpr"].consts and not params["compiler_options_kvs"]


# --- Single equations ---------------------------------------------------------------------


def eval_eqn(eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """Compute the results of an equation from values, outside any current trace.

    NaNs raise no error, even under ``jax_debug_nans``.
    """
    given = [(x, value) for x, value in zip(eqn.invars, operands, strict=True) if type(x) is Var]
    invars, values = [x for x, _ in given], [value for _, value in given]
    alone = closed_jaxpr(invars, eqn.outvars, [eqn], name="equation")  # type: ignore[arg-type]
    with _core.eval_context(), jax.debug_nans(False), jax.debug_infs(False):
        return eval_jaxpr(alone, values)


_REF: Any = getattr(_core, "Ref", None) or vars(_core)["ArrayRef"]  # The second in JAX < 0.8.


def is_mutable(x: Any) -> bool:
    """Return whether a value is a mutable array, as `jax.new_ref` returns."""
    return isinstance(x, _REF)


def read(x: Any) -> Any:
    """Return the array that a mutable array holds now, and anything else as it is."""
    if not is_mutable(x):
        return x
    with _core.eval_context():
        return x[...]


@contextlib.contextmanager
def equation_context(eqn: JaxprEqn) -> Generator[None, None, None]:
    """Give the equations traced in this context the line, names and settings of an equation."""
    info = eqn.source_info
    stack = _source_info_util.current_name_stack() + info.name_stack
    with _source_info_util.user_context(info.traceback, name_stack=stack), eqn.ctx.manager:
        yield


def bind_eqn(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Bind an equation's primitive to values, and return its result, or a list of its results."""
    found: Any = eqn.primitive.get_bind_params(eqn.params)
    functions, params = found if isinstance(found, tuple) else ((), found)  # A pair in JAX < 0.9.2.
    results: Any = eqn.primitive.bind(*functions, *operands, **params)
    # Some, such as ``shard_map``, return another iterable.
    return list(results) if eqn.primitive.multiple_results else results


def close(jaxpr: Any) -> ClosedJaxpr:
    """Return a program from an equation's parameters as a closed jaxpr."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
