"""A report of any length without a kernel: a profile that is made up, and written as any other."""

from __future__ import annotations

import base64
import copy
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3.machine import NeuronCore
from trn3.profile import BOUNDS, CAUSES, ENGINES, NO_INSTRUCTION, Profile, ProfileData, profile_of
from trn3.report import page as page_of

Rows = dict[str, NDArray[np.int64]]

FILE = "/home/me/attention.py"
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
OPCODES = ["dma_copy", "nc_matmul", "nc_transpose", "tensor_tensor", "activation", "tensor_copy"]
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
# Tiles share so many buffers of each kind; a tensor's memory, the steps that write it and that use
# it last, and its columns of 2 KiB.
BUFFERS = 4
TENSORS = {
    "keys": (0, 0, 2, 0),
    "queries": (0, 1, 2, 4),
    "scores": (1, 2, 3, 0),
    "weights": (0, 3, 4, 8),
}
MOST_TILES_WITH_TENSORS = 400
DTYPES = ["bfloat16", "float32"]


def run_tiles(count: int) -> Rows:
    """Return `count` instructions of in-order engines: 1,000 tiles again and again."""
    block = issue(min(count, 1000 * len(STEPS)))
    rows = len(block["start"])
    times = -(-count // rows)
    length = int((block["start"] + block["length"]).max())
    made = {name: np.tile(values, times)[:count] for name, values in block.items()}
    began = length * (np.arange(count) // rows)
    return made | {"start": made["start"] + began, "ready": made["ready"] + began}


def issue(count: int) -> Rows:
    """Issue tiles on in-order engines and four DMA queues, until there are `count`."""
    free: dict[tuple[int, int], tuple[int, int]] = {}
    rows: list[dict[str, int]] = []
    while len(rows) < count:
        tile, first = len(rows) // len(STEPS), len(rows)
        for step, (opcode, engine, line, time, before) in enumerate(STEPS[: count - first]):
            row = first + step
            queue = tile % 4 if engine == 5 else 0
            idle, last = free.get((engine, queue), (0, -1))
            on, bound = -1, "nothing"
            if before is not None:
                on, bound = first + before, "read after write"
            elif tile >= BUFFERS:
                on, bound = first - BUFFERS * len(STEPS) + 2, "buffer reuse"
            ready = rows[on]["start"] + rows[on]["length"] + 60_000 if on >= 0 else 0
            start, length = max(ready, idle), time + (row * 7919) % 50_000
            waits = start > idle
            cause = ENGINES[rows[on]["engine"]] if waits else "nothing"
            if not waits:
                on, bound = last, "queue order" if last >= 0 else "nothing"
            rows.append(
                {
                    "opcode": opcode,
                    "engine": engine,
                    "queue": queue,
                    "site": line,
                    "start": start,
                    "slot": length - 40_000 if engine < 5 else length,
                    "length": length,
                    "wait": start - idle,
                    "cause": CAUSES.index(cause),
                    "waited_on": row - on if waits else 0,
                    "ready": ready,
                    "bound": BOUNDS.index(bound),
                    "behind": row - on if on >= 0 else 0,
                }
            )
            free[engine, queue] = (start + length, row)
    return {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}


class Columns:
    """Columns of tables, one behind the other, as `ProfileData.recorded` has them."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.tables: dict[str, Any] = {}

    def put(self, table: str, columns: dict[str, Any]) -> None:
        """Append the columns of a table."""
        places = []
        rows = len(next(iter(columns.values())))
        for name, given in columns.items():
            values = np.asarray(given, np.int64)
            width = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
            places.append({"name": name, "coding": "plain", "width": width, "at": len(self.bytes)})
            planes = values.astype("<u8").view(np.uint8).reshape(rows, 8)[:, :width]
            self.bytes += planes.T.tobytes()
        self.tables[table] = {"rows": rows, "columns": places}

    def text(self) -> str:
        """Return all columns, compressed."""
        return base64.b64encode(zlib.compress(bytes(self.bytes), 1)).decode()


def instructions_of(made: Rows) -> dict[str, NDArray[np.int64]]:
    """Return the instructions as `ProfileData` has them."""
    is_dma, is_matmul = made["opcode"] == 0, made["opcode"] == 1
    row = np.arange(len(is_dma))
    return {
        **{name: made[name] for name in ("opcode", "engine", "queue", "site")},
        "label": np.zeros_like(row),
        "start_ps": made["start"],
        "slot_end_ps": made["start"] + made["slot"],
        "end_ps": made["start"] + made["length"],
        "wait_ps": made["wait"],
        "cause": made["cause"],
        "waited_on": np.where(made["waited_on"] > 0, row - made["waited_on"], NO_INSTRUCTION),
        "ready_ps": made["ready"],
        "bound": made["bound"],
        "dma_bytes": np.where(is_dma, 65536, 0),
        "hbm_read": np.where(made["site"] == 4, 65536, 0),
        "hbm_write": np.where(made["site"] == 10, 65536, 0),
        "macs": np.where(is_matmul, 128 * 128 * 512, 0),
        "peak_macs_per_cycle": np.where(is_matmul, 128 * 128, 0),
    }


def critical_of(made: Rows) -> NDArray[np.int64]:
    """Return the instructions that the latency hangs on, up to the one that ends last."""
    row = int((made["start"] + made["length"]).argmax())
    path = [row]
    while made["behind"][row]:
        row -= int(made["behind"][row])
        path.append(row)
    return np.array(path[::-1])


def put_tensors(columns: Columns, count: int, prefix: str = "") -> None:
    """Put the tensors of the first tiles, all uses of HBM, and what comes after what."""
    first = len(STEPS) * np.arange(-(-count // len(STEPS)))
    some = first[first + len(STEPS) <= count][:MOST_TILES_WITH_TENSORS]
    tensors: list[tuple[int, ...]] = []
    uses: list[tuple[int, int, int]] = []
    for tile, row in enumerate(some.tolist()):
        for name, (memory, writes, last, column) in enumerate(TENSORS.values()):
            byte = 2048 * (column + tile % BUFFERS)
            line, tensor = STEPS[writes][2], len(tensors)
            tensors.append(
                (memory, name, 0, memory, line, 0, 128, byte, 2048, row + writes, row + last + 1)
            )
            uses += [(row + writes, tensor, 2), (row + last, tensor, 0)]
    hbm = len(tensors)
    tensors += [
        (3, 4, 1, 0, 4, 0, 1, 0, 1 << 23, 0, count + 1),
        (3, 5, 1, 0, 10, 0, 1, 0, 1 << 23, 0, count + 1),
    ]
    for moves, tensor, usage in ((first, hbm, 0), (first + 6, hbm + 1, 2)):
        uses += [(row, tensor, usage) for row in moves[moves < count].tolist()]
    places = ("partition", "partitions", "byte", "bytes", "came", "went")
    keys = ("memory", "name", "shape", "dtype", "site", *places)
    columns.put(f"{prefix}tensors", dict(zip(keys, np.array(tensors).T, strict=True)))
    used = np.array(sorted(uses)).T
    columns.put(f"{prefix}uses", dict(zip(("instruction", "tensor", "usage"), used, strict=True)))
    rows = np.arange(count)
    step, tiles = rows % len(STEPS), rows // len(STEPS)
    before = np.array([-1 if each[4] is None else each[4] for each in STEPS])[step]
    edges = [
        (rows, rows - step + before, 0, before >= 0),
        (rows, rows - BUFFERS * len(STEPS) + 2, 1, (step == 0) & (tiles >= BUFFERS)),
        (rows, rows - 2, 0, step == 2),
    ]
    of = np.concatenate(
        [
            np.array([one, other, np.full(count, kind)])[:, where]
            for one, other, kind, where in edges
        ],
        axis=1,
    )
    ordered = of[:, np.argsort(of[0], kind="stable")]
    columns.put(f"{prefix}edges", dict(zip(("consumer", "producer", "kind"), ordered, strict=True)))


def document(count: int, *, compiled: bool = False) -> dict[str, Any]:
    """Return what `ProfileData.from_dict` takes: a run of `count` instructions.

    Compiled, the run as written stands beside it, and takes half as long again.
    """
    made = run_tiles(count)
    latency = int((made["start"] + made["length"]).max())
    moves = np.flatnonzero(made["opcode"] == 0)
    parts = np.repeat(moves, 4)
    transfers = {
        "instruction": parts,
        "dma_engine": np.tile(np.arange(4), len(moves)) + 4 * made["queue"][parts],
        "start_ps": made["start"][parts],
        "end_ps": (made["start"] + made["length"])[parts],
        "bytes": np.full(len(parts), 16384),
    }
    occupancy = {
        "time_ps": np.linspace(0, latency, 500).astype(np.int64),
        "sbuf_bytes": 20000 + 8000 * (np.arange(500) % 7),
        "psum_bytes": 2048 * (np.arange(500) % 5),
    }
    columns = Columns()
    put_tensors(columns, count)
    recorded: dict[str, Any] = {
        "names": [*TENSORS, "k", "o"],
        "shapes": [[128, 1024], [65536, 64]],
        "dtypes": DTYPES,
        "sources": {FILE: "\n".join(SOURCE) + "\n"},
    }
    compile_: dict[str, Any] | None = None
    if compiled:
        written = {
            name: 3 * made[name] // 2 for name in ("start", "slot", "length", "wait", "ready")
        }
        # Rounded down, a wait may begin before the instruction ahead of it ends.
        written["wait"] -= np.minimum(written["wait"], 2)
        columns.put("as_written.instructions", instructions_of(made | written))
        columns.put(
            "as_written.transfers",
            transfers | {name: 3 * transfers[name] // 2 for name in ("start_ps", "end_ps")},
        )
        columns.put("as_written.occupancy", occupancy | {"time_ps": 3 * occupancy["time_ps"] // 2})
        columns.put("as_written.critical", {"row": critical_of(made)})
        put_tensors(columns, count, "as_written.")
        recorded["as_written"] = {
            "latency_ps": 3 * latency // 2,
            "sbuf_peak_bytes": 68000,
            "psum_peak_bytes": 8192,
        }
        compile_ = {
            "level": "neuronx-cc",
            "as_written_us": 1.5 * latency / 1e6,
            "compiled_us": latency / 1e6,
            "bound_us": 0.8 * latency / 1e6,
            "spilled_bytes": 0,
            "passes": [{"name": "order", "moved": 12}],
        }
    recorded |= {"tables": columns.tables, "columns": columns.text()}
    nothing = profile_of([NeuronCore("trn3")], "nothing").data
    return {
        "arch": copy.deepcopy(dict(nothing.arch)),
        "kernel": "attention",
        "latency_ps": latency,
        "overhead_ps": nothing.overhead_ps,
        "opcodes": OPCODES,
        "labels": [""],
        "sites": [(FILE, line, "attention") for line in range(12)],
        "findings": [],
        "instructions": instructions_of(made),
        "transfers": transfers,
        "occupancy": {**occupancy, "sbuf_peak_bytes": 68000, "psum_peak_bytes": 8192},
        "critical": critical_of(made),
        "basis": [
            {"constant": "tensor_clock_mhz", "evidence": "documented", "time_ps": latency // 2},
            {"constant": "dma_fixed_ns", "evidence": "estimated", "time_ps": latency // 2},
        ],
        "compile": compile_,
        "recorded": recorded,
        "advice": {
            "advice": [
                {
                    "gain": 1.65,
                    "line": f"{FILE}:6",
                    "instruction": 9,
                    "cause": "queue order",
                    "text": "nc_matmul (line 6) was ready 3.4 us before nc_transpose (line 5)",
                    "change": "issue line 6 first",
                }
            ],
            "note": "",
        },
    }


def page(count: int, *, compiled: bool = False) -> str:
    """Return a report of `count` instructions."""
    return page_of([Profile(ProfileData.from_dict(document(count, compiled=compiled)))])
