"""What an allocation speaks of: devices as slices offer them, claims, what a placement costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from trn3.k8s.documents import Document


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark that keeps claims away that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a pool; its identity is (driver, pool, name).

    Attributes
    ----------
    attributes, capacity
        By domain and identifier; versions and quantities are texts.
    """

    driver: str
    pool: str
    node: str
    name: str
    attributes: Mapping[tuple[str, str], bool | int | str] = field(hash=False, compare=False)
    capacity: Mapping[tuple[str, str], str] = field(hash=False, compare=False)
    taints: tuple[Taint, ...] = field(hash=False, compare=False)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return a device as the core describes it."""
        lists = {
            "attributes": {(place, name): value for place, name, value in given["attributes"]},
            "capacity": {(place, name): value for place, name, value in given["capacity"]},
            "taints": tuple(Taint(*words) for words in given["taints"]),
        }
        return cls(**{**given, **lists})

    @property
    def key(self) -> tuple[str, str, str]:
        """Driver, pool and name."""
        return self.driver, self.pool, self.name

    @property
    def is_node(self) -> bool:
        """Whether it stands for a whole node."""
        return self.attributes.get((self.driver, "resourceType")) == "neuron_node"

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim.

    Attributes
    ----------
    document
        Its object as it came: a ResourceClaim, or the template that it is made from.
    origin
        The pod for which a template is used.
    """

    document: Document
    name: str
    origin: str = ""

    @property
    def label(self) -> str:
        """Namespace and name."""
        return f"{self.document.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Score:
    """What a choice of devices costs; compared entry by entry, smaller is better **(choice)**.

    Attributes
    ----------
    excess
        Chips that are taken beyond the devices asked for, as by a whole node in place of one.
    pieces
        Parts that the devices fall into beyond one. Devices of a torus are connected if they are
        neighbours in it, those of a switched node always are.
    opened
        1 if the UltraServer was wholly free before; then aligned sets of 4 and of 2 nodes that
        were (for claims that take a mode of 4 or 2 later).
    broken
        Groups of devices, largest first, that were wholly free and now are used in part.
    hops
        Sum of the distances between all pairs, in links of the torus.
    scattered
        Parts that the free devices of the node fall into afterwards, beyond one.
    """

    excess: int
    pieces: int
    opened: tuple[int, ...]
    broken: tuple[int, ...]
    hops: int
    scattered: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return a score as the core describes it."""
        lists = {key: tuple(given[key]) for key in ("opened", "broken")}
        return cls(**{**given, **lists})
