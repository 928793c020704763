"""Settings of the site, which ``make site`` builds; `repository_links` mends the links of pages.

The pages are plain files that also read well in the repository. Their code has run before:
``docs/build.py`` runs it, and the tests check that the output shown is that of the code.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "extensions")]
os.environ["AESARA_FLAGS"] = f"cxx=,{os.environ.get('AESARA_FLAGS', '')}"
os.environ["PYTENSOR_FLAGS"] = f"cxx=,{os.environ.get('PYTENSOR_FLAGS', '')}"

import jaxprgen  # noqa: E402  # Before Aesara, which it makes importable.

project = "jaxprgen"
author = "The authors of jaxprgen"
version = release = jaxprgen.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "repository_links",
]
exclude_patterns = ["build"]

# --- Markdown -----------------------------------------------------------------------------

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# --- API reference ------------------------------------------------------------------------

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # The sections of parameters state them.
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# --- Pages --------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "jaxprgen"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "logo": {"text": "jaxprgen"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["footer"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "why": [], "tutorial": [], "gallery/index": [], "source/**": []}
templates_path = ["templates"]
