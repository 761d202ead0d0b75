"""The fixtures that run the command."""

from __future__ import annotations

from support.command_line import model, refused, run, spawn

__all__ = ["model", "refused", "run", "spawn"]
