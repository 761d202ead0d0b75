"""Sphinx settings: API pages come from the docstrings of the installed package."""

from __future__ import annotations

import trn3

project = "trn3"
author = "The trn3 authors"
copyright = "The trn3 authors"
release = version = trn3.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False
# `x` in a docstring is the argument x: code, no cross-reference.
default_role = "code"

html_theme = "furo"
html_title = f"trn3 {release}"
html_show_sphinx = False
