"""Measure how fast a large page answers in headless Chromium: ``python benchmarks/page.py``.

The page shows a chain of 2,000 equations. The first figure is the time from an action until the
browser has painted its effect, the median of five repetitions: a second callback for an animation
frame comes after the first frame is painted. Frames come every 17 ms, so no figure is below that.
The second figure is the processor's time of the page's thread, which other processes do not delay.
"""

import shutil  # noqa: I001
import statistics
import tempfile
from pathlib import Path

import jaxprgen  # First: it makes Aesara importable.
import aesara.tensor as at
import jax
import numpy as np
from playwright.sync_api import sync_playwright

jax.config.update("jax_enable_x64", True)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ACTIONS = {
    "search for a primitive": ["tanh", "sin", "cos"],
    "search for a name": ["y.1", "x"],
    "search for nothing": ["", "no such name", ""],
    "filter nodes": ["[data-how=folded]", "[data-how=emitted]"] * 2,
    "group by line": ["#group"] * 2,
    "show the lines": ["[value=lines]", "[value=program]"],
}
"""What to type into the search, or the selectors of elements to click."""
ANSWER = """text => new Promise((done) => {
    const search = document.getElementById("search"), start = performance.now();
    const painted = () => done(performance.now() - start);
    if (/[[#]/.test(text)) document.querySelector(text).click();
    else {
        search.value = text;
        search.dispatchEvent(new Event("input"));
    }
    requestAnimationFrame(() => requestAnimationFrame(painted));
})"""


def large_page() -> tuple[str, int]:
    """Return a page, and the number of equations that it shows."""
    x = at.dvector("x")
    y = x
    for i in range(500):
        y = (at.tanh, at.sin, at.cos)[i % 3](y) * 0.5 + x / (i + 2)
        y.name = "y"
    f = jaxprgen.compile([x], y, passes=())
    args = (np.ones(3),)
    return jaxprgen.inspect.html(f, *args), len(f.jaxpr(*args).jaxpr.eqns)


def main() -> None:
    """Print the milliseconds of each action."""
    text, equations = large_page()
    print(f"{equations} equations")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        path.write_text(text)
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.as_uri())
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

        def busy() -> float:
            found = metrics.send("Performance.getMetrics")["metrics"]
            return next(1e3 * each["value"] for each in found if each["name"] == "TaskDuration")

        for action, values in ACTIONS.items():
            times, work = [], []
            for _ in range(5):
                for value in values:
                    page.wait_for_timeout(500)  # Until all of the answer before is painted.
                    before = busy()
                    times.append(page.evaluate(ANSWER, value))
                    work.append(busy() - before)
            painted, thread = map(statistics.median, (times, work))
            print(f"{action:24}{painted:6.0f} ms, {thread:6.0f} ms of the thread")
        browser.close()


if __name__ == "__main__":
    main()
