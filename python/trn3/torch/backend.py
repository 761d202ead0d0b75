"""The backend that `torch.compile` calls with what it captured."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from trn3.graph.run_options import refuse_other
from trn3.torch.custom_operators import bodies
from trn3.torch.decompositions import decompositions
from trn3.torch.execution import GraphBreak, GraphExecutable
from trn3.torch.options import TorchOptions

__all__ = ["TrainiumBackend", "trn3_backend"]


class TrainiumBackend:
    """Makes what runs a captured graph, forward and backward.

    Parameters
    ----------
    options : TorchOptions
    """

    def __init__(self, options: TorchOptions) -> None:
        self.options = options
        self.__name__ = "trn3"

    def __call__(self, module: Any, inputs: list[Any]) -> Any:
        """Compile a graph that torch captured; what is refused is refused when it is called."""
        for value in inputs:
            # Lengths that torch would keep open are those of this call, and guarded.
            for length in value.shape if isinstance(value, torch.Tensor) else [value]:
                if isinstance(length, torch.SymInt):
                    int(length)
        placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
        names = [_name(str(node.target)) for node in placeholders]
        found = GraphBreak.of(module)
        make = functools.partial(self._executable, names=names, found=found)
        made = aot_autograd(
            fw_compiler=functools.partial(make, "forward"),
            bw_compiler=functools.partial(make, "backward"),
            inference_compiler=functools.partial(make, "forward"),
            decompositions=decompositions() | bodies(),
        )
        with _plain_layers():
            return made(module, inputs)

    def _executable(
        self, part: str, module: Any, _inputs: Any, *, names: list[str], found: GraphBreak | None
    ) -> Any:
        return GraphExecutable(module, part, names, self.options, found).function()


def _name(placeholder: str) -> str:
    """Return what an input is called in the model, of the name that torch made of it."""
    name = placeholder.removeprefix("L_").strip("_")
    for long in ("self_modules_", "self_parameters_", "self_buffers_", "self_"):
        name = name.removeprefix(long)
    for long in ("modules", "parameters", "buffers"):
        name = name.replace(f"___{long}__", ".").replace(f"__{long}_", ".")
    return name or placeholder


def _plain_layers() -> Any:
    """Let attention and LSTMs be captured as the steps that they are, in their operands' types."""
    from contextlib import ExitStack

    from torch.nn.attention import SDPBackend, sdpa_kernel

    stack = ExitStack()
    stack.enter_context(sdpa_kernel(SDPBackend.MATH))
    is_used = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    stack.callback(torch._C._set_mkldnn_enabled, is_used)
    reduced = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    stack.callback(torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp, reduced)
    return stack


def trn3_backend(module: Any, inputs: list[Any], **kwargs: Any) -> Any:
    """Compile for ``torch.compile(model, backend="trn3", options={...})``.

    torch finds this by its entry point, without an import of trn3.
    """
    try:
        mode = kwargs.get("mode")
        if mode is not None:
            refuse_other("torch.compile's own mode", mode, [None])
        made = TrainiumBackend(TorchOptions.of(kwargs.get("options") or {}))
    except (ValueError, NotImplementedError) as refusal:
        # Raised by the call: torch would wrap it in several lines of its own.
        error = refusal

        def refuse(*_: Any) -> Any:
            raise error

        return refuse
    return made(module, inputs)
