"""Values in loops are named after what they are outside: states, sequences, constants."""

import re

import aesara
import aesara.tensor as at
import jax
import numpy as np
from aesara.graph.basic import applys_between
from aesara.scan.op import Scan

import jaxprgen
from jaxprgen.graphs.naming import Names

beta, S0, I0 = at.dscalars("beta", "S0", "I0")
y = at.dvector("y")


def epidemic():
    def step(S, I, beta):  # noqa: E741
        infected = beta * S * I
        infected.name = "infected"
        return S - infected, I + infected

    states, _ = aesara.scan(step, outputs_info=[S0, I0], non_sequences=[beta], n_steps=3)
    return states


def body(f, *args):
    """The equations of the step of a program's loop, as text."""
    text = jaxprgen.pretty(f, *args, shapes=False)
    lines = text.partition("jaxpr={")[2].partition("}")[0].splitlines()
    return [line.strip() for line in lines if " = " in line]


def names_in(graph):
    """The names of the inputs and outputs of the step of a graph's loop."""
    inputs, outputs = graph
    nodes = [n for n in applys_between(inputs, outputs) if n.outputs]
    names = Names()
    names.add(nodes)
    (graph,) = {n.op.fgraph for n in nodes if isinstance(n.op, Scan)}
    return [names.of(v) for v in graph.inputs], [names.of(v) for v in graph.outputs]


def test_states_are_named_after_the_results():
    S, I = epidemic()  # noqa: E741
    S.name, I.name = "S", "I"
    f = jaxprgen.compile([beta, S0, I0], [S, I])
    assert body(f, 0.5, 0.9, 0.1) == [
        "beta.2 = mul beta.1 S.2",
        "infected.1 = mul beta.2 I.2",
        "S.3 = sub S.2 infected.1",
        "I.3 = add I.2 infected.1",
    ]


def test_states_of_unnamed_results_are_named_after_their_first_values():
    assert names_in(([beta, S0, I0], epidemic())) == (["S0", "I0", "beta"], ["S0", "I0"])


def test_rows_of_sequences_and_stacked_results_have_the_names_of_the_whole():
    (level, square), _ = aesara.scan(
        lambda y_t, before, level, beta: (level * beta + before, at.square(y_t)),
        sequences=[y],
        outputs_info=[{"initial": at.stack([S0, I0]), "taps": [-2, -1]}, None],
        non_sequences=[beta],
    )
    level.name, square.name = "level", "square"
    graph = [y, S0, I0, beta], [level, square]
    assert names_in(graph) == (["y", "level", "level", "beta"], ["level", "square"])
    f = jaxprgen.compile(*graph)
    text = jaxprgen.pretty(f, np.ones(3), 1.0, 1.0, 1.0)
    assert "y_0" not in text


def test_loops_in_loops_pass_names_on():
    def outer(total):
        def inner(part, total):
            return part * total

        parts, _ = aesara.scan(inner, outputs_info=[total], non_sequences=[total], n_steps=2)
        return parts[-1]

    totals, _ = aesara.scan(outer, outputs_info=[S0], n_steps=3)
    totals.name = "totals"
    text = jaxprgen.pretty(jaxprgen.compile([S0], totals), 1.0, shapes=False)
    names = set(re.findall(r"[A-Za-z]\w*(?=\.\d+ = mul)", text))
    assert names == {"totals"}


def test_names_survive_a_gradient():
    S, I = epidemic()  # noqa: E741
    S.name, I.name = "S", "I"
    f = jaxprgen.compile([beta, S0, I0], I[-1])
    text = jaxprgen.pretty(jax.grad(f), 0.5, 0.9, 0.1)
    assert re.search(r"\bI\.\d+:f64\[\] = add ", text)


def test_names_that_a_user_gave_win():
    def step(S, beta):
        after = S * beta
        after.name = "after"
        return after

    S, _ = aesara.scan(step, outputs_info=[S0], non_sequences=[beta], n_steps=3)
    S.name = "S"
    assert names_in(([S0, beta], [S])) == (["S", "beta"], ["after"])
