"""The fields of requests: what is used, what is checked and does not matter, what is refused."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from trn3.endpoint.errors import refuse

Count = Annotated[int, Meta(ge=1, lt=2**31)]
Priority = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
TokenId = Annotated[int, Meta(ge=0, lt=2**32)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Choices = Annotated[int, Meta(ge=1, le=128)]


class StreamFields(msgspec.Struct, kw_only=True, gc=False):
    """The field ``stream_options``."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class SharedFields(msgspec.Struct, kw_only=True):
    """What completions and chats have in common.

    The second group chooses among tokens or says who asks. Answers here are placeholders of the
    length that is asked for, so it is checked, and changes nothing.
    """

    model: str | None = None
    max_tokens: Count | None = None
    n: Choices | None = None
    priority: Priority | None = None
    stream: bool | None = None
    stream_options: StreamFields | None = None

    add_special_tokens: bool | None = None
    cache_salt: str | None = None
    frequency_penalty: Penalty | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    length_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    metadata: dict[str, Any] | None = None
    min_p: Share | None = None
    min_tokens: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    presence_penalty: Penalty | None = None
    prompt_cache_key: str | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    request_id: str | None = None
    return_tokens_as_token_ids: bool | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: str | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_k: Annotated[int, Meta(ge=-1, lt=2**31)] | None = None
    top_p: Share | None = None
    user: str | None = None


class CompletionFields(SharedFields, kw_only=True):
    """The fields of ``/v1/completions``."""

    prompt: str | list[str | TokenId | list[TokenId]]
    best_of: Choices | None = None


class PartFields(msgspec.Struct, kw_only=True, gc=False):
    """A part of a message."""

    type: str
    text: str | None = None


class MessageFields(msgspec.Struct, kw_only=True):
    """A message of a chat."""

    role: str
    content: str | list[PartFields] | None = None
    tool_calls: list[Any] | None = None


class ChatFields(SharedFields, kw_only=True):
    """The fields of ``/v1/chat/completions``."""

    messages: Annotated[list[MessageFields], Meta(min_length=1)]
    max_completion_tokens: Count | None = None

    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    include_reasoning: bool | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    store: bool | None = None
    verbosity: str | None = None


_TEXT: Final = "the answer is placeholder text"
_LIKELY: Final = "no probabilities are computed"
#: Fields that ask for what a simulated machine cannot give, and why; empty ones ask for nothing.
REFUSED: Final = {
    "allowed_token_ids": _TEXT,
    "audio": _TEXT,
    "bad_words": _TEXT,
    "chat_template": "tokens of a chat are counted without a template",
    "continue_final_message": "tokens of a chat are counted without a template",
    "documents": "tokens of a chat are counted without a template",
    "echo": "the answer holds placeholders only",
    "functions": _TEXT,
    "guided_choice": _TEXT,
    "guided_grammar": _TEXT,
    "guided_json": _TEXT,
    "guided_regex": _TEXT,
    "kv_transfer_params": "the machine behind has one place for keys and values",
    "logits_processors": _LIKELY,
    "logprobs": _LIKELY,
    "mm_processor_kwargs": "texts alone are served",
    "prediction": _TEXT,
    "prompt_embeds": "texts and tokens alone are served",
    "prompt_logprobs": _LIKELY,
    "return_token_ids": _TEXT,
    "structured_outputs": _TEXT,
    "suffix": "texts are not inserted",
    "tools": _TEXT,
    "top_logprobs": _LIKELY,
    "truncate_prompt_tokens": "prompts are served whole",
    "use_beam_search": "beams are not simulated",
    "web_search_options": _TEXT,
}
#: Fields of which some values ask for nothing that cannot be given.
HARMLESS: Final[dict[str, tuple[object, ...]]] = {
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
}


Fields = TypeVar("Fields", bound=SharedFields)


def read_fields(body: bytes, kind: type[Fields]) -> tuple[Fields, list[str]]:
    """Return the fields of a request's body, and the names of those that nobody knows.

    Parameters
    ----------
    body
        JSON.
    kind
        `CompletionFields` or `ChatFields`.

    Raises
    ------
    RefusedQuestionError
        If the body is no object of JSON, or a field is wrong or asks for what cannot be given.

    Examples
    --------
    >>> fields, unknown = read_fields(b'{"prompt": [1, 2], "max_token": 3}', CompletionFields)
    >>> fields.prompt, fields.max_tokens, unknown
    ([1, 2], None, ['max_token'])
    >>> read_fields(b'{"prompt": "Once", "max_tokens": "3"}', CompletionFields)
    Traceback (most recent call last):
        ...
    trn3.endpoint.errors.RefusedQuestionError: max_tokens: Expected `int | null`, got `str`
    """
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse(f"the body is no JSON: {error}")
    if not isinstance(given, dict):
        refuse("the body is no object of JSON")
    for name in given.keys() & REFUSED.keys():
        # What is empty asks for nothing; 0 asks for the probabilities of the tokens themselves.
        if given[name] or (given[name] == 0 and given[name] is not False):
            refuse(f"{name} cannot be served: {REFUSED[name]}", name)
    for name in given.keys() & HARMLESS.keys():
        if given[name] and given[name] not in HARMLESS[name]:
            allowed = " or ".join(map(repr, HARMLESS[name]))
            refuse(f"{name} cannot be served: {_TEXT}; allowed: {allowed}", name)
    try:
        fields = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).rpartition(" - at `$.")
        where = place.rstrip("`")
        refuse(f"{where}: {message}" if message else str(error), where.partition("[")[0] or None)
    unknown = given.keys() - set(kind.__struct_fields__) - REFUSED.keys() - HARMLESS.keys()
    return fields, sorted(unknown)
