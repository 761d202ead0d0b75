"""Checkpoints of MX tensors, read tensor by tensor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from numpy.typing import NDArray

from trn3.checkpoint.formats import (
    BLOCK,
    FORMATS,
    METADATA_KEY,
    METADATA_VERSION,
    scales_shape,
    unpack_fp4,
)
from trn3.checkpoint.safetensors import DTYPES, CheckpointError, SafetensorsReader, TensorEntry
from trn3.markup import mimebundle
from trn3.numerics import MXArray
from trn3.text import printable

if TYPE_CHECKING:
    from rich.table import Table

#: Tensors that a notebook shows.
_SHOWN: Final = 30


class MXCheckpoint(Mapping[str, MXArray | NDArray[Any]]):
    """An open checkpoint: a read-only mapping of tensor names to arrays, each read when asked for.

    A quantized tensor comes as an `MXArray` and any other as an array of its own dtype; the scales
    of a quantized tensor are part of it and have no entry of their own. Nothing is cached: asking
    twice reads twice. Use it as a context manager or call `close`.

    Attributes
    ----------
    metadata
        All of the file's ``__metadata__``, strings to strings.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader = SafetensorsReader(path)
        try:
            self.metadata: Mapping[str, str] = self._reader.metadata
            if METADATA_KEY not in self.metadata:
                self._fail(
                    f"holds no MX tensors: its metadata has no {METADATA_KEY!r} "
                    "(`trn3 quantize` writes it)"
                )
            self._quantized = read_mx_metadata(self._reader)
        except BaseException:
            self._reader.close()
            raise
        scales = {description["scales"] for description in self._quantized.values()}
        self._names = [name for name in self._reader.tensors if name not in scales]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # Mapping would read the tensor to find out

    def __repr__(self) -> str:
        closed = ", closed" if self._reader.closed else ""
        return (
            f"MXCheckpoint({str(self._reader.path)!r}: {len(self)} tensors, "
            f"{len(self._quantized)} quantized{closed})"
        )

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(printable(repr(self))), title_justify="left", box=None)
        for heading in ("tensor", "dtype", "shape", "scales"):
            table.add_column(heading)
        for name in self._names[:_SHOWN]:
            entry, mx = self._reader.tensors[name], self._quantized.get(name)
            scales = "-" if mx is None else f"one for {BLOCK} along axis {mx['axis']}"
            cells = (printable(name), entry.dtype, str(list(entry.shape)), scales)
            table.add_row(*map(Text, cells))
        if left := len(self) - table.row_count:
            table.caption = f"and {left:,} more"
        return table

    def __getitem__(self, name: str) -> MXArray | NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if self._reader.closed:
            message = f"{self._reader.path} was closed"
            raise ValueError(message)
        description = self._quantized.get(name)
        elements = self._array(self._reader.tensors[name])
        if description is None:
            return elements
        scales = self._array(self._reader.tensors[description["scales"]])
        return MXArray.from_parts(elements, scales, axis=description["axis"])

    def close(self) -> None:
        """Close the file; arrays already read stay valid."""
        self._reader.close()

    def _fail(self, problem: str) -> NoReturn:
        message = f"{self._reader.path}: {problem}"
        raise CheckpointError(message)

    def _array(self, entry: TensorEntry) -> NDArray[Any]:
        bits, dtype = DTYPES[entry.dtype]
        if dtype is None and bits != 4:
            self._fail(f"tensor {entry.name!r} is {entry.dtype}, which NumPy has no type for")
        data = self._reader.read(entry)
        if dtype is None:
            return unpack_fp4(data, entry.shape)
        try:
            return data.view(dtype).reshape(entry.shape)
        except ValueError:  # an empty tensor with an axis longer than NumPy can say
            self._fail(f"tensor {entry.name!r} has shape {list(entry.shape)}, too large for NumPy")


def load_mx(path: str | os.PathLike[str]) -> MXCheckpoint:
    """Open a checkpoint that `trn3.quantize_checkpoint` or ``trn3 quantize`` wrote.

    Parameters
    ----------
    path
        The safetensors file.

    Returns
    -------
    MXCheckpoint
        A mapping of tensor names to `MXArray` (quantized tensors) or NumPy arrays (all others). A
        tensor is read when it is asked for; only the header is read now.

    Raises
    ------
    OSError
        If the file cannot be opened or read.
    CheckpointError
        If it is not a sound safetensors file, or not one with MX tensors. A `ValueError`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import trn3
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     source, output = f"{directory}/model.safetensors", f"{directory}/small.safetensors"
    ...     save_file({"weight": np.eye(32, 64, dtype=np.float32)}, source)
    ...     report = trn3.quantize_checkpoint(source, {"mxfp4-e2m1": output})
    ...     with trn3.load_mx(output) as tensors:
    ...         weight = tensors["weight"]
    >>> weight.dtype, weight.shape, weight.scales.shape, weight.nbytes
    (dtype(float4_e2m1fn), (32, 64), (32, 2), 1088)
    """
    return MXCheckpoint(path)


def read_mx_metadata(reader: SafetensorsReader) -> dict[str, dict[str, Any]]:
    """Return what the file's metadata says of each quantized tensor, checked; empty if nothing.

    Raises
    ------
    CheckpointError
        If the metadata does not fit the tensors of the file.
    """

    def fail(problem: str) -> NoReturn:
        message = f"{reader.path}: metadata {METADATA_KEY!r} {problem}"
        raise CheckpointError(message)

    text = reader.metadata.get(METADATA_KEY)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        fail("is not JSON")
    if not isinstance(found, dict) or not isinstance(found.get("tensors"), dict):
        fail("has no 'tensors'")
    if found.get("version") != METADATA_VERSION:
        fail(f"has version {found.get('version')!r}; this program reads {METADATA_VERSION}")
    codes = {mx_format.safetensors for mx_format in FORMATS.values()}
    for name, description in found["tensors"].items():
        entry = reader.tensors.get(name)
        if entry is None:
            fail(f"names tensor {name!r}, which the file does not hold")
        if not isinstance(description, dict):
            fail(f"does not describe tensor {name!r}")
        axis, scales = description.get("axis"), description.get("scales")
        if type(axis) is not int or not -len(entry.shape) <= axis < len(entry.shape):
            fail(f"gives tensor {name!r} axis {axis!r}; it has {len(entry.shape)} axes")
        if entry.dtype not in codes or entry.shape[axis] % BLOCK:
            fail(f"describes tensor {name!r}, {entry.dtype} {list(entry.shape)}, which is not MX")
        beside = reader.tensors.get(scales) if isinstance(scales, str) else None
        if beside is None or scales in found["tensors"]:
            fail(f"gives tensor {name!r} scales {scales!r}, which the file does not hold")
        if beside.dtype not in {"F8_E8M0", "U8"} or beside.shape != scales_shape(entry.shape, axis):
            fail(
                f"gives tensor {name!r} scales of {beside.dtype} {list(beside.shape)}; "
                f"F8_E8M0 {list(scales_shape(entry.shape, axis))} is needed"
            )
    tensors: dict[str, dict[str, Any]] = found["tensors"]
    return tensors
