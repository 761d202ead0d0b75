"""Sphinx settings: API pages come from the docstrings of the installed package."""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import trn3

sys.path.insert(0, str(Path(__file__).parent))

project = "trn3"
author = "The trn3 authors"
copyright = "The trn3 authors"
release = version = trn3.__version__

extensions = [
    "mathml",
    "myst_nb",
    "pictures",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
# Notebooks are kept without outputs and run by each build; a cell that fails, fails it.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
exclude_patterns = ["_build", "pictures"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
# An extra that is not always there; nothing of it is shown.
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False
# `x` in a docstring is the argument x: code, no cross-reference.
default_role = "code"
# Types of arguments are words that several classes have attributes of: `bytes`, `dtype`.
suppress_warnings = ["ref.python"]
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"trn3 {release}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]


def keep_magnitudes(*arguments: Any) -> None:
    """Let |x| in a docstring be a magnitude; to docutils it is the name of a substitution."""
    lines: list[str] = arguments[-1]
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = re.sub(r"(?<![`\\|])\|(\w+)\|(?!\|)", r"\\|\1\\|", line)


def offer_download(app: Any, page: str, text: list[str]) -> None:
    """Let the page of a notebook begin with the file itself; Jupyter could not read such a link."""
    if Path(app.env.doc2path(page)).suffix != ".ipynb":
        return
    notebook = json.loads(text[0])
    link = f"{{download}}`{page.rpartition('/')[2]}.ipynb`: this page to run and change.\n"
    notebook["cells"][0]["source"][1:1] = ["\n", link]
    text[0] = json.dumps(notebook)


def forget_types(*arguments: Any) -> None:
    """Say of a constant what its page says of it, not what its type says of integers."""
    _, what, _, thing, _, lines = arguments
    is_plain = what == "data" and isinstance(thing, (dict, int, str, tuple))
    if is_plain and "\n".join(lines).strip() == inspect.cleandoc(type(thing).__doc__ or ""):
        lines.clear()


def setup(app: Any) -> None:
    """Register the hooks with Sphinx."""
    app.connect("autodoc-process-docstring", forget_types, priority=1)
    app.connect("autodoc-process-docstring", keep_magnitudes)
    app.connect("source-read", offer_download)
