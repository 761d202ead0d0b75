"""What a request asks for: prompts as tokens, and answers of a length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from trn3.endpoint.errors import RefusedQuestionError, busy, refuse
from trn3.endpoint.fields import (
    ChatFields,
    CompletionFields,
    MessageFields,
    SharedFields,
    read_fields,
)
from trn3.endpoint.options import COMPLETION_TOKENS, EndpointOptions
from trn3.endpoint.tokens import TokenCounter, ids_aside

#: Answers that one request may ask for: prompts times `n`. OpenAI bounds prompts so.
MOST_ANSWERS: Final = 2048
#: Names of unknown fields that are told, at most.
_TOLD_FIELDS: Final = 32
#: Letters from which tokens are counted beside the event loop, one text at a time.
_LONG_TEXT: Final = 20_000
#: Long texts that may wait for that.
_LONG_TEXTS: Final = 16


@dataclass(frozen=True, slots=True)
class Question:
    """A request that can be served, if there is room.

    Parameters
    ----------
    model
        The model, as the request calls it.
    prompts
        Each as its tokens.
    n
        Answers to each.
    output
        Tokens of each answer.
    ending
        Why an answer ends: ``"length"``, or ``"stop"`` where the request sets no limit.
    priority
        As the machine takes it.
    is_chat
        Whether answers are messages.
    is_streamed, has_usage, has_running_usage
        Whether an answer comes in pieces, with its usage at the end, and with that so far in each.
    """

    model: str
    prompts: Sequence[list[int]]
    n: int
    output: int
    ending: str
    priority: int
    is_chat: bool
    is_streamed: bool
    has_usage: bool
    has_running_usage: bool

    @property
    def answers(self) -> int:
        """Answers to all prompts."""
        return self.n * len(self.prompts)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(map(len, self.prompts))


class Questioner:
    """Makes questions of the bodies of requests.

    Parameters
    ----------
    names
        What the model may be called.
    context
        Tokens of a prompt and its answer together, at most.
    tokens
        Makes tokens of texts.
    options
        The endpoint's.
    notice
        Takes a line for each name of a field that nobody knows.
    """

    def __init__(
        self,
        names: Sequence[str],
        context: int,
        tokens: TokenCounter,
        options: EndpointOptions,
        notice: Callable[[str], object],
    ) -> None:
        self._names = names
        self._context = context
        self._tokens = tokens
        self._options = options
        self._notice = notice
        self._told: set[str] = set()
        self._long_texts = 0
        self._counting: asyncio.Future[list[int]] | None = None

    async def completion(self, body: bytes) -> Question:
        """Return what the body of ``/v1/completions`` asks for.

        Raises
        ------
        RefusedQuestionError
            If it cannot be served.
        """
        fields, unknown = read_fields(body, CompletionFields)
        self._tell(unknown)
        model = self._model(fields)
        if fields.best_of is not None and fields.best_of != (fields.n or 1):
            refuse(f"best_of is {fields.best_of}; allowed: n, as no answer is better", "best_of")
        given = fields.prompt
        prompts: list[str | list[int]]
        if isinstance(given, str):
            prompts = [given]
        elif given and all(isinstance(each, int) for each in given):
            prompts = [given]  # type: ignore[list-item] # numbers, each of them
        elif any(isinstance(each, int) for each in given):
            refuse("prompt mixes tokens and prompts", "prompt")
        else:
            prompts = given  # type: ignore[assignment] # texts and lists of tokens
        if not prompts:
            refuse("prompt is empty; needed: at least one token", "prompt")
        n = self._n(fields, len(prompts))
        tokens = [await self._ids(prompt, "prompt") for prompt in prompts]
        output = fields.max_tokens or COMPLETION_TOKENS
        for each in tokens:
            self._check_length(len(each), output, "prompt", "max_tokens")
        return self._question(fields, model, tokens, n, output, "length", is_chat=False)

    async def chat(self, body: bytes) -> Question:
        """Return what the body of ``/v1/chat/completions`` asks for.

        Raises
        ------
        RefusedQuestionError
            If it cannot be served.
        """
        fields, unknown = read_fields(body, ChatFields)
        self._tell(unknown)
        model = self._model(fields)
        n = self._n(fields, 1)
        tokens = await self._ids("".join(map(_text, fields.messages)), "messages")
        limit = fields.max_completion_tokens or fields.max_tokens
        room = max(self._context - len(tokens), 1)
        output = limit or min(self._options.chat_tokens, room)
        named = "max_tokens" if fields.max_completion_tokens is None else "max_completion_tokens"
        self._check_length(len(tokens), output, "messages", named)
        ending = "stop" if limit is None else "length"
        return self._question(fields, model, [tokens], n, output, ending, is_chat=True)

    def _question(
        self,
        fields: SharedFields,
        model: str,
        prompts: Sequence[list[int]],
        n: int,
        output: int,
        ending: str,
        *,
        is_chat: bool,
    ) -> Question:
        streaming = fields.stream_options
        if streaming is not None and not fields.stream:
            refuse("stream_options needs stream: true", "stream_options")
        return Question(
            model=model,
            prompts=prompts,
            n=n,
            output=output,
            ending=ending,
            priority=fields.priority or 0,
            is_chat=is_chat,
            is_streamed=bool(fields.stream),
            has_usage=bool(streaming and streaming.include_usage),
            has_running_usage=bool(streaming and streaming.continuous_usage_stats),
        )

    def _tell(self, unknown: Sequence[str]) -> None:
        """Say once of each unknown field that it is ignored, as servers do."""
        for name in unknown:
            if name not in self._told and len(self._told) < _TOLD_FIELDS:
                self._told.add(name)
                self._notice(f"requests have the unknown field {name[:60]!r}, which is ignored")

    def _model(self, fields: SharedFields) -> str:
        if fields.model is None:
            return self._names[0]
        if fields.model not in self._names:
            raise unknown_model(fields.model, self._names)
        return fields.model

    def _n(self, fields: SharedFields, prompts: int) -> int:
        n = fields.n or 1
        if n * prompts > MOST_ANSWERS:
            refuse(f"{n} answers to {prompts} prompts; allowed: {MOST_ANSWERS} in all", "n")
        return n

    async def _ids(self, prompt: str | list[int], param: str) -> list[int]:
        if not isinstance(prompt, str):
            ids = prompt
        elif self._tokens.least(prompt) >= self._context:
            message = (
                f"This model's maximum context length is {self._context} tokens. However, your "
                f"{param} resulted in at least {self._tokens.least(prompt)} tokens. Please reduce "
                f"the length of the {param}."
            )
            refuse(message, param, "context_length_exceeded")
        elif len(prompt) < _LONG_TEXT:
            ids = self._tokens.ids(prompt)
        else:
            ids = await self._long_ids(prompt)
        if not ids:
            refuse(f"{param} is empty; needed: at least one token", param)
        return ids

    async def _long_ids(self, text: str) -> list[int]:
        if self._long_texts >= _LONG_TEXTS:
            raise busy("too many long texts are being counted")
        self._long_texts += 1
        try:
            # Also of a client that went away: what is being counted cannot be stopped.
            while self._counting is not None and not self._counting.done():
                await asyncio.wait([self._counting])
            self._counting = ids_aside(self._tokens, text)
            return await asyncio.shield(self._counting)
        finally:
            self._long_texts -= 1

    def _check_length(self, prompt: int, output: int, param: str, limit: str) -> None:
        if prompt + output <= self._context:
            return
        message = (
            f"This model's maximum context length is {self._context} tokens. However, you "
            f"requested {prompt + output} tokens ({prompt} in the {param}, {output} in the "
            f"completion). Please reduce the length of the {param} or completion."
        )
        refuse(message, limit if prompt < self._context else param, "context_length_exceeded")


def unknown_model(name: str, names: Sequence[str]) -> RefusedQuestionError:
    """Return the refusal of a model that is not served."""
    message = f"The model `{name}` does not exist; served: {', '.join(names)}."
    return RefusedQuestionError(
        HTTPStatus.NOT_FOUND, message, param="model", code="model_not_found"
    )


def _text(message: MessageFields) -> str:
    r"""Return a message as it is counted, without any model's own template **(choice)**.

    >>> _text(MessageFields(role="user", content="Hello"))
    'user\nHello\n'
    """
    if message.content is None or isinstance(message.content, str):
        text = message.content or ""
    else:
        for part in message.content:
            if part.type not in ("text", "input_text", "refusal") or part.text is None:
                refuse(f"a part of a message is {part.type!r}; allowed: 'text'", "messages")
        text = "".join(part.text or "" for part in message.content)
    calls = msgspec.json.encode(message.tool_calls).decode() if message.tool_calls else ""
    return f"{message.role}\n{text}{calls}\n"
