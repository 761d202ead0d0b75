"""Times of matrix products on the simulated core, for plans with ``times="machine"``.

Products in BF16, FP16 and FP32, those of experts too, are timed by running `product` without
arithmetic. Shapes larger than a few tiles are timed on those and on half of them, and what the
second half took is what all further tiles take **(choice)**; a logical core of two gives each
physical core half of the columns **(choice)**. Attention, norms and products in FP8 and MX formats
keep the roofline. Times are kept on disk by shape, so that a plan asks for each only once.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trn3
from trn3._trn3 import planner as _planner

PARTITIONS = 128
BANK = 512
BLOCK = 4 * BANK
"""Columns that are loaded at a time: 4 KiB a partition in BF16, where DMA reaches its full rate."""

MOST_M, MOST_K, MOST_N = 4 * PARTITIONS, 8 * PARTITIONS, 2 * BLOCK
"""Shapes up to these are timed whole."""

ARCHS = {"trainium1": "trn1", "trainium2": "trn2", "trainium3": "trn3"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
REVISION = 1
"""Of the kernel: times of others are not used."""

_KEY = re.compile(r"(?:matmul:|grouped_matmul:(\d+)x)(\d+)x(\d+)x(\d+):(\w+)")


def product(size_m: int, size_k: int, size_n: int, dtype: Any) -> None:
    """Multiply activations ``[m, k]`` with weights ``[k, n]``; weights are read once.

    `size_m` is at most 128 or a multiple of it, `size_k` a multiple of 128, `size_n` at most 512
    or a multiple of it.
    """
    import trn3.nki.isa as nisa
    import trn3.nki.language as nl

    lhs_t = nl.ndarray((size_k, size_m), dtype, buffer=nl.hbm)
    rhs = nl.ndarray((size_k, size_n), dtype, buffer=nl.hbm)
    out = nl.ndarray((size_m, size_n), dtype, buffer=nl.hbm)
    steps = range(size_k // PARTITIONS)
    tile_m, tile_n = min(size_m, PARTITIONS), min(size_n, BANK)
    stationary = [nl.ndarray((PARTITIONS, size_m), dtype, buffer=nl.sbuf) for _ in steps]
    for k, tile in enumerate(stationary):
        nisa.dma_copy(dst=tile, src=lhs_t[nl.ds(k * PARTITIONS, PARTITIONS), nl.ds(0, size_m)])
    for start in range(0, size_n, BLOCK):
        width = min(BLOCK, size_n - start)
        moving = [nl.ndarray((PARTITIONS, width), dtype, buffer=nl.sbuf) for _ in steps]
        for k, tile in enumerate(moving):
            rows = nl.ds(k * PARTITIONS, PARTITIONS)
            nisa.dma_copy(dst=tile, src=rhs[rows, nl.ds(start, width)])
        for m in range(0, size_m, tile_m):
            result = nl.ndarray((tile_m, width), dtype, buffer=nl.sbuf)
            for n in range(0, width, tile_n):
                total = nl.ndarray((tile_m, tile_n), nl.float32, buffer=nl.psum)
                columns = nl.ds(n, tile_n)
                for k in steps:
                    left = stationary[k][:, nl.ds(m, tile_m)]
                    nisa.nc_matmul(total, left, moving[k][:, columns], accumulate=k > 0)
                nisa.tensor_copy(result[:, columns], total, engine=nisa.vector_engine)
            nisa.dma_copy(dst=out[nl.ds(m, tile_m), nl.ds(start, width)], src=result)


def time_product(m: int, k: int, n: int, dtype: str = "bf16", arch: str = "trn3") -> float:
    """Return how long one physical core takes for ``[m, k] x [k, n]``, in seconds.

    Parameters
    ----------
    m, k, n
        Any sizes of at least 1; they are rounded up to tiles.
    dtype
        ``"bf16"``, ``"fp16"`` or ``"fp32"``.
    arch
        ``"trn1"``, ``"trn2"`` or ``"trn3"``.

    Raises
    ------
    ValueError
        For any other.

    Examples
    --------
    >>> time_product(128, 1024, 2048) > 2 * 128 * 1024 * 2048 / 78.6e12
    True
    """
    if dtype not in DTYPES:
        message = f"dtype is {dtype!r}; timed are {', '.join(DTYPES)}"
        raise ValueError(message)
    for name, size in (("m", m), ("k", k), ("n", n)):
        if size < 1:
            message = f"{name} is {size}; needed: at least 1"
            raise ValueError(message)
    wanted = (_rounded(m, PARTITIONS), _up(k, PARTITIONS), _rounded(n, BANK))
    timed = tuple(
        min(size, most) for size, most in zip(wanted, (MOST_M, MOST_K, MOST_N), strict=True)
    )
    seconds = _timed(timed, dtype, arch)
    if timed == wanted:
        return seconds
    # Starting and draining happen once, however many tiles there are.
    half = _half(timed)
    rate = (seconds - _timed(half, dtype, arch)) / (math.prod(timed) - math.prod(half))
    return seconds + rate * (math.prod(wanted) - math.prod(timed))


def _half(shape: tuple[int, ...]) -> tuple[int, ...]:
    m, k, n = shape
    if n >= 2 * BANK:
        return m, k, n // (2 * BANK) * BANK
    if k >= 2 * PARTITIONS:
        return m, k // (2 * PARTITIONS) * PARTITIONS, n
    return m // (2 * PARTITIONS) * PARTITIONS, k, n


def measured(request: Mapping[str, Any]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return times of the products of a request's plan by key, and what they rest on."""
    operations = _planner.operations(dict(request))
    found = _planner.plan({**request, "report_overflow": True})
    chip, lnc = found["system"]["chip"], found["layout"]["lnc"]
    if chip not in ARCHS:
        message = f"times='machine' needs a Trainium; {chip} is none, times='roofline' would work"
        raise ValueError(message)
    times: dict[str, float] = {}
    kept: set[str] = set()
    scaled = False
    for operation in operations:
        match = _KEY.fullmatch(operation["key"])
        if match is None or match[5] not in DTYPES:
            kept.add(operation["name"])
            continue
        groups, (m, k, n) = int(match[1] or 1), (int(match[at]) for at in (2, 3, 4))
        if 0 in (groups, m, k, n):
            continue
        share = -(-n // lnc)
        scaled |= m > MOST_M or k > MOST_K or share > MOST_N
        times[operation["key"]] = groups * time_product(m, k, share, match[5], ARCHS[chip])
    text = [
        f"times of {len(times)} products: our own kernel on the simulated {ARCHS[chip]} core"
        + (f", half of the columns on each of {lnc} cores" if lnc > 1 else "")
        + ("; large shapes are scaled from a few of their tiles" if scaled else "")
    ]
    if kept:
        text.append(f"roofline for {', '.join(sorted(kept))}: no kernel is timed for them")
    return times, tuple(text)


def cache_file() -> Path:
    """Return where times are kept: in the user's cache, or ``$TRN3_CACHE``."""
    home = os.environ.get("TRN3_CACHE")
    if home is None:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        home = str(Path(base) / "trn3")
    return Path(home) / f"kernels-{trn3.__version__}-{REVISION}.json"


_memory: dict[Path, dict[str, float]] = {}


def _timed(shape: tuple[int, ...], dtype: str, arch: str) -> float:
    path = cache_file()
    if path not in _memory:
        _memory[path] = _read(path)
    known = _memory[path]
    name = f"{arch}:{'x'.join(map(str, shape))}:{dtype}"
    if name not in known:
        known[name] = _run(shape, dtype, arch)
        _write(path, known)
    return known[name]


def _run(shape: tuple[int, ...], dtype: str, arch: str) -> float:
    from trn3 import nki
    from trn3.nki import language as nl

    kept = getattr(nl, DTYPES[dtype])
    _, profile = nki.profile(product, *shape, kept, arch=arch, values=False)
    return float(profile.latency_us) * 1e-6


def _read(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # Whatever a cache cannot give is timed again.
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: float(seconds)
        for name, seconds in found.items()
        if isinstance(seconds, (int, float)) and 0 < seconds < math.inf
    }


def _write(path: Path, times: Mapping[str, float]) -> None:
    """Keep times; a cache that cannot be written costs time and nothing else."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps({**_read(path), **times}, indent=0, sort_keys=True), "utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)


def _rounded(size: int, tile: int) -> int:
    return size if size <= tile else _up(size, tile)


def _up(size: int, tile: int) -> int:
    return -(-size // tile) * tile
