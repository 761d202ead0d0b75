"""Power of chips and systems: a model whose parameters are all assumptions, and that says so.

No vendor publishes the power of a Trainium. Energy is a static share of the TDP plus an energy for
each operation (by dtype) and for each bit of HBM, links and SBUF; `parameters` lists them with
their reasons. Sources give two TDPs for Trainium3, 500 W and 1,000 W; every result has both.

Examples
--------
>>> import trn3
>>> busy = trn3.power.power("trainium3", dtype="mxfp8")
>>> round(busy.watts), {tdp: round(watts) for tdp, watts in busy.variants.items()}
(1011, {500.0: 505, 1000.0: 1011})
>>> print(busy.assumptions[0])
TDP of trainium3 taken as 1000 W (sources give 500 W and 1000 W, none confirmed by the vendor)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trn3._trn3 import system as _core
from trn3.facts import load
from trn3.typed import typed

__all__ = [
    "Energy",
    "Parameter",
    "PerfPerWatt",
    "Power",
    "RackPower",
    "Reading",
    "energy",
    "parameters",
    "perf_per_watt",
    "power",
    "rack_power",
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the energy model."""

    value: float
    unit: str
    source: str
    note: str | None


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a piece of work.

    Attributes
    ----------
    joules, watts : float
        Total, and average over the time of the work.
    parts : Mapping[str, float]
        Joules by cause: ``static``, each dtype, ``hbm``, ``link``, ``sbuf``.
    tdp : float
        Thermal design power of a chip that is assumed, watts.
    variants : Mapping[float, float]
        Average power for each TDP that sources give.
    chips : int
        How many chips do that work.
    assumptions : tuple[str, ...]
        Everything undocumented that the figures rest on.
    """

    joules: float
    watts: float
    parts: Mapping[str, float]
    tdp: float
    variants: Mapping[float, float]
    chips: int
    assumptions: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.watts:,.0f} W, {self.joules:,.6g} J ({self.chips} chips)"]
        lines += [f"  {name}: {joules:,.6g} J" for name, joules in self.parts.items()]
        lines += [
            f"with a TDP of {tdp:g} W: {watts:,.0f} W" for tdp, watts in self.variants.items()
        ]
        return "\n".join([*lines, *(f"assumed: {text}" for text in self.assumptions)])


@dataclass(frozen=True, slots=True)
class RackPower:
    """Power of the racks of a system at one TDP; accelerators only.

    `cooling` is what a rack of that power needs, `published_cooling` what sources say (empty:
    nothing). Powers are in watts.
    """

    system: str
    chips: int
    racks: int
    tdp: float
    watts: float
    watts_per_rack: float
    cooling: str
    published_cooling: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """Power of a chip or of all chips of a system at a load.

    Attributes
    ----------
    system, chip : str
        What was asked for, and the chip it is made of.
    chips : int
        How many of them.
    watts : float
        Of all chips.
    parts : Mapping[str, float]
        Watts of one chip by cause.
    tdp : float
        Thermal design power of a chip that is assumed, watts.
    variants : Mapping[float, float]
        Power of all chips for each TDP that sources give.
    racks : tuple[RackPower, ...]
        The racks at each of those TDPs; empty for a single chip.
    assumptions : tuple[str, ...]
        Everything undocumented that the figures rest on.
    """

    system: str
    chip: str
    chips: int
    watts: float
    parts: Mapping[str, float]
    tdp: float
    variants: Mapping[float, float]
    racks: tuple[RackPower, ...]
    assumptions: tuple[str, ...]

    def __str__(self) -> str:
        each = ", ".join(f"{name} {watts:,.0f}" for name, watts in self.parts.items())
        lines = [f"{self.system}: {self.watts:,.0f} W ({self.chips} chips, each: {each} W)"]
        lines += [
            f"with a TDP of {tdp:g} W: {watts:,.0f} W" for tdp, watts in self.variants.items()
        ]
        for rack in self.racks:
            each = f"{rack.racks} x {rack.watts_per_rack / 1e3:g} kW"
            lines.append(f"racks at {rack.tdp:g} W: {each}, {rack.cooling}")
        return "\n".join([*lines, *(f"assumed: {text}" for text in self.assumptions)])


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a comparison: its ratio, and what must be true for it."""

    name: str
    ratio: float
    assumption: str


