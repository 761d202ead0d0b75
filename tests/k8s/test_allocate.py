"""What the allocator prefers, and the parts of a claim that it knows."""

from __future__ import annotations

from typing import Any

import pytest

from support.resource_claims import (
    DRIVER,
    OWN,
    attribute,
    claim,
    devices_of,
    exactly,
    numbers_of,
    opaque,
)
from trn3 import k8s

GROUP = "resource.aws.com/devicegroup{}_id"
NODE = attribute("resourceType") + " == 'neuron_node'"
CHIP = attribute("resourceType") + " == 'neuron_device'"


def inventory(system: str = "trn2", nodes: int | None = None, **more: Any) -> list[dict[str, Any]]:
    return k8s.resource_slices(system, nodes=nodes, driver=DRIVER, **more)


def match(size: int, *requests: str) -> dict[str, Any]:
    named = {"requests": list(requests)} if requests else {}
    return {**named, "matchAttribute": GROUP.format(size)}


def pinned(name: str, *numbers: int) -> dict[str, Any]:
    """Return a claim of exactly these devices."""
    selector = f"{attribute('deviceId')} in {list(numbers)}"
    return claim(name, {"r": exactly(len(numbers), selector)})


def placed(claims: list[dict[str, Any]], slices: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in k8s.allocate(claims, slices).objects}


@pytest.mark.parametrize("size", [1, 4, 8, 16])
def test_match_attribute_gives_a_group(size: int) -> None:
    found = placed([claim("c", {"r": exactly(size)}, constraints=[match(size)])], inventory())
    numbers = numbers_of(found["c"])
    assert numbers == list(range(size))


def test_one_chip_goes_where_a_row_is_broken_already() -> None:
    found = placed([pinned("taken", 6), claim("one")], inventory())
    assert numbers_of(found["one"])[0] // 4 == 1


def test_four_chips_do_not_break_a_free_half() -> None:
    # A chip of row 0 is taken: row 1 shares its half with it, rows 2 and 3 are a free half.
    four = claim("four", {"r": exactly(4)}, constraints=[match(4)])
    eight = claim("eight", {"r": exactly(8)}, constraints=[match(8)])
    found = placed([pinned("taken", 2), four, eight], inventory())
    assert numbers_of(found["four"]) == [4, 5, 6, 7]
    assert numbers_of(found["eight"]) == list(range(8, 16))


def test_small_claims_fill_a_node_before_they_open_another() -> None:
    found = placed([claim(f"c{n}", {"r": exactly(2)}) for n in range(16)], inventory(nodes=2))
    first = [devices_of(found[f"c{n}"])[0][0] for n in range(8)]
    second = [devices_of(found[f"c{n}"])[0][0] for n in range(8, 16)]
    assert set(first) == {"trn2-instance-0"}
    assert set(second) == {"trn2-instance-1"}


def test_chips_without_a_constraint_are_neighbours() -> None:
    # Free are a column, which is connected around the torus, and three chips apart from it.
    free = {1, 5, 9, 13, 3, 6, 11}
    taken = pinned("taken", *sorted(set(range(16)) - free))
    found = placed([taken, claim("c", {"r": exactly(4)})], inventory())
    assert set(numbers_of(found["c"])) in ({1, 5, 9, 13}, {1, 5, 6, 9}, {5, 6, 9, 13})
    result = k8s.allocate([taken, claim("c", {"r": exactly(4)})], inventory())
    assert result.placed[1].score.pieces == 0


def test_gen2_chips_are_of_one_sled_that_no_set_of_four_needs() -> None:
    found = placed([claim("c", {"r": exactly(3)})], inventory("gen2"))
    pools = {pool for pool, _ in devices_of(found["c"])}
    assert pools == {"trn3-gen2-0-r0-s16"}


def test_a_chip_is_preferred_to_a_whole_node() -> None:
    found = placed([claim("c")], inventory("gen2"))
    assert [device for _, device in devices_of(found["c"])] == ["neuron-device-0"]


