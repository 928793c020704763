"""How far a pass may change the numbers that a program computes."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from jaxprgen._jax import ClosedJaxpr

Pass: TypeAlias = Callable[[ClosedJaxpr], ClosedJaxpr]


class Meaning(Enum):
    """A class of passes, by what they preserve.

    A pass declares its class as its attribute ``meaning``. A pass without this attribute has to
    preserve every bit. A pipeline holds passes to their classes with ``validate=True``.

    Attributes
    ----------
    SAME_BITS, SAME_TERMS, BETTER, SAME_REALS
        The classes, from the strictest to the most lenient.
    """

    SAME_BITS = "same bits"
    """Every bit of every result stays, also where it is NaN and in the sign of zeros."""
    SAME_TERMS = "same terms"
    """Every term of a sum is computed as written, and terms are added in another order.

    A result that was finite stays finite, and no sum cancels that did not before.
    """
    BETTER = "better"
    """Equal on paper, and no finite result gets a larger error.

    What was NaN or infinite may become the right number.
    """
    SAME_REALS = "same reals"
    """Equal on paper. Rounding, and results for extreme numbers, may differ."""


def if_reassociated(meaning: Meaning, otherwise: Meaning = Meaning.SAME_BITS) -> Any:
    """Return the attribute ``meaning`` of a pass that has the option ``reassociate``."""
    return property(lambda rewrite: meaning if rewrite.reassociate else otherwise)


def meaning_of(rewrite: Pass) -> Meaning:
    """Return the class that a pass declares, or else the strictest one."""
    return getattr(rewrite, "meaning", Meaning.SAME_BITS)


def name_of(rewrite: Pass) -> str:
    """Return the name of a pass: that of its class, or of the function."""
    return getattr(rewrite, "__name__", type(rewrite).__name__)
