"""Types of arguments that several functions take."""

from typing import Literal, TypeAlias

from numpy.typing import DTypeLike

from trn3._trn3 import TFloat32

Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]
Overflow: TypeAlias = Literal["ieee", "saturate"]
FormatLike: TypeAlias = DTypeLike | TFloat32
