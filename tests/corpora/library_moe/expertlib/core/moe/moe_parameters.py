"""What the blockwise kernels are given."""

from dataclasses import dataclass
from typing import Any, Optional

import nki.language as nl

from ..utils.common_types import ActFnType, ExpertAffinityScaleMode
from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import div_ceil


@dataclass
class SkipMode(nl.NKIObject):
    """Whether padding is skipped: -1 is its token, or its weight."""

    skip_token: bool = False
    skip_weight: bool = False


class InputTensors(nl.NKIObject):
    """Tensors in HBM."""

    hidden_states: nl.ndarray
    gate_up_proj_weight: nl.ndarray
    down_proj_weight: nl.ndarray
    token_position_to_id: nl.ndarray
    block_to_expert: nl.ndarray
    expert_affinities_masked: nl.ndarray
    gate_up_proj_scale: Optional[nl.ndarray] = None
    down_proj_scale: Optional[nl.ndarray]
    gate_and_up_proj_bias: Any
    conditions: Any


class OutputTensors(nl.NKIObject):
    """Tensors that are written."""

    output: nl.ndarray
    gate_up_activations_T: Optional[nl.ndarray] = None


@dataclass(frozen=True)
class Configs(nl.NKIObject):
    """Choices."""

    skip_dma: SkipMode = SkipMode(False, False)
    compute_dtype: Any = nl.bfloat16
    scaling_mode: ExpertAffinityScaleMode = ExpertAffinityScaleMode.POST_SCALE
    activation_function: ActFnType = ActFnType.SiLU
    is_tensor_update_accumulating: bool = True


@dataclass
class DimensionSizes(nl.NKIObject):
    """Sizes."""

    T: int
    H: int
    B: int
    E: int
    N: int
    I: int  # noqa: E741
    num_shards: int = 1
    shard_id: int = 0

    def __post_init__(self):
        self.h_tiles = self.H // nl.tile_size.pmax
        self.i_tiles = div_ceil(self.I, nl.tile_size.pmax)
        self.b_tiles = self.B // nl.tile_size.pmax
        self.H_shard = self.H // self.num_shards
        kernel_assert(self.B % nl.tile_size.pmax == 0, f"block size {self.B}")

    def derive_all_dims(self):
        """More sizes, late."""
        self.psum_width = min(self.H_shard, nl.tile_size.psum_fmax)
        self.h_outer = div_ceil(self.H_shard, self.psum_width)
