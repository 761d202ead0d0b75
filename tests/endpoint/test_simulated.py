"""The endpoint in front of the planner's own machine, and as a command."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from openai import OpenAI

from support.live_machine import Served, environment
from trn3 import planner

SERVE = ["serve", "llama-3-8b", "--system", "trn2", "--tp", "8", "--http"]


def test_times_are_the_machines_own(serve: Callable[..., Served]) -> None:
    """As if it had been asked without any HTTP."""
    prompt, tokens = list(range(500)), 20
    alone = planner.live("llama-3-8b", "trn2", tp=8)
    alone.submit(0.0, prompt, tokens)
    times = [at for _, at, _, _ in alone.advance(100.0)]
    endpoint = serve(planner.live("llama-3-8b", "trn2", tp=8))
    with OpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.completions.create(model="llama-3-8b", prompt=prompt, max_tokens=tokens)
        (model,) = client.models.list().data
    assert answer.to_dict()["simulated_seconds"] == {
        "arrival": 0.0,
        "first_token": times[0],
        "end": times[-1],
    }
    assert model.to_dict()["max_model_len"] == alone.longest_context


def test_prompts_that_begin_alike_share_a_cache(serve: Callable[..., Served]) -> None:
    machine = planner.live("llama-3-8b", "trn2", tp=8, prefix_caching=True)
    endpoint = serve(machine)
    with OpenAI(base_url=f"{endpoint.url}/v1", api_key="none", max_retries=0) as client:
        for end in ("one", "two"):
            client.completions.create(model="llama-3-8b", prompt="once upon a time " * 99 + end)
    state = machine.state()
    assert state["prefix_cache_hits"] > 0.4 * state["prefix_cache_queries"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_serves_until_a_signal_comes(number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "trn3", *SERVE, "--port", "0", "--speed", "max"]
    with subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("listening on ").strip()
        with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            answer = client.completions.create(model="llama-3-8b", prompt="Once", max_tokens=3)
        assert answer.choices[0].text == " tok" * 3
        process.send_signal(number)
        assert process.wait(10) == code
        assert process.stdout.read() == ""


def test_the_command_refuses_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "trn3", *SERVE, "--port", port]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("trn3: error: ")
    assert f"127.0.0.1:{port}" in done.stderr
