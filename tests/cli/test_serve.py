"""``trn3 serve``: one screen, JSON by vLLM's names, sizes, HTTP, refusals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ALONE = ("llama-3-8b", "--system", "trn2", "--tp", 8, "--in", 512, "--out", 32)


def trn3(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trn3", "serve", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_screen_answers_everything() -> None:
    done = trn3(*ALONE, "--rate", 20, "--requests", 200, "--goodput", "ttft:500")
    assert done.returncode == 0, done.stderr
    for word in (
        "time to first token", "time per token", "between tokens", "end to end", "mean expected",
        "requests/s", "good requests/s", "busy", "kv cache", "USD a million tokens", "J a request",
        "TP 8, 1 replica", "Assumed:", "times of prompts within",
    ):  # fmt: skip
        assert word in done.stdout, word


def test_json_is_one_object_and_the_same_bytes_again() -> None:
    words = (*ALONE, "--request-rate", "inf", "--num-prompts", 50, "--json", "--seed", 3)
    first, again = trn3(*words), trn3(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    document = json.loads(first.stdout)
    assert (document["completed"], document["request_rate"]) == (50, "inf")
    assert document["total_output_tokens"] == 50 * 32


def test_a_trace_is_replayed_and_a_broken_line_named(tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text("arrival,input,output\n0.0,300,40\n0.4,900,20\n")
    done = trn3("llama-3-8b", "--system", "trn2", "--tp", 8, "--trace", trace, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total_output_tokens"] == 60
    trace.write_text("arrival,input,output\n0.0,300,40\n0.4,many,20\n")
    done = trn3("llama-3-8b", "--system", "trn2", "--tp", 8, "--trace", trace)
    assert done.returncode == 2
    assert "requests.csv:3" in done.stderr
    assert "many" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("llama-3.1-405b", "--system", "trn2", "--tp", 1), "does not fit"),
        ((*ALONE, "--rate", "fast"), "rate"),
        ((*ALONE, "--acceptance", "0.5"), "speculation"),
        ((*ALONE, "--autoscale", "1:8"), "--autoscale"),
        ((*ALONE, "--goodput", "wait:5"), "--goodput"),
        ((*ALONE, "--draft-tokens", 3), "--draft"),
        ((*ALONE, "--system", "gen2"), "--size-for"),
        ((*ALONE, "--size-for", "5 req/s", "--rate", 3), "--rate"),
        ((*ALONE, "--size-for", "p99 ttft < 1 s"), "a rate"),
        ((*ALONE, "--http", "--speed", "slow"), "--speed"),
        (("llama-3-8b", "--http", "--in", "uniform:1:2"), "--in"),
        ((*ALONE, "--users", 2, "--rate", 3), "users"),
    ],
)
def test_what_is_refused_is_one_line_and_status_2(words: tuple[object, ...], text: str) -> None:
    done = trn3(*words, *(() if "--size-for" in words else ("--requests", 20)))
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr.splitlines()[0]


def test_sizes_are_found_or_status_1() -> None:
    words = (*ALONE, "--max-num-seqs", 64)
    done = trn3(*words, "--size-for", "40 req/s, p99 ttft < 1 s")
    assert done.returncode == 0, done.stderr
    assert "40 requests/s; p99_ttft_ms < 1000" in done.stdout
    none = trn3(*words, "--size-for", "40 req/s, p99 ttft < 1 us", "--json")
    assert none.returncode == 1, none.stderr
    assert json.loads(none.stdout)["systems"][0]["best"] is None


def test_pictures_and_reports_are_written(tmp_path: Path) -> None:
    picture, page = tmp_path / "load.svg", tmp_path / "load.html"
    done = trn3(*ALONE, "--rate", 20, "--requests", 50, "--plot", picture, "--html", page)
    assert done.returncode == 0, done.stderr
    assert picture.read_text().startswith("<?xml")
    assert 'data-kind="load"' in page.read_text()


def test_http_listens_answers_and_ends() -> None:
    pytest.importorskip("aiohttp")
    words = [sys.executable, "-m", "trn3", "serve", *map(str, ALONE), "--http", "--port", "0"]
    with subprocess.Popen(
        [*words, "--speed", "max"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        said = server.stdout.readline().strip()
        assert said.startswith("listening on http://127.0.0.1:")
        url = said.removeprefix("listening on ")
        body = json.dumps({"model": "llama-3-8b", "prompt": "a b c", "max_tokens": 5})
        request = urllib.request.Request(
            f"{url}/v1/completions",
            body.encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["usage"]["completion_tokens"] == 5
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=10) == 143
