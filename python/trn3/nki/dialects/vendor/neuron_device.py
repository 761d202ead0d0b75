"""``torch.device("neuron")`` for scripts written for TorchNeuron: a name of the CPU.

torch takes the name as that of its backend for others, whose tensors are made as the CPU's. What
``torch.compile(backend="neuron")`` compiles runs on the simulated core. Nothing of this needs torch
before the script imports it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trn3 import offers
from trn3.nki.values.suggestions import or_nearest

__all__ = ["offer", "withdraw"]

_NAME: Final = "neuron"
#: Where torch keeps its backends for compilation.
_TABLES: Final = ("_BACKENDS", "_COMPILER_FNS", "_BACKEND_TAGS")
_AUTOLOAD: Final = "TORCH_DEVICE_BACKEND_AUTOLOAD"

#: Names of ``torch.neuron`` that say what is so: one core, which has run all that it was given.
_ANSWERS: Final[Mapping[str, Any]] = {
    "is_available": True,
    "is_initialized": True,
    "is_bf16_supported": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_name": "trn3",
    "init": None,
    "synchronize": None,
    "set_device": None,
    "empty_cache": None,
    "_is_in_bad_fork": False,
    "_lazy_init": None,
}
_ELSEWHERE: Final = (
    "memory and times of what is compiled are those of trn3.torch.profile; there are no streams"
)
_undo: list[Callable[[], object]] = []
_libraries: list[Any] = []


def _saying(name: str, answer: Any) -> Callable[..., Any]:
    def say(*_args: Any, **_options: Any) -> Any:
        return answer

    say.__name__ = name
    return say


def _device_module(torch: Any) -> types.ModuleType:
    """Make ``torch.neuron``."""
    module = types.ModuleType(f"torch.{_NAME}", "The simulated core, whose tensors are the CPU's.")
    names = {name: _saying(name, answer) for name, answer in _ANSWERS.items()}
    names |= {
        # torch.manual_seed calls these.
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        # torch.random.fork_rng, and what traces operators, call these.
        "get_rng_state": lambda _device=None: torch.default_generator.get_state(),
        "set_rng_state": lambda state, _device=None: torch.default_generator.set_state(state),
        "device": lambda _index=None: contextlib.nullcontext(),
        "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
    }
    vars(module).update(names)

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(sorted(each for each in names if not each.startswith("_")))
        raise AttributeError(
            f"trn3 run's torch.{_NAME} has no {name!r}{or_nearest(name, names)}; allowed: {known}. "
            f"Else, {_ELSEWHERE}"
        )

    module.__getattr__ = missing  # type: ignore[method-assign]
    return module


def _make_device(torch: Any) -> None:
    """Let torch take the name wherever it takes a device."""
    try:
        from torch.utils import backend_registration

        set_up = backend_registration._setup_privateuseone_for_python_backend
    except (ImportError, AttributeError):
        return  # an earlier torch refuses the name itself
    if torch._C._get_privateuse1_backend_name() == _NAME:
        return  # a device is named once in a process
    set_up(_NAME, _device_module(torch))
    cpu = torch.device("cpu")

    def empty(size: Any, **options: Any) -> Any:
        return torch.empty(size, **{**options, "device": cpu})

    def empty_strided(size: Any, stride: Any, **options: Any) -> Any:
        return torch.empty_strided(size, stride, **{**options, "device": cpu})

    def elsewhere(operator: Any, *args: Any, **options: Any) -> Any:
        return operator(*args, **{**options, "device": cpu})

    own, rest = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    own.impl("empty.memory_format", empty, "PrivateUse1")
    own.impl("empty_strided", empty_strided, "PrivateUse1")
    rest.fallback(elsewhere, "PrivateUse1")
    _libraries.extend((own, rest))

    def loaded(storage: Any, location: str) -> Any:
        return storage if location.partition(":")[0] == _NAME else None

    torch.serialization.register_package(5, lambda _: None, loaded)
    _cast_on_cpu(torch.amp.autocast_mode.autocast)


def _cast_on_cpu(autocast: Any) -> None:
    own = autocast.__init__

    # Dynamo reads which arguments there are.
    @functools.wraps(own)
    def initialise(self: Any, device_type: Any, *args: Any, **options: Any) -> None:
        own(self, "cpu" if device_type == _NAME else device_type, *args, **options)

    autocast.__init__ = initialise
    _undo.append(lambda: setattr(autocast, "__init__", own))


def _make_fakes(module: Any) -> None:
    """Tensors without values lie where those with values do."""
    kind = module.FakeTensor
    own = kind.__new__

    def made(cls: Any, mode: Any, elem: Any, device: Any, *args: Any, **options: Any) -> Any:
        name = device if isinstance(device, str) else getattr(device, "type", "")
        here = "cpu" if name.partition(":")[0] == _NAME else device
        return own(cls, mode, elem, here, *args, **options)

    kind.__new__ = staticmethod(made)
    _undo.append(lambda: setattr(kind, "__new__", staticmethod(own)))


def _compiled(module: Any, inputs: Any, **options: Any) -> Any:
    return offers.take("backend of torch")(module, inputs, **options)


def _make_backend(registry: Any) -> None:
    """Let ``backend="neuron"`` be the simulated core."""
    registry.register_backend(_compiled, name=_NAME)
    tables = (getattr(registry, name, {}) for name in _TABLES)
    _undo.extend(functools.partial(table.pop, _NAME, None) for table in tables)


_AFTER: Final[Mapping[str, Callable[[Any], None]]] = {
    "torch": _make_device,
    "torch._subclasses.fake_tensor": _make_fakes,
    "torch._dynamo.backends.registry": _make_backend,
}


class _Following(importlib.abc.Loader):
    """Loads a module as its own loader does, and then does what is to be done after it."""

    def __init__(self, own: Any, spec: importlib.machinery.ModuleSpec) -> None:
        self._own = own
        self._spec = spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._own.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: types.ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _AFTER[self._spec.name](module)


class _Watcher(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _AFTER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Following(spec.loader, spec)
        return spec


_WATCHER: Final = _Watcher()


def offer() -> None:
    """Let torch know the device, now or when it is imported."""
    if _WATCHER in sys.meta_path:
        return
    # An installed one would want a device, and its name.
    if _AUTOLOAD not in os.environ:
        os.environ[_AUTOLOAD] = "0"
        _undo.append(functools.partial(os.environ.pop, _AUTOLOAD, None))
    sys.meta_path.insert(0, _WATCHER)
    for name, act in _AFTER.items():
        if name in sys.modules:
            act(sys.modules[name])


def withdraw() -> None:
    """Undo `offer`; the device's name stays, which torch gives once in a process."""
    if _WATCHER in sys.meta_path:
        sys.meta_path.remove(_WATCHER)
    while _undo:
        _undo.pop()()
