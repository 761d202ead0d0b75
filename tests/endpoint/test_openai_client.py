"""The endpoint as OpenAI's own client sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from support.live_machine import Served

MODEL = "fake/model"


@pytest.fixture
def client(endpoint: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_a_completion_has_as_many_words_as_tokens(client: OpenAI) -> None:
    """Without a tokenizer four bytes are a token, and a placeholder has four."""
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=5)
    assert answer.object == "text_completion"
    assert [choice.text for choice in answer.choices] == [" tok" * 5]
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 4
    assert answer.usage.completion_tokens == 5
    assert answer.usage.total_tokens == 9


def test_a_completion_has_openais_length_by_default(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="Once")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


def test_a_streamed_completion_is_the_same_in_pieces(client: OpenAI) -> None:
    """A token a chunk, then the usage with no choice."""
    chunks = list(
        client.completions.create(
            model=MODEL,
            prompt="Once",
            max_tokens=7,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
    )
    *pieces, last = chunks
    assert [piece.choices[0].text for piece in pieces] == [" tok"] * 7
    assert [piece.choices[0].finish_reason for piece in pieces] == [None] * 6 + ["length"]
    assert all(piece.usage is None for piece in pieces)
    assert len({piece.id for piece in chunks}) == 1
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (1, 7)


def test_without_the_option_a_stream_has_no_usage(client: OpenAI) -> None:
    chunks = list(client.completions.create(model=MODEL, prompt="Once", stream=True))
    assert len(chunks) == 16
    assert all(chunk.usage is None for chunk in chunks)


def test_a_chat_that_sets_no_limit_stops_by_itself(client: OpenAI) -> None:
    """After as many tokens as the options say."""
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Hello"}]
    )
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == " tok" * 256
    assert answer.choices[0].finish_reason == "stop"


def test_a_streamed_chat_begins_with_its_role(client: OpenAI) -> None:
    *pieces, last = list(
        client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            max_completion_tokens=3,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert {piece.object for piece in [*pieces, last]} == {"chat.completion.chunk"}
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[0].choices[0].delta.content == ""
    assert [piece.choices[0].delta.content for piece in pieces[1:]] == [" tok"] * 3
    assert pieces[-1].choices[0].finish_reason == "length"
    assert last.usage is not None
    assert last.usage.completion_tokens == 3


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ([5, 6, 7], [[5, 6, 7]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
        (["abcdefgh", "abcdefghi"], [[1684234849, 1751606885], [1684234849, 1751606885, 105]]),
    ],
)
def test_prompts_are_texts_or_tokens_alone_or_in_lists(
    client: OpenAI,
    endpoint: Served,
    prompt: list[str] | list[int] | list[list[int]],
    prompts: list[list[int]],
) -> None:
    """Choices are ordered by prompts; texts that begin alike have tokens that do."""
    answer = client.completions.create(model=MODEL, prompt=prompt, max_tokens=2, n=2)
    assert [choice.index for choice in answer.choices] == list(range(2 * len(prompts)))
    asked = [request[1] for request in endpoint.machine.asked.values()]
    assert asked == [prompt for prompt in prompts for _ in range(2)]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(map(len, prompts))
    assert answer.usage.completion_tokens == 2 * len(answer.choices)


def test_streamed_choices_come_side_by_side(client: OpenAI) -> None:
    chunks = list(
        client.completions.create(model=MODEL, prompt="Once", max_tokens=3, n=2, stream=True)
    )
    assert sorted(chunk.choices[0].index for chunk in chunks) == [0, 0, 0, 1, 1, 1]


def test_usage_so_far_stands_in_every_chunk_if_asked_for(client: OpenAI) -> None:
    chunks = client.completions.create(
        model=MODEL,
        prompt="Once",
        max_tokens=3,
        stream=True,
        extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    )
    assert [chunk.usage and chunk.usage.completion_tokens for chunk in chunks] == [1, 2, 3, 3]


def test_hundreds_of_chats_at_a_time_are_all_whole(endpoint: Served) -> None:
    async def ask(client: AsyncOpenAI) -> tuple[int, int]:
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Hello"}],
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
        )
        pieces = [piece async for piece in stream]
        assert pieces[-1].usage is not None
        return len(pieces), pieces[-1].usage.completion_tokens

    async def ask_all() -> list[tuple[int, int]]:
        async with AsyncOpenAI(
            base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0
        ) as client:
            return await asyncio.gather(*(ask(client) for _ in range(200)))

    assert asyncio.run(ask_all()) == [(6, 4)] * 200


def test_models_are_listed_and_found(client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == MODEL
    assert model.to_dict()["max_model_len"] == 4096
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


def test_a_model_may_have_other_names(serve: Callable[..., Served]) -> None:
    url = serve(names=("short",)).url
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        assert client.completions.create(model="short", prompt="Once").model == "short"


def test_simulated_times_come_with_the_usage(client: OpenAI) -> None:
    """Of 3 steps of 10 ms each."""
    answer = client.completions.create(model=MODEL, prompt="Once", max_tokens=3)
    times = answer.to_dict()["simulated_seconds"]
    assert isinstance(times, dict)
    assert times["first_token"] - times["arrival"] == pytest.approx(0.01)
    assert times["end"] - times["arrival"] == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": 5000}, "max_tokens"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [1, "two"]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": "x" * 20_000}, "prompt"),
        ({"prompt": [7] * 5000}, "prompt"),
        ({"n": 0}, "n"),
        ({"n": 128, "prompt": [[1]] * 17}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"echo": True}, "echo"),
        ({"logprobs": 1}, "logprobs"),
        ({"suffix": "end"}, "suffix"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"prompt_logprobs": 0}, "prompt_logprobs"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_field(
    client: OpenAI, wrong: dict[str, object], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt="Once", extra_body=wrong)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert client.completions.create(model=MODEL, prompt="Once").choices


@pytest.mark.parametrize(
    "harmless",
    [
        {"temperature": None, "top_p": 0.9, "top_k": -1, "seed": 3, "stop": ["x"], "user": "me"},
        {"echo": False, "logprobs": None, "suffix": None, "best_of": 1, "logit_bias": {}},
        {"response_format": {"type": "text"}, "min_tokens": 2, "repetition_penalty": 1.1},
    ],
)
def test_what_chooses_among_tokens_does_not_matter(
    client: OpenAI, harmless: dict[str, object]
) -> None:
    assert client.completions.create(model=MODEL, prompt="Once", extra_body=harmless).choices


def test_an_unknown_field_is_ignored_and_told_once(client: OpenAI, endpoint: Served) -> None:
    for _ in range(2):
        client.completions.create(model=MODEL, prompt="Once", extra_body={"max_token": 3})
    assert endpoint.notices == ["requests have the unknown field 'max_token', which is ignored"]


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="another", prompt="Once")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"top_logprobs": 2},
        {"max_completion_tokens": 9999},
    ],
)
def test_chats_that_cannot_be_served_are_refused(client: OpenAI, wrong: dict[str, object]) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hello"}], extra_body=wrong
        )
    assert caught.value.param == next(iter(wrong))
