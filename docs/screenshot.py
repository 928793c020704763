"""Take docs/page.png and docs/lines.png, pictures of the page of the example's gradient.

This needs Playwright and Chromium. Run it from the root of the repository:
``PYTHONPATH=examples python docs/screenshot.py``.
"""

import shutil
import tempfile
from pathlib import Path

import jax
import model
import numpy as np
from playwright.sync_api import sync_playwright

import jaxprgen
from jaxprgen import inspect


def page() -> str:
    """Return the page."""
    data = model.load_data()
    graph = model.inputs, [model.log_posterior, model.gradient]
    f = jaxprgen.compile(*graph, name="log_posterior_and_gradient")
    return inspect.html(f, np.full(31, 0.1), *data, 1.0, check=jaxprgen.check(*graph))


def take(folder: Path) -> None:
    """Save a screenshot with the pointer on ``eta``, and one of the view by line."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        file = Path(scratch, "page.html")
        file.write_text(page())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        shown = browser.new_page(viewport={"width": 1400, "height": 660})
        shown.goto(file.as_uri())
        eta = shown.locator(".program b").get_by_role("link", name="eta", exact=True)
        eta.click()
        eta.hover()
        shown.screenshot(path=folder / "page.png")
        shown.get_by_label("Lines").check()
        shown.screenshot(path=folder / "lines.png")
        browser.close()


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    take(Path(__file__).parent)
