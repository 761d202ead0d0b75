"""Reductions in the order that the page of collectives gives for each algorithm, by chunks.

Ranks sit on chips of a grid: `chips[i]` has the chip's coordinates and the positions on it, in
ascending ranks. A value travels as an array of float32; `rounded` is what a format does to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Rounded = Callable[[Array], Array]
Op = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Chip:
    place: tuple[int, ...]
    positions: tuple[int, ...]


def bounds(length: int, parts: int) -> list[tuple[int, int]]:
    return [(length * i // parts, length * (i + 1) // parts) for i in range(parts)]


def fold(values: Sequence[Array], op: Op, rounded: Rounded) -> Array:
    """First to last in float32, rounded once."""
    total = values[0]
    for value in values[1:]:
        total = op(total, value)
    return rounded(total)


def there_and_back(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """All places of a grid: the last axis forth and back, then the next to last, ..."""
    walk: list[tuple[int, ...]] = [()]
    for size in reversed(sizes):
        grown: list[tuple[int, ...]] = []
        for value in range(size):
            part = walk if value % 2 == 0 else walk[::-1]
            grown.extend((value, *place) for place in part)
        walk = grown
    return walk


def torus_cycles() -> list[list[tuple[int, int]]]:
    """4 x 4: three steps along a row and one down; three down a column and one along."""
    first, second = [], []
    row = column = 0
    for _ in range(4):
        for _ in range(4):
            first.append((row, column))
            second.append((column, row))
            column = (column + 1) % 4
        column = (column - 1) % 4
        row = (row + 1) % 4
    return [first, second]


def channels(chips: Sequence[Chip], is_torus: bool) -> list[list[Chip]]:
    """Cycles through the chips, each followed by its reverse; one for two chips or fewer."""
    by_place = {chip.place: chip for chip in chips}
    if len(chips) <= 2:
        return [sorted(chips, key=lambda chip: chip.place)]
    axes = [sorted({chip.place[axis] for chip in chips}) for axis in range(len(chips[0].place))]
    if is_torus and len(chips) == 16:
        cycles: list[list[tuple[int, ...]]] = [list(cycle) for cycle in torus_cycles()]
    elif len(chips) == np.prod([len(axis) for axis in axes]):
        walk = there_and_back([len(axis) for axis in axes])
        cycles = [[tuple(axis[i] for axis, i in zip(axes, place, strict=True)) for place in walk]]
    else:
        cycles = [sorted(by_place)]
    return [
        [by_place[place] for place in order] for cycle in cycles for order in (cycle, cycle[::-1])
    ]


def ring(
    inputs: Sequence[Array], chips: Sequence[Chip], is_torus: bool, op: Op, rounded: Rounded
) -> Array:
    n = len(inputs)
    orders = []
    for channel, cycle in enumerate(channels(chips, is_torus)):
        orders.append(
            [
                position
                for chip in cycle
                for position in (chip.positions if channel % 2 == 0 else chip.positions[::-1])
            ]
        )
    result = np.zeros_like(inputs[0])
    for chunk, (start, end) in enumerate(bounds(len(inputs[0]), n)):
        for order, (a, b) in zip(orders, bounds(end - start, len(orders)), strict=True):
            at = slice(start + a, start + b)
            home = order.index(chunk)
            total = inputs[order[(home + 1) % n]][at]
            for k in range(2, n + 1):
                total = rounded(op(total, inputs[order[(home + k) % n]][at]))
            result[at] = total
    return result


def kangaring(
    inputs: Sequence[Array], chips: Sequence[Chip], is_torus: bool, op: Op, rounded: Rounded
) -> Array:
    n = len(inputs)
    cycles = channels(chips, is_torus)
    result = np.zeros_like(inputs[0])
    for channel, cycle in enumerate(cycles):
        # Pairs in the order of travel: (primary, secondary), and the number of their chip.
        pairs = []
        for number, chip in enumerate(cycle):
            own = [chip.positions[i : i + 2] for i in range(0, len(chip.positions), 2)]
            for pair in own if channel % 2 == 0 else own[::-1]:
                ordered = pair if channel // 2 % 2 == 0 else pair[::-1]
                pairs.append((ordered[0], ordered[1], number))
        for chunk, (start, end) in enumerate(bounds(len(inputs[0]), n)):
            a, b = bounds(end - start, len(cycles))[channel]
            at = slice(start + a, start + b)
            home = next(i for i, pair in enumerate(pairs) if chunk in pair[:2])
            here = pairs[home][2]
            per_chip = sum(pair[2] == here for pair in pairs)
            # Pairs of the chip after the home one send by themselves; the others come around.
            after = [home + 1 + i for i in range(per_chip) if home + 1 + i < len(pairs)]
            after = [i for i in after if pairs[i][2] == here]
            around = [(home + 1 + len(after) + i) % len(pairs) for i in range(len(pairs))]
            around = around[: len(pairs) - 1 - len(after)]

            if not around:
                # On one chip the last to come is what else comes last.
                around, after = after, []
            mine = inputs[chunk][at]
            local = message(inputs, pairs, after, at, op, rounded)
            if local is not None:
                mine = rounded(op(mine, local))
            primary, secondary, _ = pairs[home]
            partner = secondary if chunk == primary else primary
            arrivals = [(chunk, mine), (partner, inputs[partner][at])]
            remote = message(inputs, pairs, around, at, op, rounded)
            if remote is not None:
                arrivals.append((pairs[around[-1]][0], remote))
            arrivals.sort(key=lambda one: one[0])
            result[at] = fold([value for _, value in arrivals], op, rounded)
    return result


def message(
    inputs: Sequence[Array],
    pairs: Sequence[tuple[int, int, int]],
    path: Sequence[int],
    at: slice,
    op: Op,
    rounded: Rounded,
) -> Array | None:
    """Return what the last pair of a path sends on."""
    sent: Array | None = None
    for i in path:
        primary, secondary, _ = pairs[i]
        mine = inputs[primary][at]
        held = mine if sent is None else rounded(op(mine, sent))
        sent = rounded(op(held, inputs[secondary][at]))
    return sent


def mesh(inputs: Sequence[Array], chips: Sequence[Chip], op: Op, rounded: Rounded) -> Array:
    ordered = sorted(chips, key=lambda chip: chip.place)
    if len({len(chip.positions) for chip in ordered}) > 1:
        ordered = [Chip(chip.place, (p,)) for chip in ordered for p in chip.positions]
    count, per_chip = len(ordered), len(ordered[0].positions)
    result = np.zeros_like(inputs[0])
    for chunk, (start, end) in enumerate(bounds(len(inputs[0]), len(inputs))):
        at = slice(start, end)
        home = next(i for i, chip in enumerate(ordered) if chunk in chip.positions)
        partial = []
        for i, chip in enumerate(ordered):
            turn = (i - home - 1) % count % per_chip
            holder = chunk if i == home else chip.positions[turn]
            local = [inputs[p][at] for p in sorted(chip.positions)]
            partial.append((holder, fold(local, op, rounded) if per_chip > 1 else local[0]))
        partial.sort(key=lambda one: one[0])
        result[at] = fold([value for _, value in partial], op, rounded)
    return result


def single_step_mesh(
    inputs: Sequence[Array], chips: Sequence[Chip], op: Op, rounded: Rounded
) -> Array:
    return fold(inputs, op, rounded)


def rdh(
    inputs: Sequence[Array],
    chips: Sequence[Chip],
    levels: Sequence[Sequence[int]],
    is_torus: bool,
    op: Op,
    rounded: Rounded,
) -> Array:
    """Levels are lists of axes, the outermost first; on a torus places count by the Gray code."""
    ordered = sorted(chips, key=lambda chip: chip.place)
    per_chip = len(ordered[0].positions)
    values = [
        sorted({chip.place[axis] for chip in ordered}) for axis in range(len(ordered[0].place))
    ]
    result = np.zeros_like(inputs[0])
    for k in range(per_chip):
        vertex = {}
        for i, chip in enumerate(ordered):
            bits: list[int] = []
            for axes in levels:
                level = []
                for axis in axes:
                    place = values[axis].index(chip.place[axis])
                    code = place ^ (place >> 1) if is_torus else place
                    level += [code >> b & 1 for b in range(len(values[axis]).bit_length() - 1)]
                bits += [level[(b + k) % len(level)] for b in range(len(level))]
            vertex[sum(bit << b for b, bit in enumerate(bits))] = i
        for v, home in vertex.items():
            chunk = ordered[home].positions[k]
            at = slice(*bounds(len(inputs[0]), len(inputs))[chunk])
            held = {}
            for u, i in vertex.items():
                local = [inputs[p][at] for p in sorted(ordered[i].positions)]
                held[u] = fold(local, op, rounded) if per_chip > 1 else local[0]
            for b in reversed(range(len(vertex).bit_length() - 1)):
                held = {u: rounded(op(held[u], held[u ^ 1 << b])) for u in held}
            result[at] = held[v]
    return result


def hierarchical(
    inputs: Sequence[Array],
    parts: Sequence[int],
    inner: Sequence[Sequence[Chip]],
    is_ring: bool,
    is_torus: bool,
    op: Op,
    rounded: Rounded,
) -> Array:
    """Reduce part by part: `parts` are the sizes of the outer levels, `inner` their chips.

    `inner[j]` has the chips of the j-th innermost part, with positions of the whole group.
    """
    n = len(inputs)
    result = np.zeros_like(inputs[0])
    size = n // len(inner)
    flat = [sorted(p for chip in part for p in chip.positions) for part in inner]
    local_chips = [
        [Chip(c.place, tuple(flat[j].index(p) for p in c.positions)) for c in part]
        for j, part in enumerate(inner)
    ]
    count = max(2, len(channels(local_chips[0], is_torus))) if is_ring else 1
    for chunk, (start, end) in enumerate(bounds(len(inputs[0]), n)):
        spot = next(j for j, positions in enumerate(flat) if chunk in positions)
        local = flat[spot].index(chunk)
        for channel, (a, b) in enumerate(bounds(end - start, count)):
            at = slice(start + a, start + b)
            partial = {}
            for j, positions in enumerate(flat):
                own = [inputs[p][at] for p in positions]
                partial[j] = one_chunk(
                    own, local, local_chips[j], channel, is_ring, is_torus, op, rounded
                )
            places = list(itertools.product(*map(range, parts)))
            held = {place: partial[j] for j, place in enumerate(places)}
            home = places[spot]
            for level in reversed(range(len(parts))):
                held = {
                    place: along(
                        held, place, level, parts[level], home, channel, is_ring, op, rounded
                    )
                    for place in held
                    if place[level] == home[level]
                }
            result[at] = held[home]
    assert size * len(inner) == n
    return result


def along(
    held: dict[tuple[int, ...], Array],
    place: tuple[int, ...],
    level: int,
    size: int,
    home: tuple[int, ...],
    channel: int,
    is_ring: bool,
    op: Op,
    rounded: Rounded,
) -> Array:
    """Reduce along one outer level."""
    line = [held[(*place[:level], i, *place[level + 1 :])] for i in range(size)]
    if size == 1:
        return line[0]
    if not is_ring:
        return fold(line, op, rounded)
    order = list(range(size)) if channel % 2 == 0 else list(range(size))[::-1]
    at = order.index(home[level])
    total = line[order[(at + 1) % size]]
    for k in range(2, size + 1):
        total = rounded(op(total, line[order[(at + k) % size]]))
    return total


def one_chunk(
    own: Sequence[Array],
    local: int,
    chips: Sequence[Chip],
    channel: int,
    is_ring: bool,
    is_torus: bool,
    op: Op,
    rounded: Rounded,
) -> Array:
    """Reduce one chunk within an innermost part."""
    n = len(own)
    if n == 1:
        return own[0]
    if is_ring:
        cycles = channels(chips, is_torus)
        cycle, is_reverse = cycles[channel % len(cycles)], channel % len(cycles) % 2 == 1
        order = [
            p for chip in cycle for p in (chip.positions[::-1] if is_reverse else chip.positions)
        ]
        home = order.index(local)
        total = own[order[(home + 1) % n]]
        for k in range(2, n + 1):
            total = rounded(op(total, own[order[(home + k) % n]]))
        return total
    # A mesh of arrays that hold this chunk alone.
    length = len(own[0])
    wide = [np.zeros(n * length, np.float32) for _ in own]
    for array, value in zip(wide, own, strict=True):
        array[local * length : (local + 1) * length] = value
    return mesh(wide, chips, op, rounded)[local * length : (local + 1) * length]