def test_devices_of_two_drivers_share_a_group() -> None:
    group = GROUP.format(4)
    chips = inventory()
    values = [each["attributes"][group]["string"] for each in chips[0]["spec"]["devices"][::2]]
    cards = [
        {"name": f"card-{n}", "attributes": {group: {"string": value}}}
        for n, value in enumerate(values)
    ]
    network = k8s.pool_slices("net", cards, driver="net.internal", node="trn2-instance-0")
    asks = {"chips": exactly(4), "cards": exactly(2, device_class="net.internal")}
    claims = [pinned("x", 0), claim("c", asks, constraints=[match(4)])]
    body = placed(claims, [*chips, *network])["c"]
    names = [device for _, device in devices_of(body)]
    assert names == [*(f"neuron-device-{n}" for n in range(4, 8)), "card-2", "card-3"]


def test_a_node_device_holds_the_chips_of_its_pool() -> None:
    node = claim("node", {"r": exactly(1, NODE)})
    chips = [claim(f"c{n}", {"r": exactly(4, CHIP)}) for n in range(36)]
    found = placed([node, *chips[:35]], inventory("gen2"))
    pool = devices_of(found["node"])[0][0]
    assert all(pool != devices_of(found[f"c{n}"])[0][0] for n in range(35))
    with pytest.raises(
        k8s.AllocationError, match="claim default/c35, request r: asks for 4 devices; 0 that match"
    ):
        k8s.allocate([node, *chips], inventory("gen2"))


def test_chips_keep_the_node_device_from_others() -> None:
    nodes = [claim(f"n{n}", {"r": exactly(1, NODE)}) for n in range(4)]
    with pytest.raises(k8s.AllocationError, match=r"claim default/n3.*held by default/chip"):
        k8s.allocate([claim("chip", {"r": exactly(1, CHIP)}), *nodes], inventory("gen1"))


def test_all_takes_every_chip_that_matches() -> None:
    rows = attribute("topology_x") + " < 2"
    found = placed([claim("c", {"r": exactly(None, rows)})], inventory())
    assert numbers_of(found["c"]) == list(range(8))


def test_requests_of_a_claim_share_a_node_and_no_device() -> None:
    asks = {"a": exactly(4), "b": exactly(4), "lead": exactly(1, attribute("deviceId") + " == 0")}
    body = placed([claim("c", asks, constraints=[match(4, "a"), match(4, "b")])], inventory())["c"]
    results = body["status"]["allocation"]["devices"]["results"]
    assert len({each["device"] for each in results}) == 9
    assert (
        next(each["device"] for each in results if each["request"] == "lead") == "neuron-device-0"
    )
    for name in ("a", "b"):
        rows = {
            int(each["device"].rsplit("-")[-1]) // 4 for each in results if each["request"] == name
        }
        assert len(rows) == 1


def test_one_constraint_over_two_requests_binds_both() -> None:
    asks = {"a": exactly(3), "b": exactly(5)}
    found = placed([pinned("taken", 0), claim("c", asks, constraints=[match(8)])], inventory())
    assert sorted(numbers_of(found["c"])) == list(range(8, 16))


