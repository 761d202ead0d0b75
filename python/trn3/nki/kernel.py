"""Kernels: functions that a simulated NeuronCore runs."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, overload

import trn3
from trn3._trn3.machine import NeuronCore
from trn3.nki.arguments import Arguments
from trn3.nki.context import Context, Running, slot
from trn3.nki.targets import Figures, canonical_target, current_target
from trn3.nki.typing import tensor as annotated_tensor

F = TypeVar("F", bound=Callable[..., Any])
#: (consumer, producer or producers), by the names given to instructions.
Edge: TypeAlias = tuple[str, str | Sequence[str]]

#: Code under this folder is no kernel: lines in errors and profiles are of whoever calls it.
INTERNAL: Final = [str(Path(trn3.__file__).parent) + os.sep]
#: How the library's test harness marks an argument that the kernel writes to.
_ALIAS_SUFFIX: Final = ".must_alias_input"


class Kernel:
    """A function that runs on a simulated NeuronCore; what `jit` makes.

    Calling it runs it on one core: arrays become tensors in HBM (`nl.hbm`), other arguments pass
    unchanged, and the tensors it returns become arrays of the library that the arguments came from.
    Arrays that the kernel wrote to are updated where they lie, unless they are read-only or JAX's.
    Called by a running kernel, it is the plain function.

    ``kernel[lnc]`` is the same kernel on that many cores of a logical core.

    Attributes
    ----------
    __wrapped__ : function
        What was decorated; name, docstring and signature are its own.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def double(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
    ...     return out
    >>> double(np.ones((2, 2), np.float32)).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        target: str | None = None,
        grid: tuple[int, ...] = (),
        edges: tuple[tuple[str, tuple[str, ...]], ...] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self._target = target
        self._grid = grid
        self._edges = edges
        self._expected: dict[str, Any] | None = None
        self._parameters: list[str] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel, or within a running one, the plain function."""
        if slot.context is not None:
            return self.__wrapped__(*args, **kwargs)
        core = self._core()
        return self.launch(core, args, kwargs)

    def __getitem__(self, lnc: int | tuple[int, ...]) -> Kernel:
        """Return the kernel on that many cores.

        Raises
        ------
        TypeError
            If `lnc` is no number of cores.
        """
        grid: Any = lnc if isinstance(lnc, tuple) else (lnc,)
        if not grid or not all(isinstance(length, int) and length >= 1 for length in grid):
            message = f"{self.__name__}[{lnc!r}]: allowed in brackets: a number of cores, 1 or 2"
            raise TypeError(message)
        return Kernel(self.__wrapped__, target=self._target, grid=grid, edges=self._edges)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        brackets = f"[{', '.join(map(str, self._grid))}]" if self._grid else ""
        return f"<nki.jit kernel {self.__module__}.{self.__qualname__}{brackets}>"

    def with_schedule(self, edges: Iterable[Edge]) -> Kernel:
        """Return the kernel with more order between instructions than data demands.

        Values stay the same; in time, each consumer waits for its producers.

        Parameters
        ----------
        edges : iterable of (consumer, producer or producers)
            The ``name=`` of instructions. Where several have one name, a consumer waits for the
            last such producer before it.

        Raises
        ------
        TypeError
            If an edge is no such pair.

        Examples
        --------
        >>> from trn3 import nki
        >>> @nki.jit
        ... def kernel(x):
        ...     return x
        >>> kernel.with_schedule([("store", ["first", "second"])])
        <nki.jit kernel trn3.nki.kernel.kernel>
        """
        added = tuple(_edge(edge) for edge in edges)
        return Kernel(
            self.__wrapped__, target=self._target, grid=self._grid, edges=self._edges + added
        )

    @property
    def name(self) -> str:
        """The function's name."""
        return self.__name__

    def target(self) -> str:
        """Return the machine that a call runs on now."""
        return self._target or current_target()

    def _core(self) -> NeuronCore:
        return NeuronCore(self.target(), values=True, timing=False, internal=INTERNAL)

    def launch(self, core: NeuronCore, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the kernel on a core.

        Returns
        -------
        what the kernel returns, with arrays in place of tensors; None where values are skipped

        Raises
        ------
        NotImplementedError
            For what is not modelled yet: several cores, launch grids, ``NKI_PRECISE_FP=0``.
        """
        self._check_launch()
        # Of this core, not by its name: a description of one's own may bear any.
        running = Context(core, Figures(core.arch[0], core), self._grid)
        if self._edges:
            core.schedule([(consumer, list(producers)) for consumer, producers in self._edges])
        arguments = Arguments(core)
        expected = self._annotations()
        names = self._names(len(args))
        with Running(running):
            positional = [
                arguments.wrap(value, name, expected.get(name))
                for name, value in zip(names, args, strict=False)
            ]
            keyword = {}
            for key, value in kwargs.items():
                name = key.removesuffix(_ALIAS_SUFFIX)
                keyword[name] = arguments.wrap(value, name, expected.get(name))
            try:
                result = self.__wrapped__(*positional, **keyword)
            except Exception as error:
                _note_line(error)
                raise
            if self._edges:
                core.check_schedule()
            if not core.values:
                return None
            arguments.update_callers()
            return arguments.unwrap(result)

    def _check_launch(self) -> None:
        if len(self._grid) > 1:
            message = f"{self!r}: launch grids are not modelled yet; allowed: kernel or kernel[1]"
            raise NotImplementedError(message)
        if self._grid and self._grid[0] > 2:
            message = f"{self!r}: a logical core has at most 2 cores; allowed: 1 or 2"
            raise ValueError(message)
        if self._grid and self._grid[0] == 2:
            message = f"{self!r}: two cores as one (LNC=2) are not modelled yet; allowed: kernel[1]"
            raise NotImplementedError(message)
        if os.environ.get("NKI_PRECISE_FP", "1") == "0":
            message = "NKI_PRECISE_FP=0: storing all types as float32 is not modelled; allowed: 1"
            raise NotImplementedError(message)

    def _names(self, count: int) -> list[str]:
        """Return what positional arguments are called."""
        if self._parameters is None:
            self._parameters = list(inspect.signature(self.__wrapped__).parameters)
        known = self._parameters
        return known + [f"argument {i}" for i in range(len(known), count)]

    def _annotations(self) -> dict[str, Any]:
        """Return the annotations that demand a shape, by parameter."""
        if self._expected is None:
            function = self.__wrapped__
            self._expected = {}
            for name, annotation in getattr(function, "__annotations__", {}).items():
                meant = annotation
                if isinstance(annotation, str):
                    try:
                        meant = eval(annotation, getattr(function, "__globals__", {}))
                    except Exception:  # it may name what exists for checkers only
                        continue
                if isinstance(meant, annotated_tensor):
                    self._expected[name] = meant
        return self._expected


def _edge(edge: Any) -> tuple[str, tuple[str, ...]]:
    if isinstance(edge, (tuple, list)) and len(edge) == 2:
        consumer, producers = edge
        producers = (producers,) if isinstance(producers, str) else tuple(producers)
        if isinstance(consumer, str) and all(isinstance(name, str) for name in producers):
            return consumer, producers
    message = (
        f"with_schedule edge is {edge!r}; allowed: (consumer, producer) or (consumer, [producers])"
    )
    raise TypeError(message)


def arch_of(arch: str | os.PathLike[str]) -> str:
    """Return what a core is made of: the path of a description, or a target's canonical name.

    Raises
    ------
    ValueError
        If it is neither.
    """
    # A description of one's own is a path; everything else is a target's name.
    text = str(arch)
    return text if text.endswith(".toml") else canonical_target(text, "arch")


def _note_line(error: BaseException) -> None:
    """Say which line of the kernel raised, where the text does not say so already."""
    trace = error.__traceback__
    line = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(INTERNAL[0]):
            line = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    if line is not None and line not in str(error):
        error.add_note(f"at {line} in the kernel")


def as_kernel(kernel: Callable[..., Any]) -> Kernel:
    """Return a kernel as it is, and a plain function as a kernel.

    Raises
    ------
    TypeError
        If it cannot be called.
    """
    if isinstance(kernel, Kernel):
        return kernel
    given: Any = kernel
    if not callable(given):
        message = f"kernel is of type {type(kernel).__name__}; allowed: a Kernel or a function"
        raise TypeError(message)
    return Kernel(kernel)


@overload
def jit(kernel: Callable[..., Any], /, **options: Any) -> Kernel: ...


@overload
def jit(kernel: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...


def jit(
    kernel: Callable[..., Any] | None = None, /, **options: Any
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel; with or without parentheses, or called on a function.

    Parameters
    ----------
    kernel : function
        Runs plain Python with the functions of `nki.language` and `nki.isa`.
    platform_target : str, optional
        The target of this kernel, before any environment variable (**choice**).
    **options
        Those of compilers (``mode``, ``debug_kernel``, ``experimental_flags`` and others) are
        accepted and change nothing.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        If `platform_target` is no target.

    Examples
    --------
    >>> from trn3 import nki
    >>> @nki.jit(platform_target="trn2")
    ... def kernel(x):
    ...     return x
    >>> kernel.target()
    'trn2'
    """
    wanted = options.get("platform_target")
    target = None if wanted is None else canonical_target(wanted, "platform_target")

    def decorate(function: Callable[..., Any]) -> Kernel:
        inner = function.__wrapped__ if isinstance(function, Kernel) else function
        return Kernel(inner, target=target)

    return decorate if kernel is None else decorate(kernel)


def simulate(kernel: Callable[..., Any]) -> Kernel:
    """Return a callable that runs a kernel on the simulated core.

    A kernel needs no such call: it is simulated whenever it is called. Plain functions do.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> def kernel(x):
    ...     return x[0:1]
    >>> nki.simulate(kernel)(np.arange(4, dtype=np.float32).reshape(2, 2))
    array([[0., 1.]], dtype=float32)
    """
    return as_kernel(kernel)