@dataclass(frozen=True, slots=True)
class PerfPerWatt:
    """Performance per watt of a chip against another: a reading for each assumption."""

    chip: str
    peer: str
    readings: tuple[Reading, ...]
    assumptions: tuple[str, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The ratios alone, in order."""
        return tuple(reading.ratio for reading in self.readings)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self.readings)

    def __len__(self) -> int:
        return len(self.readings)

    def __getitem__(self, index: int) -> Reading:
        return self.readings[index]

    def __str__(self) -> str:
        lines = [f"{self.chip} against {self.peer}, performance per watt"]
        lines += [f"{read.ratio:5.2f}x  {read.name} ({read.assumption})" for read in self.readings]
        return "\n".join(lines)


def parameters() -> dict[str, Parameter]:
    """Return the parameters of the energy model with their reasons.

    Returns
    -------
    dict[str, Parameter]
        ``reference_tdp``, ``static_share``, ``flop_<dtype>``, ``hbm``, ``link``, ``sbuf``,
        ``air_cooled_rack``.

    Examples
    --------
    >>> from trn3 import power
    >>> power.parameters()["hbm"].value, power.parameters()["hbm"].unit
    (4.0, 'pJ/bit')
    """
    quantities = _core.energy_parameters()["quantities"]
    return {
        name: Parameter(
            value=float(quantity["default"]),
            unit=quantity["unit"],
            source=quantity["sources"][0]["source"],
            note=quantity.get("note"),
        )
        for name, quantity in quantities.items()
    }


def energy(
    *,
    flops: Mapping[str, float] | None = None,
    hbm_bytes: float = 0.0,
    link_bytes: float = 0.0,
    sbuf_bytes: float = 0.0,
    seconds: float,
    chip: str = "trainium3",
    tdp: float | None = None,
    chips: int = 1,
) -> Energy:
    """Estimate the energy of a piece of work.

    Parameters
    ----------
    flops : Mapping[str, float], optional
        Operations of one chip by dtype: ``mxfp8``, ``mxfp4``, ``fp8``, ``bf16``, ``fp16``,
        ``tf32``, ``fp32``.
    hbm_bytes, link_bytes, sbuf_bytes : float
        Bytes that one chip reads and writes, and sends.
    seconds : float
        How long it takes.
    chip : str
        Name of a chip or of a system, whose chips are meant.
    tdp : float, optional
        Thermal design power in watts; by default the one that the facts choose.
    chips : int
        How many chips do the same.

    Returns
    -------
    Energy
        Of all chips.

    Raises
    ------
    ValueError
        If an amount is negative, the time or the TDP not positive, a name unknown, or a chip
        without a published TDP comes without `tdp`.

    Examples
    --------
    >>> from trn3 import power
    >>> used = power.energy(flops={"bf16": 1e15}, hbm_bytes=1e12, seconds=2.0)
    >>> round(used.joules), round(used.watts)
    (1292, 646)
    """
    _check_chips(chips)
    found = _core.energy_estimate(
        chip,
        tdp,
        list((flops or {}).items()),
        hbm_bytes,
        link_bytes,
        sbuf_bytes,
        seconds,
    )
    return energy_of(found, chips)


def energy_of(found: Mapping[str, Any], chips: int = 1) -> Energy:
    """Return the energy of so many chips that a result of the core says of one."""
    return typed(
        Energy,
        found,
        joules=found["joules"] * chips,
        watts=found["watts"] * chips,
        parts={part["name"]: part["joules"] * chips for part in found["parts"]},
        variants={tdp: watts * chips for tdp, watts in found["variants"]},
        chips=chips,
    )


def power(
    system: str = "trainium3",
    *,
    dtype: str = "mxfp8",
    utilisation: float = 1.0,
    hbm: float = 1.0,
    link: float = 0.0,
    sbuf: float = 0.0,
    tdp: float | None = None,
) -> Power:
    """Estimate the power of a chip, or of all chips of a system, at a load.

    Parameters
    ----------
    system : str
        A chip (``trainium3``) or a system of them (``trn3_gen2``, ``gen2``).
    dtype : str
        Type of the arithmetic.
    utilisation, hbm : float
        Shares of the published peaks of arithmetic and of HBM, 0 to 1.
    link, sbuf : float
        Bytes a second that a chip sends, and moves in and out of SBUF.
    tdp : float, optional
        Thermal design power of a chip in watts; by default the one that the facts choose. Results
        for the others are in `Power.variants`.

    Returns
    -------
    Power

    Raises
    ------
    ValueError
        If a share is not from 0 to 1, a rate negative, the TDP not positive, a name unknown, or the
        chip has no rate in that dtype.

    Examples
    --------
    >>> from trn3 import power
    >>> racks = power.power("trn3_gen2").racks
    >>> [(rack.tdp, rack.watts_per_rack / 1e3, rack.cooling) for rack in racks]
    [(500.0, 36.0, 'air'), (1000.0, 72.0, 'liquid')]
    """
    name = load(system).name
    chip = _core.energy_chip(system)
    found = _core.energy_load(system, tdp, dtype, utilisation, hbm, link, sbuf)
    racks = rack_power(system, tdp=tdp) if name != chip else ()
    chips = racks[0].chips if racks else 1
    at = f"load: {utilisation:g} of the {dtype} peak, {hbm:g} of the HBM rate"
    return Power(
        system=name,
        chip=chip,
        chips=chips,
        watts=found["watts"] * chips,
        parts={part["name"]: part["watts"] for part in found["parts"]},
        tdp=found["tdp"],
        variants={tdp: watts * chips for tdp, watts in found["variants"]},
        racks=racks,
        assumptions=(*found["assumptions"], at, *(racks[-1].assumptions[1:] if racks else ())),
    )


def perf_per_watt(chip: str = "trainium3", peer: str = "trainium2") -> PerfPerWatt:
    """Compare performance per watt of two chips, once for each assumption that can be made.

    Parameters
    ----------
    chip, peer : str
        Names of chips.

    Returns
    -------
    PerfPerWatt
        Readings: 8-bit peaks at the default TDPs, at equal power, 8-bit against BF16 at equal
        power, and the vendor's claim if there is one.

    Raises
    ------
    ValueError
        If a chip is unknown, or has no published TDP or peak.

    Examples
    --------
    >>> import trn3
    >>> [round(reading.ratio, 2) for reading in trn3.perf_per_watt("trainium3", "trainium2")]
    [0.97, 1.94, 3.77, 4.0]
    """
    readings = tuple(Reading(**entry) for entry in _core.energy_per_watt(chip, peer))
    return PerfPerWatt(
        chip=load(chip).name,
        peer=load(peer).name,
        readings=readings,
        assumptions=tuple(f"{reading.name}: {reading.assumption}" for reading in readings),
    )


def rack_power(system: str = "trn3_gen2", *, tdp: float | None = None) -> tuple[RackPower, ...]:
    """Return the power of a system's racks, at each TDP that sources give or at `tdp` alone.

    Raises
    ------
    ValueError
        If the system is unknown, has no count of chips, or its chip has no TDP.

    Examples
    --------
    >>> from trn3 import power
    >>> [(rack.watts / 1e3, rack.cooling) for rack in power.rack_power("trn3_gen2", tdp=1000)]
    [(144.0, 'liquid')]
    """
    return tuple(typed(RackPower, rack) for rack in _core.energy_racks(system, tdp))


def _check_chips(chips: int) -> None:
    if chips < 1:
        message = f"chips is {chips}; it must be at least 1"
        raise ValueError(message)
