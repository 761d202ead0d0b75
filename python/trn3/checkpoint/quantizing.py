"""`trn3.quantize_checkpoint`: one pass over a checkpoint, one output for each format.

Memory holds a few pieces of one tensor at a time: `PIECE_VALUES` values each, or 32 slices across
the blocked axis where those are more (an axis other than the last, with very much behind it).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trn3.checkpoint.formats import (
    BLOCK,
    FORMATS,
    METADATA_KEY,
    METADATA_VERSION,
    MXFormat,
    pack_fp4,
    scales_name,
    scales_shape,
)
from trn3.checkpoint.outcomes import (
    FormatReport,
    QuantizationOptions,
    QuantizationReport,
    Rounding,
    ScaleRule,
    TensorReport,
)
from trn3.checkpoint.outputs import check_outputs, real_path
from trn3.checkpoint.reading import read_mx_metadata
from trn3.checkpoint.safetensors import (
    DTYPES,
    CheckpointError,
    SafetensorsReader,
    TensorEntry,
)
from trn3.checkpoint.writer import SafetensorsWriter
from trn3.numerics import MXArray, Xorwow, quantize_mx
from trn3.text import nearest

# Large enough that calls cost little beside their work.
PIECE_VALUES = 1 << 16
COPY_BYTES = 1 << 22
SOURCES = ("F32", "BF16", "F16")


def reason_to_pass(entry: TensorEntry, options: QuantizationOptions) -> str | None:
    """Return why a tensor is stored as it is, or None if it is to be quantized."""
    if options.include and not any(fnmatchcase(entry.name, glob) for glob in options.include):
        return "not matched by --include"
    if any(fnmatchcase(entry.name, glob) for glob in options.exclude):
        return "matched by --exclude"
    if len(entry.shape) < 2:
        return f"not a matrix ({len(entry.shape)}-d)"
    if entry.dtype not in SOURCES:
        return f"dtype {entry.dtype} (only {', '.join(SOURCES)} are quantized)"
    if not -len(entry.shape) <= options.axis < len(entry.shape):
        return f"no axis {options.axis}"
    if not entry.num_values:
        return "empty"
    if entry.shape[options.axis] % BLOCK:
        return f"axis {options.axis} is {entry.shape[options.axis]} long, no multiple of {BLOCK}"
    return None


def tensor_seed(seed: int, name: str) -> int:
    """Return the seed of a tensor's own generator, so that no tensor's bits depend on another's.

    It is the first eight bytes, read as a little-endian number, of the SHA-256 of ``seed:name``.

    >>> tensor_seed(0, "w") == tensor_seed(0, "w") != tensor_seed(0, "v")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")


