"""What the planner is asked: arguments checked, and put as the core takes them."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from typing import Any

from trn3 import facts
from trn3.planner.models import ModelLike, request_of

USUAL_CONTEXT = 8192
"""Tokens of context if none are given **(choice)**."""


def serving_request(
    model: ModelLike,
    system: Any,
    dtype: str | Mapping[str, str] | None,
    context: int | None,
    input_tokens: int | None,
    output_tokens: int,
    lnc: int | None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what every request has, and what was assumed to fill it."""
    said: tuple[str, ...] = ()
    if context is not None and input_tokens is not None:
        message = f"context is {context} and input_tokens {input_tokens}: give one of them"
        raise ValueError(message)
    tokens = context if context is not None else input_tokens
    if tokens is None:
        tokens = USUAL_CONTEXT
        said = (f"a context of {USUAL_CONTEXT:,} tokens, as none was given (choice)",)
    source = system_request(system)
    if lnc is None:
        lnc = source.pop("lnc", None)
    source.pop("lnc", None)
    request: dict[str, Any] = {
        "model": request_of(model),
        "system": source,
        "dtype": dict(dtype) if isinstance(dtype, Mapping) else dtype,
        "input": whole("context" if context is not None else "input_tokens", tokens),
        "output": whole("output_tokens", output_tokens),
        "lnc": None if lnc is None else whole("lnc", lnc),
    }
    return request, said


def system_request(system: Any) -> dict[str, Any]:
    """Return how a request to the core names a system.

    >>> system_request("gen2"), system_request("trn2"), system_request("trainium2")
    ({'name': 'trn3_gen2'}, {'name': 'trn2_instance'}, {'name': 'trainium2'})
    """
    if isinstance(system, (str, PathLike)):
        # "trn2" means the instance of Trainium2; the chip's own name, one chip.
        name, described = facts.find(os.fspath(system), "plans")
        if described is not None:
            return {"name": name, "toml": list(described)}
        kind = facts.load(name).kind
        if kind in _NO_SYSTEMS:
            message = f"system {system!r} cannot be planned on: {_NO_SYSTEMS[kind]}"
            raise ValueError(message)
        return {"name": name}
    inner = getattr(system, "ultraserver", None)
    if inner is not None and getattr(system, "n", None) is not None:
        return {**system_request(inner), "instances": int(system.n)}
    named = getattr(system, "name", None)
    if not isinstance(named, str):
        message = (
            f"system is {type(system).__name__}; needed: a name like 'gen2', a system of "
            "trn3.systems, or the path of a spec file"
        )
        raise TypeError(message)
    if getattr(system, "faults", ()):
        message = f"{named} has failed parts; plan it whole, or fewer chips with chips=..."
        raise ValueError(message)
    request: dict[str, Any] = {"name": named}
    for key in ("links", "lnc"):
        if getattr(system, key, None) is not None:
            request[key] = getattr(system, key)
    if getattr(system, "instances", None) is not None:
        request["instances"] = int(system.instances)
    if (file := getattr(system, "spec_file", None)) is not None:
        request["toml"] = list(file)
    return request


_NO_SYSTEMS = {
    "core": "it is a core; plan its chip, like 'trainium3'",
    "runtime": "it holds figures of collectives, not a machine; plan 'gen2' or 'trn2'",
    "results": "it holds published measurements, not a machine; plan 'gen2' or 'trn2'",
    "cluster": "its size is not given; plan trn3.systems.cluster(n), n UltraServers",
}
"""Kinds of spec files without chips, and what to plan instead."""


def seconds(name: str, value: float | str | None) -> float | None:
    """Return a time in seconds from a number or a text such as ``"20ms"``; None stays.

    >>> seconds("tpot", "20ms")
    0.02

    Raises
    ------
    ValueError
        If it is no time above 0.
    """
    if value is None:
        return None
    found = math.nan
    if isinstance(value, str):
        text, factor = value.strip(), 1.0
        for unit, unit_factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
            if text.endswith(unit):
                text, factor = text.removesuffix(unit), unit_factor
                break
        with suppress(ValueError):
            found = float(text) * factor
    else:
        found = float(value)
    if not (math.isfinite(found) and found > 0):
        message = (
            f"{name} is {value!r}; needed: seconds above 0, or a text like '1s', '20ms' or '500us'"
        )
        raise ValueError(message)
    return found


def whole(name: str, value: Any) -> int:
    """Return a whole number of at least 0.

    Raises
    ------
    TypeError, ValueError
        If it is none; the text begins with `name`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        message = f"{name} is {value!r}; needed: a whole number"
        raise TypeError(message) from None
    if number < 0:
        message = f"{name} is {number}; needed: a whole number of at least 0"
        raise ValueError(message)
    return number


def speculation_request(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return how a request to the core says what a draft model guesses.

    Raises
    ------
    ValueError
        If a key is unknown, or lacks.
    """
    if given is None:
        return None
    request = dict(given)
    allowed = ("length", "accepted", "draft", "draft_share")
    if wrong := sorted(set(request) - set(allowed)):
        message = f"speculation has no key {wrong[0]!r}; allowed: {', '.join(allowed)}"
        raise ValueError(message)
    if lacking := [name for name in allowed[:2] if request.get(name) is None]:
        message = (
            f"speculation lacks {lacking[0]!r}; needed: 'length' (tokens guessed a step), "
            "'accepted' (tokens a step yields on average), and 'draft' or 'draft_share'"
        )
        raise ValueError(message)
    if request.get("draft") is not None:
        request["draft"] = request_of(request["draft"])
    return request
