"""Files of tokenizers, as the package tokenizers writes them."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers


def words(folder: Path, *known: str) -> Path:
    """Write a tokenizer that has a token for each of some words."""
    vocabulary = {word: number for number, word in enumerate(["?", *known])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def byte_pairs(folder: Path) -> Path:
    """Write a tokenizer of bytes in which one pair is joined."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*letters, "Ġa"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[("Ġ", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"
