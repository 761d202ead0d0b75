"""Loops, registers in loops, and where a kernel stands in its launch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

import numpy as np

from trn3._trn3.machine import NkiTensor, SkippedValueError, VirtualRegister, ds
from trn3.nki.isa.scalars import NkiScalar, loop_scalar
from trn3.nki.language.loop_marks import DynamicLoop, MarkedRange, is_traced
from trn3.nki.ranks.context import context, core
from trn3.nki.values import arrays
from trn3.nki.values.bound_names import bound_name
from trn3.nki.values.releases import DYNAMIC_LOOPS, LOOP_INDEX

__all__ = [
    "affine_range",
    "device_print",
    "ds",
    "dynamic_range",
    "fori_loop",
    "no_reorder",
    "num_programs",
    "program_id",
    "program_ndim",
    "sequential_range",
    "static_range",
    "while_loop",
]

Bound: TypeAlias = int | VirtualRegister

_int: Final = int


def _static(name: str, bounds: tuple[Any, ...], named: dict[str, Any]) -> range | MarkedRange:
    if named:
        bounds = _by_name(name, bounds, named)
    for bound in bounds:
        if isinstance(bound, (VirtualRegister, NkiTensor)):
            message = f"{name} bound is {bound!r}; allowed: int. nl.dynamic_range takes registers"
            raise TypeError(message)
    numbers = range(*bounds)
    return MarkedRange(numbers, name) if is_traced() else numbers


def _by_name(name: str, bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return bounds in the order of ``range``, where some came by keyword."""
    places = ("start", "stop", "step") if len(bounds) != 1 or "start" not in named else ("stop",)
    given = dict(zip(places, bounds, strict=False))
    for key, value in named.items():
        if key not in ("start", "stop", "step") or key in given:
            message = (
                f"{name}() got {key!r} {'twice' if key in given else 'by keyword'}; allowed: "
                "(stop) or (start, stop, step), by position or as start=, stop=, step="
            )
            raise TypeError(message)
        given[key] = value
    if "stop" not in given and "start" in given:
        given["stop"] = given.pop("start")
    if "stop" not in given:
        message = f"{name}() needs a stop"
        raise TypeError(message)
    return given.get("start", 0), given["stop"], given.get("step", 1)


def affine_range(
    *bounds: int, precise_schedule: object = None, directives: object = None, **named: int
) -> range | MarkedRange:
    """Iterate like ``range`` over a loop that is unrolled; iterations may not depend on each other.

    The simulator runs them in order, and does not check that they could be reordered. The compiler,
    at levels above as-written, takes the author's word for it.

    Parameters
    ----------
    *bounds : int
        ``stop``, or ``start, stop`` with an optional ``step``.
    **named : int
        The same by name: ``start``, ``stop``, ``step``.
    precise_schedule, directives
        Of older kernels; they change nothing.

    Raises
    ------
    TypeError
        If a bound is a register, comes twice or has another name.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> list(nl.affine_range(3)), list(nl.affine_range(1, 7, 2))
    ([0, 1, 2], [1, 3, 5])
    """
    del precise_schedule, directives
    return _static("affine_range", bounds, named)


def sequential_range(
    *bounds: int, precise_schedule: object = None, directives: object = None, **named: int
) -> range | MarkedRange:
    """Iterate like ``range``, in order; parameters and errors as `affine_range`."""
    del precise_schedule, directives
    return _static("sequential_range", bounds, named)


def static_range(
    *bounds: int, precise_schedule: object = None, directives: object = None, **named: int
) -> range | MarkedRange:
    """Iterate like ``range`` over an unrolled loop; parameters and errors as `affine_range`."""
    del precise_schedule, directives
    return _static("static_range", bounds, named)


def _value(bound: Bound, name: str) -> int:
    if isinstance(bound, VirtualRegister):
        core().own_register(bound, "")
        state = bound.state
        if state is None:
            running = core()
            if not running.values:
                message = f"{running.line()}: {name} is a register whose value this run skipped"
                raise SkippedValueError(message)
            message = f"{running.line()}: {name} is a register that nothing was written to"
            raise RuntimeError(message)
        return state
    plain: Any = bound
    if isinstance(plain, (int, np.integer)):
        return _int(plain)
    message = f"{name} is of type {type(bound).__name__}; allowed: int or VirtualRegister"
    raise TypeError(message)


def _check_dynamic(name: str) -> None:
    if context().static_only:
        message = f"{core().line()}: {name} inside nl.no_reorder(); allowed there: static loops"
        raise RuntimeError(message)


