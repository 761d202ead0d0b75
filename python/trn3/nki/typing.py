"""Annotations for kernels: `tensor[128, 512]`, `mutable_tensor`."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["DTypeLike", "mutable_tensor", "tensor"]

#: Anything that `trn3.nki.values.element_types.canonicalise` understands.
DTypeLike: TypeAlias = Any


class _Subscripted(type):
    def __getitem__(cls, shape: Any) -> tensor:
        made: tensor = cls(shape if isinstance(shape, tuple) else (shape,))
        return made


class tensor(metaclass=_Subscripted):
    """Annotation of a tensor argument; with lengths in brackets its shape is checked at the call.

    With a list of lengths and an element type, ``nt.tensor[[128, 512], nl.bfloat16]``, it stands
    for an array where only time is asked: `nki.benchmark` and `nki.profile` fill it.

    Attributes
    ----------
    shape : tuple of int or None
        What is demanded; None demands nothing.

    Examples
    --------
    >>> from trn3 import nki
    >>> import trn3.nki.typing as nt
    >>> @nki.jit
    ... def kernel(x: nt.tensor[128, 512]):
    ...     return x
    """

    __slots__ = ("shape",)

    mutable = False

    def __init__(self, shape: tuple[Any, ...] | None = None) -> None:
        self.shape = shape

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"nki.typing.{type(self).__name__}{list(self.shape or ())}"

    @property
    def declared(self) -> tuple[tuple[int, ...], DTypeLike] | None:
        """Shape and element type of what stands for an array; None for a mere annotation."""
        if (
            self.shape is None
            or len(self.shape) != 2
            or not isinstance(self.shape[0], (list, tuple))
        ):
            return None
        return tuple(int(length) for length in self.shape[0]), self.shape[1]

    def check(self, argument: str, shape: tuple[int, ...]) -> None:
        """Compare an argument's shape with the annotation.

        Lengths that are no whole numbers, such as names, match any.

        Raises
        ------
        ValueError
            If they differ.
        """
        wanted = self.shape
        if wanted is None or not all(isinstance(length, (int, str)) for length in wanted):
            return
        fits = len(wanted) == len(shape) and all(
            length == got
            for length, got in zip(wanted, shape, strict=True)
            if isinstance(length, int)
        )
        if not fits:
            message = f"{argument} has shape {shape}; its annotation allows {wanted}"
            raise ValueError(message)


class mutable_tensor(tensor):
    """Annotation of a tensor argument that the kernel writes to."""

    __slots__ = ()

    mutable = True