def test_distinct_attribute_gives_chips_of_different_rows() -> None:
    rule = {"requests": ["r"], "distinctAttribute": f"{DRIVER}/topology_x"}
    found = placed([claim("c", {"r": exactly(4)}, constraints=[rule])], inventory())
    assert sorted(number // 4 for number in numbers_of(found["c"])) == [0, 1, 2, 3]


def first_available(*alternatives: dict[str, Any]) -> dict[str, Any]:
    body = claim("c")
    subs = [{"name": f"s{n}", **each} for n, each in enumerate(alternatives)]
    body["spec"]["devices"]["requests"] = [{"name": "r", "firstAvailable": subs}]
    return body


@pytest.mark.parametrize(("taken", "request_name", "count"), [((), "r/s0", 16), ((3,), "r/s1", 8)])
def test_first_available_takes_the_first_that_fits(
    taken: tuple[int, ...], request_name: str, count: int
) -> None:
    others = [pinned("taken", *taken)] if taken else []
    body = first_available(exactly(16), exactly(8), exactly(1))
    config = opaque("NeuronConfig", "logicalNeuronCore", 2, "r/s1")
    body["spec"]["devices"]["config"] = [config]
    found = placed([*others, body], inventory())["c"]["status"]["allocation"]["devices"]
    assert {each["request"] for each in found["results"]} == {request_name}
    assert len(found["results"]) == count
    assert ("config" in found) == (request_name == "r/s1")


def test_capacity_leaves_out_devices_that_are_too_small() -> None:
    ask = exactly(1, capacity={"requests": {"memory": "100Gi"}})
    slices = [*inventory("trn2"), *inventory("gen1")]
    found = placed([claim("c", {"r": ask})], slices)
    assert devices_of(found["c"])[0][0].startswith("trn3-gen1")
    big = exactly(1, CHIP, capacity={"requests": {"memory": "200Gi"}})
    with pytest.raises(
        k8s.AllocationError, match="memory of 200Gi is more than any device has; the most is 144Gi"
    ):
        k8s.allocate([claim("c", {"r": big})], slices)


def test_too_many_ways_are_refused() -> None:
    body = first_available(exactly(1), exactly(2), exactly(3), exactly(4))
    (one,) = body["spec"]["devices"]["requests"]
    body["spec"]["devices"]["requests"] = [{**one, "name": f"r{n}"} for n in range(7)]
    with pytest.raises(k8s.AllocationError, match="16384 ways to choose, and at most 4096 are"):
        k8s.allocate([body], inventory())


TAINT = {
    "trn2-instance-0/neuron-device-0": [{"key": "bad", "value": "hbm", "effect": "NoSchedule"}]
}


@pytest.mark.parametrize(
    ("toleration", "met"),
    [
        ({"key": "bad", "operator": "Exists"}, True),
        ({"key": "bad", "value": "hbm", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "bad", "value": "link"}, False),
        ({"key": "bad", "operator": "Exists", "effect": "NoExecute"}, False),
        (None, False),
    ],
)
def test_taints_keep_claims_away_that_do_not_tolerate_them(
    toleration: dict[str, str] | None, met: bool
) -> None:
    tolerations: dict[str, Any] = {"tolerations": [toleration]} if toleration else {}
    body = claim("c", {"r": exactly(16, **tolerations)})
    slices = inventory(taints=TAINT)
    if met:
        results = placed([body], slices)["c"]["status"]["allocation"]["devices"]["results"]
        assert results[0]["tolerations"] == [toleration]
    else:
        with pytest.raises(k8s.AllocationError, match="no node has more than 15"):
            k8s.allocate([body], slices)


def test_admin_access_shares_devices_and_takes_none() -> None:
    user = claim("user", {"r": exactly(16)})
    admin = claim("admin", {"r": exactly(None, adminAccess=True)})
    found = placed([user, admin, claim("admin2", {"r": exactly(1, adminAccess=True)})], inventory())
    results = found["admin"]["status"]["allocation"]["devices"]["results"]
    assert len(results) == 16
    assert all(each["adminAccess"] is True for each in results)


def test_claims_that_hold_devices_keep_them() -> None:
    slices = inventory()
    before = k8s.allocate([claim("old", {"r": exactly(4)})], slices).objects
    found = k8s.allocate([claim("new", {"r": exactly(12)})], slices, before).objects
    assert not set(devices_of(before[0])) & set(devices_of(found[0]))
    # In the same file, what is allocated stays as it is.
    again = k8s.allocate([*before, claim("new", {"r": exactly(12)})], slices).objects
    assert again == [before[0], found[0]]


def test_a_class_adds_its_selectors_and_configuration() -> None:
    chosen = k8s.device_class("last-row", driver=DRIVER)
    chosen["spec"]["selectors"].append({"cel": {"expression": attribute("topology_x") + " == 3"}})
    config = opaque("NeuronConfig", "logicalNeuronCore", 1)
    chosen["spec"]["config"] = [config]
    ask = exactly(2, device_class="last-row")
    body = placed([chosen, claim("c", {"r": ask})], inventory())["c"]
    assert numbers_of(body) == [12, 13]
    assert body["status"]["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["r"], **config}
    ]


def test_claims_of_a_pod_go_to_one_node() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "resources": {"claims": [{"name": "x"}, {"name": "y"}]}}],
            "resourceClaims": [
                {"name": "x", "resourceClaimName": "x"},
                {"name": "y", "resourceClaimName": "y"},
            ],
        },
    }
    claims = [claim("x", {"r": exactly(2)}), claim("y", {"r": exactly(2)})]
    taken = claim("taken", {"r": exactly(1)})
    found = placed([taken, *claims, pod], inventory("gen2", nodes=2))
    pools = {pool for name in "xy" for pool, _ in devices_of(found[name])}
    assert len(pools) == 1
    assert pools != {devices_of(found["taken"])[0][0]}


