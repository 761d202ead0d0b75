"""Settings shared by all tests.

Hypothesis runs the profile named by TRN3_HYPOTHESIS_PROFILE: `fast` (the default, the same
examples each time) or `thorough` (many fresh examples). Tests marked `slow` take minutes and are
left out of the default run; `pytest -m slow` runs them.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import hypothesis

# pyproject.toml does the same for a run that finds it.
sys.path.insert(0, str(Path(__file__).parent))

# A run in a script's background ignores Ctrl-C, and would hand that on to the processes that tests
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile("thorough", max_examples=3000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("TRN3_HYPOTHESIS_PROFILE", "fast"))
