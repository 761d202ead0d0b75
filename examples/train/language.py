"""What a decoder learns from: a made language whose best loss is known, or any text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class MarkovLanguage:
    """A source in which each word depends on the two before it, by chances that a seed makes.

    `chances` is ``[words, words, words]``: of the word before last, the last one, the next one.
    """

    chances: NDArray[np.float64]

    @classmethod
    def of(cls, words: int, seed: int, sharpness: float = 2.0) -> MarkovLanguage:
        """Make one; the greater the sharpness, the fewer words follow each pair."""
        logits = np.random.default_rng(seed).standard_normal((words, words, words)) * sharpness
        raised = np.exp(logits - logits.max(-1, keepdims=True))
        return cls(raised / raised.sum(-1, keepdims=True))

    @property
    def words(self) -> int:
        """How many there are."""
        return len(self.chances)

    def entropy(self) -> float:
        """Return the mean surprise at the next word in nats: no model's loss is lower for long.

        It is that of the stationary pairs, which the source is started from.
        """
        surprise = -(self.chances * np.log(self.chances)).sum(-1)
        return float((self.pairs() * surprise).sum())

    def pairs(self) -> NDArray[np.float64]:
        """Return how often each pair of neighbours occurs in the long run."""
        pairs = np.full((self.words, self.words), 1 / self.words**2)
        for _ in range(1000):
            following = np.einsum("ab,abc->bc", pairs, self.chances)
            if np.abs(following - pairs).max() < 1e-15:
                break
            pairs = following
        return pairs

    def sentences(self, count: int, length: int, seed: int) -> Tokens:
        """Draw so many sentences of so many words: ``[count, length]``."""
        generator = np.random.default_rng(seed)
        start = generator.choice(self.words**2, size=count, p=self.pairs().ravel())
        found = np.empty((count, length), np.int32)
        found[:, 0], found[:, 1] = start // self.words, start % self.words
        bounds = self.chances.cumsum(-1)
        for place in range(2, length):
            row = bounds[found[:, place - 2], found[:, place - 1]]
            draws = generator.random((count, 1))
            found[:, place] = np.minimum((row < draws).sum(-1), self.words - 1)
        return found


@dataclass(frozen=True)
class TextLanguage:
    """The bytes of a file, each that occurs being a word."""

    tokens: Tokens
    alphabet: bytes

    @classmethod
    def of(cls, path: Path) -> TextLanguage:
        """Read a file."""
        content = np.frombuffer(path.read_bytes(), np.uint8)
        alphabet, tokens = np.unique(content, return_inverse=True)
        return cls(tokens.astype(np.int32), alphabet.tobytes())

    @property
    def words(self) -> int:
        """How many there are."""
        return len(self.alphabet)

    def entropy(self) -> None:
        """Nobody knows it."""

    def sentences(self, count: int, length: int, seed: int) -> Tokens:
        """Pick so many pieces of so many bytes: ``[count, length]``."""
        if len(self.tokens) < length:
            message = f"the text has {len(self.tokens)} bytes; at least {length} are needed"
            raise ValueError(message)
        starts = np.random.default_rng(seed).integers(len(self.tokens) - length + 1, size=count)
        found: Tokens = self.tokens[starts[:, None] + np.arange(length)]
        return found


Language = MarkovLanguage | TextLanguage
