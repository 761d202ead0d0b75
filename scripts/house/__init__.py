"""The checks that hold the house: who may know whom, names, sizes and figures.

``python -m house`` (with ``scripts`` on the path) runs all of them and is part of ``make lint``.
What they hold is data: `house.toml` has the table of rooms and the exceptions with their reasons,
`debt.toml` lists what still breaks a rule. A finding that is not listed fails, and so does a listed
one that is gone: the lists only shrink. ``python -m house --settle`` writes them anew, none longer.
"""
