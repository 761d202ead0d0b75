"""Counters: slices that say who excludes whom, and an allocator that keeps to any of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings, strategies as st

from support.resource_claims import DRIVER, attribute, claim, devices_of, exactly, opaque
from trn3 import k8s

NODE = attribute("resourceType") + " == 'neuron_node'"
CHIP = attribute("resourceType") + " == 'neuron_device'"
WHOLE = attribute("resourceType") + " == 'neuron_ultraserver'"
#: Partitionable devices in this form: counters in a slice of their own, unique in a pool.
VERSIONS = ["1.35", "1.36", "1.37"]
SYSTEMS = ["trn2_ultraserver", "gen1", "gen2"]
Slices = list[dict[str, Any]]


def slices(system: str, nodes: int | None = None, *, whole: bool = False) -> Slices:
    return k8s.resource_slices(
        system, nodes=nodes, driver=DRIVER, counters=not whole, ultraserver_devices=whole
    )


def devices(inventory: Slices) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (each["spec"]["pool"]["name"], device["name"]): device
        for each in inventory
        for device in each["spec"].get("devices", ())
    }


def kind(device: Mapping[str, Any]) -> str:
    return str(device["attributes"]["resourceType"]["string"])


def budget(inventory: Slices) -> dict[tuple[str, str, str], int]:
    return {
        (each["spec"]["pool"]["name"], group["name"], name): int(counter["value"])
        for each in inventory
        for group in each["spec"].get("sharedCounters", ())
        for name, counter in group["counters"].items()
    }


def uses(pool: str, device: Mapping[str, Any]) -> Counter[tuple[str, str, str]]:
    return Counter(
        {
            (pool, entry["counterSet"], name): int(counter["value"])
            for entry in device.get("consumesCounters", ())
            for name, counter in entry["counters"].items()
        }
    )


Place = tuple[str, str]


@dataclass(frozen=True)
class Hardware:
    """An inventory, and the chips that each of its devices is, counters aside."""

    slices: Slices
    devices: Mapping[Place, Mapping[str, Any]]
    chips: Mapping[Place, frozenset[tuple[str, int]]]


@cache
def hardware(system: str, nodes: int | None, whole: bool) -> Hardware:
    inventory = slices(system, nodes, whole=whole)
    known = devices(inventory)

    def hosts(place: Place, device: Mapping[str, Any]) -> set[str]:
        if "nodeSelector" not in device:
            return {device.get("nodeName", place[0])}
        [term] = device["nodeSelector"]["nodeSelectorTerms"]
        [need] = term["matchExpressions"]
        return set(need["values"])

    single = {
        place: (*hosts(place, device), device["attributes"]["deviceId"]["int"])
        for place, device in known.items()
        if kind(device) == "neuron_device"
    }
    every = set(single.values())
    chips = {
        place: frozenset(
            {single[place]}
            if place in single
            else {chip for chip in every if chip[0] in hosts(place, device)}
        )
        for place, device in known.items()
    }
    return Hardware(inventory, known, chips)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("whole", [False, True])
def test_slices_with_counters_conform_to_the_published_schemas(system: str, whole: bool) -> None:
    inventory = slices(system, whole=whole)
    items = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSliceList",
        "items": [each.body for each in k8s.parse(k8s.to_yaml(inventory))],
    }
    for version in VERSIONS:
        kubernetes_validate.validate(items, version, strict=True)
    for each in inventory:
        spec = each["spec"]
        # What the schema does not say: one of both, eight sets of 32 counters, two sets a device.
        assert ("devices" in spec) != ("sharedCounters" in spec)
        assert ("nodeName" in spec) != spec.get("perDeviceNodeSelection", False)
        assert len(spec.get("sharedCounters", ())) <= 8
        assert all(len(group["counters"]) <= 32 for group in spec.get("sharedCounters", ()))
        assert len(spec.get("devices", ())) <= 64
        for device in spec.get("devices", ()):
            assert len(device["consumesCounters"]) <= 2
            assert ("nodeName" in device) + ("nodeSelector" in device) == whole
            assert set(uses(spec["pool"]["name"], device)) <= set(budget(inventory))


def test_slices_have_no_counters_unless_they_are_asked_for() -> None:
    for each in k8s.resource_slices("gen2"):
        assert set(each["spec"]) == {"driver", "nodeName", "pool", "devices"}
        assert all("consumesCounters" not in device for device in each["spec"]["devices"])


def test_a_gen2_ultraserver_is_one_resource() -> None:
    inventory = slices("gen2", whole=True)
    assert [len(each["spec"].get("devices", ())) for each in inventory] == [0, 64, 64, 53]
    kinds = Counter(kind(device) for device in devices(inventory).values())
    assert kinds == {"neuron_ultraserver": 1, "neuron_node": 36, "neuron_device": 144}
    result = k8s.allocate([claim("all", {"r": exactly(1, WHOLE)})], inventory)
    [body] = result.objects
    assert devices_of(body) == [("trn3-gen2-0", "neuron-ultraserver-0")]
    [term] = body["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    [need] = term["matchExpressions"]
    assert (need["key"], need["operator"]) == ("kubernetes.io/hostname", "In")
    assert len(need["values"]) == 36
    kubernetes_validate.validate(body, "1.35", strict=True)
    whole = devices(inventory)["trn3-gen2-0", "neuron-ultraserver-0"]["capacity"]
    assert whole["neuronDevices"]["value"] == "144"
    left = k8s.fragmentation(inventory, result.objects)
    assert (len(left.nodes), left.free_ultraservers) == (36, 0)
    assert all(node.free == 0 for node in left.nodes)
    for selector in (CHIP, NODE, WHOLE):
        with pytest.raises(k8s.AllocationError, match="default/all"):
            k8s.allocate([claim("more", {"r": exactly(1, selector)})], inventory, result.objects)


def test_a_chip_keeps_the_ultraserver_from_others() -> None:
    inventory = slices("gen2", nodes=72, whole=True)
    one = k8s.allocate([claim("one", {"r": exactly(1, CHIP)})], inventory).objects
    whole = claim("all", {"r": exactly(1, WHOLE)})
    taken = k8s.allocate([whole], inventory, one).objects
    assert devices_of(taken[0]) == [("trn3-gen2-1", "neuron-ultraserver-0")]
    again = claim("again", {"r": exactly(1, WHOLE)})
    with pytest.raises(k8s.AllocationError, match=r"default/(one|all)"):
        k8s.allocate([again], inventory, [*one, *taken])


def test_any_device_is_a_chip_rather_than_a_whole_ultraserver() -> None:
    for whole in (False, True):
        inventory = slices("gen2", whole=whole)
        [body] = k8s.allocate([claim("any")], inventory).objects
        [place] = devices_of(body)
        assert kind(devices(inventory)[place]) == "neuron_device"


def test_sets_that_are_kept_for_a_mode_keep_the_ultraserver() -> None:
    inventory = slices("gen1", nodes=4, whole=True)
    config = [opaque("UltraServerConfig", "ultraserverMode", 2)]
    body = claim("pair", {"r": exactly(1, NODE)}, config=config)
    held = k8s.allocate([body], inventory).objects
    with pytest.raises(k8s.AllocationError):
        k8s.allocate([claim("all", {"r": exactly(1, WHOLE)})], inventory, held)


def test_a_part_of_an_ultraserver_has_no_device_for_the_whole() -> None:
    inventory = slices("gen1", nodes=6, whole=True)
    kinds = Counter((pool, kind(device)) for (pool, _), device in devices(inventory).items())
    assert kinds["trn3-gen1-0", "neuron_ultraserver"] == 1
    assert kinds["trn3-gen1-1", "neuron_ultraserver"] == 0
    assert kinds["trn3-gen1-1", "neuron_node"] == 2


def test_systems_that_are_no_ultraserver_refuse_its_device() -> None:
    with pytest.raises(k8s.K8sError, match="trn2_instance is no UltraServer; those are gen1, gen2"):
        k8s.resource_slices("trn2", ultraserver_devices=True)


@given(
    st.sampled_from([("gen2", False), ("gen2", True), ("gen1", True), ("trn2_ultraserver", False)]),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=60),
)
def test_whoever_counts_never_hands_a_chip_out_twice(
    system: tuple[str, bool], picks: list[int]
) -> None:
    """A scheduler that knows counters alone, and takes any device for which enough is left."""
    name, whole = system
    there = hardware(name, None, whole)
    left = budget(there.slices)
    known = sorted(there.devices)
    # Half of the picks are of the few devices that stand for more.
    large = [place for place in known if len(there.chips[place]) > 1]
    held: dict[tuple[str, int], Place] = {}
    for pick in picks:
        among = large if pick % 2 else known
        place = among[pick // 2 % len(among)]
        needs = uses(place[0], there.devices[place])
        if place in held.values() or any(left[each] < much for each, much in needs.items()):
            # What is refused is really held, in part at least.
            assert there.chips[place] & set(held)
            continue
        for counter, amount in needs.items():
            left[counter] -= amount
        for chip in there.chips[place]:
            assert chip not in held, (place, held[chip])
            held[chip] = place


@st.composite
def claims(draw: st.DrawFn) -> Slices:
    kinds = st.sampled_from([CHIP, CHIP, NODE, WHOLE])
    counts = st.sampled_from([1, 1, 2, 3, 4, None])
    return [
        claim(f"c{number}", {"r": exactly(draw(counts), draw(kinds))})
        for number in range(draw(st.integers(1, 8)))
    ]


@given(
    st.sampled_from([("gen2", 3, False), ("gen1", 4, True), ("trn2_ultraserver", 5, True)]),
    claims(),
)
@settings(max_examples=20)
def test_the_allocator_never_hands_a_chip_out_twice(
    system: tuple[str, int, bool], bodies: Slices
) -> None:
    there = hardware(*system)
    done: Slices = []
    for body in bodies:
        try:
            done += k8s.allocate([body], there.slices, done).objects
        except k8s.AllocationError:
            continue
    held: dict[tuple[str, int], str] = {}
    spent: Counter[tuple[str, str, str]] = Counter()
    for body in done:
        for place in devices_of(body):
            spent += uses(place[0], there.devices[place])
            for chip in there.chips[place]:
                assert chip not in held
                held[chip] = body["metadata"]["name"]
    assert all(spent[counter] <= amount for counter, amount in budget(there.slices).items())


def pool_of(amounts: Mapping[str, int], needs: Sequence[Mapping[str, int]]) -> Slices:
    """Return a pool of any counters and devices, as another driver might publish one."""
    sets = {name: {"value": str(amount)} for name, amount in amounts.items()}
    listed = [
        {
            "name": f"d{number}",
            "attributes": {"id": {"int": number}},
            "consumesCounters": [
                {
                    "counterSet": "s",
                    "counters": {name: {"value": str(much)} for name, much in need.items()},
                }
            ],
        }
        for number, need in enumerate(needs)
    ]
    parts: list[dict[str, Any]] = [
        {"sharedCounters": [{"name": "s", "counters": sets}]},
        {"devices": listed},
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"p-{number}"},
            "spec": {"driver": DRIVER, "nodeName": "n", "pool": pool, **part},
        }
        for number, part in enumerate(parts)
    ]


@given(
    st.fixed_dictionaries({"a": st.integers(0, 6), "b": st.integers(0, 6)}),
    st.lists(
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 4), min_size=1),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_the_allocator_keeps_to_any_counters(
    amounts: dict[str, int], needs: list[dict[str, int]], counts: list[int]
) -> None:
    """Against trying every set: one is found whenever there is one, and never one too large."""
    inventory = pool_of(amounts, needs)
    done: Slices = []
    left, free = Counter(amounts), set(range(len(needs)))

    def cost(chosen: Sequence[int]) -> Counter[str]:
        total: Counter[str] = Counter()
        for number in chosen:
            total.update(needs[number])
        return total

    def fits(chosen: Sequence[int]) -> bool:
        return all(left[name] >= amount for name, amount in cost(chosen).items())

    for place, count in enumerate(counts):
        sets = [
            [number for number in range(len(needs)) if mask >> number & 1]
            for mask in range(1 << len(needs))
        ]
        possible = [s for s in sets if len(s) == count and set(s) <= free and fits(s)]
        try:
            [body] = k8s.allocate(
                [claim(f"c{place}", {"r": exactly(count)})], inventory, done
            ).objects
        except k8s.AllocationError:
            assert not possible
            continue
        chosen = sorted(int(device.removeprefix("d")) for _, device in devices_of(body))
        assert chosen in possible
        left.subtract(cost(chosen))
        free -= set(chosen)
        done.append(body)


def changed(**changes: Any) -> Slices:
    inventory = deepcopy(pool_of({"a": 4}, [{"a": 1}]))
    for path, value in changes.items():
        target: Any = inventory
        *way, last = (int(word) if word.isdigit() else word for word in path.split("__"))
        for key in way:
            target = target[key]
        target[last] = value
    return inventory


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"1__spec__devices__0__consumesCounters__0__counterSet": "t"}, "uses counter a of set t"),
        ({"1__spec__devices__0__consumesCounters": [{}]}, "is not modelled without counterSet"),
        ({"1__spec__devices__0__consumesCounters": [{}] * 3}, "3 entries; at most 2"),
        ({"1__spec__devices__0__consumesCounters__0__counters": {}}, "0 counters; from 1 to 32"),
        ({"0__spec__sharedCounters__0__counters__a__value": "-1"}, "is negative"),
        ({"0__spec__sharedCounters__0__counters__a__value": "x"}, "is not a quantity"),
        ({"0__spec__sharedCounters__0__name": "A B"}, "must be a DNS label"),
        ({"1__spec__sharedCounters": [{"name": "s", "counters": {"a": {"value": "1"}}}]},
         "counter a of set s exists twice in pool p"),
        ({"1__spec__devices__0__nodeName": "m"}, "its slice says its node"),
        ({"1__spec__nodeName": None}, "spec.nodeName: is missing"),
        ({"1__spec__nodeName": None, "1__spec__perDeviceNodeSelection": True},
         "must have one of nodeName and nodeSelector"),
        ({"1__spec__nodeName": None, "1__spec__perDeviceNodeSelection": True,
          "1__spec__devices__0__nodeSelector": {"nodeSelectorTerms": [{}]}},
         "must be one term that names nodes"),
    ],
)  # fmt: skip
def test_counters_that_are_wrong_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(k8s.K8sError, match=message):
        k8s.allocate([claim("c")], changed(**changes))


def test_one_set_may_stand_beside_its_devices_as_in_kubernetes_1_34() -> None:
    first, second = pool_of({"a": 1}, [{"a": 1}, {"a": 1}])
    second["spec"]["sharedCounters"] = first["spec"]["sharedCounters"]
    second["spec"]["pool"]["resourceSliceCount"] = 1
    held = k8s.allocate([claim("one")], [second]).objects
    by_node: dict[str, list[str]] = defaultdict(list)
    for pool, device in devices_of(held[0]):
        by_node[pool].append(device)
    assert by_node == {"p": ["d0"]}
    with pytest.raises(k8s.AllocationError, match="default/one"):
        k8s.allocate([claim("two")], [second], held)
