"""Kernels that stand here to be read: they import `nki`, which is there only while trn3 runs."""

collect_ignore = ["loops_refused.py", "refused.py", "legacy_refused.py", "portable.py"]
