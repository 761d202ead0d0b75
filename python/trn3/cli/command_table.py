"""What ``trn3 --help`` says of each subcommand, and the module that has it.

Data, so that help costs no more than what it shows; a test holds it equal to what the commands
say of themselves.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class CommandPlace(NamedTuple):
    """Where a subcommand stands in ``trn3.cli``, and its line of help."""

    module: str
    line: str


#: What the help text shows together, in its order.
PANELS: Final[dict[str, dict[str, CommandPlace]]] = {
    "Kernels": {
        "new": CommandPlace(
            "new", "Write a kernel to begin with: tiles in and out, inputs and a golden beside it."
        ),
        "profile": CommandPlace(
            "profile",
            "Run an NKI kernel on one simulated NeuronCore and show what it costs and why.",
        ),
        "diff": CommandPlace(
            "diff",
            "Run an NKI kernel, or several, on several machines and compare what they take and "
            "give.",
        ),
        "optimize": CommandPlace(
            "optimize", "Say what would make an NKI kernel faster, and write a faster one."
        ),
        "lint": CommandPlace(
            "lint", "Find what the hardware compiler would refuse in NKI kernels that run here."
        ),
        "run": CommandPlace(
            "script", "Run a Python script in which `import nki` means trn3's, unmodified."
        ),
        "report": CommandPlace(
            "report", "Write report.html anew into the folder of a run, from its profile.json."
        ),
        "view": CommandPlace(
            "view_runs",
            "List the runs of a folder in a browser, and set some of them beside each other.",
        ),
        "record": CommandPlace(
            "record", "Run an NKI kernel once and write what its core was given, as a program."
        ),
        "probe": CommandPlace(
            "probe",
            "Write small kernels that show what a chip computes, or compare what they gave.",
        ),
        "examples": CommandPlace("examples_copy", "Kernels to read, run and begin with."),
    },
    "Models": {
        "plan": CommandPlace(
            "plan",
            "Plan the serving of a model: does it fit, how fast is it, what binds it, what does it "
            "cost.",
        ),
        "serve": CommandPlace(
            "serve",
            "Serve a model under traffic, step by step: waits, throughput, watts and dollars.",
        ),
        "quantize": CommandPlace(
            "quantize", "Quantize the matrices of a safetensors checkpoint to MXFP8 or MXFP4."
        ),
    },
    "Systems": {
        "spec": CommandPlace(
            "spec", "Show a system's figures: computed from its parts, beside what is published."
        ),
        "compare": CommandPlace(
            "compare", "Set systems beside each other, each figure exact, derived or conflicting."
        ),
        "route": CommandPlace(
            "fabric",
            "Show the way from one chip to another: links, switches, relays, latency, rate.",
        ),
        "bound": CommandPlace(
            "fabric", "Show how fast a traffic can be, the links that bind, and what faults cost."
        ),
        "ls": CommandPlace(
            "fabric",
            "List the chips of a system: cores, memory, what they are connected to, NUMA nodes.",
        ),
        "power": CommandPlace(
            "power", "Estimate the power of a chip or a system, and say every assumption in it."
        ),
        "tco": CommandPlace(
            "cost", "Cost of owning a system: an hour, a PFLOP-hour, a million tokens."
        ),
        "cost": CommandPlace(
            "cost",
            "Cost of rented chips at a price; without one, the dated prices that can be chosen.",
        ),
        "goodput": CommandPlace(
            "goodput", "Simulate weeks of training on a fleet that fails, or size one that serves."
        ),
        "nccom-test": CommandPlace(
            "nccom_test", "Time a collective over sizes on a simulated system."
        ),
        "k8s": CommandPlace(
            "k8s",
            "Kubernetes objects of simulated systems, as the Neuron driver for dynamic resource "
            "allocation has them.",
        ),
    },
    "Data": {
        "export": CommandPlace(
            "export", "Write a system's fabric and chips for another simulator."
        ),
        "validate": CommandPlace(
            "validate",
            "Compute again every published measurement and claim that can be, and compare.",
        ),
        "info": CommandPlace(
            "info", "Show versions and what the arithmetic runs on: what a bug report needs."
        ),
        "trace": CommandPlace(
            "trace", "Convert a kernel's profile, look at Chakra execution traces, replay them."
        ),
    },
}
