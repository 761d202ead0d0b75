"""One NeuronCore as simulator authors and front ends drive it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trn3 import offers
from trn3._trn3 import machine as _machine
from trn3.machine.gpsimd import GpSimd, _numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    max_host_bytes
        Most bytes of the host's memory that tensors in HBM may hold, and a result beside them;
        without, three quarters of what is free when that matters. Bytes never written are not held.
    throttle
        Whether TensorE's current-step limit is modelled (about half rate at first, full after
        about 3 us of work).
    precise
        Whether elements of narrow floating-point types keep float32 values.
    nan_origin
        Whether NaN and infinities are followed to the instruction that wrote the first ones.
    shadow
        Whether a float64 run goes along that tells how much precision each instruction loses.
    unlimited
        Whether tensors without an address have room on chip whatever lives there. With timing, a
        trace of the run is kept for the compiler, and its time is open until it is compiled.
    compile
        Level of the compiler that the run is for; above ``"as-written"`` places are unlimited.

    Raises
    ------
    trn3.machine.ArchError
        If the description is unknown, incomplete or absurd; names the key.
    MemoryError
        If the host has no room, or may give none by `max_host_bytes`; when tensors are written,
        handed over or returned.

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

    def to_profile(self, kernel: str = "kernel") -> Any:
        """Return what the run so far cost, and why: a `trn3.profile.Profile`."""
        return offers.take("profiles").profile_of([self], kernel)
