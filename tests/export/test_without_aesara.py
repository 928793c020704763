"""A saved file is loaded where there is no Aesara, but only JAX and what JAX needs."""

import importlib.metadata
import re
from pathlib import Path

import aesara.tensor as at
import numpy as np
from subprocesses import python

import jaxprgen

ROOT = Path(jaxprgen.__file__).parents[1]
CODE = """
import importlib.util, sys
sys.path.insert(0, sys.argv[2])
assert importlib.util.find_spec("aesara") is None
import jax, jaxprgen, numpy as np

jax.config.update("jax_enable_x64", True)
g = jaxprgen.load(sys.argv[1])
print(g(x=np.arange(4.0), a=2.0), jax.grad(g)(2.0, np.arange(4.0)))
print(*(name for name in sys.argv[3:] if name in sys.modules))
"""
NOT_NEEDED = [
    *(f"jaxprgen._jax.{name}" for name in ("checks", "derivatives", "lines", "primitives")),
    *("jaxprgen.emit", "jaxprgen.ir", "jax.extend", "jax._src.checkify"),
]


def needed(name, found):
    """Add the files of a distribution and of those that it requires, by their first folders."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        path = Path(distribution.locate_file(file.parts[0]))
        if ".." not in file.parts and path.exists() and path.name not in found:
            found[path.name] = path
    for required in distribution.requires or ():
        if "extra ==" not in required:
            needed(re.split(r"[^\w.-]", required)[0], found)


def test_load_needs_jax_and_few_modules(tmp_path):
    a, x = at.dscalar("a"), at.dvector("x")
    f = jaxprgen.compile([a, x], (a * x).sum() + a**2)
    jaxprgen.save(tmp_path / "f.jxg", f, "f64[]", "f64[n]", vjp_order=1)
    site = tmp_path / "site"
    site.mkdir()
    found = {"jaxprgen": ROOT / "jaxprgen"}
    needed("jax", found)
    needed("jaxlib", found)
    for name, path in found.items():
        (site / name).symlink_to(path)
    done = python("-I", "-S", "-c", CODE, tmp_path / "f.jxg", site, *NOT_NEEDED)
    expected = f(2.0, np.arange(4.0))
    assert done.stdout == f"{expected} 10.0\n\n"
