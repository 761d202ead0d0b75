"""The commands of ``trn3 k8s``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trn3.cli.consoles import output, print_json
from trn3.cli.refusal import refusing

if TYPE_CHECKING:
    from rich.console import Console

    from trn3.k8s import Allocation, Document, FragmentationReport, Schedule

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="The file to write.  [default: standard output]")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Validate = Annotated[
    bool,
    typer.Option("--validate", help="Check what is written against the published schemas first."),
]
Driver = Annotated[
    str | None,
    typer.Option(
        help="Name of the driver; neuron.aws.com is that of AWS's.  [default: trn3.internal]"
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group ``k8s`` to the command."""
    group = typer.Typer(
        name="k8s",
        help="Kubernetes objects of simulated systems, as the Neuron driver for dynamic resource "
        "allocation has them.",
        no_args_is_help=True,
    )
    group.command("slices")(_slices)
    group.command("class")(_device_class)
    group.command("allocate")(_allocate)
    group.command("free")(_free)
    group.command("claim")(_claim)
    group.command("schedule")(_schedule)
    app.add_typer(group, name="k8s", rich_help_panel="Systems")


def _slices(
    system: Annotated[str, typer.Option(help="trn1, trn2, trn2_ultraserver, gen1, gen2.")],
    nodes: Annotated[
        int | None,
        typer.Option(help="How many nodes.  [default: one UltraServer, or one instance]"),
    ] = None,
    driver: Driver = None,
    lnc: Annotated[
        int | None, typer.Option(help="Publish the nodes' size of a logical core.")
    ] = None,
    efa: Annotated[
        bool, typer.Option("--efa/--no-efa", help="Publish the device groups of EFA.")
    ] = True,
    node_devices: Annotated[
        bool,
        typer.Option(
            "--node-devices/--no-node-devices",
            help="A device for each whole node of an UltraServer.",
        ),
    ] = True,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters",
            help="Counters, by which a node and its chips exclude each other (Kubernetes 1.35).",
        ),
    ] = False,
    ultraserver_devices: Annotated[
        bool,
        typer.Option(
            "--ultraserver-devices",
            help="A device for each whole UltraServer, in one pool with its nodes and chips.",
        ),
    ] = False,
    neuron_driver_version: Annotated[
        str | None, typer.Option(help="Version that devices report.  [default: 2.25.4.0]")
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="Instance type that devices report.")
    ] = None,
    taint: Annotated[
        list[str] | None,
        typer.Option(help="POOL/DEVICE:KEY=VALUE:EFFECT marks a device. Repeatable."),
    ] = None,
    out: Out = None,
    as_json: Json = False,
    validate: Validate = False,
) -> None:
    """Write the ResourceSlices of a system: one pool for each node."""
    from trn3 import k8s

    with refusing(k8s.K8sError):
        objects = k8s.resource_slices(
            system,
            nodes=nodes,
            driver=k8s.DEFAULT_DRIVER if driver is None else driver,
            lnc=lnc,
            efa=efa,
            node_devices=node_devices,
            counters=counters,
            ultraserver_devices=ultraserver_devices,
            neuron_driver_version=k8s.NEURON_DRIVER_VERSION
            if neuron_driver_version is None
            else neuron_driver_version,
            instance_type=instance_type,
            taints=_taints(taint or []),
        )
    _write(objects, out, as_json=as_json, validate=validate)


def _device_class(
    name: Annotated[
        str | None, typer.Argument(help="Name of the class.  [default: the driver's]")
    ] = None,
    driver: Driver = None,
    out: Out = None,
    as_json: Json = False,
    validate: Validate = False,
) -> None:
    """Write the DeviceClass of a driver."""
    from trn3 import k8s

    with refusing(k8s.K8sError):
        chosen = k8s.DEFAULT_DRIVER if driver is None else driver
        body = k8s.device_class(chosen if name is None else name, driver=chosen)
    _write([body], out, as_json=as_json, validate=validate)


