"""Published figures of systems, and what follows from them.

Everything is computed by the core; this package shows it. `load` gives what is published about a
system, each figure with its unit, its sources and their conflicts; `trn3.facts.spec` the figures
that computations use, as they follow from the system's parts; `trn3.facts.comparison` systems
beside each other. Spec files of a user's own have the form of the package's.

Examples
--------
>>> from trn3 import facts
>>> chip = facts.load("trainium3")
>>> chip["hbm_bandwidth"].value, chip["hbm_bandwidth"].unit, chip["hbm_bandwidth"].si
(4.9, 'TB/s', 4900000000000.0)
>>> for source in chip["tdp"].sources[:2]:
...     print(source.value, source.source)
1000 press (an investor deep dive)
500 press (awesomeagents.ai)
"""

from trn3.facts.published import (
    Facts,
    aliases,
    canonical,
    check_derived,
    find,
    load,
    load_all,
    names,
    nccom_tables,
    nearest,
    parse,
)
from trn3.facts.quantity import Quantity, Source, Status, Value, agree, factor, shown

__all__ = [
    "Facts",
    "Quantity",
    "Source",
    "Status",
    "Value",
    "agree",
    "aliases",
    "canonical",
    "check_derived",
    "factor",
    "find",
    "load",
    "load_all",
    "names",
    "nccom_tables",
    "nearest",
    "parse",
    "shown",
]
