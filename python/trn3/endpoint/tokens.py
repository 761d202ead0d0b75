"""Tokens of texts, and the word that stands for one in answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: The bytes that count as a token without a tokenizer **(choice)**: about English text's average.
BYTES_A_TOKEN: Final = 4
#: What an answer has for every token without a tokenizer: `BYTES_A_TOKEN`, and one word.
WORD: Final = " tok"
#: What is tried first as a tokenizer's word; then what its first tokens stand for.
_WORDS: Final = (" tok", " the", " a", "tok", "the", "a")
_TRIED: Final = 4096
_REPEATED: Final = (1, 2, 3, 50)


class TokenCounter(Protocol):
    """Makes tokens of texts."""

    @property
    def description(self) -> str:
        """How, in a few words."""
        ...

    @property
    def word(self) -> str:
        """What stands for a token in answers: as many of them are as many tokens."""
        ...

    def least(self, text: str) -> int:
        """Return what a text has at least, quickly."""
        ...

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text; equal beginnings of texts have equal first tokens."""
        ...


class ByteTokens:
    """Four bytes of UTF-8 are a token, and are its number.

    Examples
    --------
    >>> tokens = ByteTokens()
    >>> len(tokens.ids("twelve bytes")), len(tokens.ids(tokens.word * 7))
    (3, 7)
    """

    description: Final = f"{BYTES_A_TOKEN} bytes of UTF-8 a token"
    word: Final = WORD

    def least(self, text: str) -> int:
        """Return what a text has at least: a token for every `BYTES_A_TOKEN` letters."""
        return len(text) // BYTES_A_TOKEN

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text; what lacks of the last is filled with zeros."""
        data = text.encode()
        data += bytes(-len(data) % BYTES_A_TOKEN)
        return memoryview(data).cast("I").tolist()


class FileTokens:
    """The tokens of a tokenizer's file, as the package tokenizers reads it.

    Parameters
    ----------
    path
        A ``tokenizer.json``.

    Raises
    ------
    ImportError
        If the package tokenizers is missing.
    OSError
        If the file cannot be read.
    ValueError
        If it is no tokenizer, or none of its tokens can be repeated as a token each.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            message = "a tokenizer needs the package tokenizers: pip install tokenizers"
            raise ImportError(message) from error
        with open(path, "rb") as file:  # noqa: PTH123 - its errors name the file
            content = file.read()
        name = os.fspath(path)
        try:
            self._tokenizer = Tokenizer.from_buffer(content)
        except Exception as error:  # the package raises bare ones
            message = f"{name}: no tokenizer: {error}"
            raise ValueError(message) from error
        # Shortened or padded texts would be counted wrongly.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.description = f"tokens of {name}"
        self.word = _word(name, self._tokenizer)

    def least(self, text: str) -> int:
        """Return what a text has at least, of which nothing is known."""
        return min(len(text), 1)

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text, with those that the tokenizer adds."""
        # The one way that leaves the interpreter to others meanwhile.
        return self._tokenizer.encode_batch_fast([text])[0].ids


def token_counter(path: str | os.PathLike[str] | None) -> TokenCounter:
    """Return what counts tokens: by a tokenizer's file, or by bytes."""
    return ByteTokens() if path is None else FileTokens(path)


def ids_aside(tokens: TokenCounter, text: str) -> asyncio.Future[list[int]]:
    """Return the tokens of a long text, later; the event loop and the end of the process go on."""
    loop = asyncio.get_running_loop()
    counted: asyncio.Future[list[int]] = loop.create_future()

    def settle(ids: list[int] | None, error: Exception | None) -> None:
        if counted.done():
            return
        if error is not None:
            counted.set_exception(error)
        else:
            counted.set_result(ids or [])

    def work() -> None:
        ids, problem = None, None
        try:
            ids = tokens.ids(text)
        except Exception as error:  # for whoever waits
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop may have ended
            loop.call_soon_threadsafe(settle, ids, problem)

    # Unlike those of an executor, it is not waited for when all ends.
    threading.Thread(target=work, name="tokens of a text", daemon=True).start()
    return counted


def _word(name: str, tokenizer: Tokenizer) -> str:
    """Return a text that is one token, however often it is repeated."""

    def tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    known = min(tokenizer.get_vocab_size(), _TRIED)
    for word in chain(_WORDS, (tokenizer.decode([each]) for each in range(known))):
        # U+FFFD stands for a part of a letter, which is no text by itself.
        if word and "\ufffd" not in word and all(tokens(word * n) == n for n in _REPEATED):
            return word
    message = (
        f"{name}: none of its first {known} tokens is one token each when it is repeated, so "
        "placeholders could not be counted"
    )
    raise ValueError(message)
