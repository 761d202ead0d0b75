"""Scripts for TorchNeuron under ``trn3 run``: the device, the backend, ``torch_neuronx``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from torch.utils import backend_registration

if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this torch knows no devices from Python", allow_module_level=True)

#: A loop as tutorials have it.
TRAINING = """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("neuron")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.mix = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 32)

    def forward(self, tokens):
        x = self.embed(tokens) + torch.ones(16, device=tokens.device)
        x = x + F.gelu(self.mix(self.norm(x)))
        return self.head(x)


model = Net().to(device)
compiled = torch.compile(model, backend="neuron")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens = torch.randint(0, 32, (4, 9), device=device)
losses = []
for step in range(4):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="neuron", dtype=torch.bfloat16):
        logits = compiled(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch.neuron.synchronize()
    losses.append(loss.item())
print(device.type, torch.neuron.is_available(), torch.neuron.device_count())
print(losses[-1] < losses[0], logits.dtype, loss.cpu().device)
"""

#: Kernels as operators, one of which writes to its argument.
OPERATORS = """
import torch
import torch.nn as nn
from torch_neuronx import nki, nki_op, wrap_nki
import nki.language as nl


@nki.jit
def scale_kernel(x, y, factor):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.multiply(nl.load(x), nl.load(y)), factor))
    return out


@nki.jit
def add_rows_kernel(cache, rows):
    nl.store(cache, nl.add(nl.load(cache), nl.load(rows)))
    return cache


@nki_op("tutorial::gate", mutates_args={})
def gate(x: torch.Tensor, y: torch.Tensor, factor: float) -> torch.Tensor:
    return wrap_nki(scale_kernel)(x, y, factor)


def setup(ctx, inputs, output):
    x, y, factor = inputs
    ctx.save_for_backward(x, y)
    ctx.factor = factor


def backward(ctx, g):
    x, y = ctx.saved_tensors
    return gate(g, y, ctx.factor), gate(g, x, ctx.factor), None


gate.register_autograd(backward, setup_context=setup)


@nki_op("tutorial::add_rows", mutates_args={"cache"})
def add_rows(cache: torch.Tensor, rows: torch.Tensor) -> None:
    add_rows_kernel(cache, rows)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x):
        h = self.proj(x)
        add_rows(self.cache, h.detach())
        return gate(h, torch.sigmoid(h), 2.0) + self.cache


device = "neuron"
model = Model().to(device)
x = torch.randn(4, 8, device=device)
eager = model(x)
model.cache.zero_()
compiled = torch.compile(model, backend="neuron", fullgraph=True)
out = compiled(x)
out.sum().backward()

print(same(out, eager), model.proj.weight.grad.norm() > 0, model.cache.abs().sum() > 0)
"""

#: What the two above compute, by the names that trn3 has for it.
DEVICES = """
import torch
import trn3.torch

device = torch.device("neuron", 0)
made = [
    torch.zeros(3, device=device), torch.randn(3, device="neuron"),
    torch.arange(3, device="neuron:0"),
    torch.tensor([1, 2], device=device), torch.ones(3).to(device), torch.ones(3).neuron(),
    torch.eye(3, device=device), torch.tril_indices(3, 3, device=device),
    torch.nn.Linear(3, 3).to("neuron").weight, torch.nn.Linear(3, 3, device=device).weight,
    torch.ones(3).new_zeros(3, device=device), torch.ones(3).to(device, torch.bfloat16),
]
print({each.device.type for each in made}, device.type)
torch.save({"w": made[1]}, "w.pt")
print(torch.load("w.pt", map_location="neuron")["w"].equal(made[1]))
first = torch.manual_seed(3) and torch.randn(3, device=device)
torch.neuron.manual_seed(3)
print(first.equal(torch.randn(3, device=device)), torch.accelerator.current_accelerator())

def f(x):
    return torch.exp(x.to(device)) + torch.ones(3, device="neuron") @ torch.eye(3, device=device)

