"""What a decorator made a kernel of a function, to those who read kernels and do not run them."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["KernelFunction", "as_kernel_function", "kernel_of"]

_numbers = itertools.count()
_kernels: weakref.WeakValueDictionary[str, KernelFunction] = weakref.WeakValueDictionary()


class KernelFunction:
    """A function that is a kernel.

    Parameters
    ----------
    function : callable
    target : str, optional
        Its own target, as ``platform_target`` says.
    legacy : bool, optional
        Whether it is written in the legacy dialect.

    Attributes
    ----------
    __wrapped__ : function
        What was decorated; name, docstring and signature are its own.
    verify : bool
        Whether what the compiler makes of a launch runs too, and is held against it.
    identity : str
        Stands for it where only plain values may stand; `kernel_of` finds it by this.
    """

    verify = False
    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str

    def __init__(
        self, function: Callable[..., Any], *, target: str | None = None, legacy: bool = False
    ) -> None:
        wrapper: Any = self
        functools.update_wrapper(wrapper, function)
        self._own_target = target
        self._legacy = legacy
        self.identity = f"{getattr(self, '__name__', 'kernel')}.{next(_numbers)}"
        _kernels[self.identity] = self

    def __repr__(self) -> str:
        return f"<nki.jit kernel {self.__module__}.{self.label}>"

    @property
    def name(self) -> str:
        """The function's name."""
        return self.__name__

    @property
    def label(self) -> str:
        """Its qualified name."""
        return self.__qualname__

    @property
    def is_legacy(self) -> bool:
        """Whether it is written in the legacy dialect."""
        return self._legacy

    @property
    def own_target(self) -> str | None:
        """The target that it was given, as ``platform_target``."""
        return self._own_target

    @property
    def has_own_target(self) -> bool:
        """Whether it was given a target, as ``platform_target``."""
        return self._own_target is not None


def as_kernel_function(kernel: Callable[..., Any]) -> KernelFunction:
    """Return a kernel as it is, and a plain function as one.

    Raises
    ------
    TypeError
        If it cannot be called.
    """
    given: Any = kernel
    if isinstance(given, KernelFunction):
        return given
    if not callable(given):
        message = f"kernel is of type {type(kernel).__name__}; allowed: a Kernel or a function"
        raise TypeError(message)
    return KernelFunction(kernel)


def kernel_of(identity: str) -> Any:
    """Return the kernel that an identity stands for.

    Examples
    --------
    >>> kernel = as_kernel_function(abs)
    >>> kernel_of(kernel.identity) is kernel
    True
    """
    return _kernels[identity]
