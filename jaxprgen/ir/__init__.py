"""Jaxprs as data: the builder, typed constructors of primitives, traversal, evaluation."""

from jaxprgen.ir.builder import Atom, Builder, current_builder

__all__ = ["Atom", "Builder", "current_builder"]
