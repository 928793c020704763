"""Measure how fast a large page answers in headless Chromium: ``python benchmarks/page.py``.

The page shows a chain of 2,000 operations. A figure is the
time from a search or a click in the legend until the layout of both sides is complete, the median
over five times.
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
    "search for nothing": ["", "no such name"],
    "filter nodes": ["[data-how=folded]", "[data-how=emitted]"],
}
"""What to type into the search, or which entries of the legend to click."""
ANSWER = """text => {
    const search = document.getElementById("search"), start = performance.now();
    if (text.startsWith("[")) document.querySelector(text).click();
    else {
        search.value = text;
        search.dispatchEvent(new Event("input"));
    }
    for (const side of document.querySelectorAll(".program, .graph")) side.scrollHeight;
    return performance.now() - start;
}"""


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
        for action, values in ACTIONS.items():
            times = []
            for _ in range(5):
                for value in values:
                    page.wait_for_timeout(500)  # Until the answer before is painted.
                    times.append(page.evaluate(ANSWER, value))
            print(f"{action:24}{statistics.median(times):8.0f} ms, at most {max(times):.0f}")
        browser.close()


if __name__ == "__main__":
    main()
