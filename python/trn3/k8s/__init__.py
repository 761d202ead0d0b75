"""Kubernetes, as the Neuron driver for dynamic resource allocation does it.

ResourceSlices of simulated systems, and an allocator of claims that knows their topology. Objects
are those of ``resource.k8s.io/v1``. There is no kubelet plugin, no scheduler and no image here.

>>> from trn3 import k8s
>>> len(k8s.resource_slices("gen2"))
36
"""

from __future__ import annotations

from trn3.k8s.allocate import Allocation, Placed, allocate
from trn3.k8s.documents import Document, parse, read, to_json, to_yaml
from trn3.k8s.errors import AllocationError, K8sError
from trn3.k8s.planned_claims import claims_of_plan
from trn3.k8s.report import FragmentationReport, NodeReport, fragmentation
from trn3.k8s.schedule import JobTraffic, Schedule, schedule
from trn3.k8s.schema import check
from trn3.k8s.slices import (
    DEFAULT_DRIVER,
    NEURON_DRIVER_VERSION,
    device_class,
    pool_slices,
    resource_slices,
)

__all__ = [
    "DEFAULT_DRIVER",
    "NEURON_DRIVER_VERSION",
    "Allocation",
    "AllocationError",
    "Document",
    "FragmentationReport",
    "JobTraffic",
    "K8sError",
    "NodeReport",
    "Placed",
    "Schedule",
    "allocate",
    "check",
    "claims_of_plan",
    "device_class",
    "fragmentation",
    "parse",
    "pool_slices",
    "read",
    "resource_slices",
    "schedule",
    "to_json",
    "to_yaml",
]
