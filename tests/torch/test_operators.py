"""PyTorch's own samples of its operators, held against torch in float64."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from support.torch_values import assert_close, run_traced, widened

SAMPLES = 2
CLAIMED = """
abs acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax any arange argmax
argmin argsort as_strided asin asinh atan atan2 atanh baddbmm bitwise_and bitwise_left_shift
bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bmm broadcast_to bucketize cat
ceil chunk clamp clamp_max clamp_min clone column_stack constant_pad_nd contiguous copysign cos
cosh cross cumprod cumsum diag diag_embed diagonal diagonal_scatter diff div dot dstack einsum
empty_like eq erf erfc erfinv exp exp2 expand expand_as expm1 eye fill flatten flip fliplr flipud
floor floor_divide fmax fmin fmod frac full full_like gather ge gradient gt heaviside hsplit
hstack hypot index_add index_copy index_fill index_put index_select inner isclose isfinite isinf
isnan kron ldexp le lerp linalg.cross linalg.vecdot linalg.vector_norm linspace log log10 log1p
log2 log_softmax logaddexp logcumsumexp logical_and logical_not logical_or logical_xor logit
logsumexp lt mH mT masked_fill matmul max maximum mean min minimum mm movedim msort mul mv ne neg
new_full new_ones new_zeros nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.batch_norm
nn.functional.binary_cross_entropy nn.functional.celu nn.functional.conv1d nn.functional.conv2d
nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
nn.functional.cosine_similarity nn.functional.cross_entropy nn.functional.elu
nn.functional.embedding nn.functional.gelu nn.functional.glu nn.functional.group_norm
nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh
nn.functional.hinge_embedding_loss nn.functional.huber_loss nn.functional.instance_norm
nn.functional.interpolate nn.functional.kl_div nn.functional.l1_loss nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.mish nn.functional.mse_loss nn.functional.nll_loss
nn.functional.normalize nn.functional.pad nn.functional.pixel_shuffle nn.functional.prelu
nn.functional.relu nn.functional.relu6 nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.selu nn.functional.silu
nn.functional.smooth_l1_loss nn.functional.softmin nn.functional.softplus nn.functional.softshrink
nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold nn.functional.unfold
nn.functional.upsample_nearest ones ones_like outer permute pow prod reciprocal remainder repeat
reshape roll rot90 round rsqrt rsub scatter scatter_add scatter_reduce select select_scatter sgn
sigmoid sign signbit sin sinc sinh slice slice_scatter softmax sort split split_with_sizes sqrt
square squeeze stack std std_mean sub sum sum_to_size t take_along_dim tan tanh tensordot tile
topk trace transpose trapezoid tril triu true_divide trunc unbind unflatten unfold unsqueeze var
var_mean vdot view view_as vsplit vstack where xlogy zeros zeros_like
"""
# Memory around a tensor, and counts between ends that are data.
REFUSED = {"partial_views", "tensor_overload"}
# Values of memory that nobody wrote.
UNDEFINED = {"empty_like"}
DATABASE: dict[str, list[Any]] = {}
for entry in op_db:
    DATABASE.setdefault(entry.name, []).append(entry)


def samples(entry: Any) -> list[Any]:
    """Return the first few in float32, else in whole numbers, of types that the machine has."""
    dtypes = entry.supported_dtypes("cpu")
    known = [kind for kind in (torch.float32, torch.int64, torch.bool) if kind in dtypes]
    torch.manual_seed(0)
    found = entry.sample_inputs("cpu", known[0]) if known else iter(())
    if entry.variant_test_name in REFUSED:
        return []
    return list(itertools.islice(filter(is_of_the_machine, found), SAMPLES))


def is_of_the_machine(sample: Any) -> bool:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    types = [leaf.dtype if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return not {torch.float64, torch.complex64, torch.complex128}.intersection(
        kind for kind in types if isinstance(kind, torch.dtype)
    )


@pytest.mark.parametrize("name", CLAIMED.split())
def test_samples_of_torch(name: str) -> None:
    ran = 0
    for entry in DATABASE[name]:
        for sample in samples(entry):
            args = (sample.input, *sample.args)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = run_traced(entry.op, *args, **sample.kwargs)
                wide = pytree.tree_map(widened, (args, sample.kwargs))
                expected = entry.op(*wide[0], **wide[1])
            ran += 1
            if name in UNDEFINED:
                assert found.shape == expected.shape
            else:
                assert_close(found, expected)
    assert ran


def test_means_of_whole_numbers_are_rounded_down() -> None:
    x, index = torch.tensor([-7, 4, 9]), torch.tensor([0, 0, 2])
    source = torch.tensor([2, 2, -4])
    found = run_traced(torch.scatter_reduce, x, 0, index, source, "mean")
    assert_close(found, torch.scatter_reduce(x, 0, index, source, "mean"))
