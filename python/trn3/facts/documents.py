"""The page on systems: comparisons as Markdown, and every conflict with the reason of its default.

``scripts/systems_doc.py`` writes it, and a test compares.
"""

from __future__ import annotations

from trn3._trn3.facts import systems_page as markdown

__all__ = ["markdown"]
