"""Arrays in files, and Ops that are refused with a reason and a remedy."""

import warnings

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.graph.basic import Variable
from aesara.link.c.type import Generic
from aesara.scalar.basic_sympy import SymPyCCode
from aesara.tensor import io
from aesara.tensor.elemwise import Elemwise
from laws import assert_agrees

import jaxprgen
from jaxprgen.errors import InvalidGraphError, UnsupportedOpError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # `aesara.sandbox.fourier` is deprecated.
    from aesara.sandbox import fourier

x = at.dvector("x")


@pytest.mark.parametrize("mmap_mode", [None, "c"])
def test_a_file_is_read_when_the_program_is_made(tmp_path, mmap_mode):
    path = tmp_path / "y.npy"
    np.save(path, np.arange(3.0))
    y = io.load(str(path), "float64", (None,), mmap_mode)
    f = assert_agrees([x], [x + at.arange(y.shape[0]), y * 2], [np.ones(3)])
    np.save(path, np.zeros(3))
    assert f(np.ones(3))[1].tolist() == [0, 2, 4]
    assert aesara.function([], y, mode="JAXPR")().tolist() == [0, 0, 0]


def test_a_file_that_does_not_fit(tmp_path):
    path = tmp_path / "y.npy"
    for known, text in [
        (None, f"Cannot load an array from {path}: [Errno 2] No such file"),
        ([1], "Expected an array of type float64, got int64 instead"),
    ]:
        if known is not None:
            np.save(path, known)
        with pytest.raises(InvalidGraphError) as caught:
            jaxprgen.compile([], io.load(str(path), "float64", (None,)))()
        assert text in str(caught.value)
    unknown = Variable(Generic(), None, name="path")
    with pytest.raises(InvalidGraphError, match=r"Input path has type .*, which is not an array"):
        jaxprgen.compile([unknown], io.load(unknown, "float64", (None,)))


def symbolic(x):
    op = SymPyCCode([None], None, name="symbolic")
    op.nin, op.output_types_preference = 1, aesara.scalar.basic.same_out
    return Elemwise(op)(x)


MPI = [
    "why: it exchanges messages of MPI; XLA orders the work of a program as it likes, so that "
    "two processes could wait for each other for ever",
    "instead: place arrays on a mesh of the devices of all processes, and JAX exchanges them; "
    "see docs/scale.md",
]
REFUSED = {
    "GradTodo": (
        fourier.grad_todo,
        "why: Aesara has not implemented it: its `perform` raises NotImplementedError",
        "instead: use aesara.tensor.fft, whose transforms have gradients",
    ),
    "SymPyCCode": (
        symbolic,
        "why: only SymPy's C source defines it",
        "instead: write the expression with Aesara's own functions",
    ),
    "MPIRecv": (lambda x: io.irecv((3,), "float64", 0, 1)[1], *MPI),
    "MPIRecvWait": (lambda x: io.MPIRecvWait(1)(*io.isend(x, 1, 1)), *MPI),
    "MPISend": (lambda x: io.isend(x, 1, 1)[1], *MPI),
    "MPISendWait": (lambda x: io.send(x, 1, 1), *MPI),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("fallback", ["error", "callback"])
def test_what_has_no_rule_says_why_and_what_to_do_instead(name, fallback):
    build, why, instead = REFUSED[name]
    with pytest.raises(UnsupportedOpError) as caught:
        jaxprgen.compile([x], build(x), fallback=fallback)
    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert {why, instead} <= set(lines)
    found = [node for node in jaxprgen.check([x], build(x)).nodes if node.verdict == "refused"]
    assert (f"why: {found[-1].reason}", f"instead: {found[-1].remedy}") == (why, instead)
