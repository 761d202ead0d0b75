"""GpSimdE is programmable: a user's own function as an instruction of a core."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from trn3._trn3 import machine as _machine

_PACKED = {
    "bool": np.bool_,
    "tfloat32": np.float32,
    "float8_e4m3fn_x4": np.uint32,
    "float8_e5m2_x4": np.uint32,
    "float4_e2m1fn_x4": np.uint16,
}


def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name in _PACKED:
        return np.dtype(_PACKED[name])
    return np.dtype(getattr(ml_dtypes, name, None) or name)


class GpSimd:
    """The eight programmable processors of a core, 16 partitions each.

    Parameters
    ----------
    core
        The core they belong to.
    """

    __slots__ = ("_core", "_functions")

    def __init__(self, core: _machine.NeuronCore) -> None:
        self._core = core
        self._functions: dict[str, GpSimdFunction] = {}

    def register(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        cycles: int | Callable[..., int],
    ) -> GpSimdFunction:
        """Make a function an instruction of the core.

        Parameters
        ----------
        name
            Its name on the timeline, an identifier.
        function
            Takes one NumPy array [partitions, ...] for each input tile and returns one for each
            output tile, of the tile's shape; or a `ctypes` function pointer that takes a pointer
            for each input, then for each output, then the number of partitions (C ``int64_t``).
        cycles
            Cycles of the slowest processor for one call, beyond the instruction's start; a number
            or a function of the input tiles' shapes. Silicon gives none: it is the author's claim.

        Returns
        -------
        GpSimdFunction
            Call it as ``instruction(dst, src, ...)`` with SBUF tiles; several outputs as a tuple.

        Raises
        ------
        ValueError
            If the name is no identifier or taken, or the cycles are negative.
        TypeError
            If the function cannot be called.

        Examples
        --------
        >>> import numpy as np
        >>> import trn3.machine
        >>> core = trn3.machine.NeuronCore("trn3")
        >>> flip = core.gpsimd.register("flip", lambda x: x[:, ::-1], cycles=64)
        >>> tile = core.allocate([128, 4], "int32", 0, "tile", None)
        >>> _ = core.write(tile, np.arange(512, dtype=np.int32).reshape(128, 4))
        >>> _ = flip(tile, tile)
        >>> core.values_of(tile)[0]
        array([3, 2, 1, 0], dtype=int32)
        """
        if name in self._functions:
            message = f"name is {name!r}, which is registered already"
            raise ValueError(message)
        instruction = GpSimdFunction(self._core, name, function, cycles)
        self._functions[name] = instruction
        return instruction


class GpSimdFunction:
    """An instruction made of a user's function, as `GpSimd.register` makes it.

    Parameters
    ----------
    core
        The core that runs it.
    name, function, cycles
        As for `GpSimd.register`; cycles of None are those of one pass over the largest operand, as
        GpSimdE's own elementwise instructions take (**choice**).

    Raises
    ------
    ValueError, TypeError
        As `GpSimd.register`.
    """

    __slots__ = ("_core", "_cycles", "_function", "name")

    def __init__(
        self,
        core: _machine.NeuronCore,
        name: str,
        function: Callable[..., Any],
        cycles: int | Callable[..., int] | None,
    ) -> None:
        self.check(name, function, cycles)
        self._core = core
        self.name = name
        self._function = _adapted(function)
        self._cycles = cycles

    @staticmethod
    def check(name: str, function: object, cycles: object) -> None:
        """Refuse what `GpSimd.register` refuses."""
        if not name.isidentifier():
            message = f"name is {name!r}, which is no identifier"
            raise ValueError(message)
        if not callable(function):
            message = f"function is of type {type(function).__name__}; allowed: a callable"
            raise TypeError(message)
        if isinstance(cycles, int):
            _check_cycles(cycles)
        elif cycles is not None and not callable(cycles):
            message = f"cycles is of type {type(cycles).__name__}; allowed: a number or a callable"
            raise TypeError(message)

    def __call__(self, dst: Any, *srcs: Any, name: str | None = None) -> _machine.NkiInstruction:
        """Issue the instruction: ``dst`` (a tile, or a tuple of them) from the input tiles."""
        outputs = list(dst) if isinstance(dst, (tuple, list)) else [dst]
        in_shapes = [tuple(tile.shape) for tile in srcs]
        in_dtypes = [_numpy_dtype(tile.dtype_name) for tile in srcs]
        out_specs = [(tuple(tile.shape), _numpy_dtype(tile.dtype_name)) for tile in outputs]
        cycles = self._cycles
        if cycles is not None and not isinstance(cycles, int):
            cycles = _check_cycles(int(cycles(*in_shapes)))
        failures: list[Exception] = []

        def run(tiles: list[bytes]) -> list[bytes]:
            arrays = [
                np.frombuffer(tile, dtype).reshape(shape)
                for tile, dtype, shape in zip(tiles, in_dtypes, in_shapes, strict=True)
            ]
            try:
                return _computed(self.name, self._function, arrays, out_specs)
            except Exception as error:
                failures.append(error)
                raise

        try:
            return _machine.isa.gpsimd_call(
                self._core, run, self.name, outputs, list(srcs), cycles, name, nameable=True
            )
        except ValueError as error:
            if not failures:
                raise
            # The traceback of the user's own function, which the core's text has not.
            raise error from failures[0]


#: A tile: its bytes, its element type's name, its shape.
_Tile: TypeAlias = tuple[bytes, str, Sequence[int]]


def named_functions(
    functions: Mapping[str, Callable[..., Any]] | None,
) -> list[tuple[str, Callable[..., list[bytes]]]]:
    """Return functions as programs that call them by name take them.

    Parameters
    ----------
    functions : mapping of str to callable, optional
        As for `GpSimd.register`, by the name of the instruction.

    Raises
    ------
    ValueError
        If a name is no identifier.
    TypeError
        If a function cannot be called.
    """
    return [(name, _named(name, function)) for name, function in (functions or {}).items()]


def _named(name: str, function: Callable[..., Any]) -> Callable[..., list[bytes]]:
    GpSimdFunction.check(name, function, None)
    adapted = _adapted(function)

    def run(inputs: list[_Tile], outputs: list[tuple[str, Sequence[int]]]) -> list[bytes]:
        arrays = [
            np.frombuffer(tile, _numpy_dtype(dtype)).reshape(shape) for tile, dtype, shape in inputs
        ]
        specs = [(tuple(shape), _numpy_dtype(dtype)) for dtype, shape in outputs]
        return _computed(name, adapted, arrays, specs)

    return run


def _computed(
    name: str,
    function: Callable[..., Any] | _PointerAdapter,
    arrays: list[Any],
    out_specs: list[tuple[tuple[int, ...], np.dtype[Any]]],
) -> list[bytes]:
    if isinstance(function, _PointerAdapter):
        results = function(arrays, out_specs)
    else:
        returned = function(*arrays)
        several = isinstance(returned, (tuple, list))
        results = list(returned) if several else [returned]
    return [_checked(name, result, *spec) for result, spec in zip(results, out_specs, strict=True)]


def _check_cycles(cycles: int) -> int:
    if cycles < 0:
        message = f"cycles is {cycles}; allowed: 0 or more"
        raise ValueError(message)
    return cycles


def _checked(name: str, result: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    array = np.asarray(result)
    if array.shape != shape or array.dtype != dtype:
        message = f"{name} returned {array.dtype} {array.shape}; its output tile is {dtype} {shape}"
        raise ValueError(message)
    return np.ascontiguousarray(array).tobytes()


class _PointerAdapter:
    """A C function pointer, called with the addresses of inputs and outputs."""

    def __init__(self, pointer: Callable[..., Any]) -> None:
        self._pointer = pointer

    def __call__(
        self, arrays: list[Any], specs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> list[Any]:
        results = [np.zeros(shape, dtype) for shape, dtype in specs]
        inputs = [np.ascontiguousarray(array) for array in arrays]
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*inputs, *results)]
        partitions = (specs[0][0] if specs else inputs[0].shape)[0]
        self._pointer(*addresses, ctypes.c_int64(partitions))
        return results


def _adapted(function: Callable[..., Any]) -> Callable[..., Any] | _PointerAdapter:
    return _PointerAdapter(function) if _is_pointer(function) else function


def _is_pointer(function: Callable[..., Any]) -> bool:
    return isinstance(function, cast("type", ctypes.CFUNCTYPE(None)).__mro__[1])
