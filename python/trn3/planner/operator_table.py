"""Every operator of a forward pass of any model, by the roofline of chips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trn3 import offers
from trn3._trn3 import planner as _planner
from trn3.planner.models import Model, ModelLike, request_of, summary
from trn3.planner.requests import system_request, whole


@dataclass(frozen=True, repr=False)
class OperatorTable(offers.Reported):
    """The operators of a model; `str` gives the tables as text.

    Attributes
    ----------
    model : Model
        The model.
    passes : Mapping[str, Mapping[str, Any]]
        By name (``prompt``, ``token``, ``encoder``, ``image``, ``denoising step``, ...):
        ``operators`` (a row each: ``name``, ``kind``, ``count``, ``shape``, ``dtype``, ``flops``,
        ``bytes``, ``intensity`` in operations a byte, ``seconds``, ``bound``), their sums
        ``flops``, ``bytes`` and ``seconds``, and ``per_second`` of the ``unit`` that it yields.
    assumptions : tuple[str, ...]
        What was taken for granted.
    """

    model: Model
    passes: Mapping[str, Mapping[str, Any]]
    assumptions: tuple[str, ...]
    _result: Mapping[str, Any]
    _text: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers."""
        return dict(self._result)

    def __str__(self) -> str:
        return self._text


def operators(
    model: ModelLike,
    system: Any = "gen2",
    *,
    dtype: str | Mapping[str, str] | None = None,
    batch: int | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    image_size: int | None = None,
    frames: int | None = None,
    chips: int | None = None,
) -> OperatorTable:
    """Return the operators of one forward pass of a model, and how long each takes at least.

    Models that `plan` refuses are understood too: encoders and decoders, Mamba, images, diffusion.

    Parameters
    ----------
    model, system, dtype
        As in `plan`.
    batch
        Sequences, images or recordings; 1 if not given.
    input_tokens, output_tokens
        Tokens of a prompt, and those generated before the token of a decoder behind an encoder.
    image_size, frames
        Height and width of an image in pixels; frames of a spectrogram.
    chips
        Chips of the system that share the work evenly; 1 if not given.

    Raises
    ------
    ValueError
        If an argument is wrong, or not one of the model's.

    Examples
    --------
    >>> import trn3
    >>> image = trn3.operators("google/vit-base-patch16-224", "gen2").passes["image"]
    >>> round(image["flops"] / 1e9, 1), image["operators"][0]["bound"]  # GFLOP
    (35.1, 'compute')
    """
    counts = {"batch": batch, "input": input_tokens, "output": output_tokens, "image": image_size}
    counts |= {"frames": frames, "chips": chips}
    source = system_request(system)
    source.pop("lnc", None)
    request: dict[str, Any] = {
        name: None if value is None else whole(name, value) for name, value in counts.items()
    }
    request |= {"model": (asked := request_of(model)), "system": source}
    request["dtype"] = dict(dtype) if isinstance(dtype, Mapping) else dtype
    found, text = _planner.operators(request)
    passes = {one["name"]: one for one in found["passes"]}
    known = summary(dict(found["model"]), asked)
    return OperatorTable(known, passes, tuple(found["assumptions"]), found, text)
