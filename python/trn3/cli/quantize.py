"""``trn3 quantize``: options, tables and JSON of `trn3.quantize_checkpoint`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from trn3.cli.consoles import UNLIMITED_WIDTH, print_json
from trn3.cli.plots import check_html, check_plot
from trn3.cli.refusal import RefusedError
from trn3.cli.settings import HtmlReport, JsonForTables, check_settings

if TYPE_CHECKING:
    from trn3.checkpoint.outcomes import QuantizationReport


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(quantize)


class Format(StrEnum):
    """Formats of ``--to``."""

    MXFP8_E4M3 = "mxfp8-e4m3"
    MXFP8_E5M2 = "mxfp8-e5m2"
    MXFP4_E2M1 = "mxfp4-e2m1"


ScaleRule: TypeAlias = Literal["default", "trn3", "ocp", "rceil"]
Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]


def quantize(
    model: Annotated[Path, typer.Argument(help="The safetensors file to quantize.")],
    to: Annotated[
        list[Format],
        typer.Option("--to", help="Element format. Give it several times for several outputs."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The file to write. With several --to, each format goes to its own file, with the "
            "format's name before the suffix: OUT.mxfp8-e4m3.safetensors.",
        ),
    ],
    scale_rule: Annotated[
        ScaleRule,
        typer.Option(help="How a block's scale is chosen. default: trn3 for MXFP8, ocp for MXFP4."),
    ] = "default",
    rounding: Annotated[Rounding, typer.Option(help="How elements are rounded.")] = "nearest",
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**64 - 1, help="For --rounding stochastic.  [default: 0]"),
    ] = None,
    axis: Annotated[
        int,
        typer.Option(
            help="The contraction axis, along which blocks of 32 lie. The last suits the "
            "[out, in] weights of linear layers."
        ),
    ] = -1,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Quantize only tensors whose name matches this glob. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Do not quantize tensors whose name matches this glob. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing outputs.")] = False,
    as_json: JsonForTables = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw a histogram of the errors: a .png, .svg or .pdf file."),
    ] = None,
    html: HtmlReport = None,
) -> None:
    """Quantize the matrices of a safetensors checkpoint to MXFP8 or MXFP4.

    Floating-point tensors (F32, BF16, F16) of two or more axes are quantized as Trainium3's
    QuantizeMX does, if the contraction axis is a multiple of 32 long; everything else is stored
    byte for byte. Read the result with trn3.load_mx. Memory use does not grow with the checkpoint.
    """
    from trn3.checkpoint.outputs import is_same_file, real_path
    from trn3.checkpoint.plots import plot_errors
    from trn3.checkpoint.quantizing import quantize_checkpoint
    from trn3.cli.progress import progress_on_stderr

    check_settings()
    if seed is not None and rounding != "stochastic":
        message = "--seed has a meaning only with --rounding stochastic"
        raise RefusedError(message)
    if len(set(to)) < len(to):
        message = "--to names a format twice"
        raise RefusedError(message)
    if not out.name:
        message = f"{out}: is a directory; a file name is needed"
        raise RefusedError(message)
    outputs = {name.value: _output_path(out, name, alone=len(to) == 1) for name in to}
    for path in outputs.values():
        _check_output(path, model, force=force)
    if plot is not None:
        check_plot(plot)
    check_html(html)
    for option, other in (("--plot", plot), ("--html", html)):
        if other is None:
            continue
        _check_output(other, model, force=force)
        if any(is_same_file(other, output) for output in outputs.values()):
            message = f"{other}: {option} and --out name the same file"
            raise RefusedError(message)
    with progress_on_stderr() as on_progress:
        report = quantize_checkpoint(
            model,
            outputs,
            scale_rule=(None if scale_rule == "default" else scale_rule),
            rounding=rounding,
            seed=seed or 0,
            axis=axis,
            include=include or (),
            exclude=exclude or (),
            replace=True,
            with_histogram=plot is not None or html is not None,
            on_progress=on_progress,
        )
    if plot is not None:
        plot_errors(report.formats, real_path(plot), f"Quantization errors of {model.name}")
    if html is not None:
        report.to_html(real_path(html))
    _show(report, as_json=as_json)
    if html is not None and not as_json:
        typer.echo(f"wrote {html}")


def _output_path(out: Path, format_name: str, *, alone: bool) -> Path:
    return out if alone else out.with_name(f"{out.stem}.{format_name}{out.suffix}")


def _check_output(path: Path, model: Path, *, force: bool) -> None:
    from trn3.checkpoint.outputs import check_outputs

    try:
        check_outputs([path], model, replace=force)
    except FileExistsError:
        message = f"{path}: exists; --force replaces it"
        raise RefusedError(message) from None


def _show(report: QuantizationReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.to_plain(), versioned=True)
    else:
        from rich.console import Console

        from trn3.cli.quantize_tables import print_quantize_report

        # A pipe or a file has no width to fit into; tables are as wide as they need then.
        console = Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH)
        print_quantize_report(report, console)