x = torch.randn(3)
found = torch.compile(f, backend="neuron", fullgraph=True)(x)
print(found.equal(trn3.torch.compile(f)(x)))
half = torch.compile(lambda x: torch.exp(x), backend="neuron", options={"mode": "instructions"})
print(half(x).equal(trn3.torch.compile(torch.exp)(x)))
with torch.device("neuron"):
    print(torch.zeros(2).device.type)

def cast(x):
    with torch.autocast("neuron", dtype=torch.bfloat16):
        return x @ x

print(torch.compile(cast, backend="neuron", fullgraph=True)(torch.eye(3)).dtype)
"""

REFUSED = """
import torch
import torch_neuronx

traced = torch_neuronx.trace(torch.nn.Linear(8, 2), torch.randn(4, 8))
torch_neuronx.async_load(traced)
torch_neuronx.lazy_load(traced)
print(tuple(traced(torch.randn(4, 8)).shape))
for call in (
    lambda: traced(torch.randn(3, 8)),
    lambda: traced.save("model.pt"),
    lambda: torch_neuronx.DataParallel(traced),
    lambda: torch_neuronx.tracing,
    lambda: torch.neuron.memory_allocated(),
    lambda: __import__("torch_neuronx.distributed"),
):
    try:
        call()
    except Exception as error:
        text, _, instead = f"{type(error).__name__}: {error}".partition("; ")
        print(text, "|", instead.partition(" ")[0])
"""


def trn3_run(folder: Path, script: str) -> list[str]:
    (folder / "script.py").write_text(script)
    outcome = subprocess.run(
        [sys.executable, "-m", "trn3", "run", "script.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout.splitlines()


def test_a_training_loop_runs_unmodified(tmp_path: Path) -> None:
    assert trn3_run(tmp_path, TRAINING) == ["neuron True 1", "True torch.bfloat16 cpu"]


def test_kernels_are_operators(tmp_path: Path) -> None:
    """With gradients and arguments that they write to, without a graph break."""
    same = "def same(x, y):\n    return torch.allclose(x, y, atol=1e-5)\n\n\ndevice ="
    assert trn3_run(tmp_path, OPERATORS.replace("device =", same, 1)) == [
        "True tensor(True) tensor(True)"
    ]


def test_the_device_is_a_name_of_the_cpu(tmp_path: Path) -> None:
    """Wherever torch takes one, and in what is compiled, whose bits are those of trn3."""
    assert trn3_run(tmp_path, DEVICES) == [
        "{'cpu'} neuron",
        "True",
        "True neuron",
        "True",
        "True",
        "cpu",
        "torch.bfloat16",
    ]


def test_what_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    assert trn3_run(tmp_path, REFUSED) == [
        "(4, 2)",
        "ValueError: inputs are [('float32', 3, 8)] | allowed:",
        "NotImplementedError: a traced model's save: trn3 run has no such thing | instead:",
        "NotImplementedError: torch_neuronx.DataParallel: trn3 run has no such thing | instead:",
        "AttributeError: trn3 run's torch_neuronx has no 'tracing' | the",
        "AttributeError: trn3 run's torch.neuron has no 'memory_allocated' | allowed:",
        "ModuleNotFoundError: trn3 run has no torch_neuronx.distributed | allowed:",
    ]


def test_it_goes_again(tmp_path: Path) -> None:
    """But for the name of the device, which torch gives once."""
    program = (
        "import os, sys, trn3.nki\n"
        "trn3.nki.install(torch_xla=True)\n"
        "import torch._dynamo\n"
        "assert 'neuron' in torch._dynamo.list_backends()\n"
        "import torch_neuronx\n"
        "trn3.nki.uninstall()\n"
        "assert 'neuron' not in torch._dynamo.list_backends()\n"
        "assert 'torch_neuronx' not in sys.modules\n"
        "assert 'TORCH_DEVICE_BACKEND_AUTOLOAD' not in os.environ\n"
        "assert not [each for each in sys.meta_path if 'vendor' in type(each).__module__]\n"
        "trn3.nki.install(torch_xla=True)\n"
        "assert 'neuron' in torch._dynamo.list_backends()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
