"""Files of Kubernetes objects: YAML or JSON, one or many, in a List or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trn3.k8s.errors import K8sError, guess

API_GROUP = "resource.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
RESOURCE_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")

Object = dict[str, Any]
"""A Kubernetes object as plain data."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object and where it came from."""

    source: str
    body: Object

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """The name of the object; empty if it has none."""
        return str((self.body.get("metadata") or {}).get("name") or "")

    @property
    def namespace(self) -> str:
        """The namespace of the object, ``default`` if it names none."""
        return str((self.body.get("metadata") or {}).get("namespace") or "default")

    def __str__(self) -> str:
        return f"{self.source}: {self.kind} {self.name or '(without a name)'}"


def read(path: Path | str) -> list[Document]:
    """Read the objects of a file.

    Raises
    ------
    K8sError
        If the file is not YAML, or something in it is not a Kubernetes object, or a resource.k8s.io
        object is of a version other than v1.
    OSError
        If the file cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8 text (byte {error.start})"
        raise K8sError(message) from error
    return parse(text, str(path))


def parse(text: str, source: str = "input") -> list[Document]:
    """Read the objects of a text; `source` is named in errors."""
    import yaml

    try:
        bodies = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        message = f"{source}{place}: is not YAML: {problem}"
        raise K8sError(message) from error
    except (ValueError, RecursionError) as error:  # a date such as 2026-13-45, nesting without end
        message = f"{source}: is not YAML: {error}"
        raise K8sError(message) from error
    documents = [each for body in bodies if body is not None for each in _objects(body, source)]
    if not documents:
        message = f"{source}: holds no Kubernetes object"
        raise K8sError(message)
    return documents


def from_objects(objects: Iterable[Mapping[str, Any]], source: str = "input") -> list[Document]:
    """Wrap objects that are plain data already."""
    return [document for body in objects for document in _objects(dict(body), source)]


def _objects(body: object, source: str) -> Iterator[Document]:
    if not isinstance(body, dict):
        message = (
            f"{source}: an object has apiVersion, kind and metadata; this is a "
            f"{type(body).__name__}"
        )
        raise K8sError(message)
    kind, version = body.get("kind"), body.get("apiVersion")
    for key, value in (("kind", kind), ("apiVersion", version)):
        if not isinstance(value, str) or not value:
            message = f"{source}: an object without {key}: {_short(body)}"
            raise K8sError(message)
    assert isinstance(kind, str)
    assert isinstance(version, str)
    if kind == "List" or (kind.endswith("List") and "items" in body):
        items = body.get("items")
        if not isinstance(items, list):
            message = f"{source}: {kind}: items must be a list"
            raise K8sError(message)
        for item in items:
            # Items of a typed list need not repeat what they are.
            filled = (
                {"apiVersion": version, "kind": kind.removesuffix("List"), **item}
                if isinstance(item, dict) and kind != "List"
                else item
            )
            yield from _objects(filled, source)
        return
    document = Document(source, body)
    if kind in RESOURCE_KINDS and version != API_VERSION:
        message = (
            f"{document}: apiVersion {version} is not supported, {API_VERSION} is (Kubernetes 1.34 "
            "and later)"
        )
        if version.startswith(f"{API_GROUP}/v1beta1"):
            message += (
                "; in v1 deviceClassName, count, selectors, ... of a request stand under exactly: "
                "and a device's attributes are not under basic:"
            )
        raise K8sError(message)
    if version.startswith(f"{API_GROUP}/") and kind not in RESOURCE_KINDS:
        hint = guess(kind, RESOURCE_KINDS)
        message = (
            f"{document}: {API_GROUP} has no such kind here; known: "
            f"{', '.join(RESOURCE_KINDS)}{hint}"
        )
        raise K8sError(message)
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        message = f"{document.source}: {kind}: metadata must be a mapping"
        raise K8sError(message)
    yield document


def _short(body: Mapping[str, Any]) -> str:
    return ", ".join(sorted(map(str, body))[:6]) or "it is empty"


def of_kind(documents: Sequence[Document], *kinds: str) -> list[Document]:
    """Return the documents of these kinds, in order."""
    return [document for document in documents if document.kind in kinds]


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Write objects as a stream of YAML documents, keys in the order they have."""
    import yaml

    class Plain(yaml.SafeDumper):
        # Anchors are YAML, but nobody expects them in a manifest.
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    return "---\n".join(
        yaml.dump(dict(body), Dumper=Plain, sort_keys=False, width=100) for body in objects
    )


def to_json(objects: Iterable[Mapping[str, Any]]) -> str:
    """Write objects as one JSON List."""
    return json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [dict(body) for body in objects]}, indent=2
    )
