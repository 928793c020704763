"""Jaxprs as data: the builder, typed constructors of primitives, traversal, evaluation."""

from jaxprgen.ir.builder import Atom, Builder, canonical_dtype, current_builder, outermost_builder

__all__ = ["Atom", "Builder", "canonical_dtype", "current_builder", "outermost_builder"]
