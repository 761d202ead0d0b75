"""ATen operators as operations of graphs, by the kind of what they do."""

from trn3.torch.aten import (
    activations,
    collectives,
    elementwise,
    grouped,
    indexing,
    kernels,
    making,
    norms,
    pooling,
    products,
    quantised,
    reductions,
    shapes,
    sorting,
)
from trn3.torch.aten.registry import AtenCall, AtenError, converter_of
from trn3.torch.aten.writer import AtenWriter

__all__ = [
    "AtenCall",
    "AtenError",
    "AtenWriter",
    "activations",
    "collectives",
    "converter_of",
    "elementwise",
    "grouped",
    "indexing",
    "kernels",
    "making",
    "norms",
    "pooling",
    "products",
    "quantised",
    "reductions",
    "shapes",
    "sorting",
]