def pieces(shape: tuple[int, ...], axis: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Cut a tensor into pieces that are contiguous and hold whole blocks.

    Yields the first value's place in C order and the piece's shape, 3-d: what lies before, on and
    after `axis`.

    >>> list(pieces((2, 64), -1))
    [(0, (2, 64, 1))]
    """
    axis %= len(shape)
    outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    slab = length * inner
    if slab <= PIECE_VALUES:
        step = PIECE_VALUES // slab
        for start in range(0, outer, step):
            yield start * slab, (min(step, outer - start), length, inner)
        return
    step = max(BLOCK, PIECE_VALUES // inner // BLOCK * BLOCK)
    for index in range(outer):
        for start in range(0, length, step):
            yield index * slab + start * inner, (1, min(step, length - start), inner)


def quantize_checkpoint(
    source: str | os.PathLike[str],
    outputs: Mapping[str, str | os.PathLike[str]],
    *,
    scale_rule: ScaleRule | None = None,
    rounding: Rounding = "nearest",
    seed: int = 0,
    axis: int = -1,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    replace: bool = False,
    with_histogram: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> QuantizationReport:
    """Quantize the matrices of a checkpoint to MX formats and store everything else as it is.

    Tensors of dtype F32, BF16 and F16 with two or more axes are quantized as Trainium3's QuantizeMX
    does, if `axis` is a multiple of 32 long. The outputs appear under their names together, after
    the last has reached the disk; a failed or interrupted run leaves none of them. Memory use does
    not grow with the checkpoint.

    Parameters
    ----------
    source
        A safetensors file.
    outputs
        For each format (``"mxfp8-e4m3"``, ``"mxfp8-e5m2"``, ``"mxfp4-e2m1"``) the file to write.
    scale_rule
        How a block's scale is chosen: ``"trn3"``, ``"ocp"`` or ``"rceil"``; by default ``"trn3"``
        for MXFP8 and ``"ocp"`` for MXFP4.
    rounding
        ``"nearest"``, ``"zero"`` or ``"stochastic"``.
    seed
        For stochastic rounding. A tensor's random bits depend on it and on the tensor's name alone.
    axis
        The contraction axis, along which blocks of 32 lie; the last suits the ``[out, in]`` weights
        of linear layers.
    include, exclude
        Globs of names: only tensors that match one of `include`, if there are any, and none of
        `exclude` are quantized.
    replace
        Whether files that are there may be replaced. The source never is.
    with_histogram
        Whether the report's statistics hold histograms of the errors.
    on_progress
        Called with the bytes read so far and the bytes there are, after each piece.

    Returns
    -------
    QuantizationReport
        Sizes, errors and times of each tensor in each format; ``to_plain()`` is for JSON.

    Raises
    ------
    TypeError, ValueError
        If an argument is no such thing.
    OSError
        If a file cannot be read or written, or is there already.
    CheckpointError
        If the source is not a sound safetensors file or has nothing to quantize, or an output is
        the source. A `ValueError`.

    See Also
    --------
    trn3.load_mx : Reads what this writes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import trn3
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     source, output = f"{directory}/model.safetensors", f"{directory}/small.safetensors"
    ...     save_file({"weight": np.eye(32, 64, dtype=np.float32)}, source)
    ...     report = trn3.quantize_checkpoint(source, {"mxfp8-e4m3": output})
    >>> [each.name for each in report.formats[0].tensors], report.formats[0].total().stored_bytes
    (['weight'], 2112)
    """
    chosen = [(_format_of(name), Path(path)) for name, path in outputs.items()]
    if not chosen:
        message = f"outputs is empty, must map formats to files; formats are {', '.join(FORMATS)}"
        raise ValueError(message)
    options = QuantizationOptions(
        scale_rule,
        rounding,
        seed,
        axis,
        _globs("include", include),
        _globs("exclude", exclude),
        with_histogram,
    )
    check_outputs([path for _, path in chosen], source, replace=replace)
    return _run(source, chosen, options, on_progress)


def _format_of(name: str) -> MXFormat:
    if name not in FORMATS:
        message = (
            f"outputs has the format {name!r}; the nearest is {nearest(name, FORMATS)!r}; allowed: "
            f"{', '.join(FORMATS)}"
        )
        raise ValueError(message)
    return FORMATS[name]


def _globs(name: str, globs: Iterable[str]) -> tuple[str, ...]:
    if isinstance(globs, str):
        message = f"{name} is the text {globs!r}, must be a list of globs; for one: [{globs!r}]"
        raise TypeError(message)
    return tuple(globs)


def _run(
    source: str | os.PathLike[str],
    outputs: Sequence[tuple[MXFormat, Path]],
    options: QuantizationOptions,
    on_progress: Callable[[int, int], object] | None,
) -> QuantizationReport:
    started = time.perf_counter()
    with SafetensorsReader(source) as reader, contextlib.ExitStack() as stack:
        passed_through: dict[str, str] = {}
        for entry in reader.tensors.values():
            if (reason := reason_to_pass(entry, options)) is not None:
                passed_through[entry.name] = reason
        matrices = [e for e in reader.tensors.values() if e.name not in passed_through]
        if not matrices:
            raise CheckpointError(_nothing_to_do(reader, passed_through))
        _refuse_taken_names(reader, matrices)
        formats: list[FormatReport] = []
        writers: list[SafetensorsWriter] = []
        for mx_format, path in outputs:
            rule = options.scale_rule or mx_format.default_scale_rule
            # Links are followed, so that a linked output is written where it points.
            writer = SafetensorsWriter(
                real_path(path),
                _layout(reader, passed_through, mx_format, options.axis),
                _metadata(reader, matrices, mx_format, rule, options),
            )
            writers.append(stack.enter_context(writer))
            formats.append(FormatReport(mx_format, path, rule, writer.num_bytes))
        total_bytes = sum(entry.num_bytes for entry in reader.tensors.values())
        done = 0
        for entry in reader.tensors.values():
            steps = (
                _copy(reader, entry, writers)
                if entry.name in passed_through
                else _quantize(reader, entry, formats, writers, options)
            )
            for num_bytes in steps:
                done += num_bytes
                if on_progress is not None:
                    on_progress(done, total_bytes)
        for writer in writers:
            writer.finish()
        for writer in writers:
            writer.commit()
        return QuantizationReport(
            source=reader.path,
            source_bytes=reader.num_bytes,
            options=options,
            formats=formats,
            passed_through=passed_through,
            seconds=time.perf_counter() - started,
        )


def _nothing_to_do(reader: SafetensorsReader, reasons: Mapping[str, str]) -> str:
    counts: dict[str, int] = {}
    for reason in reasons.values():
        counts[reason] = counts.get(reason, 0) + 1
    listed = "; ".join(f"{count} {reason}" for reason, count in counts.items())
    return f"{reader.path}: no matrix to quantize among {len(reasons)} tensors: {listed or 'none'}"


def _refuse_taken_names(reader: SafetensorsReader, matrices: Sequence[TensorEntry]) -> None:
    for entry in matrices:
        if scales_name(entry.name) in reader.tensors:
            message = (
                f"{reader.path}: the scales of {entry.name!r} would be stored as "
                f"{scales_name(entry.name)!r}, which is taken; leave one out with --exclude"
            )
            raise CheckpointError(message)


def _layout(
    reader: SafetensorsReader, passed_through: Mapping[str, str], mx_format: MXFormat, axis: int
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for entry in reader.tensors.values():
        if entry.name in passed_through:
            yield entry.name, entry.dtype, entry.shape
        else:
            yield entry.name, mx_format.safetensors, entry.shape
            yield scales_name(entry.name), "F8_E8M0", scales_shape(entry.shape, axis)


def _metadata(
    reader: SafetensorsReader,
    matrices: Sequence[TensorEntry],
    mx_format: MXFormat,
    rule: str,
    options: QuantizationOptions,
) -> dict[str, str]:
    # A file may come from an earlier run that quantized other tensors, perhaps in another format.
    tensors = dict(read_mx_metadata(reader))
    for entry in matrices:
        tensors[entry.name] = {
            "axis": options.axis,
            "scales": scales_name(entry.name),
            "dtype": mx_format.dtype.name,
            "source_dtype": entry.dtype,
            "scale_rule": rule,
            "rounding": options.rounding,
        }
        if options.rounding == "stochastic":
            tensors[entry.name]["seed"] = tensor_seed(options.seed, entry.name)
    described = {"version": METADATA_VERSION, "tensors": tensors}
    return {**reader.metadata, METADATA_KEY: json.dumps(described, separators=(",", ":"))}


def _copy(
    reader: SafetensorsReader, entry: TensorEntry, writers: Sequence[SafetensorsWriter]
) -> Iterator[int]:
    for start in range(0, entry.num_bytes, COPY_BYTES):
        data = reader.read(entry, start, min(COPY_BYTES, entry.num_bytes - start))
        for writer in writers:
            writer.write(entry.name, start, data)
        yield data.nbytes


def _quantize(
    reader: SafetensorsReader,
    entry: TensorEntry,
    formats: Sequence[FormatReport],
    writers: Sequence[SafetensorsWriter],
    options: QuantizationOptions,
) -> Iterator[int]:
    dtype = DTYPES[entry.dtype][1]
    assert dtype is not None
    reports = [
        TensorReport(
            entry.name,
            entry.shape,
            entry.dtype,
            entry.num_bytes,
            writer.tensors[entry.name].num_bytes
            + writer.tensors[scales_name(entry.name)].num_bytes,
        )
        for writer in writers
    ]
    # One lane makes the draws a single sequence, so that pieces get what the whole would.
    generators = [
        Xorwow.seed(tensor_seed(options.seed, entry.name), lanes=1)
        if options.rounding == "stochastic"
        else None
        for _ in formats
    ]
    for start, shape in pieces(entry.shape, options.axis):
        num_bytes = math.prod(shape) * dtype.itemsize
        x = reader.read(entry, start * dtype.itemsize, num_bytes).view(dtype).reshape(shape)
        for report, written, writer, rng in zip(reports, formats, writers, generators, strict=True):
            mx_format = written.mx_format
            began = time.perf_counter()
            quantized = quantize_mx(
                x,
                mx_format.dtype,
                axis=1,
                scale_rule=written.scale_rule,
                rounding=options.rounding,
                rng=rng,
            )
            report.seconds += time.perf_counter() - began
            report.statistics.update(
                x, quantized, largest=mx_format.largest, with_histogram=options.with_histogram
            )
            _store(writer, entry.name, start, quantized, mx_format)
        yield num_bytes
    for report, written in zip(reports, formats, strict=True):
        written.tensors.append(report)


def _store(
    writer: SafetensorsWriter, name: str, start: int, quantized: MXArray, mx_format: MXFormat
) -> None:
    elements: NDArray[np.uint8]
    if mx_format.bits == 4:
        elements = pack_fp4(quantized.elements)
    else:
        elements = quantized.elements.view(np.uint8)
    writer.write(name, start * mx_format.bits // 8, elements)
    writer.write(scales_name(name), start // BLOCK, quantized.scales.view(np.uint8))
