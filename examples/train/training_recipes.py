"""Recipes of training, as the files in ``recipes`` have them, and sizes of decoders."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trn3.graph.mx_config import MxDotConfig

FOLDER = Path(__file__).resolve().parent / "recipes"
# Of Adam: the shares of moments that stay, and what keeps from dividing by nothing.
FIRST, SECOND, SMALL = 0.9, 0.95, 1e-8
# As `trn3.power` calls the types of plain products.
OWN_TYPES = {"float32": "fp32", "bfloat16": "bf16"}


@dataclass(frozen=True)
class TrainingRecipe:
    """In which arithmetic a decoder is trained.

    `dtype` is the type of weights and activations in products; `masters` says whether float32
    weights are kept for the update, without which `rounding` says how it is rounded. `products` is
    the recipe of linear layers, all but those called `high` (``qkv``, ``out``, ``up``, ``down``,
    ``head``, or with the layer's number, as ``0.qkv``).
    """

    name: str
    title: str
    dtype: str
    masters: bool
    rounding: str = "nearest"
    products: MxDotConfig | None = None
    high: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def read(cls, name: str) -> TrainingRecipe:
        """Read a recipe by its name or the path of its file.

        Raises
        ------
        ValueError
            If there is no such recipe, or it has keys that recipes do not have.
        """
        path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
        if not path.exists():
            message = f"recipe is {name!r}; allowed: {', '.join(names())}, or a file"
            raise ValueError(message)
        table: dict[str, Any] = tomllib.loads(path.read_text())
        weights = table.pop("weights")
        products = table.pop("products", None)
        high = frozenset(products.pop("high", ())) if products is not None else frozenset()
        recipe = cls(
            path.stem,
            table.pop("title"),
            weights.pop("dtype"),
            weights.pop("masters"),
            weights.pop("rounding", "nearest"),
            MxDotConfig.read(products) if products is not None else None,
            high,
        )
        if left := [*table, *weights]:
            message = f"{path.name} has {', '.join(left)}; allowed: title, weights, products"
            raise ValueError(message)
        return recipe

    def config(self, layer: str) -> MxDotConfig | None:
        """Return how the products of a linear layer are computed; None: as typed."""
        is_high = layer in self.high or layer.rpartition(".")[2] in self.high
        return None if is_high else self.products

    @property
    def mx_type(self) -> str:
        """The type by which arithmetic of quantised products is counted."""
        recipe = self.products.forward if self.products else None
        if recipe is None:
            return OWN_TYPES[self.dtype]
        return "mxfp4" if recipe.lhs.format == recipe.rhs.format == "float4_e2m1fn" else "mxfp8"


def names() -> list[str]:
    """Return the names of all recipes that ship."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@dataclass(frozen=True)
class DecoderSize:
    """Lengths of a decoder, and of a batch."""

    width: int
    heads: int
    layers: int
    context: int
    batch: int

    def linear_layers(self) -> list[str]:
        """Return the names of the linear layers, in order."""
        parts = ("qkv", "out", "up", "down")
        return [*(f"{layer}.{part}" for layer in range(self.layers) for part in parts), "head"]

    def shapes(self, words: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights by their names."""
        width = self.width
        linear = {
            "qkv": (width, 3 * width),
            "out": (width, width),
            "up": (width, 4 * width),
            "down": (4 * width, width),
        }
        found: dict[str, tuple[int, ...]] = {"table": (words, width)}
        found["places"] = (self.context, width)
        for layer in range(self.layers):
            found |= {f"{layer}.{name}": shape for name, shape in linear.items()}
            found |= {f"{layer}.{name}": (width,) for name in ("norm_in", "norm_up")}
        return found | {"norm": (width,), "head": (width, words)}

    def parameters(self, words: int) -> int:
        """Return how many numbers it has to learn."""
        total = 0
        for shape in self.shapes(words).values():
            count = 1
            for length in shape:
                count *= length
            total += count
        return total


SIZES = {
    "tiny": DecoderSize(width=32, heads=2, layers=1, context=16, batch=4),
    "small": DecoderSize(width=64, heads=4, layers=2, context=32, batch=16),
    "million": DecoderSize(width=128, heads=4, layers=6, context=128, batch=8),
    "ten_million": DecoderSize(width=320, heads=8, layers=8, context=256, batch=8),
}
