"""A report of any length without a kernel, made up in the report's own format."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma"]
CAUSES = [
    "nothing",
    *ENGINES,
    "issue order",
    "table load",
    "PSUM bank",
    "depends_on",
    "DMA queue",
    "other core",
    "other rank",
]
OPCODES = ["dma_copy", "nc_matmul", "nc_transpose", "tensor_tensor", "activation", "tensor_copy"]
FAMILIES = ["DMA", "matmul", "transpose", "element-wise", "function", "copy, set"]
MEMORIES = ["sbuf", "psum", "private_hbm", "shared_hbm"]
SOURCE = [
    "def attention(q, k, v):",
    '    """Softmax(Q K^T) V, tile by tile."""',
    "    for tile in nl.affine_range(TILES):",
    "        keys = nl.load(k[tile])",
    "        queries = nisa.nc_transpose(keys)",
    "        scores = nisa.nc_matmul(queries, keys)",
    "        weights = nisa.activation(nl.exp, scores)",
    "        scaled = nisa.tensor_tensor(weights, total, op=nl.multiply)",
    "        out = nisa.tensor_copy(scaled)",
    "        nl.store(o[tile], out)",
    "    return o  # </script><b>not bold</b> \x1b[31mred",
]
# Of each step of a tile: opcode, engine, line, time in ps, what stands before it in the tile.
STEPS = [
    (0, 5, 4, 900_000, None),
    (2, 0, 5, 64_000, 0),
    (1, 0, 6, 213_000, 1),
    (4, 2, 7, 430_000, 2),
    (3, 1, 8, 350_000, 3),
    (5, 1, 9, 180_000, 4),
    (0, 5, 10, 700_000, 5),
]


def run_tiles(count: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return `count` instructions of in-order engines: 1,000 tiles again and again."""
    block = issue(min(count, 1000 * len(STEPS)))
    rows = len(block["start"])
    times = -(-count // rows)
    length = int((block["start"] + block["length"]).max())
    made = {name: np.tile(values, times)[:count] for name, values in block.items()}
    made["start"] = made["start"] + length * (np.arange(count) // rows)
    return made


def issue(count: int) -> dict[str, np.ndarray[Any, Any]]:
    """Issue tiles on in-order engines and four DMA queues, until there are `count`."""
    free: dict[tuple[int, int], int] = {}
    columns: dict[str, list[int]] = {
        name: []
        for name in (
            "stream",
            "opcode",
            "site",
            "start",
            "slot",
            "length",
            "wait",
            "cause",
            "waited_on",
        )
    }
    ends: list[int] = []
    rows = 0
    while rows < count:
        tile = rows // len(STEPS)
        first = rows
        for opcode, engine, line, time, before in STEPS[: count - rows]:
            queue = tile % 4 if engine == 5 else 0
            ready = ends[first + before] + 60_000 if before is not None else 0
            idle = free.get((engine, queue), 0)
            start = max(ready, idle)
            length = time + (rows * 7919) % 50_000
            waits = start > idle
            columns["stream"].append(engine if engine < 5 else 5 + queue)
            columns["opcode"].append(opcode)
            columns["site"].append(line)
            columns["start"].append(start)
            columns["slot"].append(length - 40_000 if engine < 5 else length)
            columns["length"].append(length)
            columns["wait"].append(start - idle)
            cause = 1 + STEPS[before][1] if before is not None else 0
            columns["cause"].append(cause if waits else 0)
            columns["waited_on"].append(
                rows - first - before if waits and before is not None else 0
            )
            free[engine, queue] = start + length
            ends.append(start + length)
            rows += 1
    return {name: np.array(values, np.int64) for name, values in columns.items()}


HEATS = {
    "critical": "critical_us",
    "wait": "wait_us",
    "bytes": "hbm_bytes",
    "instructions": "instructions",
}


class Columns:
    """Columns of tables, one behind the other."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def table(self, columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        """Append columns and return where they are."""
        rows = len(next(iter(columns.values())))
        places = []
        for name, values in columns.items():
            coding = "delta" if name in {"start", "from", "time", "instruction"} else "plain"
            coded = values.astype(np.int64)
            if coding == "delta":
                steps = np.diff(coded, prepend=0)
                coded = np.where(steps >= 0, 2 * steps, -2 * steps - 1)
            most = int(coded.max()) if rows else 0
            width = (most.bit_length() + 7) // 8
            places.append({"name": name, "coding": coding, "width": width, "at": len(self.bytes)})
            planes = coded.astype("<u8").view(np.uint8).reshape(rows, 8)[:, :width]
            self.bytes += planes.T.tobytes()
        return {"rows": rows, "columns": places}


def layout_of(
    count: int, name: str, levels: tuple[str, ...] = ("as-written",)
) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return the layout, the figures and the columns of a run of `count` instructions."""
    made = run_tiles(count)
    store = Columns()
    ends = made["start"] + made["length"]
    latency = int(ends.max())
    critical = np.zeros(count, np.int64)
    row = int(ends.argmax())
    while True:
        critical[row] = 1
        if not made["waited_on"][row]:
            break
        row -= int(made["waited_on"][row])
    is_dma = made["opcode"] == 0
    zero = np.zeros(count, np.int64)
    made |= {
        "label": zero,
        "critical": critical,
        "dma_bytes": np.where(is_dma, 65536, 0),
        "hbm_read": np.where(made["site"] == 4, 65536, 0),
        "hbm_write": np.where(made["site"] == 10, 65536, 0),
        "macs": np.where(made["opcode"] == 1, 128 * 128 * 512, 0),
    }
    moves = np.flatnonzero(is_dma)
    transfers = np.repeat(moves, 4)
    tiles = np.arange(min(count // len(STEPS), 400))
    first = tiles * len(STEPS)
    tensors: dict[str, list[int]] = {
        key: []
        for key in (
            "memory",
            "name",
            "shape",
            "dtype",
            "site",
            "partition",
            "partitions",
            "byte",
            "bytes",
            "from",
            "to",
            "first_use",
            "last_use",
        )
    }
    uses: list[tuple[int, int, int]] = []
    for tile, row in zip(tiles.tolist(), first.tolist(), strict=True):
        for slot, (memory, at, last) in enumerate(((0, 0, 2), (0, 1, 2), (1, 2, 3), (0, 3, 5))):
            tensor = len(tensors["memory"])
            values = (
                memory,
                slot,
                0,
                memory,
                STEPS[at][2],
                0,
                128,
                (tile % 4) * 2048 + 8192 * slot * (1 - memory),
                2048,
                int(made["start"][row + at]),
                int(ends[row + last]),
                1 + row + at,
                1 + row + last,
            )
            for key, value in zip(tensors, values, strict=True):
                tensors[key].append(value)
            uses += [(row + at, tensor, 2), (row + last, tensor, 0)]
    uses.sort()
    steps = np.linspace(0, latency, 500).astype(np.int64)
    run = {
        "core": 0,
        "rank": None,
        "level": levels[0],
        "is_main": True,
        "latency_ps": latency,
        "overhead_ps": 15_000_000,
        "origin_ps": 0,
        "dma_engines": 16,
        "streams": [
            {"engine": place, "queue": None, "name": each} for place, each in enumerate(ENGINES[:5])
        ]
        + [{"engine": 5, "queue": queue, "name": f"DMA queue {queue}"} for queue in range(4)],
        "tables": {
            "instructions": store.table(made),
            "transfers": store.table(
                {
                    "instruction": transfers,
                    "dma_engine": np.tile(np.arange(4), len(moves))
                    + 4 * (made["stream"][transfers] - 5),
                    "start": made["start"][transfers],
                    "length": made["length"][transfers],
                    "bytes": np.full(len(transfers), 16384),
                }
            ),
            "tensors": store.table({key: np.array(values) for key, values in tensors.items()}),
            "uses": store.table(
                {
                    key: np.array([use[place] for use in uses], np.int64)
                    for place, key in enumerate(("instruction", "tensor", "usage"))
                }
            ),
            "occupancy": store.table(
                {
                    "time": steps,
                    "sbuf": 20000 + 8000 * (np.arange(500) % 7),
                    "psum": 2048 * (np.arange(500) % 5),
                }
            ),
            "hbm": store.table({"time": steps, "bytes": 60000 + 40000 * (np.arange(500) % 3)}),
        },
    }
    others = [
        {**run, "level": level, "is_main": False, "latency_ps": latency * 3 // 4}
        for level in levels[1:]
    ]
    lines = []
    for line in range(4, 11):
        rows = made["site"] == line
        lines.append(
            {
                "file": f"/home/me/{name}.py",
                "line": line,
                "function": name,
                "instructions": int(rows.sum()),
                "critical_us": float(made["length"][rows & (critical > 0)].sum()) / 1e6,
                "slot_us": float(made["slot"][rows].sum()) / 1e6,
                "wait_us": float(made["wait"][rows].sum()) / 1e6,
                "waits": {},
                "hbm_bytes": int(made["hbm_read"][rows].sum() + made["hbm_write"][rows].sum()),
            }
        )
    figures = {
        "kernel": name,
        "arch": "trn3",
        "latency_us": latency / 1e6,
        "latency_low_us": latency / 1.6e6,
        "latency_high_us": latency / 0.6e6,
        "overhead_us": 15.0,
        "instructions": count,
        "verdict": "Bound by waiting: even the busiest engine, vector, works 41 % of the time.",
        "mfu": 0.04,
        "mbu": 0.0054,
        "lines": lines,
        "sbuf_peak_bytes": 68000,
        "psum_peak_bytes": 8192,
    }
    layout = {
        "format": "trn3-report",
        "version": 1,
        "kind": "profile",
        "trn3": "0.0",
        "title": name,
        "verdict": figures["verdict"],
        "engines": ENGINES,
        "causes": CAUSES,
        "cause_words": CAUSES,
        "opcodes": OPCODES,
        "families": FAMILIES,
        "labels": [""],
        "files": [{"name": f"/home/me/{name}.py", "short": f"{name}.py", "is_recorded": True}],
        "sites": [[0, line, name] for line in range(12)],
        "stacks": [[]],
        "names": ["keys", "queries", "scores", "weights"],
        "shapes": [[128, 1024]],
        "dtypes": ["bfloat16", "float32"],
        "memories": MEMORIES,
        "arch": {"name": "trn3", "hbm_gbps": 4900.0, "tensor_clock_mhz": 2400.0},
        "runs": [run, *others],
        "memory": [
            {
                "run": 0,
                "memory": "sbuf",
                "capacity_bytes": 262144,
                "partitions": 128,
                "peak_bytes": 68000,
                "peak_ps": latency // 3,
                "largest_free_bytes": 150000,
                "free_bytes": 194144,
            },
            {
                "run": 0,
                "memory": "psum",
                "capacity_bytes": 16384,
                "partitions": 128,
                "peak_bytes": 8192,
                "peak_ps": latency // 2,
                "largest_free_bytes": 8192,
                "free_bytes": 8192,
            },
        ],
        "traffic": [
            {
                "run": 0,
                "name": "k",
                "shape": [2048, 64],
                "dtype": "bfloat16",
                "memory": "shared_hbm",
                "read_bytes": 8_650_752,
                "write_bytes": 0,
                "site": 4,
            },
            {
                "run": 0,
                "name": "o",
                "shape": [2048, 64],
                "dtype": "bfloat16",
                "memory": "shared_hbm",
                "read_bytes": 0,
                "write_bytes": 262_144,
                "site": 10,
            },
        ],
        "spills": [],
        "meetings": [],
        "advice": [
            {
                "gain": 1.65,
                "line": f"/home/me/{name}.py:6",
                "instruction": 9,
                "cause": "issue order",
                "text": "nc_matmul (line 6) was ready 3.4 us before nc_transpose (line 5)",
                "change": "issue line 6 first",
            }
        ],
        "roofline": {
            "compute": [{"name": "TensorE, bfloat16", "tflops": 78.6}],
            "memory": [{"name": "HBM", "gbps": 4900.0}, {"name": "DMA engines", "gbps": 528.0}],
            "ridges": [
                {"name": "TensorE, bfloat16 / HBM", "intensity": 16.05},
                {"name": "TensorE, bfloat16 / DMA engines", "intensity": 148.9},
            ],
            "points": [
                {
                    "kind": "kernel",
                    "name": name,
                    "site": None,
                    "run": None,
                    "flop": 1e9,
                    "hbm_bytes": 8.9e6,
                    "active_us": latency / 1e6,
                    "intensity": 120.5,
                    "tflops": 3.17,
                    "attainable_tflops": 63.6,
                    "engines": [{"engine": 0, "busy_us": 27.3}, {"engine": 1, "busy_us": 138.2}],
                    "hbm_us": 1.8,
                },
                {
                    "kind": "line",
                    "name": f"{name}.py:6",
                    "site": 6,
                    "run": None,
                    "flop": 1e9,
                    "hbm_bytes": 0,
                    "active_us": 27.0,
                    "intensity": None,
                    "tflops": 39.0,
                    "attainable_tflops": 78.6,
                    "engines": [{"engine": 0, "busy_us": 27.3}],
                    "hbm_us": 0,
                },
            ],
        },
    }
    return layout, figures, bytes(store.bytes)


def _json(value: Any) -> str:
    return json.dumps(value).replace("<", "\\u003c")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _source_table(layout: dict[str, Any], figures: dict[str, Any]) -> str:
    file = layout["files"][0]
    name, short = html.escape(file["name"]), html.escape(file["short"])
    lines = {each["line"]: each for each in figures["lines"]}
    most = {key: max(each[key] for each in lines.values()) or 1 for key in HEATS.values()}
    rows = []
    for number, text in enumerate(SOURCE, 1):
        cells = ""
        for heat, key in HEATS.items():
            if number not in lines:
                cells += "<td></td>"
                continue
            value = lines[number][key]
            shown = f"{value:,.4g}" + (" us" if key.endswith("us") else "")
            part = value / most[key]
            cells += f'<td class="heat" data-heat="{heat}" data-value="{part:.4f}">{shown}</td>'
        code = html.escape(text).replace("\x1b", "␛")
        rows.append(
            f'<tr id="L0-{number}" data-line="{name}:{number}" data-number="{number}">'
            f'<td class="place">{short}:{number}</td><td class="number">{number}</td>'
            f'{cells}<td class="code"><code>{code}</code></td></tr>'
        )
    body = "".join(rows)
    return f'<table data-file="{name}"><caption>{name}</caption><tbody>{body}</tbody></table>'


def page(
    count: int, scripts: Path, name: str = "attention", levels: tuple[str, ...] = ("as-written",)
) -> str:
    """Return a report of `count` instructions, with the style and script of a folder."""
    layout, figures, columns = layout_of(count, name, levels)
    return page_of(layout, figures, columns, scripts)


def page_of(layout: dict[str, Any], figures: dict[str, Any], columns: bytes, scripts: Path) -> str:
    """Return the page of parts that may have been changed."""
    advice = {key: html.escape(str(value)) for key, value in layout["advice"][0].items()}
    panes = {
        "timeline": "",
        "source": _source_table(layout, figures),
        "memory": "",
        "roofline": "",
        "advice": f'<ol class="advice"><li data-line="{advice["line"]}" data-instruction="9"'
        f' data-cause="{advice["cause"]}"><b>1.65x</b> {advice["text"]}'
        f'<p class="change">{advice["change"]}</p></li></ol>',
        "tables": '<table data-table="instructions"><thead><tr><th>instruction</th></tr></thead>'
        "<tbody></tbody></table>",
        "settings": "<dl><dt>machine</dt><dd>trn3</dd></dl>",
    }
    sections = "".join(
        f'<section data-pane="{key}" id="{key}"><h2>{key.title()}</h2><div data-stage></div>'
        f"{text}</section>"
        for key, text in panes.items()
    )
    style = "\n".join(path.read_text() for path in sorted(scripts.glob("*.css")))
    script = joined(scripts)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title, verdict = html.escape(layout["title"]), html.escape(layout["verdict"])
    packed = base64.b64encode(zlib.compress(columns, 6)).decode()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{style}</style></head>"
        f'<body data-kind="profile"><header><h1>{title}</h1><p class="verdict">{verdict}</p>'
        '<dl class="key-figures"><dt>latency</dt><dd>'
        f"{figures['latency_us']:,.1f} us (1 us to 2 us)"
        "</dd><dt>machine</dt><dd>trn3</dd><dt>TensorE at its peak</dt><dd>4.0 %</dd></dl></header>"
        '<nav aria-label="Panes"><a href="#timeline">Timeline</a></nav>'
        f"<main>{sections}</main>"
        f'<script type="application/json" id="trn3-summary">{_json(figures)}</script>'
        f'<script type="application/json" id="trn3-report">{_json(layout)}</script>'
        f'<script type="text/plain" id="trn3-columns">{packed}</script>'
        f'<script type="module">{script}</script></body></html>'
    )


def joined(scripts: Path) -> str:
    """Return the modules in one, what is imported first."""
    done: list[str] = []
    parts: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        done.append(name)
        text = (scripts / name).read_text()
        body = []
        for line in text.splitlines():
            if line.startswith("import "):
                visit(line.split('"./')[1].split('"')[0])
            else:
                body.append(line.removeprefix("export "))
        parts.append("\n".join(body))

    visit("main.js")
    return "\n".join(parts)
