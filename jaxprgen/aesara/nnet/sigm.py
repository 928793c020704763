"""Rules for `aesara.tensor.nnet.sigm`."""

from aesara.tensor.nnet.sigm import UltraFastScalarSigmoid

from jaxprgen.aesara.scalar import RULES, in_output_dtype
from jaxprgen.emit import transcendental as special

# Its ``perform`` is the exact sigmoid; only its C code approximates.
RULES[UltraFastScalarSigmoid] = in_output_dtype(special.expit)
