"""Kernels of the user's own: operators that `trn3.nki` puts into graphs of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.graph.kernels import KERNELS
from trn3.torch.aten.registry import AtenError, Held, aten

if TYPE_CHECKING:
    from trn3.torch.aten.registry import AtenCall

__all__: list[str] = []


@aten("trn3.kernel")
def _kernel(call: AtenCall) -> list[int]:
    numbers = [held.number for held in call["given"] if isinstance(held, Held)]
    kinds = [call.type(place) for place in range(len(call.result))]
    kernel = call.writer.tables.kernel(KERNELS[call["number"]])
    return call.writer.add("custom_call", numbers, kinds, {"kernel": kernel})


@aten("trn3.kernel_without_gradient")
def _without_gradient(call: AtenCall) -> None:
    name = KERNELS[call["number"]].name
    raise AtenError(
        f"kernel {name} has no gradient of its own; allowed: one by torch.autograd.Function, or "
        "torch.library.register_autograd"
    )
