"""Rules for `aesara.tensor.nnet`, loaded with the first graph that has one of its Ops.

Importing that module warns of its deprecation, which only those who use it should see.
"""

from aesara.tensor.nnet.basic import ScalarSoftsign
from aesara.tensor.nnet.sigm import UltraFastScalarSigmoid

from jaxprgen.emit import special
from jaxprgen.frontend.aesara.scalar import RULES, in_output_dtype

RULES[ScalarSoftsign] = in_output_dtype(special.softsign)
# Its ``perform`` is the exact sigmoid; only its C code approximates.
RULES[UltraFastScalarSigmoid] = in_output_dtype(special.expit)
