"""`FrozenMapping`: what results hand out mappings as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")
Value_co = TypeVar("Value_co", covariant=True)


class FrozenMapping(Mapping[Key, Value_co]):
    """A mapping that nobody changes, and that goes through pickle and copy.

    Results travel between processes, as those of `trn3.sweep` do, which a view of a dictionary
    cannot.

    Examples
    --------
    >>> import pickle
    >>> mapping = FrozenMapping({"rack": 320e9})
    >>> pickle.loads(pickle.dumps(mapping)) == mapping == {"rack": 320e9}
    True
    """

    __slots__ = ("_held",)

    def __init__(self, held: Mapping[Key, Value_co] | Iterable[tuple[Key, Value_co]] = ()) -> None:
        self._held: dict[Key, Any] = dict(held)

    def __getitem__(self, key: Key) -> Value_co:
        return self._held[key]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def __hash__(self) -> int:
        return hash(frozenset(self._held.items()))

    def __repr__(self) -> str:
        return repr(self._held)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._held,))
