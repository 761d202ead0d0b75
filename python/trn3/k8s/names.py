"""Names and limits of the resource.k8s.io API and of the attributes that are published."""

from __future__ import annotations

import re

from trn3.k8s.errors import K8sError

DEFAULT_DRIVER = "trn3.internal"
"""Our own driver name **(choice)**: `.internal` is reserved for private use, so it is nobody's."""

OWN_DOMAIN = "trn3.internal"
"""Domain of the attributes that are ours whatever the driver is called."""

GROUP_DOMAIN = "resource.aws.com"
NUMA_ATTRIBUTE = "resource.kubernetes.io/numaNode"
GROUP_SIZES = (1, 4, 8, 16)

DEVICE = "neuron_device"
NODE = "neuron_node"

# Limits of resource.k8s.io/v1, as its reference states them.
MAX_DEVICES = 128
MAX_DEVICES_WITH_TAINTS = 64
MAX_ATTRIBUTES = 32
MAX_STRING = 64
MAX_IDENTIFIER = 32
MAX_DOMAIN = 63
MAX_TAINTS = 16
MAX_POOL_NAME = 253
MAX_REQUESTS = 32
MAX_SUBREQUESTS = 8
MAX_SELECTORS = 32
MAX_CONSTRAINTS = 32
MAX_CONFIGS = 32
MAX_TOLERATIONS = 16
MAX_RESULTS = 32
MAX_EXPRESSION = 10 * 1024

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUALIFIED_LABEL = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
EFFECTS = ("None", "NoSchedule", "NoExecute")


def check_driver(name: str) -> str:
    """Return a driver's name if it can be one: a lower-case DNS subdomain of at most 63 characters.

    >>> check_driver("neuron.aws.com")
    'neuron.aws.com'
    """
    if not SUBDOMAIN.fullmatch(name) or len(name) > MAX_DOMAIN:
        message = (
            f"--driver {name}: a driver's name is a lower-case DNS subdomain of at most "
            f"{MAX_DOMAIN} characters, such as {DEFAULT_DRIVER} or neuron.aws.com"
        )
        raise K8sError(message)
    return name


def check_label(name: str, what: str) -> str:
    """Return a name if it is a DNS label."""
    if not LABEL.fullmatch(name):
        message = (
            f"{what} {name!r}: must be a DNS label: lower-case letters, digits and -, at most 63 "
            "characters"
        )
        raise K8sError(message)
    return name


def split_attribute(name: str, driver: str) -> tuple[str, str]:
    """Return domain and identifier of an attribute as it stands in a slice.

    >>> split_attribute("topology_x", "neuron.aws.com")
    ('neuron.aws.com', 'topology_x')
    """
    domain, slash, identifier = name.rpartition("/")
    if not slash:
        domain = driver
    if (
        not IDENTIFIER.fullmatch(identifier)
        or len(identifier) > MAX_IDENTIFIER
        or not SUBDOMAIN.fullmatch(domain)
        or len(domain) > MAX_DOMAIN
    ):
        message = (
            f"attribute {name!r}: must be an identifier of at most {MAX_IDENTIFIER} characters, "
            "with or "
            f"without a DNS domain of at most {MAX_DOMAIN} characters and / before it"
        )
        raise K8sError(message)
    return domain, identifier


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts numbers in names as numbers.

    >>> sorted(["node-10", "node-9"], key=natural)
    ['node-9', 'node-10']
    """
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    )
