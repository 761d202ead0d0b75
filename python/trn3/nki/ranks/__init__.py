"""Who runs a kernel: its place in the launch, cores and ranks side by side, where they meet."""

from __future__ import annotations

from trn3.nki.ranks.world import World

__all__ = ["World"]
