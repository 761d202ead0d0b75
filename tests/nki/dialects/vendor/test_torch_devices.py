"""Driver scripts for a device: ``torch_xla`` under ``trn3 run``, and ``NKI_SIMULATOR``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trn3 import nki
from trn3.nki import language as nl

#: A torch of which only what kernels and drivers touch is there: arrays on a device.
FAKE_TORCH = """
import numpy as np

class device:
    def __init__(self, kind):
        self.type = kind
    def __repr__(self):
        return f"device(type={self.type!r})"

class dtype:
    def __init__(self, name):
        self.name = name
    def __repr__(self):
        return f"torch.{self.name}"

float32 = dtype("float32")

class Tensor:
    def __init__(self, values):
        self.values = values
        self.dtype, self.shape, self.device = float32, values.shape, device("cpu")
    def to(self, where):
        assert isinstance(where, device) and where.type == "cpu"
        return self
    def detach(self):
        return self
    def cpu(self):
        return self
    def numpy(self):
        return self.values

def ones(*shape):
    return Tensor(np.ones(shape, np.float32))

def from_numpy(values):
    return Tensor(values)
"""

SCRIPT = """
import os
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla import runtime
import nki
import nki.language as nl

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

device = xm.xla_device()
print(device.type, torch_xla.device().type, xm.xla_device_hw(device))
x = torch.ones(128, 4).to(device)
result = double(x)
xm.mark_step()
torch_xla.sync()
print(type(result).__name__, float(result.cpu().numpy().sum()))
print(xm.get_ordinal(), xm.xrt_world_size(), runtime.world_size(), xm.is_master_ordinal())
xm.master_print("NKI_SIMULATOR", os.environ["NKI_SIMULATOR"])
"""


def trn3_run(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    return subprocess.run(
        [sys.executable, "-m", "trn3", "run", "script.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        env=os.environ | environment,
    )


def hiding(name: str) -> str:
    """Return code after which a module is not installed."""
    return (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, fullname, path=None, target=None):\n"
        f"        if fullname.partition('.')[0] == {name!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {fullname!r}', name=fullname)\n"
        "sys.meta_path.insert(0, Hide())\n"
        f"sys.modules.pop({name!r}, None)\n"
    )


def test_a_driver_script_runs_from_top_to_bottom(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    outcome = trn3_run(tmp_path, SCRIPT)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines() == [
        "cpu cpu CPU",
        "Tensor 1024.0",
        "0 1 1 True",
        "NKI_SIMULATOR 1",
    ]


def test_a_driver_script_runs_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    outcome = trn3_run(tmp_path, SCRIPT)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines()[1] == "Tensor 1024.0"


def test_names_that_it_has_not_are_refused_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    outcome = trn3_run(tmp_path, "import torch_xla.core.xla_model as xm\nxm.mark_steps()\n")
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1].startswith(
        "AttributeError: trn3 run's torch_xla.core.xla_model has no 'mark_steps'; the nearest is "
        "'mark_step'; allowed: get_ordinal, "
    )
    outcome = trn3_run(tmp_path, "import torch_xla.distributed.parallel_loader\n")
    assert outcome.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: trn3 run has no torch_xla.distributed; allowed: torch_xla, "
        "torch_xla.core, torch_xla.core.xla_model, torch_xla.runtime"
    )


def test_without_torch_the_refusal_says_so(tmp_path: Path) -> None:
    outcome = trn3_run(tmp_path, hiding("torch") + "import torch_xla.core.xla_model as xm\n")
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1] == (
        "ImportError: torch_xla: torch is not installed; under trn3 run a script's devices are the "
        "CPU's, which need torch: pip install torch"
    )


def test_install_offers_it_when_asked_and_takes_it_back(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    program = (
        "import sys, trn3.nki\n"
        "trn3.nki.install()\n"
        "assert not any('Torch' in type(each).__name__ for each in sys.meta_path)\n"
        "trn3.nki.uninstall()\n"
        "trn3.nki.install(torch_xla=True)\n"
        "import torch_xla.core.xla_model\n"
        "assert torch_xla.core.xla_model.xla_device().type == 'cpu'\n"
        "trn3.nki.uninstall()\n"
        "assert not any(name.startswith('torch_xla') for name in sys.modules)\n"
        "assert not any('Torch' in type(each).__name__ for each in sys.meta_path)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


@nki.jit
def double(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def test_the_simulator_holds_always(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    x = np.ones((128, 4), np.float32)
    for value in ("1", ""):
        monkeypatch.setenv("NKI_SIMULATOR", value)
        assert (double(x) == 2).all()
    assert not recwarn.list
    monkeypatch.setenv("NKI_SIMULATOR", "0")
    with pytest.warns(UserWarning, match="NKI_SIMULATOR is '0', which asks for a device"):
        assert (double(x) == 2).all()


def test_a_script_may_choose_what_the_simulator_is(tmp_path: Path) -> None:
    script = "import os\nprint(os.environ['NKI_SIMULATOR'])\n"
    assert trn3_run(tmp_path, script).stdout == "1\n"
    assert trn3_run(tmp_path, script, NKI_SIMULATOR="0").stdout == "0\n"
