"""Kernels as programs: what a core was given, written down, to run without Python."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import machine
from trn3._trn3.machine import NkiTensor
from trn3.machine.archs import ArchLike, ArchSpec
from trn3.nki.launch.arguments import Arguments, tensors_in
from trn3.nki.launch.kernel import arch_of, as_kernel
from trn3.nki.values import arrays
from trn3.nki.values.element_types import canonicalise

__all__ = ["Program", "ProgramReplay", "ProgramTensor", "Replay", "Tensor", "record"]


@dataclass(frozen=True)
class ProgramTensor:
    """An input or output of a program.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
        As `nki.language` spells it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class ProgramReplay:
    """What a run of a program gave.

    Attributes
    ----------
    outputs : dict of str to ndarray
        By name; empty without values.
    picoseconds : int
        How long it took; 0 without timing.
    """

    outputs: dict[str, NDArray[Any]] = field(repr=False)
    picoseconds: int


#: Older names.
Replay, Tensor = ProgramReplay, ProgramTensor


@dataclass(frozen=True)
class Program:
    """Instructions of one core over named tensors, as hosts load them.

    Attributes
    ----------
    text : str
        The JSON text; its format is that of the Rust module ``trn3::program``.

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
    >>> program = nki.record(double, np.zeros((128, 4), np.float32))
    >>> program.inputs
    (ProgramTensor(name='x', shape=(128, 4), dtype='float32'),)
    >>> replay = program.run({"x": np.ones((128, 4), np.float32)})
    >>> float(replay.outputs["result"].sum()), replay.picoseconds > 0
    (1024.0, True)
    """

    text: str = field(repr=False)

    @functools.cached_property
    def _content(self) -> dict[str, Any]:
        content = json.loads(self.text)
        if not isinstance(content, dict) or content.get("format") != "trn3-program":
            message = "the text is no program: its format is not trn3-program"
            raise ValueError(message)
        return content

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self._content["name"])

    @property
    def arch(self) -> str:
        """Name of the machine that it was recorded on."""
        return str(self._content.get("arch", ""))

    @property
    def inputs(self) -> tuple[ProgramTensor, ...]:
        """What has to be filled before a run."""
        return tuple(
            ProgramTensor(tensor["name"], tuple(tensor["shape"]), tensor["dtype"])
            for tensor in self._content["tensors"]
            if tensor.get("role") in ("input", "inout")
        )

    @property
    def instructions(self) -> int:
        """How many instructions it has."""
        others = {"fresh", "set_register", "stochastic_rounding"}
        return sum(step["op"] not in others for step in self._content["steps"])

    def to_json(self) -> str:
        """Return the JSON text."""
        return self.text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON text to a file."""
        Path(path).write_text(self.text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """Return the program that a file holds.

        Raises
        ------
        ValueError
            If it holds none.
        """
        program = cls(Path(path).read_text(encoding="utf-8"))
        _ = program._content  # raises
        return program

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        arch: ArchLike | None = None,
        values: bool = True,
        timing: bool = True,
        strict: bool = False,
    ) -> ProgramReplay:
        """Run the program on a device, as a host without Python would.

        Parameters
        ----------
        inputs : mapping of str to array
            All of `inputs`; of their shapes and types.
        arch : str, mapping or ArchSpec, optional
            Machine instead of the one it was recorded on, as `trn3.machine.arch` takes it.
        values, timing, strict : bool, optional
            As for `trn3.machine.NeuronCore`.

        Raises
        ------
        ValueError
            If inputs are missing, or there are others; if the machine would refuse a step.
        TypeError
            If an input has another type.
        """
        wanted = {tensor.name: tensor for tensor in self.inputs}
        if set(inputs) != set(wanted):
            message = (
                f"inputs are {', '.join(sorted(inputs)) or 'none'}; the program "
                f"{self.name} has {', '.join(wanted) or 'none'}"
            )
            raise ValueError(message)
        given = [(name, _bytes_of(inputs[name], tensor)) for name, tensor in wanted.items()]
        spec: dict[str, Any] = {"values": values, "timing": timing, "strict": strict}
        chosen = arch_of(arch) if arch is not None else self.arch or "trn3"
        if isinstance(chosen, ArchSpec):
            machine_name, spec["arch_toml"] = chosen.name, chosen.to_toml()
        elif chosen.endswith(".toml"):
            machine_name = Path(chosen).stem
            spec["arch_toml"] = Path(chosen).read_text(encoding="utf-8")
        else:
            machine_name = chosen
        found, picoseconds = machine.replay(
            self.text, json.dumps({**spec, "arch": machine_name}), given
        )
        outputs = {}
        for name, flat, shape, dtype in found if values else ():
            native = canonicalise(dtype).dtype
            outputs[name] = flat.view(native).reshape(shape)
        return ProgramReplay(outputs, picoseconds)


def record(
    kernel: Callable[..., Any], *args: Any, arch: ArchLike | None = None, **kwargs: Any
) -> Program:
    """Run a kernel and return the program of what its core was given.

    A run of the program with the same inputs gives the same bits at the same times. Loops are
    unrolled, and branches that depended on values stay as they went: recorded is one run.

    Parameters
    ----------
    kernel : Kernel or function
        On one core: what cores and ranks do together is no part of a program, nor are functions
        of one's own on GpSimdE.
    *args, **kwargs
        The kernel's arguments; arrays become the program's inputs.
    arch : str, mapping or ArchSpec, optional
        Machine to run on instead of the kernel's target, as `trn3.machine.arch` takes it.

    Returns
    -------
    Program

    Raises
    ------
    NotImplementedError
        For what a program cannot hold; names it.
    ValueError
        For a kernel on several cores; if `arch` names no machine.
    """
    runnable = as_kernel(kernel)
    if runnable.launched().cores != 1:
        message = f"{runnable!r} runs on {runnable.launched().cores} cores; a program has one"
        raise ValueError(message)
    cores = runnable.cores(None if arch is None else arch_of(arch))
    cores[0].start_recording(runnable.name)
    programs: list[str] = []

    def observe(arguments: Arguments, result: Any) -> None:
        results = list(_named(result))
        programs.append(cores[0].recorded(list(arguments.storages()), results))

    runnable.launch_ranks([cores], [(args, kwargs)], observe=observe)
    return Program(programs[0])


def _named(result: Any) -> Iterator[tuple[str, NkiTensor]]:
    """Yield what a kernel returns with names: ``result``, or ``result[0]`` and so on."""
    found = list(tensors_in(result))
    for place, tensor in enumerate(found):
        yield ("result" if isinstance(result, NkiTensor) else f"result[{place}]"), tensor


def _bytes_of(value: Any, tensor: ProgramTensor) -> NDArray[np.uint8]:
    kind = arrays.kind_of(value)
    if kind is None:
        message = f"input {tensor.name} is of type {type(value).__name__}; allowed: an array"
        raise TypeError(message)
    array, dtype = arrays.checked(arrays.as_numpy(value, kind, tensor.name), tensor.name)
    if dtype.name != tensor.dtype:
        message = f"input {tensor.name} has dtype {dtype.name}; the program has {tensor.dtype}"
        raise TypeError(message)
    if array.shape != tensor.shape:
        message = f"input {tensor.name} has shape {array.shape}; the program has {tensor.shape}"
        raise ValueError(message)
    return arrays.element_bytes(array)
