"""``torch_xla`` and ``torch_neuronx`` for scripts written for a device, on the CPU.

Tensors stay torch's own on the CPU, where kernels take them; nothing is traced, so that marking a
step has nothing to do. Offered while ``trn3 run`` runs a script, in place of an installed one.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from trn3.nki.dialects.vendor import neuronx
from trn3.nki.values.suggestions import or_nearest

__all__ = ["offer", "withdraw"]

_TOP: Final = "torch_xla"
_NATIVE: Final = "torch_neuronx"


def device(index: int | None = None) -> Any:
    """Return the CPU, whichever device is asked for."""
    del index  # there is one
    return sys.modules["torch"].device("cpu")


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """Return the CPU, whichever device is asked for."""
    del n, devkind  # there is one
    return device()


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Return: everything has run."""
    del wait, reset_scope


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Return: everything has run."""
    del wait, reset_scope


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Return: everything has run."""
    del devices


def xla_device_hw(of: Any) -> str:
    """Return the kind of a device: ``"CPU"``."""
    del of  # there is one
    return "CPU"


def get_ordinal() -> int:
    """Return 0: the script is one process."""
    return 0


def world_size() -> int:
    """Return 1: the script is one process."""
    return 1


def is_master_ordinal(local: bool = True) -> bool:
    """Return True: the script is one process."""
    del local
    return True


#: What the only process prints.
master_print: Final = print


def optimizer_step(optimizer: Any, barrier: bool = False, **options: Any) -> Any:
    """Take a step of an optimiser; there are no gradients of others."""
    del barrier
    return optimizer.step(**options.get("optimizer_args", {}))


def _names(functions: Iterable[Callable[..., Any]]) -> dict[str, Any]:
    return {function.__name__: function for function in functions}


_MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    _TOP: _names((device, sync)),
    f"{_TOP}.core": {},
    f"{_TOP}.core.xla_model": {
        **_names(
            (xla_device, xla_device_hw, mark_step, wait_device_ops, get_ordinal, is_master_ordinal)
        ),
        "master_print": master_print,
        "optimizer_step": optimizer_step,
        "xrt_world_size": world_size,
    },
    f"{_TOP}.runtime": {**_names((world_size,)), "global_ordinal": get_ordinal},
    _NATIVE: neuronx.NAMES,
}


class _Maker(importlib.abc.Loader):
    """Makes one of the modules."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        try:
            importlib.import_module("torch")
        except ImportError as error:
            message = (
                f"{spec.name}: torch is not installed; under trn3 run a script's devices are the "
                "CPU's, which need torch: pip install torch"
            )
            raise ImportError(message, name=spec.name) from error
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        names = _MODULES[module.__name__]
        vars(module).update(names)

        def missing(name: str) -> Any:
            if (module.__name__, name) == (_NATIVE, "nki"):
                return importlib.import_module("nki")
            inner = f"{module.__name__}.{name}"
            if inner in _MODULES:
                return importlib.import_module(inner)
            raise AttributeError(
                f"trn3 run's {module.__name__} has no {name!r}{or_nearest(name, names)}; allowed: "
                f"{', '.join(sorted(names)) or 'its modules'}"
            )

        module.__getattr__ = missing  # type: ignore[method-assign]


class _TorchFinder(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target  # a whole package, wherever an installed one lies
        top = fullname.partition(".")[0]
        if top not in (_TOP, _NATIVE):
            return None
        if fullname not in _MODULES:
            known = ", ".join(name for name in _MODULES if name.partition(".")[0] == top)
            message = f"trn3 run has no {fullname}; allowed: {known}"
            raise ModuleNotFoundError(message, name=fullname)
        is_package = fullname == top or any(name.startswith(f"{fullname}.") for name in _MODULES)
        return importlib.machinery.ModuleSpec(fullname, _Maker(), is_package=is_package)


_FINDER: Final = _TorchFinder()


def offer() -> None:
    """Let ``import torch_xla`` and ``import torch_neuronx`` find this."""
    if _FINDER not in sys.meta_path:
        # First: an installed one would want a device.
        sys.meta_path.insert(0, _FINDER)


def withdraw() -> None:
    """Undo `offer`, and forget the modules."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        for name in _MODULES:
            if isinstance(getattr(sys.modules.get(name), "__loader__", None), _Maker):
                del sys.modules[name]
