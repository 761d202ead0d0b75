"""Objects against the published schemas of every Kubernetes version that has v1 of the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trn3.k8s.errors import K8sError

FIRST_VERSION = "1.34"


def versions() -> list[str]:
    """Return the Kubernetes versions with ``resource.k8s.io/v1`` whose schemas are there."""
    module = _module()
    first = _number(FIRST_VERSION)
    found = {module.utils.major_minor(each) for each in module.utils.all_versions()}
    return sorted((each for each in found if _number(each) >= first), key=_number)


def check(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Check objects strictly against all versions and return these.

    Raises
    ------
    K8sError
        If an object does not conform, or the package with the schemas is missing.
    """
    module = _module()
    tried = versions()
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for body in objects:
        kinds.setdefault((str(body.get("apiVersion")), str(body.get("kind"))), []).append(
            dict(body)
        )
    for (api_version, kind), bodies in kinds.items():
        # As one list, since the package reads the schema again for every object.
        listed = {"apiVersion": api_version, "kind": f"{kind}List", "items": bodies}
        for version in tried:
            try:
                module.validate(listed, version, strict=True)
            except module.ValidationError as error:
                _items, index, *path = [*error.path, 0, 0][: max(len(error.path), 2)]
                name = (bodies[int(index)].get("metadata") or {}).get("name", "")
                place = ".".join(map(str, path)) or "the object"
                message = (
                    f"{kind} {name}: {place}: not valid in Kubernetes {version}: {error.message}"
                )
                raise K8sError(message) from error
    return tried


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _module() -> Any:
    try:
        import kubernetes_validate
    except ImportError as error:
        message = "--validate needs the package kubernetes-validate: pip install 'trn3[k8s]'"
        raise K8sError(message) from error
    return kubernetes_validate
