"""Models of PyTorch, whole training steps included, in Trainium's arithmetic.

``torch.compile(model, backend="trn3")`` needs no import of this package; `compile` is the same with
profiles.

Examples
--------
>>> import torch
>>> from trn3.torch import compile
>>> softmax = compile(torch.nn.Softmax(0))
>>> softmax(torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)).dtype
torch.bfloat16
"""

from trn3.torch.compiling import CompiledModel, account, compile, profile  # noqa: A004
from trn3.torch.execution import GraphBreak
from trn3.torch.model_profile import ModelProfile
from trn3.torch.mx_linear import MxDotConfig, MXLinear, MxOperand, MxRecipe, mx_dot, to_mx
from trn3.torch.ranks import run_on_ranks

__all__ = [
    "CompiledModel",
    "GraphBreak",
    "MXLinear",
    "ModelProfile",
    "MxDotConfig",
    "MxOperand",
    "MxRecipe",
    "account",
    "compile",
    "mx_dot",
    "profile",
    "run_on_ranks",
    "to_mx",
]
