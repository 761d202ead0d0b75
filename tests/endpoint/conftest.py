"""An endpoint in this process, with a fake machine behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.live_machine import Served, served


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Return what starts endpoints, which end with the test."""
    with ExitStack() as stack:
        yield lambda *machine, **options: stack.enter_context(served(*machine, **options))


@pytest.fixture
def endpoint(serve: Callable[..., Served]) -> Served:
    """Return an endpoint at the largest speed."""
    return serve()
