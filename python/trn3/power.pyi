# What type checkers see of the public name; `trn3._moved` finds the module.
from trn3.economics.power import *  # noqa: F403
