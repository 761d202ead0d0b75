"""Sphinx settings: API pages come from the docstrings of the installed package."""

from __future__ import annotations

import re
from typing import Any

import trn3

project = "trn3"
author = "The trn3 authors"
copyright = "The trn3 authors"
release = version = trn3.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
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
# Types of arguments are words that several classes have attributes of: `bytes`, `dtype`.
suppress_warnings = ["ref.python"]
html_theme = "furo"
html_title = f"trn3 {release}"
html_show_sphinx = False


def keep_magnitudes(*arguments: Any) -> None:
    """Let |x| in a docstring be a magnitude; to docutils it is the name of a substitution."""
    lines: list[str] = arguments[-1]
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = re.sub(r"(?<![`\\|])\|(\w+)\|(?!\|)", r"\\|\1\\|", line)


def setup(app: Any) -> None:
    """Register the hook with Sphinx."""
    app.connect("autodoc-process-docstring", keep_magnitudes)
