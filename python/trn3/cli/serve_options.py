"""Options of ``trn3 serve``, as the arguments that they stand for."""

from __future__ import annotations

import math

from trn3.cli.refusal import RefusedError


def usual_sizes(input_tokens: str | None, output_tokens: str | None) -> dict[str, int]:
    """Return what ``--in`` and ``--out`` say where requests come from outside."""
    sizes = {}
    given = (("input_tokens", "--in", input_tokens), ("output_tokens", "--out", output_tokens))
    for name, option, text in given:
        if text is None:
            continue
        if not text.isdigit() or int(text) < 1:
            message = f"{option} is {text!r}; with --http needed: a usual number of tokens"
            raise RefusedError(message)
        sizes[name] = int(text)
    return sizes


def limits(given: list[str] | None) -> dict[str, float] | None:
    """Return what ``--goodput`` says, by wait."""
    if not given:
        return None
    found = {}
    for text in given:
        name, _, value = text.partition(":")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if name not in {"ttft", "tpot", "e2el"} or not found[name] > 0:
            message = f"--goodput is {text!r}; needed: ttft, tpot or e2el and ms, like ttft:500"
            raise RefusedError(message)
    return found


def chances(text: str | None) -> list[float] | None:
    """Return what ``--acceptance`` says."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        message = f"--acceptance is {text!r}; needed: chances like 0.8,0.6"
        raise RefusedError(message) from None


def autoscaling(text: str | None) -> dict[str, float] | None:
    """Return what ``--autoscale`` says."""
    if text is None:
        return None
    parts = text.split(":")
    try:
        least, most, target = int(parts[0]), int(parts[1]), float(":".join(parts[2:]))
    except (ValueError, IndexError):
        message = f"--autoscale is {text!r}; needed: LEAST:MOST:REQUESTS, like 1:8:16"
        raise RefusedError(message) from None
    return {"least": least, "most": most, "target": target}
