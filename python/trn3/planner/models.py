"""Models: shapes of transformers, read from what checkpoints carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from trn3._trn3 import planner as _planner
from trn3._trn3.planner import families, models
from trn3.files import parse_json, read_text

__all__ = ["Model", "ModelLike", "families", "model", "models", "request_of", "summary"]

ModelLike: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | Model"
"""A model: its name, the path of a ``config.json`` or ``.toml``, the parsed file, or a `Model`."""


@dataclass(frozen=True)
class Model:
    """The shapes of a transformer.

    Attributes
    ----------
    name, family, source : str
        Its name, the ``model_type`` of its configuration, and where the shapes come from.
    layers, width, vocabulary : int
        Layers, elements of a token between them, and tokens that exist.
    parameters, parameters_active : int
        All weights, and those that one token is multiplied with.
    parameters_by_class : Mapping[str, int]
        Weights by class: ``attention``, ``dense``, ``shared_experts``, ``experts``, ``router``,
        ``embedding``, ``unembedding``, ``norms``; of what is no transformer of one stack, by pass.
    shapes : Mapping[str, Any]
        Everything else: attention, experts, window, as the core has it.
    """

    name: str
    family: str
    source: str
    layers: int
    width: int
    vocabulary: int
    parameters: int
    parameters_active: int
    parameters_by_class: Mapping[str, int]
    shapes: Mapping[str, Any]
    _request: Mapping[str, Any]

    def __repr__(self) -> str:
        billions, active = self.parameters / 1e9, self.parameters_active / 1e9
        return f"<{self.name}: {billions:.1f} B parameters, {active:.1f} B active>"


def model(source: ModelLike) -> Model:
    """Return the shapes of a model.

    Parameters
    ----------
    source
        A name (``"openai/gpt-oss-120b"``, ``"llama-3.3-70b"``: see `models`), ``"org/name"`` of a
        local hub folder (``HF_HOME``), the path of a ``config.json`` or of a ``.toml`` with the
        same keys, or the mapping that such a file holds.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If there is no model of that name, its family is not understood, or a key is missing or
        wrong; the text names it and the nearest that would work.

    Examples
    --------
    >>> model("gpt-oss-120b").parameters_by_class["experts"]
    114701598720
    >>> model("gpt-oss-120b")
    <gpt-oss-120b: 116.8 B parameters, 5.1 B active>
    """
    if isinstance(source, Model):
        return source
    request = _source(source)
    found = _planner.model(request)
    return summary(found, request)


def summary(found: dict[str, Any], request: Mapping[str, Any]) -> Model:
    """Return the model of a result of the core."""
    names = ("name", "family", "source", "layers", "width", "vocabulary")
    counts = ("parameters", "parameters_active", "parameters_by_class")
    rest = {key: value for key, value in found.items() if key not in (*names, *counts)}
    return Model(**{name: found[name] for name in (*names, *counts)}, shapes=rest, _request=request)


def request_of(source: ModelLike) -> Mapping[str, Any]:
    """Return how a request to the core names a model."""
    return source._request if isinstance(source, Model) else _source(source)


def _source(source: object) -> dict[str, Any]:
    if isinstance(source, Mapping):
        name = source.get("name") or source.get("_name_or_path") or "config"
        return {"config": {"name": str(name), "entries": dict(source)}}
    if not isinstance(source, (str, PathLike)):
        message = (
            f"model is {type(source).__name__}; needed: a name, the path of a config.json or .toml "
            "file, or a mapping"
        )
        raise TypeError(message)
    path = Path(source)
    if path.is_dir() and (path / "config.json").is_file():
        path /= "config.json"
    elif path.is_dir():
        message = f"{path} is a directory without a config.json"
        raise ValueError(message)
    if path.suffix in {".json", ".toml"} or path.is_file() or isinstance(source, PathLike):
        # The file names the model, unless it is called as all such files are.
        name = path.absolute().parent.name if path.name == "config.json" else path.stem
        return {path.suffix[1:] or "json": [name or str(path), _text(path)]}
    return {"name": source}


def _text(path: Path) -> str:
    text = read_text(path, "model configuration")
    if path.suffix != ".toml":
        parse_json(text, path)
    return text
