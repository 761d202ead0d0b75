"""Tokens of texts, by files of the package tokenizers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, strategies as st
from openai import OpenAI
from tokenizers import Tokenizer, models

from support.live_machine import Served
from support.token_files import byte_pairs, words
from trn3.endpoint.tokens import ByteTokens, FileTokens


@given(st.text(), st.text(), st.text())
def test_bytes_that_begin_alike_have_equal_first_tokens(
    shared: str, first: str, second: str
) -> None:
    """A cache of prefixes finds what texts have in common."""
    tokens = ByteTokens()
    length = len(shared.encode()) // 4
    one, other = tokens.ids(shared + first), tokens.ids(shared + second)
    assert one[:length] == other[:length]
    assert len(one) == -(-len((shared + first).encode()) // 4)
    assert len(one) >= tokens.least(shared + first)


def test_a_tokenizer_of_words_has_a_word(tmp_path: Path) -> None:
    """Texts are not shortened, though the file says so."""
    tokens = FileTokens(words(tmp_path, "the", "cat"))
    assert tokens.ids("the cat " * 10) == [1, 2] * 10
    assert tokens.word == " tok"
    assert len(tokens.ids(tokens.word * 50)) == 50


def test_a_tokenizer_of_bytes_has_what_it_joined(tmp_path: Path) -> None:
    tokens = FileTokens(byte_pairs(tmp_path))
    assert tokens.word == " a"
    assert len(tokens.ids(" a" * 50)) == 50


def test_answers_are_of_the_tokenizers_word(serve: Callable[..., Served], tmp_path: Path) -> None:
    file = byte_pairs(tmp_path)
    endpoint = serve(tokenizer=file)
    with OpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.completions.create(model="fake/model", prompt="abc", max_tokens=3)
        described = client.models.list().data[0].to_dict()["simulated"]
    assert answer.choices[0].text == " a a a"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3
    assert isinstance(described, dict)
    assert described["tokens"] == f"tokens of {file}"
    assert described["placeholder"] == " a"


def test_a_long_text_is_counted_while_others_are_served(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    endpoint = serve(tokenizer=byte_pairs(tmp_path))
    with OpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.completions.create(model="fake/model", prompt=" a" * 4000, max_tokens=3)
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 4000
        long = client.completions.with_raw_response
        with pytest.raises(Exception, match="maximum context length is 4096 tokens"):
            long.create(model="fake/model", prompt=" a" * 20_000, max_tokens=3)


def test_long_texts_are_counted_one_by_one_and_not_too_many_wait(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """A client that goes away does not let another text be counted beside its own."""
    endpoint = serve(tokenizer=byte_pairs(tmp_path))
    body = {"prompt": " a" * 200_000}

    async def ask(session: aiohttp.ClientSession, seconds: float) -> int:
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            url = f"{endpoint.url}/v1/completions"
            async with session.post(url, json=body, timeout=limit) as answer:
                return answer.status
        except TimeoutError:
            return 0

    async def ask_all() -> list[int]:
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(ask(session, 0.05) for _ in range(8)))
            running = [each for each in threading.enumerate() if each.name == "tokens of a text"]
            assert len(running) <= 1
            return await asyncio.gather(*(ask(session, 100) for _ in range(40)))

    statuses = asyncio.run(ask_all())
    assert set(statuses) == {400, 429}
    assert 1 <= statuses.count(400) <= 16


def test_what_is_no_tokenizer_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    with pytest.raises(FileNotFoundError) as caught:
        FileTokens(file)
    assert caught.value.filename == str(file)
    file.write_text("{}")
    with pytest.raises(ValueError, match=f"{file}: no tokenizer: "):
        FileTokens(file)


def test_a_tokenizer_without_a_word_is_refused(tmp_path: Path) -> None:
    """Of which no text is one token each when it is repeated."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.save(str(tmp_path / "one.json"))
    with pytest.raises(ValueError, match="none of its first 1 tokens"):
        FileTokens(tmp_path / "one.json")
