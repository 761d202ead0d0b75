# Kubernetes objects of systems; objects come with the name of where they came from.

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

__all__ = [
    "ASSUMPTIONS",
    "DEFAULT_DRIVER",
    "NEURON_DRIVER_VERSION",
    "RefusalError",
    "allocate",
    "device_class",
    "documents",
    "fragmentation",
    "pool_slices",
    "resource_slices",
]

_Object: TypeAlias = dict[str, Any]
_Sourced: TypeAlias = Sequence[tuple[str, Any]]

ASSUMPTIONS: Final[tuple[str, ...]]
DEFAULT_DRIVER: Final[str]
NEURON_DRIVER_VERSION: Final[str]

class RefusalError(ValueError): ...

def allocate(claims: _Sourced, inventory: _Sourced, allocated: _Sourced, /) -> dict[str, Any]: ...
def device_class(name: str, driver: str | None, /) -> _Object: ...
def documents(given: _Sourced, /) -> list[_Object]: ...
def fragmentation(inventory: _Sourced, allocated: _Sourced, /) -> dict[str, Any]: ...
def pool_slices(
    pool: str, devices: Sequence[Mapping[str, Any]], driver: str, node: str, generation: int, /
) -> list[_Object]: ...
def resource_slices(system: str, options: Mapping[str, Any], /) -> list[_Object]: ...
