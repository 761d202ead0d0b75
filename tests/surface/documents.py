"""What commands write for machines, as data: every key by its path, with the JSON types found."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from surface import small_kernels
from trn3 import nki
from trn3.__main__ import main
from trn3.interchange import chakra

HERE = Path(__file__).parent
KERNELS = Path(small_kernels.__file__)
CLAIMS = HERE.parent / "k8s" / "data" / "one-row.yaml"
#: How small each command runs; {folder} is where files go. In order: some read what others wrote.
COMMANDS = {
    "spec": "spec --json",
    "spec-one": "spec trn3 --json",
    "compare": "compare gen2 gb300 --json --peaks array",
    "route": "route gen2 0/3/1 1/9/2 --json --bytes 64kb --fail rack/0:1",
    "bound": "bound gen2 --json --bytes 1MiB --fail rack/0:1",
    "ls": "ls gen2 --json",
    "plan": "plan gpt-oss-20b --system gen2 --tp 2 --batch 4 --in 1000 --slo-ttft 1s --json",
    "plan-search": "plan llama-3.2-1b --instances 1 --in 1000 --out 100 --json --price 2",
    "plan-train": "plan llama-3-8b --train --global-batch 1024 --sequence 2048 --system trn1 "
    "--chips 512 --tp 32 --pp 1 --zero 1 --micro-batch 1 --recompute selective --json",
    "power": "power gen2 --against trainium2 --json",
    "tco": "tco --capex 3e6 --years 4 --kw 180 --pue 1.15 --price-kwh 0.07 --utilisation 0.6 "
    "--system gen2 --tokens-per-second 1e6 --json",
    "cost": "cost --price 2.5 --chips 64 --system gen2 --tokens-per-second 1e6 --json",
    "cost-claim": "cost --claim 0.30 --json",
    "cost-prices": "cost --json",
    "goodput": "goodput --chips 1440 --days 5 --runs 2 --json",
    "goodput-serving": "goodput --serving --replicas 8 --replica-chips 16 --json",
    "nccom-test": "nccom-test -b 1kb -e 4kb -f 2 allr -d bf16 --show-algorithm --check --json",
    "k8s-slices": "k8s slices --system trn2 --nodes 1 --json",
    "k8s-class": "k8s class mine --json",
    "k8s-allocate": "k8s allocate {claims} -i {folder}/slices.yaml --json",
    "k8s-free": "k8s free -i {folder}/slices.yaml --json",
    "k8s-schedule": "k8s schedule {claims} --system trn2 --driver neuron.aws.com --timing --json",
    "quantize": "quantize {folder}/model.safetensors --to mxfp8-e4m3 --out {folder}/mx --json",
    "profile": "profile {kernels}:softmax --json",
    "profile-two-cores": "profile {kernels}:squared[2] --json",
    "profile-shadow": "profile {kernels}:softmax --json --shadow",
    "record": "record {kernels}:softmax -o {folder}/program.json --json",
    "diff": "diff {kernels}:softmax --json",
    "lint": "lint {kernels}:unportable --json",
    "validate": "validate exp-128-trn2 chip-mxfp8 --json",
    "trace-info": "trace info {folder}/run.0.et --json",
    "trace-replay": "trace replay {folder}/run --system gen2 --json "
    "--perfetto {folder}/events.json",
    "export-astra-sim": "export astra-sim gen2",
    "export-calculon": "export calculon trn2_ultraserver",
    "export-llmcompass": "export llmcompass gen2",
}
#: Files that a command writes, by the name of their record.
FILES = {"trace-replay-perfetto": "events.json", "program": "program.json"}
#: Tables whose first line names their columns.
TABLES = {"compare-csv": "compare gen2 gb300 --csv"}


@functools.cache
def record() -> dict[str, dict[str, str]]:
    """Run the commands and describe what they print, and the files that they write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(folder)
        found = {
            key: describe(_run(words.format(folder=folder, kernels=KERNELS, claims=CLAIMS)))
            for key, words in COMMANDS.items()
        }
        for key, file in FILES.items():
            found[key] = describe(json.loads((folder / file).read_text(encoding="utf-8")))
        for key, value in _profiles(folder):
            found[key] = describe(value)
        for key, words in TABLES.items():
            head = _output(words.format(folder=folder)).splitlines()[0]
            found[key] = dict.fromkeys(head.split(","), "column")
        _output(f"trace convert {folder}/profile-file.json --to csv -o {folder}/rows.csv")
        head = (folder / "rows.csv").read_text(encoding="utf-8").splitlines()[0]
        found["trace-convert-csv"] = dict.fromkeys(head.split(","), "column")
    return found


def _prepare(folder: Path) -> None:
    from safetensors.numpy import save_file

    save_file(
        {"w": np.ones((4, 64), np.float32), "b": np.ones(4, np.float32)},
        folder / "model.safetensors",
    )
    (folder / "slices.yaml").write_text(
        _output("k8s slices --system trn2 --driver neuron.aws.com"), "utf-8"
    )
    nodes = (
        chakra.Node(0, "matmul", chakra.NodeType.COMP_NODE, duration_micros=10),
        chakra.Node(
            1,
            "sum",
            chakra.NodeType.COMM_COLL_NODE,
            data_deps=(0,),
            attributes=(chakra.Attribute("comm_type", 0), chakra.Attribute("comm_size", 1 << 20)),
        ),
    )
    chakra.write_ranks([chakra.Trace(nodes=nodes)] * 20, folder / "run")


def _profiles(folder: Path) -> Iterator[tuple[str, Any]]:
    """Give what profiles write of themselves, on one core and on a logical one."""
    x = small_kernels.inputs()["x"]
    found = {
        "profile-file": nki.profile(small_kernels.softmax, x, shadow=True)[1],
        "profile-file-two-cores": nki.profile(small_kernels.squared[2], x)[1],
    }
    for key, profile in found.items():
        path = folder / f"{key}.json"
        profile.to_json(path)
        yield key, json.loads(path.read_text(encoding="utf-8"))


def _output(words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main(words.split())
    # 1: done, and something was found.
    assert code in (0, 1), words
    return out.getvalue()


def _run(words: str) -> Any:
    return yaml.safe_load(_output(words)) if "export" in words else json.loads(_output(words))


def describe(document: Any) -> dict[str, str]:
    """Return types by path; elements of a list share the path that ends in ``*``.

    >>> describe({"a": [{"b": 1}, {"b": None, "c": "x"}]})
    {'/': 'object', '/a': 'array', '/a/*': 'object', '/a/*/b': 'null|number', '/a/*/c': 'string'}
    """
    found: dict[str, set[str]] = defaultdict(set)
    _walk(document, "", found)
    return {path or "/": "|".join(sorted(types)) for path, types in found.items()}


def _walk(value: Any, path: str, found: dict[str, set[str]]) -> None:
    found[path].add(_type(value))
    if isinstance(value, dict):
        for key, below in value.items():
            # Files by name are data.
            _walk(below, f"{path}/{'*' if Path(key).is_absolute() else key}", found)
    elif isinstance(value, list):
        for element in value:
            _walk(element, f"{path}/*", found)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean"}
    return names.get(type(value), "number")
