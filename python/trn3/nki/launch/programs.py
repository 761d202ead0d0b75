"""Programs: what cores were given, as data that runs without the kernels it came from."""

from __future__ import annotations

import functools
import json
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import machine
from trn3.files import parse_json, read_text
from trn3.machine.archs import ArchLike, ArchSpec
from trn3.machine.gpsimd import named_functions
from trn3.nki.launch.new_cores import arch_of, core_of
from trn3.nki.values import arrays
from trn3.nki.values.element_types import canonicalise

__all__ = [
    "DeclaredTensor", "Functions", "Program", "ProgramReplay", "ProgramTensor", "Replay", "Tensor",
    "replay_cores", "replay_ranks",
]  # fmt: skip

#: Functions that a program calls on GpSimdE, by name; as `trn3.nki.gpsimd.call` takes them.
Functions: TypeAlias = Mapping[str, Callable[..., Any]]

#: Steps that are no instructions.
_MARKS: Final = frozenset({
    "end_loop", "end_no_reorder", "fresh", "iteration", "loop", "no_reorder", "set_register",
    "stochastic_rounding",
})  # fmt: skip


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
class DeclaredTensor:
    """A tensor of a program, as it is declared.

    Attributes
    ----------
    name, dtype : str
    shape : tuple of int
        On chip partitions first.
    space : str
        ``sbuf``, ``psum``, ``hbm`` or ``shared_hbm``.
    role : str
        ``input``, ``output``, ``inout``, ``constant`` or ``internal``.
    address : tuple of int, int or None
        On chip partition and byte, in HBM a byte; None where who runs the program finds a place.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    space: str
    role: str
    address: tuple[int, ...] | int | None


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
    verified : dict of str to int, optional
        Of what `record` compiled and verified: after how many ``passes`` the schedule was legal,
        and how many ``outputs`` were equal bit for bit.

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
    verified: dict[str, int] | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def _content(self) -> dict[str, Any]:
        content = parse_json(self.text, "the program")
        if not isinstance(content, dict) or content.get("format") != "trn3-program":
            message = "the text is no program: its format is not trn3-program"
            raise ValueError(message)
        # The rest is checked where it runs; what is told before that must be there.
        name, arch = content.get("name"), content.get("arch", "")
        _need(isinstance(name, str), "name", name, "a text")
        _need(isinstance(arch, str), "arch", arch, "a text")
        for number, tensor in enumerate(_items("tensors", content.get("tensors"))):
            shape = tensor.get("shape")
            for key in ("name", "dtype"):
                got = tensor.get(key)
                _need(isinstance(got, str), f"tensors[{number}].{key}", got, "a text")
            sizes = isinstance(shape, list) and all(type(size) is int for size in shape)
            _need(sizes, f"tensors[{number}].shape", shape, "a list of whole numbers")
        for number, step in enumerate(_items("steps", content.get("steps"))):
            got = step.get("op")
            _need(isinstance(got, str), f"steps[{number}].op", got, "a text")
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
        return sum(step["op"] not in _MARKS for step in self._content["steps"])

    @property
    def tensors(self) -> tuple[DeclaredTensor, ...]:
        """Its tensors, in the order of their declarations."""
        return tuple(
            DeclaredTensor(
                tensor["name"],
                tuple(tensor["shape"]),
                tensor["dtype"],
                str(tensor.get("space")),
                str(tensor.get("role", "internal")),
                _address(tensor.get("address")),
            )
            for tensor in self._content["tensors"]
        )

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions that it calls on GpSimdE, and that `run` has to be given."""
        calls = (step for step in self._content["steps"] if step["op"] == "gpsimd_call")
        return tuple(dict.fromkeys(str(step.get("function")) for step in calls))

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
        program = cls(read_text(path, "program"))
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
        functions: Functions | None = None,
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
        functions : mapping of str to callable, optional
            What it calls on GpSimdE, all of `functions`; as `trn3.nki.gpsimd.call` takes them.

        Raises
        ------
        ValueError
            If inputs are missing, or there are others; if the machine would refuse a step.
        TypeError
            If an input has another type.
        NotImplementedError
            If a function is missing, or the program is one of several that run together.
        """
        (replay,) = replay_ranks(
            [self],
            [inputs],
            arch=arch,
            values=values,
            timing=timing,
            strict=strict,
            functions=functions,
        )
        return replay

    def run_on(
        self,
        core: machine.NeuronCore,
        inputs: Mapping[str, Any],
        functions: Functions | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Run the program on a core, from a new start of its time, and return its outputs by name.

        Parameters
        ----------
        core : NeuronCore
            A new one.
        inputs : mapping of str to array
            As for `run`.
        functions : mapping of str to callable, optional
            As for `run`.

        Raises
        ------
        ValueError, TypeError, NotImplementedError
            As `run`.
        MemoryError
            If its tensors do not fit the core's HBM, or those without a place do not fit on chip.
        """
        called = named_functions(functions)
        found = machine.run_program(core, self.text, self._given(inputs), called)
        return _replayed(found, 0).outputs

    def _given(self, inputs: Mapping[str, Any]) -> list[tuple[str, NDArray[np.uint8]]]:
        return _given(self.name, {tensor.name: tensor for tensor in self.inputs}, inputs)


