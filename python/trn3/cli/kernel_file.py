"""Kernels named on the command line: ``path/to/file.py:kernel``, and arguments made for them."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from trn3.cli.refusal import RefusedError
from trn3.machine import ArchError, arch as arch_of

if TYPE_CHECKING:
    from trn3.nki import ResultTolerance

#: How errors of the machine begin that know the kernel's line.
_PLACE = re.compile(r"[^\n:]+:\d+: ")


class KernelFileError(RefusedError):
    """The kernel cannot be found or given arguments; the text says why."""


@dataclass(frozen=True)
class KernelFile:
    """A kernel and the module that it stands in."""

    path: Path
    name: str
    module: ModuleType
    kernel: Callable[..., Any]

    def companion(self, suffix: str) -> Callable[..., Any] | None:
        """Return the file's ``NAME_suffix`` or ``suffix`` function, the makers of examples."""
        for name in (f"{self.name}_{suffix}", suffix):
            function = getattr(self.module, name, None)
            if callable(function):
                return function  # type: ignore[no-any-return]
        return None


def load(target: str) -> KernelFile:
    """Import the file of ``file.py:kernel`` with ``nki`` being trn3's and find the kernel in it.

    ``file.py:kernel[2]`` is the kernel on two cores, ``file.py:kernel[4,2]`` on a launch grid.

    Raises
    ------
    KernelFileError
        If there is no such file or kernel; names what there is. If brackets hold no lengths.
    """
    path, _ = _split(target)
    return _found(target, import_file(_checked(path)))


def load_text(target: str, text: str) -> KernelFile:
    """Return what `load` would if another text stood in the file."""
    path, _ = _split(target)
    module = ModuleType(f"_trn3_kernel_{path.stem}")
    module.__file__ = str(path)
    with _importing_beside(path):
        exec(compile(text, str(path), "exec"), vars(module))
    return _found(target, module)


def _found(target: str, module: ModuleType) -> KernelFile:
    from trn3 import nki

    path, name = _split(target)
    name, brackets = _brackets(name)
    kernels = [key for key, value in vars(module).items() if isinstance(value, nki.Kernel)]
    if not name and len(kernels) == 1:
        name = kernels[0]
    kernel = getattr(module, name, None) if name else None
    if not callable(kernel):
        known = ", ".join(kernels) or "none"
        what = f"no kernel {name!r}" if name else "several kernels; name one"
        message = f"{path}: {what}; kernels there: {known}"
        raise KernelFileError(message)
    if brackets:
        kernel = nki.simulate(kernel)[brackets]
    return KernelFile(path, name, module, kernel)


def load_all(target: str) -> dict[str, Callable[..., Any]]:
    """Import a file and return its kernels by name: all of ``file.py``, one of ``file.py:kernel``.

    Raises
    ------
    KernelFileError
        If there is no such file or kernel, or the file has none.
    """
    from trn3 import nki

    path, name = _split(target)
    if name:
        file = load(target)
        return {file.name: file.kernel}
    module = import_file(_checked(path))
    kernels: dict[str, Callable[..., Any]] = {
        key: value for key, value in vars(module).items() if isinstance(value, nki.Kernel)
    }
    if not kernels:
        message = f"{path}: there is no kernel in it: no function decorated with nki.jit"
        raise KernelFileError(message)
    return kernels


def tolerance(
    file: KernelFile, rtol: float | None = None, atol: float | None = None
) -> ResultTolerance | None:
    """Return how far a result may be from its golden; None: what element types allow.

    Parameters
    ----------
    file
        It may set ``NAME_rtol`` or ``rtol`` beside its golden, and ``atol`` likewise.
    rtol, atol
        Instead of the file's.

    Raises
    ------
    KernelFileError
        If a figure is none, or below 0.
    """
    from trn3.nki import ResultTolerance

    given = {"rtol": rtol, "atol": atol}
    for name, value in given.items():
        for key in (f"{file.name}_{name}", name) if value is None else ():
            if given[name] is None:
                given[name] = getattr(file.module, key, None)
    if given["rtol"] is None and given["atol"] is None:
        return None
    try:
        return ResultTolerance.given(**given)
    except ValueError as error:
        message = f"{file.path}: {error}"
        raise KernelFileError(message) from error


@contextmanager
def explained(target: str, arch: str | None = None) -> Iterator[None]:
    """Turn what code of the user raises into a refusal that names the line, or the machine."""
    try:
        if arch is not None:
            arch_of(arch)  # What it refuses names the option, not the kernel.
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, (RefusedError, typer.Exit)) or type(error) is MemoryError:
            raise
        path, _ = _split(target)
        if isinstance(error, ArchError):
            text = f"--arch {arch}: {error}"
        elif isinstance(error, SystemExit):
            text = f"{path}: it ended the process (SystemExit: {error})"
        else:
            text = _explain(error, path)
        message, *details = text.splitlines()
        raise RefusedError(message, details) from error


@contextmanager
def verified() -> Iterator[None]:
    """End the command with 1 where what the compiler made is wrong."""
    from trn3.compiler import VerificationError

    try:
        yield
    except VerificationError as error:
        typer.echo(f"trn3: {error}", err=True)
        raise typer.Exit(1) from error


