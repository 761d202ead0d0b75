"""One NeuronCore as simulator authors and front ends drive it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trn3._trn3 import machine as _machine
from trn3.machine.data import Instructions, Occupancy, ProfileData, Transfers
from trn3.machine.gpsimd import GpSimd, _numpy_dtype
from trn3.machine.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

INSTRUCTION_COLUMNS = (
    "opcode",
    "engine",
    "queue",
    "site",
    "label",
    "start_ps",
    "slot_end_ps",
    "end_ps",
    "wait_ps",
    "cause",
    "waited_on",
    "dma_bytes",
    "hbm_read",
    "hbm_write",
    "macs",
    "peak_macs_per_cycle",
)


class NeuronCore(_machine.NeuronCore):
    """One NeuronCore: memories, engines and a timeline.

    Instructions are issued in program order (``trn3.nki`` does it for kernels); values are
    computed at once, times are those of the engines.

    Parameters
    ----------
    arch
        ``"trn1"``, ``"trn2"``, ``"trn3"``, or the path of a spec file ending in ``.toml``.
    values
        Whether values are computed; without, only what addresses and control flow depend on.
    timing
        Whether time is kept.
    strict
        Whether reading uninitialised memory raises instead of leaving a finding.
    max_instructions
        Most instructions that may be issued.
    throttle
        Whether TensorE's current-step limit is modelled (about half rate at first, full after
        about 3 us of work).
    precise
        Whether elements of narrow floating-point types keep float32 values.
    nan_origin
        Whether NaN and infinities are followed to the instruction that wrote the first ones.
    shadow
        Whether a float64 run goes along that tells how much precision each instruction loses.

    Raises
    ------
    trn3.machine.ArchError
        If the description is unknown, incomplete or absurd; names the key.

    Examples
    --------
    >>> core = NeuronCore("trn3")
    >>> core.arch
    ('trn3', 4)
    """

    @property
    def gpsimd(self) -> GpSimd:
        """The programmable processors."""
        # Kept in the instance's dict: the class of the extension has no slot for it.
        found: GpSimd | None = self.__dict__.get("_gpsimd")
        if found is None:
            found = self.__dict__["_gpsimd"] = GpSimd(self)
        return found

    def values_of(self, tensor: _machine.NkiTensor) -> NDArray[Any]:
        """Return a copy of a tensor's elements; uninitialised ones hold the sentinel."""
        dtype = _numpy_dtype(tensor.dtype_name)
        return self.read(tensor).view(dtype).reshape(tuple(tensor.shape))

    def write(self, tensor: _machine.NkiTensor, values: NDArray[Any]) -> None:
        """Set a tensor's elements from the host, without an instruction and without time.

        Raises
        ------
        TypeError, ValueError
            If the values' dtype or shape is not the tensor's.
        """
        dtype = _numpy_dtype(tensor.dtype_name)
        if values.dtype != dtype:
            message = f"values has dtype {values.dtype}; the tensor's is {dtype}"
            raise TypeError(message)
        if values.shape != tuple(tensor.shape):
            message = f"values has shape {values.shape}; the tensor's is {tuple(tensor.shape)}"
            raise ValueError(message)
        self.write_bytes(tensor, np.ascontiguousarray(values).reshape(-1).view(np.uint8))

    def spec(self) -> dict[str, float]:
        """Return every figure of the machine description; units and sources: ``arch_entries()``."""
        return self.arch_values()

    def to_profile(self, kernel: str = "kernel") -> Profile:
        """Return what the run so far cost, and why."""
        return Profile(profile_data(self, kernel))


def profile_of(cores: Sequence[_machine.NeuronCore], kernel: str = "kernel") -> Profile:
    """Return what a run on the cores of one logical core cost, and why."""
    profiles = [Profile(profile_data(core, kernel)) for core in cores]
    if len(profiles) == 1:
        return profiles[0]
    from trn3.machine.logical import LogicalProfile

    return LogicalProfile(profiles)


def profile_data(core: _machine.NeuronCore, kernel: str) -> ProfileData:
    """Return the timeline of a core as arrays."""
    raw = core.profile()
    name, generation = core.arch
    spec = core.arch_values()
    arch = {
        **spec,
        "name": name,
        "generation": generation,
        "psum_partition_bytes": spec["psum_banks"] * spec["psum_bank_bytes"],
    }
    return ProfileData(
        arch=arch,
        kernel=kernel,
        latency_ps=raw["latency_ps"],
        overhead_ps=raw["overhead_ps"],
        opcodes=raw["opcodes"],
        labels=raw["labels"],
        sites=raw["sites"],
        findings=core.findings(),
        precision=core.precision(),
        instructions=Instructions(**{key: raw[key] for key in INSTRUCTION_COLUMNS}),
        transfers=Transfers(
            instruction=raw["transfer_instruction"],
            dma_engine=raw["transfer_engine"].astype(np.uint8),
            start_ps=raw["transfer_start_ps"],
            end_ps=raw["transfer_end_ps"],
            bytes=raw["transfer_bytes"],
        ),
        occupancy=Occupancy(
            time_ps=raw["occupancy_time_ps"],
            sbuf_bytes=raw["sbuf_bytes"],
            psum_bytes=raw["psum_bytes"],
            sbuf_peak_bytes=int(raw["sbuf_bytes"].max(initial=0)),
            psum_peak_bytes=int(raw["psum_bytes"].max(initial=0)),
        ),
        critical=raw["critical"],
    )
