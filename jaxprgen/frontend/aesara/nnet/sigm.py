"""Rules for `aesara.tensor.nnet.sigm`."""

from aesara.tensor.nnet.sigm import UltraFastScalarSigmoid

from jaxprgen.emit import special
from jaxprgen.frontend.aesara.scalar import RULES, in_output_dtype

# Its ``perform`` is the exact sigmoid; only its C code approximates.
RULES[UltraFastScalarSigmoid] = in_output_dtype(special.expit)
