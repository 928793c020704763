"""Rules for `aesara.tensor.nnet.basic`."""

from aesara.tensor.nnet.basic import ScalarSoftsign

from jaxprgen.emit import special
from jaxprgen.frontend.aesara.scalar import RULES, in_output_dtype

RULES[ScalarSoftsign] = in_output_dtype(special.softsign)
