"""Random graphs over all families at once, against Aesara's Python linker."""

import aesara.tensor as at
import numpy as np
from aesara.tensor.subtensor import inc_subtensor, set_subtensor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import assert_agrees

FLOAT_UNARY = [at.tanh, at.sin, at.exp, at.sigmoid, at.softplus, at.square, at.abs, at.neg]
BINARY = [at.add, at.sub, at.mul, at.maximum, at.minimum, at.lt, at.eq, at.arctan2, at.switch]
SMOOTH = [at.sum, at.max, at.mean, at.prod]
REDUCTIONS = [*SMOOTH, at.any, at.argmax]


class Graph:
    """Grows a graph node by node, each made of what is there and in range of float rounding."""

    def __init__(self, draw):
        self.draw = draw
        self.inputs, self.args, self.pool = [], [], []

    def choose(self, options):
        return options[self.draw(st.integers(0, len(options) - 1))]

    def add_input(self):
        shape = tuple(self.draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3)))
        dtype = self.choose(["float64", "float64", "float32", "int64", "int8", "bool"])
        rng = np.random.default_rng(self.draw(st.integers(0, 100)))
        array = rng.integers(-3, 4, shape).astype(dtype)
        if dtype.startswith("float"):
            array = (array * 0.25).astype(dtype)
        static = tuple(1 if n == 1 else None for n in shape)
        self.inputs.append(at.tensor(dtype, shape=static))
        self.args.append(array)
        self.pool.append((self.inputs[-1], array.shape))

    def add(self, variable, shape):
        # Tamed, so that no chain of products leaves the numbers where rounding is comparable.
        if "float" in variable.dtype:
            variable = at.clip(variable, -4.0, 4.0)
        elif "int" in variable.dtype:
            variable = at.cast(at.clip(variable, -9, 9), variable.dtype)
        self.pool.append((variable, shape))

    def grow(self):
        x, shape = self.choose(self.pool)
        step = getattr(self, self.choose([n for n in dir(self) if n.startswith("try_")]))
        step(x, shape)

    def try_unary(self, x, shape):
        if x.dtype.startswith("float"):
            self.add(self.choose(FLOAT_UNARY)(x), shape)

    def try_cast(self, x, shape):
        exact = [] if "float" in x.dtype else ["int32", "bool"]
        self.add(at.cast(x, self.choose(["float64", "float32", *exact])), shape)

    def try_binary(self, x, shape):
        y, other = self.choose(self.pool)
        try:
            result = np.broadcast_shapes(shape, other)
        except ValueError:
            return
        op = self.choose(BINARY)
        if op in (at.lt, at.eq, at.switch) and "float" in x.dtype + y.dtype:
            return  # Numbers that differ by rounding may compare differently.
        if op is at.sub and {x.dtype, y.dtype} == {"bool"}:
            return
        args = (at.lt(x, y), x, y) if op is at.switch else (x, y)
        self.add(op(*args), result)

    def try_reduction(self, x, shape):
        if shape and all(shape):
            axis = self.draw(st.integers(0, len(shape) - 1))
            op = self.choose(SMOOTH if "float" in x.dtype else REDUCTIONS)
            self.add(op(x, axis=axis), shape[:axis] + shape[axis + 1 :])

    def try_transpose(self, x, shape):
        order = self.draw(st.permutations(range(len(shape))))
        at_end = self.draw(st.booleans())
        new = tuple(shape[d] for d in order)
        self.add(x.dimshuffle(*order, *["x"] * at_end), new + (1,) * at_end)

    def try_reshape(self, x, shape):
        self.add(x.reshape((-1,)) if all(shape) else x.flatten(), (int(np.prod(shape)),))

    def try_slice(self, x, shape):
        if shape:
            step = self.choose([1, -1, 2])
            start, stop = (self.draw(st.none() | st.integers(-3, 3)) for _ in range(2))
            index = slice(start, stop, step)
            self.add(x[index], (len(range(*index.indices(shape[0]))), *shape[1:]))

    def try_write(self, x, shape):
        if shape and shape[0]:
            i = self.draw(st.integers(-shape[0], shape[0] - 1))
            write = self.choose([set_subtensor, inc_subtensor])
            self.add(write(x[i], at.cast(1, x.dtype)) if x.dtype != "bool" else x, shape)

    def try_join(self, x, shape):
        if shape:
            self.add(at.join(0, x, x[::-1]), (2 * shape[0], *shape[1:]))

    def try_dot(self, x, shape):
        if len(shape) in (1, 2) and x.dtype != "bool":
            self.add(at.dot(x, x.T), shape[:-1] + shape[:-1][::-1])

    def try_shape(self, x, shape):
        if shape:
            self.add(at.arange(x.shape[0]) * 2 + x.ndim, (shape[0],))

    def try_fill(self, x, shape):
        if not shape:
            self.add(at.alloc(x, 2, 3), (2, 3))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_graphs(data):
    graph = Graph(data.draw)
    for _ in range(data.draw(st.integers(1, 3))):
        graph.add_input()
    for _ in range(data.draw(st.integers(5, 30))):
        graph.grow()
    outputs = [v for v, _ in graph.pool[-4:]]
    assert_agrees(graph.inputs, outputs, graph.args, rtol=1e-5)
