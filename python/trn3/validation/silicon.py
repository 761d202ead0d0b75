"""The register of what is known of real chips' bits, each claim computed again.

Examples
--------
>>> from trn3.validation import silicon
>>> claim = silicon.register().claims[0]
>>> claim.id, claim.verdict, silicon.compute(claim)
('reduce-sequential', 'equal', 'equal')
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.validation import probe as probing
from trn3.validation.probe.received import CHIPS
from trn3.validation.rows import RowError, TableEntry

SiliconVerdict: TypeAlias = Literal["equal", "differs", "disputed"]
Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class SiliconClaim:
    """What someone has seen a chip compute.

    Attributes
    ----------
    id, claim, chips, source
        Its name, what was seen, on which machines, and where that is published.
    verdict
        Whether trn3 computes it; ``disputed`` where it does not and `against` speaks against it.
    test
        The test that shows the verdict: a file and a function.
    check
        The function of this module that computes it, or None where a probe does.
    probe, bits
        A probe, and the SHA-256 of what the chip gave for it.
    against
        What speaks against a disputed claim.
    """

    id: str
    claim: str
    chips: tuple[str, ...]
    source: str
    verdict: SiliconVerdict
    test: str
    check: str | None = None
    probe: str | None = None
    bits: str | None = None
    against: str | None = None


@dataclass(frozen=True, slots=True)
class CompilerClaim:
    """What was reported of a chip and is its compiler's doing."""

    claim: str
    chips: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Register:
    """Claims with a verdict, and reports without."""

    claims: tuple[SiliconClaim, ...]
    compiler: tuple[CompilerClaim, ...]


@cache
def register() -> Register:
    """Return the register of the package.

    Raises
    ------
    trn3.validation.RowError
        If it is wrong; the text names the claim.
    """
    text = files("trn3.validation").joinpath("silicon.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Register:
    """Return the register that a TOML text holds.

    Raises
    ------
    trn3.validation.RowError
        If an entry is missing, is of the wrong type, or comes twice.
    """
    document = tomllib.loads(text)
    claims = tuple(_claim(content) for content in document.get("claim", ()))
    ids = [claim.id for claim in claims]
    for name in ids:
        if ids.count(name) > 1:
            message = f"claim {name} comes twice"
            raise RowError(message)
    reports = []
    for content in document.get("compiler", ()):
        entry = TableEntry("a report", content, [each.name for each in fields(CompilerClaim)])
        reports.append(
            CompilerClaim(entry.text("claim"), _chips(entry, content), entry.text("source"))
        )
    return Register(claims, tuple(reports))


def _chips(entry: TableEntry, content: Mapping[str, Any]) -> tuple[str, ...]:
    chips = content.get("chips")
    if not isinstance(chips, list) or not chips or any(chip not in CHIPS for chip in chips):
        raise entry.error(f": chips is {chips!r}; allowed: a list of {', '.join(CHIPS)}")
    return tuple(chips)


def _claim(content: Mapping[str, Any]) -> SiliconClaim:
    known = [each.name for each in fields(SiliconClaim)]
    entry = TableEntry(f"claim {content.get('id', 'without an id')}", content, known)
    check, probe, bits = (entry.text_if_any(key) for key in ("check", "probe", "bits"))
    if check is not None:
        entry.choice("check", sorted(CHECKS))
    if (check is None) != (probe is not None and bits is not None):
        raise entry.error(" needs check, or else probe and bits")
    verdict = entry.choice("verdict", ("equal", "differs", "disputed"))
    against = entry.text_if_any("against")
    if (against is None) == (verdict == "disputed"):
        raise entry.error(" has against if, and only if, it is disputed")
    return SiliconClaim(
        id=entry.text("id"),
        claim=entry.text("claim"),
        chips=_chips(entry, content),
        source=entry.text("source"),
        verdict=cast(SiliconVerdict, verdict),
        test=entry.text("test"),
        check=check,
        probe=None if probe is None else entry.choice("probe", [p.id for p in probing.probes()]),
        bits=bits,
        against=against,
    )


def compute(claim: SiliconClaim) -> SiliconVerdict:
    """Return whether trn3 computes, on each chip, what a claim says.

    A claim that it does not compute is ``disputed`` where something speaks against it.
    """
    if claim.check is not None:
        same = all(CHECKS[claim.check](chip) for chip in claim.chips)
    else:
        [probe] = [each for each in probing.probes() if each.id == claim.probe]
        same = all(probing.bits_of(probe, chip) == claim.bits for chip in claim.chips)
    if same:
        return "equal"
    return "differs" if claim.against is None else "disputed"


def _run(chip: str, kernel: Callable[..., Any], *arrays: Array) -> Array:
    return np.asarray(nki.jit(kernel, platform_target=chip)(*arrays))


def _loaded(array: Any) -> Any:
    tile = nl.ndarray(array.shape, array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=array)
    return tile


def _stored(tile: Any) -> Any:
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def _sum_rows(x: Any) -> Any:
    total = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=_loaded(x), axis=1)
    return _stored(total)


def _add(x: Any, y: Any) -> Any:
    total = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(total, _loaded(x), _loaded(y), op=nl.add, engine=nisa.vector_engine)
    return _stored(total)


def _multiply(x: Any, y: Any) -> Any:
    total = nl.ndarray((x.shape[1], y.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, _loaded(x), _loaded(y))
    result = nl.ndarray(total.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(result, total)
    return _stored(result)


def _floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def sums_rows_in_order(chip: str) -> bool:
    """Whether each of 128 sums of 512 equals the sum of its elements in index order."""
    x = _floats(0, 128, 512)
    wanted = np.cumsum(x, axis=1, dtype=np.float32)[:, -1:]
    return _run(chip, _sum_rows, x).tobytes() == wanted.tobytes()


def adds_as_numpy(chip: str) -> bool:
    """Whether float32 sums have NumPy's bits."""
    x, y = _floats(1, 128, 512), _floats(2, 128, 512)
    return _run(chip, _add, x, y).tobytes() == (x + y).tobytes()


def rounds_large_integers(chip: str) -> bool:
    """Whether VectorE's int32 sums above 2^24 are those of float32, rounded."""
    x = np.arange(2**24, 2**24 + 128 * 64, dtype=np.int32).reshape(128, 64)
    y = np.ones_like(x)
    rounded = (x.astype(np.float32) + y.astype(np.float32)).astype(np.int32)
    return bool((rounded != x + y).any()) and bool((_run(chip, _add, x, y) == rounded).all())


def rounds_products_to_bfloat16(chip: str) -> bool:
    """Whether bits that a product of two bfloat16 has and bfloat16 has not are lost."""
    x = np.full((128, 128), 1 + 2**-7, ml_dtypes.bfloat16)
    product = float(x[0, 0]) ** 2
    got = _run(chip, _multiply, x, x)
    return bool((got == 128 * float(np.float32(product).astype(ml_dtypes.bfloat16))).all())


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            sums_rows_in_order,
            adds_as_numpy,
            rounds_large_integers,
            rounds_products_to_bfloat16,
        )
    }
)
