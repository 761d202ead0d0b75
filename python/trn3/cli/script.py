"""What ``trn3 run`` does: a Python script in which ``import nki`` means trn3's."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trn3.cli.refusal import RefusedError
from trn3.cli.settings import CompileLevel, check_settings, use_level


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
    )
    def run_script(
        context: typer.Context,
        script: Annotated[Path, typer.Argument(help="The Python script.")],
        arguments: Annotated[
            list[str] | None, typer.Argument(help="What the script gets as its arguments.")
        ] = None,
        level: CompileLevel = None,
    ) -> None:
        """Run a Python script in which `import nki` means trn3's, unmodified.

        The exit code is the script's own: 1 if an exception leaves it.
        """
        check_settings()
        use_level(context, level)
        if not script.is_file():
            message = f"{script}: there is no such file"
            raise RefusedError(message)
        code = run(script, arguments or [])
        if code:
            raise typer.Exit(code)


def run(script: Path, arguments: Sequence[str]) -> int:
    """Run a script as ``python script arguments...`` would, and return its exit code.

    What it imports as ``nki``, ``torch_xla`` and ``torch_neuronx`` is trn3's, the device ``neuron``
    of torch the CPU, ``torch.compile(backend="neuron")`` the simulated core, and ``NKI_SIMULATOR``
    is 1 unless it is set.

    An exception that leaves the script prints its traceback, without the frames of this command,
    and gives exit code 1.
    """
    from trn3 import nki

    nki.install(torch_xla=True)
    # Scripts choose what they do without a device by it.
    os.environ.setdefault("NKI_SIMULATOR", "1")
    words, folders = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, os.fspath(script.parent.resolve()))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        sys.stderr.write(f"{leaving.code}\n")
        return 1
    except Exception as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != str(script):
            frames = frames.tb_next
        traceback.print_exception(error.with_traceback(frames))
        return 1
    finally:
        sys.argv, sys.path[:] = words, folders
    return 0
