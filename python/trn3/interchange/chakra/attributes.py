"""Reads what replay needs of a node's attributes, whichever version of the tools wrote them."""

from __future__ import annotations

from typing import Any, Final

from trn3.interchange.chakra.trace import CollectiveType, Node, TraceError

#: The names that tools have given to what replay reads, today's first.
NAMES: Final = {
    "num_ops": ("num_ops", "flops", "num_flops"),
    "tensor_size": ("tensor_size", "tensor_bytes", "mem_size"),
    "comm_type": ("comm_type", "collective_type", "collective_comm_type"),
    "comm_size": ("comm_size", "comm_bytes", "comm_size_bytes", "collective_size"),
    "comm_src": ("comm_src", "src", "src_rank", "comm_source"),
    "comm_dst": ("comm_dst", "dst", "dst_rank", "comm_dest"),
    "comm_tag": ("comm_tag", "tag"),
    "pg_name": ("pg_name", "comm_group", "process_group", "process_group_name"),
    "comm_root": ("comm_root", "root", "root_rank"),
    "priority": ("priority", "comm_priority"),
    "is_cpu_op": ("is_cpu_op",),
    "duration_ps": ("duration_ps",),
    "involved_dim": ("involved_dim",),
}

_COLLECTIVES = {
    each.name.replace("_", "").lower(): each for each in CollectiveType
}  # "ALL_REDUCE", "allreduce" and "all-reduce" alike


class Reader:
    """Attributes of one node, with errors that name it.

    Parameters
    ----------
    node
        The node.
    rank
        The rank of its trace, for errors.
    """

    def __init__(self, node: Node, rank: int) -> None:
        self.node = node
        self.rank = rank
        self._values: dict[str, Any] = {}
        for each in node.attributes:
            # Of attributes of one name the first counts, as for `Node.get`.
            self._values.setdefault(each.name, each.value)

    def wrong(self, why: str) -> TraceError:
        """Return the error of this node."""
        return TraceError(f"rank {self.rank}, node {self.node.id} ({self.node.name!r}): {why}")

    def value(self, name: str) -> Any:
        """Return an attribute under any of its names, None if there is none."""
        return next((self._values[each] for each in NAMES[name] if each in self._values), None)

    def whole(self, name: str, *, least: int = 0) -> int | None:
        """Return a whole number, None if there is none."""
        value = self.value(name)
        if value is None:
            return None
        try:
            number = int(value)
            if isinstance(value, float) and number != value:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            message = f"attribute {name} is {value!r}; needed: a whole number"
            raise self.wrong(message) from None
        if number < least:
            message = f"attribute {name} is {number}; allowed: {least} or more"
            raise self.wrong(message)
        return number

    def needed(self, name: str, what: str) -> int:
        """Return a whole number that `what` cannot do without."""
        number = self.whole(name)
        if number is None:
            others = ", ".join(NAMES[name][1:])
            also = f" (or {others})" if others else ""
            message = f"attribute {name}{also} is missing, which {what} needs"
            raise self.wrong(message)
        return number

    def flag(self, name: str) -> bool:
        """Return a truth value; False if there is none."""
        value = self.value(name)
        if isinstance(value, str):
            return value.strip().lower() in {"1", "true", "yes"}
        return bool(value)

    def collective(self) -> CollectiveType:
        """Return which collective it is, by number or by name."""
        value = self.value("comm_type")
        if value is None:
            message = "attribute comm_type is missing, which a collective needs"
            raise self.wrong(message)
        try:
            if isinstance(value, str) and not value.strip().isdigit():
                return _COLLECTIVES["".join(c for c in value.lower() if c.isalnum())]
            return CollectiveType(int(value))
        except (KeyError, ValueError, TypeError):
            allowed = ", ".join(f"{each.value} {each.name}" for each in CollectiveType)
            message = f"attribute comm_type is {value!r}; allowed: {allowed}"
            raise self.wrong(message) from None

    def group(self) -> str | None:
        """Return the name of the process group, None if it is that of all ranks."""
        value = self.value("pg_name")
        if value is not None and str(value) != "":
            return str(value)
        dimensions = self.value("involved_dim")
        if isinstance(dimensions, tuple) and not all(dimensions):
            message = (
                f"attribute involved_dim is {list(dimensions)}: dimensions of another simulator's "
                "network; replay needs the group's name, attribute pg_name"
            )
            raise self.wrong(message)
        return None
