"""Calls of random functions of shared variables, from threads, against the same calls in a row."""

import graphlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import jaxprgen


def at_once(*tasks):
    """Run tasks in threads that start together; an error of one of them is raised here."""
    start = threading.Barrier(len(tasks))

    def run(task):
        start.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [each.result() for each in [pool.submit(run, task) for task in tasks]]


MULTIPLIER = 6364136223846793005


class Variables:
    """Shared variables of a library, each beside one that counts its updates.

    Parameters
    ----------
    library
        `aesara` or `pytensor`.
    sizes
        The number of elements of each variable.
    """

    def __init__(self, library, sizes):
        self.library = library
        self.values = [library.shared(np.full(n, i), name=f"w{i}") for i, n in enumerate(sizes)]
        self.versions = [library.shared(np.int64(0), name=f"version{i}") for i in range(len(sizes))]

    def reader(self, places):
        """A function that returns values, and how often they were updated."""
        outputs = [self.values[i][-1] for i in places] + [self.versions[i] for i in places]
        return jaxprgen.compile([], outputs)

    def updater(self, make, places):
        """A function that updates variables of each other, and returns what it read."""
        outputs = [self.values[i][-1] for i in places] + [self.versions[i] for i in places]
        updates = {self.versions[i]: self.versions[i] + 1 for i in places}
        for i, j in zip(places, places[1:] + places[:1], strict=True):
            updates[self.values[i]] = self.values[i] * MULTIPLIER + self.values[j][-1] + i
        if make == "function":
            return jaxprgen.function([], outputs, updates=updates)
        return self.library.function([], outputs, updates=updates, mode="JAXPR")


def in_threads(rng, functions, threads, calls):
    """Call random functions, and return for each call its function and what it returned."""
    seeds = [rng.random() for _ in range(threads)]

    def run(seed):
        own, found = random.Random(seed), []
        for _ in range(calls):
            number = own.randrange(len(functions))
            found.append((number, [int(x) for x in functions[number]()]))
        return found

    with ThreadPoolExecutor(threads) as pool:
        return [call for calls in pool.map(run, seeds) for call in calls]


def one_after_the_other(calls, places_of, updates):
    """Return calls in an order in which each reads the versions that it found.

    If there is no such order, someone saw half of an update: `graphlib.CycleError` says so.
    """
    by_version, after = {}, {n: set() for n in range(len(calls))}
    for n, (number, found) in enumerate(calls):
        places = places_of[number]
        if updates[number]:
            for i, version in zip(places, found[len(places) :], strict=True):
                assert (i, version) not in by_version, "an update is lost"
                by_version[i, version] = n
    for n, (number, found) in enumerate(calls):
        places = places_of[number]
        for i, version in zip(places, found[len(places) :], strict=True):
            if version:
                after[n].add(by_version[i, version - 1])
            if not updates[number] and (i, version) in by_version:
                after[by_version[i, version]].add(n)
    return [calls[n] for n in graphlib.TopologicalSorter(after).static_order()]


def assert_calls_are_one_after_the_other(library, seed, threads, calls):
    """Let threads call random functions, and check all that they return."""
    rng = random.Random(seed)
    sizes = [rng.choice([1, 3, 50_000]) for _ in range(4)]
    variables = Variables(library, sizes)
    places_of, updates, functions = [], [], []
    for _ in range(8):
        places = rng.sample(range(4), rng.randint(1, 4))
        make = rng.choice(["function", "mode", "compile"])
        places_of.append(places)
        updates.append(make != "compile")
        maker = variables.reader(places) if make == "compile" else variables.updater(make, places)
        functions.append(maker)
    found = in_threads(rng, functions, threads, calls)
    now, versions = list(range(4)), [0] * 4
    for number, returned in one_after_the_other(found, places_of, updates):
        places = places_of[number]
        assert returned == [now[i] for i in places] + [versions[i] for i in places]
        if updates[number]:
            read = [now[i] for i in places]
            for i, value, other in zip(places, read, read[1:] + read[:1], strict=True):
                now[i] = _wrapped(value * MULTIPLIER + other + i)
                versions[i] += 1
    for variable, value in zip(variables.values, now, strict=True):
        assert set(np.asarray(variable.get_value()).tolist()) == {value}
    assert [int(v.get_value()) for v in variables.versions] == versions


def _wrapped(x):
    """Return a number as 64-bit integers have it."""
    x &= (1 << 64) - 1
    return x - (1 << 64) if x >> 63 else x
