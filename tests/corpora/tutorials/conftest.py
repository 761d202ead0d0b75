"""Kernels that stand here to be run by the test beside them."""

collect_ignore = [
    "addresses.py",
    "functions.py",
    "instructions.py",
    "ranks_of_views.py",
    "legacy_forms.py",
    "legacy_indexing.py",
]
