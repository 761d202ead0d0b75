"""Answers as bytes, in the shapes of OpenAI's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trn3.endpoint.pace import LiveAnswer

DONE: Final = b"data: [DONE]\n\n"


class Wire:
    """One answer as bytes.

    Parameters
    ----------
    answer
        What comes out of the machine for it.
    number
        Of all answers of this endpoint, which it is.
    created
        When it was asked for, in seconds since 1970.
    word
        What stands for a token.
    """

    def __init__(self, answer: LiveAnswer, number: int, created: int, word: str) -> None:
        question = answer.question
        self._answer = answer
        self._question = question
        self._word = word
        self._kind = "chat.completion" if question.is_chat else "text_completion"
        self._shared: dict[str, Any] = {
            "id": f"{'chatcmpl' if question.is_chat else 'cmpl'}-{number}",
            "object": self._kind,
            "created": created,
            "model": question.model,
        }
        self._begun: set[int] = set()
        self._sent = 0
        self._pieces: dict[tuple[int, int, bool], bytes] = {}

    def events(self, pieces: Sequence[tuple[int, int, bool]]) -> bytes:
        """Return pieces of an answer as events of a stream."""
        return b"".join(map(self._event, pieces))

    def end(self) -> bytes:
        """Return the events that end a stream: its usage, if that is wanted, and the last."""
        if not self._question.has_usage:
            return DONE
        chunk = {
            **self._chunk([]),
            "usage": self._usage(self._answer.tokens),
            "simulated_seconds": self._answer.times(),
        }
        return _event_of(chunk) + DONE

    def document(self) -> bytes:
        """Return the whole answer, once it is there."""
        choices = []
        for choice in self._answer.choices:
            text = self._word * choice.tokens
            said: dict[str, Any] = (
                {"message": {"role": "assistant", "content": text, "refusal": None}}
                if self._question.is_chat
                else {"text": text}
            )
            choices.append(self._choice(choice.index, said, is_last=True))
        document = {
            **self._shared,
            "choices": choices,
            "usage": self._usage(self._answer.tokens),
            "simulated_seconds": self._answer.times(),
        }
        return msgspec.json.encode(document)

    def _event(self, piece: tuple[int, int, bool]) -> bytes:
        index, tokens, is_last = piece
        self._sent += tokens
        opening = b""
        if self._question.is_chat and index not in self._begun:
            self._begun.add(index)
            opening = _event_of(
                self._chunk([self._choice(index, {"delta": {"role": "assistant", "content": ""}})])
            )
        # All events of one size are the same, unless they say how many tokens came before.
        event = self._pieces.get(piece)
        if event is None or self._question.has_running_usage:
            text = self._word * tokens
            said = {"delta": {"content": text}} if self._question.is_chat else {"text": text}
            event = _event_of(self._chunk([self._choice(index, said, is_last=is_last)]))
            self._pieces[piece] = event
        return opening + event if opening else event

    def _choice(self, index: int, said: dict[str, Any], *, is_last: bool = False) -> dict[str, Any]:
        reason = self._question.ending if is_last else None
        return {
            "index": index, **said, "logprobs": None, "finish_reason": reason, "stop_reason": None,
        }  # fmt: skip

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        chunk = {**self._shared, "choices": choices}
        if self._question.is_chat:
            chunk["object"] = "chat.completion.chunk"
        if self._question.has_running_usage:
            chunk["usage"] = self._usage(self._sent)
        elif self._question.has_usage:
            chunk["usage"] = None
        return chunk

    def _usage(self, tokens: int) -> dict[str, Any]:
        prompt = self._question.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            "prompt_tokens_details": None,
        }


def _event_of(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"
