"""One file that shows what a run did, what it cost and why: `report.html`.

The compiled core writes the page; `report.js` and `report.css` draw it, which
``scripts/join_report.py`` makes of the modules in `web`.
"""

from __future__ import annotations

from trn3.report.page import page, rebuild

__all__ = ["page", "rebuild"]