def _explain(error: Exception, path: Path) -> str:
    """Where the user's code raised, what, and why; the place as the user wrote the path."""
    text = str(error) or "no message"
    where = ""
    if isinstance(error, SyntaxError):
        # A text that is no text at all has neither name nor line.
        line = "" if error.lineno is None else f":{error.lineno}"
        where, text = f"{error.filename or path}{line}: ", error.msg
    elif place := _PLACE.match(text):
        where, text = place[0], text[place.end() :]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _is_below(frame.filename, path)]
        if own:
            where = f"{own[-1].filename}:{own[-1].lineno}: "
    where = where.replace(str(path.resolve()), str(path), 1)
    return f"{where}{type(error).__name__}: {text}"


def _is_below(filename: str, path: Path) -> bool:
    """Whether code is in the kernel's folder: its file, or one that it imports from beside it."""
    return Path(filename).resolve().is_relative_to(path.resolve().parent)


def _split(target: str) -> tuple[Path, str]:
    file, colon, name = target.rpartition(":")
    return (Path(file), name) if colon else (Path(target), "")


def _checked(path: Path) -> Path:
    if not path.is_file():
        message = f"{path}: there is no such file; write FILE.py:KERNEL"
        raise KernelFileError(message)
    return path


def _brackets(name: str) -> tuple[str, tuple[int, ...]]:
    """Return a kernel's name without brackets, and what stands in them."""
    name, bracket, inside = name.partition("[")
    lengths = [word.strip() for word in inside.removesuffix("]").split(",")]
    if not bracket:
        return name, ()
    if not inside.endswith("]") or not all(word.isdecimal() and int(word) for word in lengths):
        message = f"{name}[{inside}: write {name}[2] for two cores, {name}[4,2] for a launch grid"
        raise KernelFileError(message)
    return name, tuple(map(int, lengths))


def import_file(path: Path) -> ModuleType:
    """Import a file outside any package, with ``nki`` in it being trn3's.

    Raises
    ------
    KernelFileError
        If it is no Python file. What the file itself raises passes.
    """
    from trn3 import nki

    nki.install()
    name = f"_trn3_kernel_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        message = f"{path}: not a Python file"
        raise KernelFileError(message)
    module = importlib.util.module_from_spec(spec)
    with _importing_beside(path):
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception:
            del sys.modules[name]
            raise
    return module


@contextmanager
def _importing_beside(path: Path) -> Iterator[None]:
    """Let code import what lies in the folder of its file."""
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(path.parent.resolve()))


def arguments(
    file: KernelFile, words: list[str], seed: int, place: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Make the kernel's arguments from ``--shape`` words.

    ``NAME=128x512:bfloat16`` makes an array of standard normal values (integers: 0 to 7) for the
    argument NAME; ``NAME=2048`` sets a size of the file's ``inputs`` function, or a plain argument
    of the kernel. Arguments that are not named come from the ``inputs`` function if there is one.

    Of a kernel on several ranks, `place` is the rank and how many there are. An ``inputs`` function
    that takes ``rank`` or ``ranks`` is given these; where it has no ``rank``, and for arrays of
    ``--shape``, each rank's values are drawn from ``seed + rank``.

    Raises
    ------
    KernelFileError
        If a word cannot be read or fits nothing.
    """
    maker = file.companion("inputs")
    sizes = set(inspect.signature(maker).parameters) if maker is not None else set()
    parameters = inspect.signature(file.kernel).parameters
    rank, ranks = place or (0, 1)
    rng = np.random.default_rng(seed + rank)
    given: dict[str, Any] = {}
    told: dict[str, Any] = {"seed": seed if "rank" in sizes else seed + rank}
    if place is not None:
        told |= {"rank": rank, "ranks": ranks}
    chosen = {name: value for name, value in told.items() if name in sizes}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            message = f"--shape {word}: write NAME=SIZE or NAME=128x512:bfloat16"
            raise KernelFileError(message)
        if name in sizes and ":" not in value and "x" not in value:
            chosen[name] = _number(word, value)
        elif name in parameters:
            is_array = ":" in value or "x" in value
            given[name] = _array(word, value, rng) if is_array else _number(word, value)
        else:
            known = ", ".join(sorted(sizes | set(parameters)))
            message = f"--shape {word}: there is no {name}; allowed: {known}"
            raise KernelFileError(message)
    made: Mapping[str, Any] = maker(**chosen) if maker is not None else {}
    result = {**made, **given}
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name not in result
    ]
    if missing:
        hint = f"give --shape {missing[0]}=128x512:bfloat16"
        message = f"{file.path}:{file.name} needs {', '.join(missing)}; {hint}"
        raise KernelFileError(message)
    return result


def _number(word: str, text: str) -> int | float | bool:
    named = {"true": True, "false": False}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    message = f"--shape {word}: {text} is no number"
    raise KernelFileError(message)


def _array(word: str, text: str, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[Any]]:
    from trn3.nki import language as nl

    lengths, _, dtype_name = text.partition(":")
    try:
        shape = tuple(int(length) for length in lengths.split("x"))
    except ValueError:
        message = f"--shape {word}: {lengths} is no shape; write 128x512"
        raise KernelFileError(message) from None
    if min(shape) < 1:
        message = f"--shape {word}: every length must be at least 1"
        raise KernelFileError(message)
    short = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16", "": "float32"}
    dtype = getattr(nl, short.get(dtype_name, dtype_name), None)
    try:
        native = np.dtype(dtype) if dtype is not None and not callable(dtype) else None
    except TypeError:
        native = None
    if native is None:
        message = f"--shape {word}: {dtype_name} is no element type of nki.language"
        raise KernelFileError(message)
    if native.kind in "iub":
        return rng.integers(0, 8, shape).astype(native)
    return rng.standard_normal(shape, dtype=np.float32).astype(native)
