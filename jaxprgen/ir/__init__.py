"""Jaxprs as data: a builder, typed constructors for the primitives, verification."""

from jaxprgen.ir.builder import Atom, Builder

__all__ = ["Atom", "Builder"]
