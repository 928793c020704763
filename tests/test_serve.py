"""The service of examples/serve answers requests in batches, as the saved function does."""

import asyncio
from pathlib import Path

import jax
import numpy as np
import pytest
from subprocesses import python

import jaxprgen

pytest.importorskip("httpx2", reason="httpx2, of the dependency group test, is not installed")
TestClient = pytest.importorskip("fastapi.testclient").TestClient
FOLDER = Path(__file__).parents[1] / "examples" / "serve"
ROW = [1.0, -2.0, 0.5]


@pytest.fixture(scope="module")
def modules():
    """The example's modules, `save_model` and `service`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        import save_model
        import service

        patch.setattr(service, "SIZES", (1, 4))
        yield save_model, service


@pytest.fixture(scope="module")
def path(modules, tmp_path_factory):
    save_model, _ = modules
    rng = np.random.default_rng(0)
    points, outcomes = rng.normal(size=(30, 3)), rng.normal(size=30)
    draws = rng.normal(size=(40, 3)), rng.uniform(0.5, 1, size=40)
    path = tmp_path_factory.mktemp("serve") / "model.jxg"
    save_model.save(path, save_model.predictive(*draws, points, outcomes), 3)
    return path


@pytest.fixture(scope="module")
def client(modules, path):
    with TestClient(modules[1].create_app(path)) as client:
        yield client


def batches(client):
    return client.app.state.batches


def test_an_answer_is_what_the_function_returns(client, path):
    predict = jaxprgen.load(path)
    answers = [client.post("/predict", json={"features": ROW}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    values = [answer.json() for answer in answers]
    assert values[0] != values[1]  # They have their own random numbers.
    drawn = jax.vmap(predict, (0, None))(jax.random.split(jax.random.key(0), 500), np.array(ROW))
    for name, x in drawn.items():
        width = x.max() - x.min()  # The service draws by keys of its own.
        assert all(x.min() - width <= value[name] <= x.max() + width for value in values)


def test_rows_of_a_batch_are_apart(client):
    rows = [[0.0, 0.0, 0.0], [1e6, 0.0, 0.0], [0.0, 1e6, 0.0]]
    together = [found["mean"] for found in batches(client).compute(rows)]
    alone = [batches(client).compute([row])[0]["mean"] for row in rows]
    np.testing.assert_allclose(together[1:], alone[1:], rtol=1e-4)
    assert abs(together[0]) < 10


def test_requests_are_computed_together(client):
    before = batches(client).count

    async def ask():
        return await asyncio.gather(*(batches(client).result(ROW) for _ in range(7)))

    answers = client.portal.call(ask)
    assert len({answer["mean"] for answer in answers}) == 7
    assert batches(client).count - before == 2  # Of four requests, and of three and padding.


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        (ROW[:2], "too_short"),
        ([*ROW, 1.0], "too_long"),
        ([*ROW[:2], "one"], "float_parsing"),
        ([*ROW[:2], "inf"], "finite_number"),
        ([*ROW[:2], None], "float_type"),
        (None, "list_type"),
    ],
)
def test_requests_are_validated(client, features, problem):
    answer = client.post("/predict", json={"features": features})
    assert answer.status_code == 422
    (error,) = answer.json()["detail"]
    assert error["type"] == problem
    assert error["loc"][:2] == ["body", "features"]


def test_the_service_says_what_it_serves(client):
    assert client.get("/health").json() == {
        "serves": "<loaded function progression(key: key[], measurements: float64[3]) -> "
        "{'high': float64[], 'low': float64[], 'mean': float64[]}>"
    }


def test_too_many_requests_are_refused(modules, path, monkeypatch):
    _, service = modules
    monkeypatch.setattr(service, "WAITING", 2)

    async def ask():
        waiting = service.Batches(jaxprgen.load(path))  # Which does not run.
        tasks = [asyncio.ensure_future(waiting.result(ROW)) for _ in range(3)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return [task.exception() for task in done]

    (error,) = asyncio.run(ask())
    assert error.status_code == 503


def test_a_batch_that_fails_does_not_end_the_service(client, monkeypatch):
    def fail(rows):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(batches(client), "compute", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            client.post("/predict", json={"features": ROW})
    assert client.post("/predict", json={"features": ROW}).status_code == 200


def test_the_service_needs_no_aesara(path):
    code = "import sys, service; service.create_app(); print('aesara' in sys.modules)"
    done = python("-c", code, cwd=FOLDER, env={"MODEL": str(path)})
    assert (done.stdout.strip(), done.stderr) == ("False", "")


@pytest.mark.deep  # Because NUTS takes most of a minute.
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")  # Of sigma > 0.
def test_the_example_fits_and_saves_its_model(modules, tmp_path, monkeypatch, capsys):
    save_model, _ = modules
    monkeypatch.setattr(save_model, "FILE", tmp_path / "progression.jxg")
    save_model.main()
    inside = float(capsys.readouterr().out.split("%")[0].split()[-1])
    assert 86 < inside < 94
