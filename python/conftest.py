"""Examples in docstrings of what needs a package that is not there are not run."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["trn3/torch"]
