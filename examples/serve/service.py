"""Serve a saved function over HTTP: ``uvicorn --factory service:create_app``, in this folder.

The environment variable ``MODEL`` names the file. The service needs FastAPI, uvicorn, and what
`jaxprgen.load` needs: jax, jaxlib and numpy, but neither Aesara nor the model's code. The function
takes a PRNG key and one array of features, and returns a dictionary of numbers.

Requests that arrive within a few milliseconds are computed together. Their number is padded to one
of a few sizes, so that JAX compiles one program per size, before the first request.
"""

import asyncio
import os
import secrets
from contextlib import asynccontextmanager

import jax
import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import Field, FiniteFloat, create_model

import jaxprgen

jax.config.update("jax_enable_x64", True)

SIZES = (1, 8, 32)
"""How many requests are computed together; fewer are padded to the next of these numbers."""
WINDOW = 0.002
"""The seconds that the first request of a batch waits for others."""
WAITING = 1000
"""The requests that may wait; further ones are refused with status 503."""


class Batches:
    """A saved function whose calls are collected into batches.

    Parameters
    ----------
    predict : LoadedFunction
        The function of a key and an array.
    """

    def __init__(self, predict):
        key = jax.random.key(secrets.randbits(63))

        @jax.jit
        def predict_all(number, rows):
            keys = jax.random.split(jax.random.fold_in(key, number), len(rows))
            return jax.vmap(predict)(keys, rows)

        self._predict_all = predict_all
        self._waiting = asyncio.Queue(WAITING)
        self.count = 0

    def compute(self, rows):
        """Return the results for at most ``SIZES[-1]`` rows, each with its own random numbers."""
        self.count += 1
        size = next(n for n in SIZES if n >= len(rows))
        padded = np.concatenate([rows, np.zeros((size - len(rows), len(rows[0])))])
        results = jax.device_get(self._predict_all(self.count, padded))
        return [{name: float(x[i]) for name, x in results.items()} for i in range(len(rows))]

    async def result(self, row):
        """Return the result for one row, as soon as its batch is computed."""
        future = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((row, future))
        except asyncio.QueueFull:
            raise HTTPException(503, "Too many requests are waiting; try again later.") from None
        return await future

    async def run(self):
        """Compute batches, one after another, forever."""
        while True:
            batch = [await self._waiting.get()]
            await asyncio.sleep(WINDOW)
            while len(batch) < SIZES[-1] and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            rows, futures = zip(*batch, strict=True)
            try:  # In a thread, so that requests are accepted meanwhile.
                results = await asyncio.to_thread(self.compute, rows)
            except Exception as error:  # These requests fail; the service goes on.
                results = [error] * len(rows)
            for future, result in zip(futures, results, strict=True):
                if future.done():  # The client has gone.
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)


def create_app(path=None):
    """Return the service for the function in a file, by default the one that ``MODEL`` names."""
    predict = jaxprgen.load(path or os.environ["MODEL"])
    width = predict.exported.in_avals[1].shape[0]
    row = Field(min_length=width, max_length=width)
    Features = create_model("Features", features=(list[FiniteFloat], row))

    @asynccontextmanager
    async def lifespan(app):
        app.state.batches = batches = Batches(predict)
        for size in SIZES:  # Compile before the first request.
            batches.compute(np.zeros((size, width)))
        task = asyncio.create_task(batches.run())
        yield
        task.cancel()

    app = FastAPI(title=predict.__name__, lifespan=lifespan)

    @app.post("/predict")
    async def answer(request: Features) -> dict[str, float]:
        return await app.state.batches.result(request.features)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"serves": repr(predict)}

    return app
