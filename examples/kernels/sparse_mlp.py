"""A feed-forward block whose weights keep 4 of 16: a quarter of the array's passes for the same
product.

``nc_matmul_sparse`` is trn3's own name for what the hardware's array does; NKI has no public
instruction for it: the lint says so unless the line allows it.
"""

from typing import Final

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

PATTERN: Final = "4:16"
RATIO = 4
P = nl.tile_size.pmax
BLOCK = P * RATIO


def _project(values, tags, column, x, width):
    """Columns ``column`` to ``column + 127`` of the sparse weights, transposed, times x [128,
    blocks, 4, width].
    """
    acc = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
    for k in nl.sequential_range(values.shape[1]):
        nisa.nc_matmul_sparse(  # trn3: allow TRN3-P025
            acc,
            stationary=values[:, k, nl.ds(column, P)],
            moving=x[:, k],
            tags=tags[:, k, nl.ds(column // 4, P // 4)],
            pattern=PATTERN,
        )
    return acc


def _load(tensor, dtype):
    """[128 * blocks, columns] in HBM as [128, blocks, columns] in SBUF."""
    rows, columns = tensor.shape
    tile = nl.ndarray((P, rows // P, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=tensor.reshape((rows // P, P, columns)).permute((1, 0, 2)))
    return tile


@nki.jit
def sparse_mlp(x, up_values, up_tags, down_values, down_tags):
    """``down.T @ relu(up.T @ x)``: x [features, tokens] with tokens <= 512, features and hidden
    multiples of 512; values are the compressed weights [rows / 4, columns], tags [rows / 4, columns
    / 4] the positions of four columns.
    """
    features, tokens = x.shape
    hidden = up_values.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    up, up_tag = _load(up_values, up_values.dtype), _load(up_tags, nl.uint16)
    down, down_tag = _load(down_values, down_values.dtype), _load(down_tags, nl.uint16)
    # Partition p of a block holds rows 4p to 4p + 3: what a group of 16 rows needs lies on four
    # partitions.
    inputs = nl.ndarray((P, features // BLOCK, RATIO, tokens), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=inputs, src=x.reshape((features // BLOCK, P, RATIO, tokens)).permute((1, 0, 2, 3))
    )
    middle = nl.ndarray((P, hidden // BLOCK, RATIO, tokens), dtype=x.dtype, buffer=nl.sbuf)
    for block in nl.affine_range(hidden // BLOCK):
        for lane in nl.affine_range(RATIO):
            # The columns of `up` are stored lane by lane, so that unit 4p + lane arrives on
            # partition p.
            product = _project(up, up_tag, block * BLOCK + lane * P, inputs, tokens)
            nisa.activation(middle[:, block, lane, :], op=nl.relu, data=product)
    for f in nl.affine_range(features // P):
        result = nl.ndarray((P, tokens), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(result, _project(down, down_tag, f * P, middle, tokens))
        nisa.dma_copy(dst=out[nl.ds(f * P, P), :], src=result)
    return out


def _compressed(weight):
    """Values and tags of a [rows, columns] weight: positions of four neighbouring columns in one
    uint16.
    """
    from trn3.numerics import compress

    sparse = compress(weight, PATTERN)
    position = sparse.indices.astype(np.uint16).reshape(*sparse.indices.shape[:-1], -1, 4)
    return sparse.values, np.bitwise_or.reduce(
        position << (4 * np.arange(4, dtype=np.uint16)), axis=-1
    )


def inputs(tokens=256, features=512, hidden=1024, seed=0):
    """Arguments of :func:`sparse_mlp`: weights pruned by magnitude."""
    from trn3.numerics import prune

    rng = np.random.default_rng(seed)
    x = rng.standard_normal((features, tokens), dtype=np.float32).astype(nl.bfloat16)
    up, down = (
        prune(
            (rng.standard_normal(shape, dtype=np.float32) / shape[0] ** 0.5).astype(nl.bfloat16),
            PATTERN,
        )
        for shape in ((features, hidden), (hidden, features))
    )
    (up_values, up_tags), (down_values, down_tags) = (
        _compressed(up[:, _units(hidden)]),
        _compressed(down),
    )
    return {
        "x": x,
        "up_values": up_values,
        "up_tags": up_tags,
        "down_values": down_values,
        "down_tags": down_tags,
    }


def dense_weights(up_values, up_tags, down_values, down_tags):
    """Up [features, hidden] and down [hidden, features] as they were before compression, hidden
    units in order.
    """
    up = _dense(up_values, up_tags)
    up[:, _units(up.shape[1])] = up.copy()
    return up, _dense(down_values, down_tags)


def _units(hidden):
    """Hidden unit of each stored column of `up`: 4p + lane at 128 lane + p, block by block."""
    return np.arange(hidden).reshape(-1, P, RATIO).transpose(0, 2, 1).ravel()


def _dense(values, tags):
    rows, columns = values.shape
    nibbles = tags[..., None] >> (4 * np.arange(4, dtype=np.uint16)) & 15
    places = nibbles.reshape(rows // 4, 4, columns).astype(np.int64)
    full = np.zeros((rows // 4, 16, columns), values.dtype)
    np.put_along_axis(full, places, values.reshape(rows // 4, 4, columns), axis=1)
    return full.reshape(rows * RATIO, columns)


def golden(x, up_values, up_tags, down_values, down_tags):
    """The block in float64 from the dense form of the weights."""
    dense = dense_weights(up_values, up_tags, down_values, down_tags)
    up, down = (weight.astype(np.float64) for weight in dense)
    return down.T @ np.maximum(up.T @ x.astype(np.float64), 0)
