"""Marsaglia's xorwow in Python integers: generator, lanes, seeding, jumping ahead.

The jump raises the 160 x 160 matrix over GF(2) of one xorshift step to a power; the Weyl counter
only multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

MASK32 = (1 << 32) - 1
MASK64 = (1 << 64) - 1
WEYL_STEP = 362437
XORSHIFT_WORDS = 5
STATE_WORDS = 6
XORSHIFT_BITS = 32 * XORSHIFT_WORDS

# A matrix is its 160 columns: column i is the state that a state with only bit i set turns into.
Matrix = tuple[int, ...]


def step(words: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """One draw: the next six words and the number drawn."""
    x, y, z, w, v, counter = words
    mixed = x ^ (x >> 2)
    new = (v ^ (v << 4)) ^ (mixed ^ (mixed << 1))
    new &= MASK32
    counter = (counter + WEYL_STEP) & MASK32
    return (y, z, w, v, new, counter), (counter + new) & MASK32


def splitmix64(state: int) -> tuple[int, int]:
    """One output of splitmix64 and the state after it."""
    state = (state + 0x9E3779B97F4A7C15) & MASK64
    mixed = state
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MASK64
    return mixed ^ (mixed >> 31), state


def seeded_words(seed: int, count: int) -> list[int]:
    """Return the first `count` words of a seed's stream, low halves of its outputs first."""
    words: list[int] = []
    state = seed
    while len(words) < count:
        output, state = splitmix64(state)
        words += [output & MASK32, output >> 32]
    return words[:count]


def pack(words: tuple[int, ...]) -> int:
    """Return the five xorshift words as one 160-bit vector, word 0 in the low bits."""
    return sum(word << (32 * position) for position, word in enumerate(words[:XORSHIFT_WORDS]))


def unpack(vector: int) -> tuple[int, ...]:
    """Return the inverse of `pack`."""
    return tuple((vector >> (32 * position)) & MASK32 for position in range(XORSHIFT_WORDS))


def apply(matrix: Matrix, vector: int) -> int:
    """Matrix times vector over GF(2)."""
    result = 0
    for column in matrix:
        if vector & 1:
            result ^= column
        vector >>= 1
    return result


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """Return the matrix that applies `right`, then `left`."""
    return tuple(apply(left, column) for column in right)


@cache
def step_matrix(log2_steps: int) -> Matrix:
    """Return the matrix of 2^log2_steps xorshift steps."""
    if log2_steps == 0:
        return tuple(pack(step((*unpack(1 << bit), 0))[0]) for bit in range(XORSHIFT_BITS))
    half = step_matrix(log2_steps - 1)
    return multiply(half, half)


def jump_words(words: tuple[int, ...], draws: int) -> tuple[int, ...]:
    """Return the six words after `draws` steps."""
    vector = pack(words)
    for bit in range(draws.bit_length()):
        if draws >> bit & 1:
            vector = apply(step_matrix(bit), vector)
    return (*unpack(vector), (words[5] + draws * WEYL_STEP) & MASK32)


@dataclass
class Lanes:
    """The generator as the contract describes it: per lane one or four generators, used in turn."""

    words: list[list[tuple[int, ...]]]
    phase: int = 0

    @classmethod
    def from_state(cls, state: npt.NDArray[Any]) -> Lanes:
        """From an array (lanes, 6) or (lanes, 24)."""
        generators = state.shape[1] // STATE_WORDS
        return cls(
            [
                [
                    tuple(int(word) for word in row[STATE_WORDS * g : STATE_WORDS * (g + 1)])
                    for g in range(generators)
                ]
                for row in state
            ]
        )

    @classmethod
    def seed(cls, seed: int, lanes: int = 128, generators: int = 1) -> Lanes:
        """From a seed, in the order lane, generator, word."""
        words = seeded_words(seed, lanes * generators * STATE_WORDS)
        state = np.array(words, dtype=np.uint32).reshape(lanes, generators * STATE_WORDS)
        return cls.from_state(state)

    @property
    def generators(self) -> int:
        """Generators in each lane."""
        return len(self.words[0])

    @property
    def state(self) -> npt.NDArray[np.uint32]:
        """The state array, (lanes, 6) or (lanes, 24)."""
        return np.array(
            [[word for words in lane for word in words] for lane in self.words], dtype=np.uint32
        )

    def uint32(self, count: int) -> npt.NDArray[np.uint32]:
        """`count` draws of every lane, (lanes, count)."""
        draws = np.zeros((len(self.words), count), dtype=np.uint32)
        for index, lane in enumerate(self.words):
            for draw in range(count):
                generator = (self.phase + draw) % self.generators
                lane[generator], draws[index, draw] = step(lane[generator])
        self.phase = (self.phase + count) % self.generators
        return draws

    def jump(self, count: int) -> None:
        """Leave the lanes as `count` draws would."""
        for generator in range(self.generators):
            first = (generator - self.phase) % self.generators
            turns = max(0, -(-(count - first) // self.generators))
            for lane in self.words:
                lane[generator] = jump_words(lane[generator], turns)
        self.phase = (self.phase + count) % self.generators

    def cast_draws(self, count: int) -> npt.NDArray[np.uint32]:
        """Return the draws that `count` elements get in C order, lane after lane."""
        lanes = len(self.words)
        return self.uint32(-(-count // lanes)).ravel()[:count]