def dynamic_range(
    start: Bound, stop: Bound | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """Iterate over a loop that the hardware runs, its index in a register.

    NKI 0.7 has no such loop: `fori_loop` is its.

    Parameters
    ----------
    start, stop : int or VirtualRegister
        As of ``range``; registers are read once, when the loop begins.
    step : int
        At least 1, known when the kernel is built.

    Yields
    ------
    VirtualRegister
        The index, frozen: writing to it is an AssertionError. Views may use it as an offset.

    Raises
    ------
    AttributeError
        Under NKI 0.7.
    AssertionError
        If `step` is no int of at least 1.
    TypeError
        If a bound is neither int nor register.
    RuntimeError
        If a register was never written, or inside `no_reorder`.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def reverse(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     for row in nl.dynamic_range(2):
    ...         tile = nl.load(x[nl.ds(row, 1)])
    ...         nl.store(out[nl.ds(row, 1)], tile)
    ...     return out
    >>> reverse(np.array([[1.0], [2.0]], np.float32)).tolist()
    [[1.0], [2.0]]
    """
    if DYNAMIC_LOOPS.value() == "refused":
        message = (
            "nki.language has no dynamic_range from NKI 0.7 on; write "
            "nl.fori_loop(start, stop, body), whose body is a function of the index"
        )
        raise AttributeError(message)
    if stop is None:
        start, stop = 0, start
    return _iterations("dynamic_range", start, stop, step)


def _iterations(loop: str, start: Bound, stop: Bound, step: int) -> Generator[VirtualRegister]:
    given: Any = step
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        message = f"{loop} step is {step!r}; allowed: an int of at least 1"
        raise AssertionError(message)
    _check_dynamic(loop)
    indexes = range(_value(start, f"{loop} start"), _value(stop, f"{loop} stop"), step)
    registers = [bound for bound in (start, stop) if isinstance(bound, VirtualRegister)]
    scalars = [bound for bound in registers if isinstance(bound, NkiScalar)]
    is_scalar = scalars == registers and (scalars or LOOP_INDEX.value() == "scalar")
    trip = None if registers else len(indexes)
    return _indexes(indexes, loop_scalar if is_scalar else _frozen, trip)


def _frozen(index: int) -> VirtualRegister:
    return VirtualRegister(index, frozen=True)


def _indexes(
    indexes: range, made: Callable[[int], VirtualRegister], trip: int | None
) -> Generator[VirtualRegister]:
    with DynamicLoop(trip) as loop:
        running, name = core(), bound_name()
        for index in indexes:
            loop.advance()
            register = made(index)
            running.own_register(register, name)
            yield register


def fori_loop(
    lower: Bound, upper: Bound, body_fun: Callable[[VirtualRegister], Any], step: int = 1
) -> None:
    """Call a function with each index of a loop that the hardware runs.

    Parameters
    ----------
    lower, upper : int or VirtualRegister
        First index, and the one that is no more reached.
    body_fun : callable
        Takes the index: a register, or from NKI 0.7 on an `NkiScalar` unless a bound is a register.
        Returns nothing.
    step : int
        At least 1.

    Raises
    ------
    TypeError
        If `body_fun` returns something.
    AssertionError, RuntimeError
        As `dynamic_range`.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def copy(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     def body(i):
    ...         nl.store(out[nl.ds(i, 1)], nl.load(x[nl.ds(i, 1)]))
    ...     nl.fori_loop(0, 3, body)
    ...     return out
    >>> copy(np.arange(3, dtype=np.float32).reshape(3, 1)).ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    for index in _iterations("fori_loop", lower, upper, step):
        result = body_fun(index)
        if result is not None:
            message = f"fori_loop body returned {type(result).__name__}; allowed: None"
            raise TypeError(message)


def while_loop(
    init_reg: VirtualRegister | None = None,
    body_fun: Callable[[VirtualRegister], VirtualRegister] | None = None,
    *,
    init: VirtualRegister | None = None,
) -> None:
    """Call a function on a register until it holds 0: ``while r != 0: r = body_fun(r)``.

    Parameters
    ----------
    init_reg, init : VirtualRegister
        Holds the first condition; 0 skips the loop. Newer releases call it `init`.
    body_fun : callable
        Takes the register, returns the one that holds the next condition.

    Raises
    ------
    TypeError
        If the first condition or what `body_fun` returns is no register, or one of them is missing.
    RuntimeError
        If a register was never written, or inside `no_reorder`.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def kernel(x):
    ...     seen = []
    ...     def body(register):
    ...         seen.append(register.state)
    ...         return nisa.VirtualRegister(register.state - 1)
    ...     nl.while_loop(nisa.VirtualRegister(3), body)
    ...     print(seen)
    ...     return x
    >>> _ = kernel(np.zeros((1,), np.float32))
    [3, 2, 1]
    """
    _check_dynamic("while_loop")
    if body_fun is None or (init_reg is None) == (init is None):
        message = "while_loop needs init and body_fun, each once"
        raise TypeError(message)
    register: Any = init if init_reg is None else init_reg
    origin = "while_loop init"
    with DynamicLoop() as loop:
        while True:
            if not isinstance(register, VirtualRegister):
                message = f"{origin} is of type {type(register).__name__}; allowed: VirtualRegister"
                raise TypeError(message)
            if _value(register, origin) == 0:
                return
            loop.advance()
            register = body_fun(register)
            origin = "what while_loop's body returned"


class no_reorder:
    """A ``with`` block whose instructions keep their order.

    As written, engines run theirs in program order anyway, so that time does not change
    (**choice**); the compiler leaves the block's order as it is. Dynamic loops are refused inside.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def kernel(x):
    ...     with nl.no_reorder():
    ...         return x
    >>> _ = kernel(np.zeros((1,), np.float32))
    """

    __slots__ = ()

    def __enter__(self) -> None:
        running = context()
        running.static_only += 1
        if running.static_only == 1:
            running.core.set_ordered(True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        running = context()
        running.static_only -= 1
        if not running.static_only:
            running.core.set_ordered(False)


def program_id(axis: int = 0) -> int:
    """Return this instance's place along an axis of the launch grid; 0 without a grid.

    Raises
    ------
    ValueError
        If the grid has no such axis.
    RuntimeError
        Outside a kernel.
    """
    ids = context().program_ids
    if axis == 0 and not ids:
        return 0
    return ids[_axis(axis, len(ids))]


def num_programs(axes: int | tuple[int, ...] | list[int] | None = 0) -> Any:
    """Return the launch grid's length along an axis; 1 without a grid.

    Parameters
    ----------
    axes : int, tuple of int or None
        Several give a tuple (**choice**); None gives the number of all instances.

    Raises
    ------
    ValueError
        If the grid has no such axis.
    RuntimeError
        Outside a kernel.
    """
    grid = context().grid
    if axes is None:
        total = 1
        for length in grid:
            total *= length
        return total
    if isinstance(axes, (tuple, list)):
        return tuple(num_programs(axis) for axis in axes)
    if axes == 0 and not grid:
        return 1
    return grid[_axis(axes, len(grid))]


def program_ndim() -> int:
    """Return the number of axes of the launch grid: 0 if launched without brackets.

    Raises
    ------
    RuntimeError
        Outside a kernel.
    """
    return len(context().grid)


def _axis(axis: int, rank: int) -> int:
    if not 0 <= axis < rank:
        message = f"axis is {axis}; the launch grid has {rank} axes"
        raise ValueError(message)
    return axis


def _file_name(prefix: str) -> str:
    """Return a prefix as the name of a folder that lies where it shall.

    >>> _file_name("after softmax: "), _file_name("../x"), _file_name("")
    ('after softmax:', '.._x', 'tensor')
    """
    name = prefix.strip().replace("/", "_").replace("\0", "_")
    return f"_{name}" if name in (".", "..") else name or "tensor"


def device_print(
    prefix: str | None = None, tensor: Any = None, *, print_prefix: str | None = None
) -> None:
    """Write a prefix and a tensor's values to standard output.

    With ``NEURON_RT_DEBUG_OUTPUT_DIR`` set, values also go to
    ``DIR/PREFIX/core_N/ITERATION/tensor.npy``, where ITERATION counts core N's calls with that
    prefix (**choice** of the file's name; types that NumPy lacks are saved as float32). Cores of
    several ranks are numbered on, rank by rank; slashes of a prefix become ``_`` (**choice**).

    Parameters
    ----------
    prefix : str
        What to print first.
    tensor : tensor or VirtualRegister
        What to print.
    print_prefix : str
        What older kernels call `prefix`.

    Raises
    ------
    TypeError
        If there is no prefix, or two.
    """
    text = print_prefix if prefix is None else prefix
    if text is None or (prefix is not None and print_prefix is not None):
        given = "neither" if text is None else "both"
        message = f"device_print got {given} of prefix and print_prefix; allowed: one of them"
        raise TypeError(message)
    running = context()
    if not isinstance(tensor, NkiTensor) or not running.core.values:
        sys.stdout.write(f"{text} {tensor!r}\n")
        return
    values, dtype = arrays.to_array(running.core, tensor)
    sys.stdout.write(f"{text} {tensor.describe()}\n{values}\n")
    number = running.core.number
    if running.world is not None and running.world.size > 1:
        lnc = 1 if running.logical is None else len(running.logical.cores)
        number += running.rank * lnc
    count = running.prints.get((number, text), 0)
    running.prints[number, text] = count + 1
    folder = os.environ.get("NEURON_RT_DEBUG_OUTPUT_DIR")
    if folder:
        path = Path(folder, _file_name(text), f"core_{number}", str(count))
        path.mkdir(parents=True, exist_ok=True)
        if dtype.is_float and not dtype.is_packed and values.dtype.isbuiltin != 1:
            values = values.astype(np.float32)
        np.save(path / "tensor.npy", values)
