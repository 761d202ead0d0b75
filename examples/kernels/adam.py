"""One Adam step on bfloat16 weights with stochastic rounding: small updates are kept on average,
not lost.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def adam_step(
    weight, grad, mean, square, seeds, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, step=1
):
    """New (weight, mean, square), all [rows, columns]: weight and grad bfloat16, mean and square
    float32, seeds uint32 [128, 24], the generator's state. Stochastic rounding is done by hand:
    random low bits are added to the float32 pattern below the kept 16 bits, then cut off.
    """
    rows, columns = weight.shape
    results = [
        nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for x in (weight, mean, square)
    ]
    state = nl.ndarray((P, 24), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=state, src=seeds)
    nisa.rand_set_state(state, engine=nisa.vector_engine)
    for i in nl.affine_range((rows + P - 1) // P):
        here = nl.ds(i * P, min(P, rows - i * P))
        shape = (here.size, columns)
        w, g, m, v = (nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(4))
        for tile, source in ((w, weight), (g, grad), (m, mean), (v, square)):
            nisa.dma_copy(dst=tile, src=source[here, :])
        part = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(part, g, op0=nl.multiply, operand0=1.0 - beta1)
        nisa.scalar_tensor_tensor(m, m, op0=nl.multiply, operand0=beta1, op1=nl.add, operand1=part)
        nisa.activation(part, op=nl.square, data=g, scale=(1.0 - beta2) ** 0.5)
        nisa.scalar_tensor_tensor(v, v, op0=nl.multiply, operand0=beta2, op1=nl.add, operand1=part)
        nisa.activation(part, op=nl.sqrt, data=v, scale=1.0 / (1.0 - beta2**step))
        nisa.tensor_scalar(part, part, op0=nl.add, operand0=eps)
        nisa.reciprocal(part, part)
        nisa.tensor_tensor(part, part, m, op=nl.multiply)
        updated = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            updated,
            part,
            op0=nl.multiply,
            operand0=-rate / (1.0 - beta1**step),
            op1=nl.add,
            operand1=w,
        )
        draws = nl.ndarray(shape, dtype=nl.uint32, buffer=nl.sbuf)
        nisa.rng(draws)
        nisa.tensor_scalar(draws, draws, op0=nl.bitwise_and, operand0=0xFFFF)
        # GpSimdE adds 32-bit integers exactly; VectorE would go through float32.
        pattern = updated.view(nl.int32)
        nisa.tensor_tensor(
            pattern, pattern, draws.view(nl.int32), op=nl.add, engine=nisa.gpsimd_engine
        )
        halves = updated.view(nl.bfloat16).reshape_dim(1, (columns, 2))
        # Packed by an engine: DMA would move every other two bytes one by one.
        kept = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(kept, halves[:, :, 1])
        nisa.dma_copy(dst=results[0][here, :], src=kept)
        nisa.dma_copy(dst=results[1][here, :], src=m)
        nisa.dma_copy(dst=results[2][here, :], src=v)
    return tuple(results)


def inputs(rows=128, columns=512, seed=0):
    """Arguments of :func:`adam_step`."""
    rng = np.random.default_rng(seed)

    def draw():
        return rng.standard_normal((rows, columns), dtype=np.float32)

    return {
        "weight": draw().astype(nl.bfloat16),
        "grad": (0.01 * draw()).astype(nl.bfloat16),
        "mean": 0.01 * draw(),
        "square": (0.01 * draw()) ** 2,
        "seeds": rng.integers(1, 2**32, (128, 24), dtype=np.uint32),
    }


def golden(weight, grad, mean, square, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, step=1):
    """The step in float64, before any rounding of the weights."""
    weight, grad, mean, square = (x.astype(np.float64) for x in (weight, grad, mean, square))
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    corrected = mean / (1 - beta1**step) / (np.sqrt(square / (1 - beta2**step)) + eps)
    return weight - rate * corrected, mean, square
