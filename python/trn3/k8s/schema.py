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
    for body in objects:
        for version in tried:
            try:
                module.validate(dict(body), version, strict=True)
            except module.ValidationError as error:
                place = ".".join(map(str, error.path)) or "the object"
                name = (body.get("metadata") or {}).get("name", "")
                message = (
                    f"{body.get('kind')} {name}: {place}: not valid in Kubernetes {version}: "
                    f"{error.message}"
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
