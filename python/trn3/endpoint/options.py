"""How an endpoint is set up."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Final

#: The speed at which simulated time jumps from event to event.
MAX_SPEED: Final = math.inf
HOST: Final = "127.0.0.1"
#: Tokens of an answer if a request does not say: OpenAI's own for completions; a choice for chats,
#: in which a model would end by itself.
COMPLETION_TOKENS: Final = 16
CHAT_TOKENS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """Where an endpoint listens, how fast its time runs, and what it bears.

    Parameters
    ----------
    host
        The address to listen on. None but this machine can reach the default.
    port
        Where; 0 takes any that is free.
    speed
        Simulated seconds in a second; `MAX_SPEED` lets time jump to the next event when all that
        is due was handed out.
    tokenizer
        A ``tokenizer.json`` by which tokens of texts are counted; without one, four bytes are a
        token **(choice)**.
    names
        Names of the model besides its own.
    chat_tokens
        Tokens of the answer to a chat that sets no limit **(choice)**; shorter where the context
        ends before.
    queue
        Answers that may be asked for and not yet complete, beside what the machine itself bounds;
        others get 429.
    connections
        Connections at a time; others get 503 and are closed. Fewer if the process may not open
        so many files.
    body_bytes
        Bytes of a request's body.
    body_seconds
        Seconds in which a body must have come.
    idle_seconds
        Seconds that a connection may take to bring the next request, its headers included.
    stall_seconds
        Seconds for which a client may leave what it was sent (Linux only).

    Raises
    ------
    ValueError
        If an option is out of range; the text begins with its name.

    Examples
    --------
    >>> EndpointOptions(speed=10).speed
    10
    >>> EndpointOptions(port=70000)
    Traceback (most recent call last):
        ...
    ValueError: port is 70000; allowed: 0 to 65535
    """

    host: str = HOST
    port: int = 0
    speed: float = 1.0
    tokenizer: str | os.PathLike[str] | None = None
    names: tuple[str, ...] = ()
    chat_tokens: int = CHAT_TOKENS
    queue: int = 2**14
    connections: int = 2**14
    body_bytes: int = 2**24
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    stall_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            message = f"port is {self.port}; allowed: 0 to {2**16 - 1}"
            raise ValueError(message)
        if not self.host:
            message = "host is empty; needed: an address, or the name of one"
            raise ValueError(message)
        most_of = {
            "chat_tokens": 2**31, "queue": 2**31, "connections": 2**20, "body_bytes": 2**40,
        }  # fmt: skip
        for name, most in most_of.items():
            if not 1 <= getattr(self, name) <= most:
                message = f"{name} is {getattr(self, name)}; allowed: 1 to {most}"
                raise ValueError(message)
        if not self.speed > 0:
            message = f"speed is {self.speed}; needed: a number above 0"
            raise ValueError(message)
        for name in ("body_seconds", "idle_seconds", "stall_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                message = f"{name} is {getattr(self, name)}; needed: seconds above 0"
                raise ValueError(message)


def speed_of(text: str) -> float:
    """Return the speed that a word of a command line means.

    Raises
    ------
    ValueError
        If it is neither ``max`` nor a number above 0.

    Examples
    --------
    >>> speed_of("2.5"), speed_of("max") == MAX_SPEED
    (2.5, True)
    >>> speed_of("fast")
    Traceback (most recent call last):
        ...
    ValueError: speed is 'fast'; needed: 'max', or a number above 0
    """
    if text == "max":
        return MAX_SPEED
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        message = f"speed is {text!r}; needed: 'max', or a number above 0"
        raise ValueError(message)
    return speed
