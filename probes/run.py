"""Runs the probes of this folder and writes result.json: the bits and times of this machine.

    python run.py [--chip trn2] [--only NAME ...] [--output result.json]

It needs NumPy, ml_dtypes and the vendor's nki, nothing else; with JAX or torch_xla on a Neuron device
it runs there. Nothing is sent anywhere.
"""

import argparse
import base64
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

FORMAT = "trn3-probe-result"
VERSION = 1
PACKAGES = ("nki", "neuronx-cc", "libneuronxla", "torch-neuronx", "jax-neuronx", "trn3")
#: How an instance's product name begins, and its chip.
PRODUCTS = {"trn1": "trn1", "inf2": "trn1", "trn2": "trn2", "trn3": "trn3"}


def encode(array):
    """Return an array as JSON holds it: little-endian bytes in base64."""
    array = np.ascontiguousarray(array)
    bits = array.tobytes() if sys.byteorder == "little" else array.byteswap().tobytes()
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "bits": base64.b64encode(bits).decode("ascii"),
    }


def unchanged(array):
    return array


def on_device():
    """Return what sends an array to the device and what brings it back, and the way's name."""
    try:
        import jax

        if any(device.platform == "neuron" for device in jax.devices()):
            return jax.numpy.asarray, np.asarray, "jax"
    except Exception:
        pass
    try:
        import torch
        from torch_xla.core import xla_model

        device = xla_model.xla_device()
    except Exception:
        return unchanged, np.asarray, "numpy"
    import ml_dtypes

    kinds = {
        np.dtype(ml_dtypes.bfloat16): torch.bfloat16,
        np.dtype(ml_dtypes.float8_e5m2): torch.float8_e5m2,
    }

    def send(array):
        kind = kinds.get(array.dtype)
        if kind is None:
            return torch.from_numpy(array).to(device)
        integers = array.view(np.int16 if array.itemsize == 2 else np.int8)
        return torch.from_numpy(integers).view(kind).to(device)

    def fetch(tensor):
        tensor = tensor.cpu()
        for kind, torch_kind in kinds.items():
            if tensor.dtype == torch_kind:
                integer = torch.int16 if kind.itemsize == 2 else torch.int8
                return tensor.view(integer).numpy().view(kind)
        return tensor.numpy()

    return send, fetch, "torch_xla"


def outputs(probe, send=unchanged, fetch=np.asarray):
    """Return the arrays that a probe's kernel makes of its inputs."""
    made = probe.kernel(*(send(array) for array in probe.inputs()))
    return [fetch(each) for each in (made if isinstance(made, (tuple, list)) else (made,))]


def times(probe, send=unchanged, fetch=np.asarray):
    """Return a probe's nanoseconds an item by case: long runs less short ones; and whose clock."""
    import nki

    arrays = [send(array) for array in probe.inputs()]

    def device(numbers):
        timed = nki.benchmark(warmup=5, iters=20)(probe.kernel)
        timed(*arrays, *numbers)
        return timed.benchmark_result.nc_latency.get_latency_percentile(50) * 1000

    def host(numbers):
        fetch(probe.kernel(*arrays, *numbers))
        laps = []
        for _ in range(50):
            begin = time.perf_counter_ns()
            fetch(probe.kernel(*arrays, *numbers))
            laps.append(time.perf_counter_ns() - begin)
        return min(laps)

    problem = None
    for clock in (device, host):
        try:
            found = {
                case: (clock(long) - clock(short)) / items
                for case, (short, long, items) in probe.CASES.items()
            }
        except Exception as error:
            # Not every release of nki has a benchmark; the kernel's own fault comes again.
            problem = error
            continue
        if min(found.values()) > 0:
            return found, clock.__name__
        problem = ValueError(f"the clock of the {clock.__name__} is too uneven: {found}")
    raise problem


def record(probe, source, send=unchanged, fetch=np.asarray):
    """Return what result.json holds of a probe."""
    entry = {"source": hashlib.sha256(source.encode()).hexdigest()}
    try:
        if hasattr(probe, "CASES"):
            entry["nanoseconds"], entry["clock"] = times(probe, send, fetch)
        else:
            entry["outputs"] = [encode(array) for array in outputs(probe, send, fetch)]
    except Exception as error:
        entry["error"] = f"{type(error).__name__}: {error}"[:400]
    return entry


def product_name():
    try:
        return Path("/sys/devices/virtual/dmi/id/product_name").read_text().strip()
    except OSError:
        return ""


def versions():
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chip", choices=sorted(set(PRODUCTS.values())))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("result.json"))
    options = parser.parse_args(arguments)
    product = product_name()
    chip = options.chip or next((c for p, c in PRODUCTS.items() if product.startswith(p)), None)
    if chip is None:
        parser.error(f"cannot tell the chip of {product or 'this machine'}; name it with --chip")
    if options.chip is not None:
        # What a compiler or a simulator without a device is to aim at.
        os.environ.setdefault("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    send, fetch, way = on_device()
    probes = {}
    for path in sorted((Path(__file__).parent / "probes").glob("*.py")):
        name = path.stem
        if options.only and name not in options.only:
            continue
        begin = time.monotonic()
        try:
            probe = load(path)
        except Exception as error:
            entry = {"source": "", "error": f"{type(error).__name__}: {error}"[:400]}
        else:
            entry = record(probe, path.read_text(encoding="utf-8"), send, fetch)
        probes[name] = entry
        print(f"{name}: {entry.get('error', 'done')} ({time.monotonic() - begin:.1f} s)", flush=True)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "machine": {"chip": chip, "product": product, "system": platform.platform(), "way": way},
        "versions": versions(),
        "probes": probes,
    }
    options.output.write_text(json.dumps(document), encoding="utf-8")
    print(f"{options.output}: {len(probes)} probes; compare with: trn3 probe --check {options.output}")


if __name__ == "__main__":
    main()
