"""What cannot be met, or is no claim at all, says so in one line that names the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.resource_claims import DRIVER, attribute, claim, exactly, opaque
from trn3 import k8s
from trn3.k8s import K8sError, documents

GROUP = "resource.aws.com/devicegroup4_id"
NODE = attribute("resourceType") + " == 'neuron_node'"


def pinned(*numbers: int) -> dict[str, Any]:
    selector = f"{attribute('deviceId')} in {list(numbers)}"
    return claim("taken", {"r": exactly(len(numbers), selector)})


def same(key: str = GROUP) -> list[dict[str, Any]]:
    return [{"matchAttribute": key}]


def node(name: str, mode: object) -> dict[str, Any]:
    return claim(
        name, {"r": exactly(1, NODE)}, config=[opaque("UltraServerConfig", "ultraserverMode", mode)]
    )


IMPOSSIBLE: list[tuple[str, str, list[dict[str, Any]], str]] = [
    (
        "too many for a node",
        "trn2",
        [claim("c", {"r": exactly(20)})],
        (
            r"asks for 20 devices; .* no node has more than 16 .*: ask for at most 16, in 2 claims "
            r"for 2 pods"
        ),
    ),
    (
        "too many for a sled",
        "gen2",
        [claim("c", {"r": exactly(8)})],
        r"asks for 8 devices; .* more than 4 that match: ask for at most 4, in 2 claims",
    ),
    (
        "group too small",
        "trn2",
        [claim("c", {"r": exactly(6)}, constraints=same())],
        (
            r"devicegroup4_id, which has at most 4 .*: ask for 4, or match "
            "resource.aws.com/devicegroup8_id"
        ),
    ),
    (
        "group in use",
        "trn2",
        [pinned(0, 5, 10, 15), claim("c", {"r": exactly(4)}, constraints=same())],
        (
            r"3 of 12 free devices of trn2-instance-0 share devicegroup4_id \w+, and that is the "
            "largest free group: "
            r"ask for 3 or free trn2-instance-0/neuron-device-0 \(held by default/taken\)"
        ),
    ),
    (
        "not enough free",
        "trn2",
        [claim("taken", {"r": exactly(14)}), claim("c", {"r": exactly(3)})],
        (
            r"asks for 3 devices; 2 that match are free, at most 2 of them on one node .*: ask for "
            r"2 or free "
        ),
    ),
    (
        "all and one is taken",
        "trn2",
        [claim("taken"), claim("c", {"r": exactly(None)})],
        r"All needs every device .*, with 1 of 16 held by default/taken: free them, or ask for 15",
    ),
    (
        "all of both kinds",
        "gen2",
        [claim("c", {"r": exactly(None)})],
        r"select one kind with resourceType == 'neuron_device'",
    ),
    (
        "selector without a match",
        "trn2",
        [claim("c", {"r": exactly(1, attribute("instanceType") + " == 'trn9'")})],
        r"none of 16 devices .* passes the selector .*: here instanceType is trn2.48xlarge",
    ),
    (
        "attribute that no device has",
        "trn2",
        [claim("c", {"r": exactly(2)}, constraints=same("resource.aws.com/devicegroup4"))],
        (
            r"no device that matches has this attribute; did you mean "
            r"resource.aws.com/devicegroup4_id\?"
        ),
    ),
    (
        "unknown class",
        "trn2",
        [claim("c", {"r": exactly(1, device_class="neuron.aws.co")})],
        (
            r"there is no DeviceClass neuron.aws.co; known: neuron.aws.com; did you mean "
            r"neuron.aws.com\?"
        ),
    ),
    (
        "distinct values run out",
        "trn2",
        [
            claim(
                "c", {"r": exactly(5)}, constraints=[{"distinctAttribute": f"{DRIVER}/topology_x"}]
            )
        ],
        (
            r"distinctAttribute .*topology_x, which has at most 4 different values on a node: ask "
            r"for 4"
        ),
    ),
    (
        "constraints that contradict",
        "trn2",
        [
            claim(
                "c",
                {"r": exactly(3)},
                constraints=[*same(), {"distinctAttribute": f"{DRIVER}/topology_x"}],
            )
        ],
        r"its constraints allow at most 1 devices on a node at once, and it asks for 3: ask for 1",
    ),
    (
        "requests too large together",
        "trn2",
        [claim("c", {"a": exactly(10), "b": exactly(10)})],
        r"request b: does not fit on one node together with a: each alone would; ask for 6 here",
    ),
    (
        "mode without an UltraServer",
        "trn2",
        [node("c", 2)],
        (
            r"ultraserverMode 2 needs nodes of an UltraServer .*: leave UltraServerConfig out, or "
            r"take slices of gen1"
        ),
    ),
    (
        "mode in use",
        "gen1",
        [claim("x", {"r": exactly(1)}), *(node(f"n{n}", 4) for n in range(4))],
        (
            r"claim default/n0: .* the best set has 3 \(\S+ used by default/x\): mode 2 or free "
            r"\S+ would work"
        ),
    ),
    ("mode 3", "gen1", [node("c", 3)], r"ultraserverMode must be one of 1, 2, 4; it is 3"),
    (
        "logical core of four",
        "trn2",
        [claim("c", config=[opaque("NeuronConfig", "logicalNeuronCore", 4)])],
        r"logicalNeuronCore must be one of 1, 2; it is 4",
    ),
    (
        "logical core of another chip",
        "trn1",
        [claim("c", config=[opaque("NeuronConfig", "logicalNeuronCore", 2)])],
        r"logicalNeuronCore 2 does not match .*: a logical core of trainium1 has 1 physical cores",
    ),
    (
        "two sizes of logical cores",
        "trn2",
        [
            claim(
                "c",
                config=[
                    opaque("NeuronConfig", "logicalNeuronCore", 1),
                    opaque("NeuronConfig", "logicalNeuronCore", 2, "r"),
                ],
            )
        ],
        r"logicalNeuronCore 2 does not match logicalNeuronCore 1, which the same claim sets",
    ),
    (
        "configuration of another kind",
        "trn2",
        [claim("c", config=[opaque("NeuronConfg", "logicalNeuronCore", 1)])],
        r"kind 'NeuronConfg' is not known; known: .*did you mean NeuronConfig\?",
    ),
    (
        "configuration with another field",
        "trn2",
        [claim("c", config=[opaque("NeuronConfig", "logicalNeuroncores", 1)])],
        r"NeuronConfig has no field logicalNeuroncores; did you mean logicalNeuronCore\?",
    ),
]


@pytest.mark.parametrize(
    ("system", "claims", "message"),
    [row[1:] for row in IMPOSSIBLE],
    ids=[row[0] for row in IMPOSSIBLE],
)
def test_impossible_claims_explain_themselves(
    system: str, claims: list[dict[str, Any]], message: str
) -> None:
    slices = k8s.resource_slices(system, driver=DRIVER)
    with pytest.raises(k8s.AllocationError, match=message) as refusal:
        k8s.allocate(claims, slices)
    text = str(refusal.value)
    assert "\n" not in text
    assert text.startswith("claim default/")


def test_what_the_explanation_offers_does_work() -> None:
    slices = k8s.resource_slices("trn2", driver=DRIVER)
    taken = pinned(0, 5, 10, 15)
    with pytest.raises(k8s.AllocationError) as refusal:
        k8s.allocate([taken, claim("c", {"r": exactly(4)}, constraints=same())], slices)
    offer = re.search(r"ask for (\d+)", str(refusal.value))
    assert offer is not None
    smaller = claim("c", {"r": exactly(int(offer[1]))}, constraints=same())
    assert len(k8s.allocate([taken, smaller], slices).placed) == 2
    freed = [pinned(5, 10, 15), claim("c", {"r": exactly(4)}, constraints=same())]
    assert len(k8s.allocate(freed, slices).placed) == 2


def test_refused_files_allocate_nothing() -> None:
    slices = k8s.resource_slices("trn2", driver=DRIVER)
    with pytest.raises(k8s.AllocationError):
        k8s.allocate([claim("a", {"r": exactly(4)}), claim("b", {"r": exactly(13)})], slices)


def edited(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    body = claim("c", {"r": exactly(1)})
    change(body)
    return body


def spec(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["devices"]
    return found


def ask(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec(body)["requests"][0]["exactly"]
    return found


MALFORMED: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (
        lambda b: b.update(apiVersion="resource.k8s.io/v1beta1"),
        r"v1beta1 is not supported, resource.k8s.io/v1 is .*exactly",
    ),
    (lambda b: b.update(kind="ResourceClam"), r"ResourceClam.*did you mean ResourceClaim\?"),
    (lambda b: b.pop("kind"), r"an object without kind"),
    (lambda b: b["metadata"].pop("name"), r"metadata.name: is missing"),
    (lambda b: b["metadata"].update(name="Not A Name"), r"'Not A Name' must be a DNS subdomain"),
    (lambda b: b.pop("spec"), r"spec: is missing"),
    (lambda b: b["spec"].update(devices=[]), r"asks for nothing"),
    (lambda b: spec(b).update(requests={}), r"requests: must be a list"),
    (
        lambda b: ask(b).update(count=-1),
        r"requests\[0\].exactly.count: must be a whole number from 1 on; it is -1",
    ),
    (lambda b: ask(b).update(count="4"), r"count: must be a whole number from 1 on; it is '4'"),
    (lambda b: ask(b).update(count=True), r"count: must be a whole number from 1 on; it is True"),
    (lambda b: ask(b).update(count=33), r"33: a claim holds at most 32 devices"),
    (lambda b: ask(b).update(cuont=1), r"cuont is not a field here; did you mean count\?"),
    (
        lambda b: ask(b).update(allocationMode="all"),
        r"must be ExactCount or All; it is 'all'; did you mean All\?",
    ),
    (
        lambda b: ask(b).update(allocationMode="All"),
        r"count: has no meaning with allocationMode All",
    ),
    (lambda b: ask(b).pop("deviceClassName"), r"exactly.deviceClassName: is missing"),
    (
        lambda b: spec(b)["requests"][0].update(deviceClassName="x"),
        r"v1beta1; in v1 it stands under exactly",
    ),
    (
        lambda b: spec(b)["requests"][0].pop("exactly"),
        r"must have one of exactly and firstAvailable",
    ),
    (
        lambda b: spec(b)["requests"].append(dict(spec(b)["requests"][0])),
        r"the name r stands twice",
    ),
    (
        lambda b: spec(b).update(constraints=[{"matchAttribute": "topology4_id"}]),
        r"needs its domain before it, such as neuron.aws.com/topology4_id",
    ),
    (
        lambda b: spec(b).update(constraints=[{"requests": ["x"], "matchAttribute": "a/b"}]),
        r"there is no request 'x'; there are r",
    ),
    (
        lambda b: spec(b).update(constraints=[{}]),
        r"must have one of matchAttribute and distinctAttribute",
    ),
    (
        lambda b: spec(b).update(config=[{"opaque": {"driver": "d"}}]),
        r"config\[0\].opaque.parameters: is missing",
    ),
    (
        lambda b: ask(b).update(selectors=[{"cel": {"expression": "device.driver ="}}]),
        r"selectors\[0\].cel.expression: line 1, column \d+: cannot be read",
    ),
    (
        lambda b: ask(b).update(selectors=[{"cel": {}}]),
        r"selectors\[0\].cel.expression: is missing",
    ),
    (
        lambda b: ask(b).update(tolerations=[{"key": "k", "operator": "Has"}]),
        r"operator: must be Exists or Equal",
    ),
    (
        lambda b: ask(b).update(capacity={"requests": {"memory": "lots"}}),
        r"'lots' is not a quantity.*144Gi",
    ),
    (
        lambda b: b.update(
            status={
                "allocation": {
                    "devices": {"results": [{"driver": "d", "pool": "p", "device": "x"}]}
                }
            }
        ),
        r"the inventory has no device p/x of driver d",
    ),
]


@pytest.mark.parametrize(("change", "message"), MALFORMED)
def test_malformed_claims_are_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(k8s.K8sError, match=message) as refusal:
        k8s.allocate([edited(change)], k8s.resource_slices("trn2", driver=DRIVER))
    assert "\n" not in str(refusal.value)


def broken(change: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    (body,) = k8s.resource_slices("trn2", driver=DRIVER)
    change(body)
    return [body]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.update(apiVersion="resource.k8s.io/v1beta2"), "v1beta2 is not supported"),
        (lambda b: b["spec"].pop("pool"), "spec.pool: is missing"),
        (lambda b: b["spec"].pop("nodeName"), "spec.nodeName: is missing"),
        (
            lambda b: b["spec"]["pool"].update(resourceSliceCount=2),
            "has 1 slices of generation 1, and says it has 2",
        ),
        (
            lambda b: b["spec"]["pool"].update(generation=-1),
            "generation: must be a number from 0 on",
        ),
        (lambda b: b["spec"]["devices"].append(b["spec"]["devices"][0]), "exists twice"),
        (
            lambda b: b["spec"]["devices"][0]["attributes"].update(x={"int": "1"}),
            r"attributes\[x\]: int is '1'",
        ),
        (
            lambda b: b["spec"]["devices"][0]["attributes"].update(x={"int": 1, "bool": True}),
            "must have one of",
        ),
        (
            lambda b: b["spec"]["devices"][0]["attributes"].update(x={"string": "y" * 65}),
            "at most 64 characters",
        ),
        (
            lambda b: b["spec"]["devices"][0]["attributes"].update(x={"version": "1.2"}),
            "not a semantic version",
        ),
        (
            lambda b: b["spec"]["devices"][0]["capacity"].update(x={"value": "1Q"}),
            "is not a quantity",
        ),
        (
            lambda b: b["spec"]["devices"][0].update(consumesCounters=[{}]),
            "consumesCounters: is not modelled without counterSet",
        ),
    ],
)
def test_malformed_slices_are_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(k8s.K8sError, match=message):
        k8s.allocate([claim("c")], broken(change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", r"f.yaml, line \d, column \d: is not YAML"),
        ("a: 1\n b: 2", r"f.yaml, line 2, column 3: is not YAML"),
        ("", r"f.yaml: holds no Kubernetes object"),
        ("- 1", r"f.yaml: an object has apiVersion, kind and metadata; this is a list"),
        ("42", r"this is a int"),
        ("apiVersion: v1\nkind: List\nitems: 3", r"items must be a list"),
        ("apiVersion: v1\nkind: Pod\nmetadata: x", r"metadata must be a mapping"),
        ("!!python/object/apply:os.system ['true']", r"is not YAML"),
    ],
)
def test_malformed_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(k8s.K8sError, match=message):
        k8s.parse(text, "f.yaml")


def test_a_pod_names_the_template_that_is_missing() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"resourceClaims": [{"name": "x", "resourceClaimName": "d"}]},
    }
    message = "there is no ResourceClaim d in namespace default .there is c.$"
    with pytest.raises(k8s.K8sError, match=message):
        k8s.allocate([claim("c"), pod], k8s.resource_slices("trn2", driver=DRIVER))


@pytest.mark.parametrize("begin", ["[", "{a: ", "- ", "? "])
@pytest.mark.parametrize("count", [1_100, 200_000])
def test_objects_nested_without_end_are_refused(begin: str, count: int) -> None:
    """What reads YAML is recursive, and ended the whole process."""
    with pytest.raises(K8sError, match="deep: is nested more than 1000 deep"):
        documents.parse(begin * count, "deep")
    lines = "".join(f"{' ' * column}a:\r" for column in range(1_100))
    with pytest.raises(K8sError, match="deep: is nested more than 1000 deep"):
        documents.parse(lines, "deep")


def test_long_objects_that_are_not_deep_are_read() -> None:
    items = "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {b: c}}}"
    text = "apiVersion: v1\nkind: List\nitems: [" + ", ".join([items] * 600) + "]"
    assert len(documents.parse(text)) == 600
