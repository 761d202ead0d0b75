"""One layer of the sentence encoder on a simulated NeuronCore: what it changes, what it costs.

Runs the model of `minilm.py` in float32, but attention and MLP of its first layer as the NKI
kernels of `kernels/encoder.py`, on the real weights in bfloat16. Prints how far the embeddings are
from float32 and when each engine worked; traces and pictures go to ``build/demo``.

Needs what `minilm.py` needs; ``make demo`` installs it.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from textwrap import indent, wrap
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file

from minilm import (
    FP32,
    NUM_LAYERS,
    SENTENCES,
    Array,
    Encoder,
    model_directory,
    neighbours,
    tokenize,
)
from trn3 import nki
from trn3.profile import ENGINES, Profile
from trn3.profile.results import EngineName

nki.install()  # From here on `import nki`, in the kernels, is trn3's.
kernels: Any = importlib.import_module("kernels.encoder")

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "demo"
LAYER = 0
WORK: dict[EngineName, str] = {
    "tensor": "matmuls",
    "vector": "arithmetic",
    "scalar": "functions",
    "dma": "transfers",
}
STEPS = 64  # of a timeline, one character each
LEVELS = " .:+#"


class Run(NamedTuple):
    """One run of a kernel: its error against float32, and its profile."""

    name: str
    error: float
    profile: Profile


class CoreEncoder(Encoder):
    """The model in float32, with attention and MLP of one layer on a simulated NeuronCore."""

    def __init__(self, weights: dict[str, Array], layer: int) -> None:
        super().__init__(weights, FP32)
        self.layer = f"encoder.layer.{layer}"
        self.runs: list[Run] = []

    def attention(self, x: Array, mask: Array, name: str) -> Array:
        """Return attention, from the core in its layer."""
        exact = super().attention(x, mask, name)
        if name != f"{self.layer}.attention":
            return exact
        linears = {part: f"{name}.self.{part}" for part in ("query", "key", "value")}
        linears["output"] = f"{name}.output.dense"
        return self.run(kernels.attention, x, exact, linears, mask=kernels.attention_mask(mask))

    def feed_forward(self, x: Array, name: str) -> Array:
        """Return the MLP, from the core in its layer."""
        exact = super().feed_forward(x, name)
        if name != self.layer:
            return exact
        linears = {"up": f"{name}.intermediate.dense", "down": f"{name}.output.dense"}
        return self.run(kernels.mlp, x, exact, linears)

    def run(
        self, kernel: Any, x: Array, exact: Array, linears: dict[str, str], **others: Array
    ) -> Array:
        """Run a kernel on x [sentences, tokens, 384] and on the weights and biases of `linears`."""
        arguments: dict[str, Any] = {
            "x": x.reshape(-1, x.shape[-1]).T.astype(ml_dtypes.bfloat16),
            **others,
        }
        for argument, linear in linears.items():
            arguments[argument] = self.weights[f"{linear}.weight"].T.astype(ml_dtypes.bfloat16)
            arguments[f"{argument}_bias"] = self.weights[f"{linear}.bias"][:, None]
        result, profile = nki.profile(kernel, arch="trn3", **arguments)
        found: Array = result.T.reshape(x.shape)
        error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
        self.runs.append(Run(profile.data.kernel, error, profile))
        return found


def timeline(profile: Profile, engine: EngineName) -> str:
    """Return how busy an engine was in each of `STEPS` equal parts of a run, one character each."""
    data = profile.data
    if engine == "dma":
        starts, ends = data.transfers.start_ps, data.transfers.end_ps
    else:
        own = data.instructions.engine == ENGINES.index(engine)
        starts, ends = data.instructions.start_ps[own], data.instructions.slot_end_ps[own]
    fine = 100 * STEPS
    busy = np.zeros(fine, bool)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        busy[start * fine // data.latency_ps : -(-end * fine // data.latency_ps)] = True
    shares = busy.reshape(STEPS, -1).mean(axis=1)
    return "".join(LEVELS[level] for level in np.ceil(shares * (len(LEVELS) - 1)).astype(int))


def show(run: Run) -> None:
    """Print what a kernel's result and time were, and what binds it."""
    profile = run.profile
    print(f"  {run.name}: {profile.latency_us:.2f} us; {run.error:.2%} off float32 (RMS)")
    for engine, work in WORK.items():
        share = profile.busy(engine).share
        print(f"    {engine:<7}{work:<12}|{timeline(profile, engine)}| busy {share:4.0%}")
    print(indent("\n".join(wrap(profile.verdict(), 92)), "    "))


def save(run: Run) -> Path:
    """Write a run's trace, and with matplotlib also its pictures; return the folder."""
    folder = OUTPUT / run.name
    folder.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("matplotlib"):
        run.profile.save(folder)
    else:
        run.profile.to_perfetto(folder / "trace.perfetto")
    return folder


def main() -> None:
    """Embed the sentences with one layer on the core, compare, and print and write what it cost."""
    directory = model_directory()
    weights = load_file(directory / "model.safetensors")
    tokens, mask = tokenize(directory, [sentence for _, sentence in SENTENCES])
    exact = Encoder(weights, FP32)(tokens, mask)
    encoder = CoreEncoder(weights, LAYER)
    found = encoder(tokens, mask)
    cosine = (found * exact).sum(axis=1) / np.linalg.norm(found, axis=1)
    kept = np.count_nonzero(neighbours(found)[:, 0] == neighbours(exact)[:, 0])

    sentences, padded = mask.shape
    latency = sum(run.profile.latency_us for run in encoder.runs)
    overhead = sum(run.profile.overhead_us for run in encoder.runs)
    print(f"Layer {LAYER + 1} of {NUM_LAYERS} on one simulated Trainium3 NeuronCore\n")
    print(
        "  Its attention and MLP run as NKI kernels on the real weights, in bfloat16 with float32"
    )
    print(
        f"  sums; the rest is float32 in NumPy. {sentences} sentences, padded to {padded} tokens.\n"
    )
    print("  Embeddings beside those of float32 alone")
    print(f"    cosine similarity       smallest {cosine.min():.7f}, mean {cosine.mean():.7f}")
    print(f"    largest difference      {abs(found - exact).max():.1e} in vectors of length 1")
    print(f"    nearest neighbours      {kept} of {sentences} kept\n")
    print(f"  Predicted time {latency:.2f} us, and {overhead:.2f} us to start and end the kernels")
    print(
        f"    Below, each row is an engine during a kernel, {STEPS} characters from start to end:"
    )
    print(f"    blank is idle, then {' '.join(LEVELS[1:])} for up to 25, 50, 75 and 100 % busy.\n")
    for run in encoder.runs:
        show(run)
        print()
    folders = [save(run) for run in encoder.runs]
    names = sorted(path.name for path in folders[0].iterdir())
    print(f"  wrote {', '.join(names)} into")
    for folder in folders:
        print(f"    {folder.relative_to(ROOT)}")
    print("  Drag a trace into https://ui.perfetto.dev: every instruction and what it waited for.")


if __name__ == "__main__":
    main()
