"""Jaxprs as data: a builder, typed constructors for the primitives, verification."""

from jaxprgen.ir.builder import Atom, Builder, current_builder

__all__ = ["Atom", "Builder", "current_builder"]
