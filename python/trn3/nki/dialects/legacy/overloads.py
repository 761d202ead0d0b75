"""Operators of tiles: each is a function of the legacy language."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from trn3.nki.dialects.legacy.temporaries import TEMPORARY

if TYPE_CHECKING:
    from trn3.nki.dialects.legacy.tensors import Tensor

T = TypeVar("T")


class Operators:
    """What tiles do under Python's operators."""

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Tensor:
        return _operate("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _operate("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _operate("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _operate("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _operate("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _operate("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _operate("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _operate("divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _operate("mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _operate("mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _operate("power", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _operate("power", other, self)

    def __and__(self, other: Any) -> Tensor:
        return _operate("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _operate("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _operate("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _operate("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _operate("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _operate("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return _operate("left_shift", self, other)

    def __rshift__(self, other: Any) -> Tensor:
        return _operate("right_shift", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _operate("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _operate("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _operate("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _operate("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, type)):
            return False
        return _operate("equal", self, other)

    def __ne__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, type)):
            return True
        return _operate("not_equal", self, other)

    def __neg__(self) -> Tensor:
        return _language("negative")(self)  # type: ignore[no-any-return]

    def __invert__(self) -> Tensor:
        return _language("invert")(self)  # type: ignore[no-any-return]

    def __matmul__(self, other: Any) -> Tensor:
        return _language("matmul")(self, other)  # type: ignore[no-any-return]

    def __iadd__(self, other: Any) -> Self:
        is_spare = sys.getrefcount(other) <= TEMPORARY
        return _updated("add", self, other, is_spare=is_spare)

    def __isub__(self, other: Any) -> Self:
        return _updated("subtract", self, other)

    def __imul__(self, other: Any) -> Self:
        return _updated("multiply", self, other)

    def __itruediv__(self, other: Any) -> Self:
        return _updated("divide", self, other)

    def __iand__(self, other: Any) -> Self:
        return _updated("bitwise_and", self, other)

    def __ior__(self, other: Any) -> Self:
        return _updated("bitwise_or", self, other)

    def __ixor__(self, other: Any) -> Self:
        return _updated("bitwise_xor", self, other)


def _language(name: str) -> Callable[..., Any]:
    from trn3.nki.dialects.legacy import language

    return getattr(language, name)  # type: ignore[no-any-return]


def _operate(name: str, x: Any, y: Any) -> Tensor:
    return _language(name)(x, y)  # type: ignore[no-any-return]


def _updated(name: str, target: T, value: Any, *, is_spare: bool = False) -> T:
    from trn3.nki.dialects.legacy.assigning import update

    return cast(T, update(name, cast("Tensor", target), value, is_spare=is_spare))
