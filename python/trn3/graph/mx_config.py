"""How products are quantised: forward, and both backward ones. What every front end takes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from trn3.graph.run_options import refuse_other

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MxDotConfig", "MxOperand", "MxRecipe"]

_FORMATS = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
_RULES = ("trn3", "ocp", "rceil")
_ROUNDINGS = ("nearest", "stochastic")
_BLOCKS = ("contraction", "free")
_HADAMARD = (0, 16, 32)


@dataclass(frozen=True, slots=True)
class MxOperand:
    """How one operand of a product is quantised along the contraction.

    Attributes
    ----------
    format : {"float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"}
        Elements.
    scale_rule : {"trn3", "ocp", "rceil"}, optional
        How the scale of a block is chosen, as `trn3.numerics.quantize_mx` takes it; its default for
        the format if not given.
    rounding : {"nearest", "stochastic"}
        How elements are rounded; draws need a seed.
    blocks : {"contraction", "free"}
        ``free``: the operand was kept in blocks along its other axis, as another product had it, is
        rounded to these first, and then again along the contraction, which the array needs.

    Raises
    ------
    ValueError
        If an argument is none of what is allowed.

    Examples
    --------
    >>> MxOperand("float4_e2m1fn", "rceil").attributes()["scale_rule"]
    'rceil'
    """

    format: str = "float8_e4m3fn"
    scale_rule: str | None = None
    rounding: str = "nearest"
    blocks: str = "contraction"

    def __post_init__(self) -> None:
        refuse_other("format", self.format, _FORMATS)
        refuse_other("scale_rule", self.scale_rule, (None, *_RULES))
        refuse_other("rounding", self.rounding, _ROUNDINGS)
        refuse_other("blocks", self.blocks, _BLOCKS)

    def attributes(self) -> dict[str, str]:
        """Return what the operation ``mx_dot`` of graphs has for it."""
        default = "ocp" if self.format == "float4_e2m1fn" else "trn3"
        return {
            "format": self.format,
            "scale_rule": self.scale_rule or default,
            "rounding": self.rounding,
            "blocks": self.blocks,
        }


@dataclass(frozen=True, slots=True)
class MxRecipe:
    """How one product is computed.

    Attributes
    ----------
    lhs, rhs : MxOperand
        The moving and the stationary operand.
    hadamard : {0, 16, 32}
        Length of the blocks along the contraction that a Hadamard matrix with random signs turns in
        both operands before they are quantised, so that the product is what it was; 0 for none.

    Raises
    ------
    ValueError
        If an argument is none of what is allowed.

    Examples
    --------
    >>> MxRecipe(MxOperand(), MxOperand()).is_random, MxRecipe(hadamard=32).is_random
    (False, True)
    """

    lhs: MxOperand = MxOperand()
    rhs: MxOperand = MxOperand()
    hadamard: int = 0

    def __post_init__(self) -> None:
        refuse_other("hadamard", self.hadamard, _HADAMARD)

    @property
    def is_random(self) -> bool:
        """Whether it needs a seed."""
        stochastic = "stochastic" in (self.lhs.rounding, self.rhs.rounding)
        return self.hadamard > 0 or stochastic

    def attributes(self) -> dict[str, Any]:
        """Return what the operation ``mx_dot`` of graphs has for it."""
        sides = {"lhs": self.lhs.attributes(), "rhs": self.rhs.attributes()}
        return {**sides, "hadamard": self.hadamard}


@dataclass(frozen=True, slots=True)
class MxDotConfig:
    """How ``y = x @ w`` and its gradients are computed, each product by its own recipe.

    Without a recipe, a product is that of the operands' own types.

    Attributes
    ----------
    forward : MxRecipe, optional
        ``x @ w``: x moves, w is stationary.
    input_gradient : MxRecipe, optional
        ``g @ w.T``: g, the gradient of y, moves.
    weight_gradient : MxRecipe, optional
        ``x.T @ g``: x moves.
    sparsity : str, optional
        What is left of w along the contraction of the forward product, as "4:16": the largest of
        each group. The gradient of w is that of all its elements.

    Raises
    ------
    ValueError
        If an argument is none of what is allowed.

    Examples
    --------
    >>> config = MxDotConfig.of("float8_e4m3fn", gradients="float8_e5m2")
    >>> config.forward.lhs.format, config.input_gradient.lhs.format
    ('float8_e4m3fn', 'float8_e5m2')
    """

    forward: MxRecipe | None = None
    input_gradient: MxRecipe | None = None
    weight_gradient: MxRecipe | None = None
    sparsity: str | None = None

    def __post_init__(self) -> None:
        patterns = ("4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2")
        refuse_other("sparsity", self.sparsity, (None, *patterns))
        if self.sparsity and self.forward and self.forward.hadamard:
            raise ValueError("sparsity comes with a Hadamard transform of w; allowed: one of them")

    @property
    def is_random(self) -> bool:
        """Whether it needs a seed."""
        recipes = (self.forward, self.input_gradient, self.weight_gradient)
        return any(recipe.is_random for recipe in recipes if recipe)

    @classmethod
    def of(
        cls,
        elements: str = "float8_e4m3fn",
        *,
        weights: str | None = None,
        gradients: str | None = None,
        scale_rule: str | None = None,
        backward: bool = True,
        rounding: Literal["nearest", "stochastic"] = "nearest",
        hadamard: int = 0,
        blocks: Literal["contraction", "free"] = "contraction",
        sparsity: str | None = None,
    ) -> MxDotConfig:
        """Make the usual configurations.

        Parameters
        ----------
        elements : str
            Format of elements.
        weights, gradients : str, optional
            Formats of w, and of the gradient of y, where they are others.
        scale_rule : str, optional
            Of all operands.
        backward : bool
            Whether the backward products are quantised, too.
        rounding : {"nearest", "stochastic"}
            Of both operands of the backward products; the forward one's are rounded to nearest.
        hadamard : {0, 16, 32}
            Length of the Hadamard transform in the backward products.
        blocks : {"contraction", "free"}
            ``free``: the backward products take w and x as the forward one had them in its blocks.
        sparsity : str, optional
            What is left of w.

        Examples
        --------
        >>> MxDotConfig.of("float4_e2m1fn", backward=False).input_gradient is None
        True
        """
        x = MxOperand(elements, scale_rule)
        w = MxOperand(weights or elements, scale_rule)
        forward = MxRecipe(x, w)
        if not backward:
            return cls(forward, sparsity=sparsity)
        g = MxOperand(gradients or elements, scale_rule, rounding)
        kept_x = MxOperand(x.format, scale_rule, rounding, blocks)
        kept_w = MxOperand(w.format, scale_rule, rounding, blocks)
        return cls(forward, MxRecipe(g, kept_w, hadamard), MxRecipe(kept_x, g, hadamard), sparsity)

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> MxDotConfig:
        """Read a configuration from a table, as TOML and JSON have it.

        It has either the arguments of `of`, or tables ``forward``, ``input_gradient`` and
        ``weight_gradient`` whose ``lhs`` and ``rhs`` are tables of the fields of `MxOperand`.

        Raises
        ------
        ValueError
            For a key that is neither.

        Examples
        --------
        >>> MxDotConfig.read({"forward": {"lhs": {"format": "float8_e5m2"}}}).forward.rhs.format
        'float8_e4m3fn'
        >>> MxDotConfig.read({"elements": "float4_e2m1fn", "hadamard": 32}).is_random
        True
        """
        own = {field.name for field in fields(cls)}
        if set(table) <= own:
            recipes = {name: _recipe(part) for name, part in table.items() if name != "sparsity"}
            return cls(**recipes, sparsity=table.get("sparsity"))
        try:
            return cls.of(**table)
        except TypeError:
            keys = ", ".join(sorted(table))
            message = (
                f"a recipe has {keys}; allowed: the arguments of MxDotConfig.of, or its fields"
            )
            raise ValueError(message) from None


def _recipe(table: Mapping[str, Any]) -> MxRecipe:
    sides = {name: MxOperand(**table[name]) for name in ("lhs", "rhs") if name in table}
    return MxRecipe(**sides, hadamard=table.get("hadamard", 0))