def test_modes_of_ultraservers_keep_their_sets_whole() -> None:
    def node(name: str, mode: int) -> dict[str, Any]:
        config = [opaque("UltraServerConfig", "ultraserverMode", mode)]
        return claim(name, {"r": exactly(1, NODE)}, config=config)

    # The first of a pair keeps the second node of its set from everybody else.
    claims = [node("a0", 2), claim("chip", {"r": exactly(1, CHIP)}), node("b", 1), node("a1", 2)]
    result = k8s.allocate(claims, inventory("gen1"))
    pools = {each.claim.name: each.node for each in result.placed}
    assert (pools["a0"], pools["a1"]) == ("trn3-gen1-0-r0-s0", "trn3-gen1-0-r0-s1")
    assert {pools["chip"], pools["b"]} == {"trn3-gen1-0-r1-s0", "trn3-gen1-0-r1-s1"}
    half = k8s.allocate([node("a0", 2)], inventory("gen1"))
    assert half.notes == (
        "ultraserverMode 2: 1 of the 2 nodes of its set are not claimed yet: trn3-gen1-0-r0-s1",
    )
    # What was allocated before counts.
    rest = k8s.allocate([node("a1", 2)], inventory("gen1"), half.objects)
    assert rest.placed[0].node == "trn3-gen1-0-r0-s1"


def test_newest_generation_of_a_pool_counts() -> None:
    old, new = inventory(), inventory(generation=2)
    new[0]["spec"]["devices"] = new[0]["spec"]["devices"][:4]
    with pytest.raises(k8s.AllocationError, match="no node has more than 4"):
        k8s.allocate([claim("c", {"r": exactly(5)})], [*old, *new])


def test_fragmentation_counts_what_is_left() -> None:
    slices = inventory()
    held = k8s.allocate([pinned("x", 0, 5, 10, 15)], slices).objects
    report = k8s.fragmentation(slices, held)
    assert (report.free, report.devices) == (12, 16)
    assert report.nodes[0].groups == {16: 0, 8: 0, 4: 0}
    assert report.nodes[0].largest_connected == 12
    column = k8s.allocate([pinned("x", 0, 4, 8, 12, 2, 6, 10, 14)], slices).objects
    split = k8s.fragmentation(slices, column)
    assert split.nodes[0].largest_connected == 4
    assert split.stranded == pytest.approx(0.5)
    whole = k8s.fragmentation(k8s.resource_slices(driver=OWN, system="gen2"))
    assert (whole.free_ultraservers, whole.sets) == (1, {4: 8, 2: 18})
