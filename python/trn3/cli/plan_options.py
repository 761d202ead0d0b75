"""Options of plans, as the arguments of `trn3.plan` that they stand for."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from trn3.cli.refusal import RefusedError, refusing

#: What a plan, or a service, is of.
Config: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help="A config.json, a .toml of the same keys, or a name: openai/gpt-oss-120b, ...",
    ),
]


class SystemOption:
    """A system with links and a number of it, as the planner reads one."""

    def __init__(self, name: str, links: str, instances: int) -> None:
        from trn3.planner.requests import system_request

        with refusing(ValueError, OSError):
            request = system_request(name)
        self.asked = name
        self.name = request["name"]
        self.links = links
        self.instances = instances
        self.spec_file = request.get("toml")


def dtypes(given: list[str]) -> str | dict[str, str] | None:
    """Return one format, or one for each class, of ``--dtype``; None if it is not given."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    classes: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        # A format alone is that of all other classes.
        classes[name if equals else "default"] = value if equals else name
    return classes


def speculation(draft: str | None, tokens: int, accepted: float | None) -> dict[str, Any] | None:
    """Return what ``--draft``, ``--draft-tokens`` and ``--accepted`` say together."""
    if draft is None:
        if accepted is not None:
            message = "--accepted has a meaning only with --draft"
            raise RefusedError(message)
        return None
    if accepted is None:
        message = "--draft needs --accepted: the tokens a step yields on average are not published"
        raise RefusedError(message)
    try:
        return {"length": tokens, "accepted": accepted, "draft_share": float(draft)}
    except ValueError:
        return {"length": tokens, "accepted": accepted, "draft": draft}


def price(text: str | None) -> float | str | None:
    """Return a price in dollars, or its name."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