def _allocate(
    claims: Annotated[
        list[Path], typer.Argument(help="Files with claims, templates and the pods that use them.")
    ],
    inventory: Annotated[
        list[Path], typer.Option("--inventory", "-i", help="Files with ResourceSlices. Repeatable.")
    ],
    allocated: Annotated[
        list[Path] | None,
        typer.Option(help="Files with claims that hold devices already. Repeatable."),
    ] = None,
    out: Out = None,
    as_json: Json = False,
    validate: Validate = False,
) -> None:
    """Allocate devices to claims, or say why that cannot be and what would work.

    Prints the ResourceClaims with status.allocation; with --out, writes them and prints a table.
    """
    from trn3 import k8s

    with refusing(k8s.K8sError):
        result = k8s.allocate(_read(claims), _read(inventory), _read(allocated or []))
    _write(result.objects, out, as_json=as_json, validate=validate)
    if out is not None:
        _show_allocation(result, output(120))
    for note in result.notes:
        typer.echo(f"trn3: note: {note}", err=True)


def _free(
    inventory: Annotated[
        list[Path], typer.Option("--inventory", "-i", help="Files with ResourceSlices. Repeatable.")
    ],
    allocated: Annotated[
        list[Path] | None, typer.Option(help="Files with claims that hold devices. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is free, and in what pieces."""
    from trn3 import k8s

    with refusing(k8s.K8sError):
        report = k8s.fragmentation(_read(inventory), _read(allocated or []))
    if as_json:
        print_json(report.to_dict())
    else:
        _show_free(report, output(120))


def _claim(
    from_plan: Annotated[
        Path, typer.Option(metavar="PLAN.json", help="What trn3 plan --json printed.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Of the objects.  [default: the model's]")
    ] = None,
    driver: Driver = None,
    image: Annotated[str | None, typer.Option(help="Of the container.")] = None,
    out: Out = None,
    as_json: Json = False,
    validate: Validate = False,
) -> None:
    """Write the claim template of a plan's replicas, and the workload whose pods use it."""
    import json

    from trn3 import k8s
    from trn3.files import read_text

    given = {"name": name, "driver": driver, "image": image}
    with refusing(k8s.K8sError):
        text = read_text(from_plan, "plan", k8s.K8sError)
        try:
            plan = json.loads(text)
        except ValueError as error:
            message = f"{from_plan}: is not JSON: {error}; needed: what trn3 plan --json prints"
            raise k8s.K8sError(message) from error
        objects = k8s.claims_of_plan(
            plan, **{key: value for key, value in given.items() if value is not None}
        )
    # No schema of Kubernetes has LeaderWorkerSets.
    own = [each for each in objects if "leaderworkerset" not in each["apiVersion"]]
    if validate:
        with refusing(k8s.K8sError):
            k8s.check(own)
    _write(objects, out, as_json=as_json, validate=False)


def _schedule(
    jobs: Annotated[list[Path], typer.Argument(help="Files with claims, templates and workloads.")],
    system: Annotated[str, typer.Option(help="trn1, trn2, trn2_ultraserver, gen1, gen2.")] = "gen2",
    nodes: Annotated[
        int | None,
        typer.Option(help="How many nodes.  [default: one UltraServer, or one instance]"),
    ] = None,
    driver: Driver = None,
    timing: Annotated[
        bool,
        typer.Option("--timing", help="Time each job's collective alone and beside the others."),
    ] = False,
    collective: Annotated[
        str,
        typer.Option(
            help="What a job does that does not say: all_reduce, all_gather, reduce_scatter or "
            "all_to_all."
        ),
    ] = "all_reduce",
    size: Annotated[float, typer.Option("--bytes", help="Of each chip, likewise.")] = 1e8,
    as_json: Json = False,
) -> None:
    """Place several jobs by topology, and time their traffic on the fabric that they share."""
    from trn3 import k8s

    with refusing(k8s.K8sError, ValueError):
        found = k8s.schedule(
            _read(jobs),
            system,
            nodes=nodes,
            driver=k8s.DEFAULT_DRIVER if driver is None else driver,
            collective=collective,
            size=size,
            timing=timing,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        _show_schedule(found, output(120), timing=timing)


def _read(paths: Sequence[Path]) -> list[Document]:
    from trn3.k8s import read

    return [document for path in paths for document in read(path)]


def _taints(words: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    from trn3.k8s import K8sError

    taints: dict[str, list[dict[str, str]]] = {}
    for word in words:
        device, _, mark = word.partition(":")
        label, colon, effect = mark.rpartition(":")
        key, _, value = label.partition("=")
        if not colon or "/" not in device:
            message = (
                f"--taint {word}: write POOL/DEVICE:KEY=VALUE:EFFECT, such as "
                "trn2-instance-0/neuron-device-3:trn3.internal/unhealthy=hbm:NoSchedule"
            )
            raise K8sError(message)
        taints.setdefault(device, []).append({"key": key, "value": value, "effect": effect})
    return taints


def _write(
    objects: Sequence[dict[str, Any]], out: Path | None, *, as_json: bool, validate: bool
) -> None:
    from trn3 import k8s
    from trn3.files import write_bytes

    if validate:
        with refusing(k8s.K8sError):
            k8s.check(objects)
    form: Callable[[Sequence[dict[str, Any]]], str] = k8s.to_json if as_json else k8s.to_yaml
    text = form(objects).rstrip("\n") + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_bytes(out, [text.encode()])


def _show_allocation(result: Allocation, console: Console) -> None:
    from rich.table import Table

    table = Table("claim", "request", "node", "devices", "chips in pieces", "hops")
    for placed in result.placed:
        by_request: dict[str, list[str]] = {}
        for request, device in placed.devices:
            by_request.setdefault(request, []).append(device.name)
        for request, devices in by_request.items():
            pieces = str(placed.score.pieces + 1)
            table.add_row(
                placed.claim.label,
                request,
                placed.node,
                ", ".join(devices),
                pieces,
                str(placed.score.hops),
            )
    console.print(table)
    for assumption in result.assumptions:
        console.print(f"assumes: {assumption}")


def _show_schedule(found: Schedule, console: Console, *, timing: bool) -> None:
    from rich.table import Table

    table = Table("job", "chips", "on", *(("collective", "alone us", "beside us", "x") * timing))
    for job in found.jobs:
        where = job.nodes[0] if len(job.nodes) == 1 else f"{job.nodes[0]} and {len(job.nodes) - 1}"
        cells = [job.name, str(len(job.chips)), where]
        if timing:
            cells += [
                f"{job.collective}, {job.bytes / 1e6:,.4g} MB",
                f"{job.alone * 1e6:,.1f}",
                f"{job.together * 1e6:,.1f}",
                f"{job.slowdown:.2f}",
            ]
        table.add_row(*cells)
    console.print(table)
    console.print(f"{found.free.free} of {found.free.devices} chips free")
    for text in found.notes:
        console.print(f"note: {text}")
    for text in found.assumptions:
        console.print(f"assumes: {text}")


def _show_free(report: FragmentationReport, console: Console) -> None:
    from rich.table import Table

    table = Table("node", "chips", "free", "largest connected", "free groups")
    for node in report.nodes:
        groups = ", ".join(f"{count} of {size}" for size, count in node.groups.items())
        table.add_row(
            node.node, str(node.devices), str(node.free), str(node.largest_connected), groups
        )
    console.print(table)
    console.print(
        f"{report.free} of {report.devices} chips free; {report.stranded:.1%} of them not in the "
        "largest part of their node"
    )
    if report.ultraservers:
        sets = ", ".join(f"{count} sets of {size} nodes" for size, count in report.sets.items())
        console.print(
            f"{report.free_ultraservers} of {report.ultraservers} UltraServers wholly free; free: "
            f"{sets}"
        )