def _given(
    program: str, wanted: Mapping[str, ProgramTensor], inputs: Mapping[str, Any]
) -> list[tuple[str, NDArray[np.uint8]]]:
    if set(inputs) != set(wanted):
        message = (
            f"inputs are {', '.join(sorted(inputs)) or 'none'}; the program "
            f"{program} has {', '.join(wanted) or 'none'}"
        )
        raise ValueError(message)
    return [(name, _bytes_of(inputs[name], tensor)) for name, tensor in wanted.items()]


def _address(address: Any) -> tuple[int, ...] | int | None:
    return tuple(address) if isinstance(address, list) else address


def _need(holds: bool, key: str, got: object, needed: str) -> None:
    if not holds:
        message = f"the text is no program: its {key} is {reprlib.repr(got)}; needed: {needed}"
        raise ValueError(message)


def _items(key: str, got: Any) -> list[dict[str, Any]]:
    _need(isinstance(got, list), key, got, "a list")
    for number, item in enumerate(got):
        _need(isinstance(item, dict), f"{key}[{number}]", item, "an object")
    return list(got)


def replay_ranks(
    programs: Sequence[Program],
    per_rank_inputs: Sequence[Mapping[str, Any]],
    *,
    arch: ArchLike | None = None,
    values: bool = True,
    timing: bool = True,
    strict: bool = False,
    functions: Functions | None = None,
) -> list[ProgramReplay]:
    """Run the programs of all ranks of a launch on the cores of one device, where they meet.

    Times are those of `profile_ranks`: each rank has the bandwidth of its HBM to itself.

    Parameters
    ----------
    programs : sequence of Program
        One a rank, as `record_ranks` returns them.
    per_rank_inputs : sequence of mapping of str to array
        All inputs of each.
    arch, values, timing, strict, functions
        As for `Program.run`; functions are those of all.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As `Program.run`; if there are not as many inputs as programs, or more programs than cores;
        if ranks do not agree, or wait for others that never come.
    """
    if not programs or len(programs) != len(per_rank_inputs):
        message = (
            f"per_rank_inputs has {len(per_rank_inputs)} entries and programs {len(programs)}; "
            "each rank needs one of both"
        )
        raise ValueError(message)
    given = [
        program._given(inputs) for program, inputs in zip(programs, per_rank_inputs, strict=True)
    ]
    spec: dict[str, Any] = {"values": values, "timing": timing, "strict": strict}
    # Ranks of a launch are timed as if each had an HBM of its own.
    spec["cores"], spec["share_hbm_bandwidth"] = len(programs), False
    chosen = arch_of(arch) if arch is not None else programs[0].arch or "trn3"
    if isinstance(chosen, ArchSpec):
        spec["arch"], spec["arch_toml"] = chosen.name, chosen.to_toml()
    elif chosen.endswith(".toml"):
        spec["arch"] = Path(chosen).stem
        spec["arch_toml"] = read_text(chosen, "spec file")
    else:
        spec["arch"] = chosen
    # The system that ranks of a launch are on where nothing else is said.
    if len(programs) > 1 and spec["arch"] == "trn2":
        spec["system"] = "trn2_instance"
    texts = [program.text for program in programs]
    found = machine.replay(texts, json.dumps(spec), given, named_functions(functions))
    return [_replayed(outputs if values else (), time) for outputs, time in found]


def replay_cores(
    programs: Sequence[Program],
    inputs: Mapping[str, Any],
    *,
    arch: ArchLike | None = None,
    values: bool = True,
    timing: bool = True,
    strict: bool = False,
    functions: Functions | None = None,
) -> ProgramReplay:
    """Run the programs of the cores of a logical core side by side, on one HBM.

    Parameters
    ----------
    programs : sequence of Program
        One a core, as `record_cores` returns them.
    inputs : mapping of str to array
        All inputs of all; one that several have comes once.
    arch, values, timing, strict, functions
        As for `Program.run`; functions are those of all.

    Returns
    -------
    ProgramReplay
        With the outputs of all, and the time at which the last core has ended.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As `Program.run`; if the programs are not those of one logical core, or its cores do not
        come to the same barriers and exchanges.
    """
    if not programs:
        message = "programs is empty; allowed: one a core"
        raise ValueError(message)
    chosen = arch_of(arch) if arch is not None else programs[0].arch or "trn3"
    first = core_of(chosen, values=values, timing=timing, strict=strict, nan_origin=False)
    cores = [first]
    while len(cores) < len(programs):
        cores.append(machine.NeuronCore("", beside=cores))
    wanted = {tensor.name: tensor for program in programs for tensor in program.inputs}
    given = _given(programs[0].name, wanted, inputs)
    texts = [program.text for program in programs]
    outputs: dict[str, NDArray[Any]] = {}
    for found in machine.run_programs(cores, texts, given, named_functions(functions)):
        outputs.update(_replayed(found, 0).outputs)
    return ProgramReplay(outputs, max(core.makespan() for core in cores))


def _replayed(found: Iterable[tuple[str, Any, list[int], str]], time: int) -> ProgramReplay:
    outputs = {}
    for name, flat, shape, dtype in found:
        outputs[name] = flat.view(canonicalise(dtype).dtype).reshape(shape)
    return ProgramReplay(outputs, time)


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
