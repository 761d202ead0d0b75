"""What programs import of the vendor's compiler: names that exist, and say what they cannot do."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CompileOptions", "CompiledKernel", "NKIFrontend", "ParserFrontend", "compile_kernel"]


def _refuse(name: str) -> NoReturn:
    message = (
        f"{name}: hardware compilation is not part of trn3; call the kernel, or "
        "trn3.nki.profile(kernel, ...), to run it on the simulated core"
    )
    raise NotImplementedError(message)


class _Compiler:
    def __init__(self, *_args: Any, **_options: Any) -> None:
        _refuse(type(self).__name__)


class NKIFrontend(_Compiler):
    """The compiler's reader of kernels; making one raises `NotImplementedError`."""


class ParserFrontend(_Compiler):
    """Its parser; making one raises `NotImplementedError`."""


class CompileOptions(_Compiler):
    """Options of a compilation; making them raises `NotImplementedError`."""


class CompiledKernel(_Compiler):
    """What a compilation gives; making one raises `NotImplementedError`."""


def compile_kernel(*_args: Any, **_options: Any) -> NoReturn:
    """Raise `NotImplementedError`: there is no hardware to compile for.

    >>> compile_kernel(print)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    NotImplementedError: compile_kernel: hardware compilation is not part of trn3; ...
    """
    _refuse("compile_kernel")
