"""Files of Kubernetes objects: YAML or JSON, one or many, in a List or not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from trn3._trn3 import k8s as core
from trn3.files import read_text
from trn3.k8s.errors import K8sError, asked

Object = dict[str, Any]
"""A Kubernetes object as plain data."""

#: How deep objects may be nested **(choice)**: those of Kubernetes are some ten deep; what reads
#: YAML runs out of stack, with the whole process, from some tens of thousands on.
MAX_DEPTH: Final = 1000
#: What libyaml says from 0.2.6 on, whose limit is the same.
_TOO_DEEP: Final = "exceeded maximum nesting depth"
#: What a line begins with, after any of YAML's line breaks.
_INDENTATION = re.compile("(?:^|[\r\n\x85\u2028\u2029])[-?: ]+")


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


Given: TypeAlias = Iterable[Document | Mapping[str, Any]]


def sourced(given: Given, source: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return objects with where they came from; what is plain data came from `source`."""
    return [
        (each.source, each.body) if isinstance(each, Document) else (source, each) for each in given
    ]


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
    return parse(read_text(path, "Kubernetes objects", K8sError), str(path))


def _may_be_deep(text: str) -> bool:
    """Whether a text could be nested more than `MAX_DEPTH` deep, from a look that costs nothing."""
    # Of blocks, two lie at most at one column; the others need brackets.
    column = max(map(len, _INDENTATION.findall(text)), default=0)
    return 2 * column + text.count("[") + text.count("{") > MAX_DEPTH


def _is_deep(events: Iterable[Any]) -> bool:
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= name.endswith(("SequenceEndEvent", "MappingEndEvent"))
        if depth > MAX_DEPTH:
            return True
    return False


def parse(text: str, source: str = "input") -> list[Document]:
    """Read the objects of a text; `source` is named in errors.

    >>> [str(each) for each in parse("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "file")]
    ['file: Pod a']
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    deep = f"{source}: is nested more than {MAX_DEPTH} deep"
    try:
        if _may_be_deep(text) and _is_deep(yaml.parse(text, Loader=loader)):
            raise K8sError(deep)
        bodies = list(yaml.load_all(text, Loader=loader))
    except K8sError:
        raise
    except yaml.YAMLError as error:
        if getattr(error, "problem", None) == _TOO_DEEP:
            raise K8sError(deep) from error
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        message = f"{source}{place}: is not YAML: {problem}"
        raise K8sError(message) from error
    except (ValueError, RecursionError) as error:  # a date such as 2026-13-45, nesting without end
        message = f"{source}: is not YAML: {error}"
        raise K8sError(message) from error
    found = asked(core.documents, [(source, body) for body in bodies if body is not None])
    if not found:
        message = f"{source}: holds no Kubernetes object"
        raise K8sError(message)
    return [Document(source, body) for body in found]


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
