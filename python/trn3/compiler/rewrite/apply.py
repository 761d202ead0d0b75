"""Advice about a run, applied to the text of its kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from trn3.compiler.rewrite.hoisting import fill_once
from trn3.compiler.rewrite.moves import give_engine, issue_ahead, make_all_in_loop, remove
from trn3.compiler.rewrite.text import KernelText
from trn3.compiler.rewrite.transfers import join_transfers, read_source

__all__ = ["rewritten"]


def rewritten(
    text: KernelText, advice: Mapping[str, Any], takes_engine: Callable[[ast.expr], bool]
) -> KernelText:
    """Return a text in which a change that `trn3.compiler.advise` found is made.

    Parameters
    ----------
    text : KernelText
        The one that ran.
    advice : mapping
        One of the changes of ``RunAdvice.report()``.
    takes_engine : callable
        Whether an expression in the kernel is a function of `nki.isa` that takes an engine.

    Raises
    ------
    ByHandError
        If the text does not let it be made mechanically; says why.
    """
    lines, tensors = advice["lines"], [each["line"] for each in advice["tensors"]]
    match advice["kind"]:
        case "hoist":
            return fill_once(text, tensors[0], lines)
        case "double-buffer":
            return make_all_in_loop(text, tensors)
        case "ahead":
            return issue_ahead(text, advice["before"], tensors)
        case "dead":
            return remove(text, lines)
        case "join":
            return join_transfers(text, lines[0])
        case "direct":
            return read_source(text, lines)
    is_queue = advice["kind"] == "queue"
    for line, engines in zip(lines, advice["engines"], strict=True):
        text = give_engine(text, line, engines, takes_engine, is_queue=is_queue)
    return text
