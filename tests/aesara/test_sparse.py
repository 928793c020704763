"""Sparse matrices that are constants."""

import aesara
import aesara.tensor as at
import numpy as np
import pytest
import scipy.sparse
from aesara.sparse.basic import as_sparse, dense_from_sparse
from laws import assert_agrees

x = at.dvector("x")
DENSE = np.array([[2.0, 0, 1], [0, 3, 0], [0, 0, 0]])


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_constants_made_dense(kind):
    dense = dense_from_sparse(as_sparse(kind(DENSE)))
    steps, _ = aesara.scan(lambda v: dense @ v, outputs_info=x, n_steps=3)
    assert_agrees([x], [dense, dense @ x, steps], [np.arange(3.0)])
