"""Properties of every allocation, judged from the objects alone."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from hypothesis import given, settings, strategies as st

from support.resource_claims import DRIVER, attribute, claim, exactly
from trn3 import k8s

SYSTEMS = {
    name: k8s.resource_slices(name, driver=DRIVER, nodes=2) for name in ("trn2", "gen1", "gen2")
}
GROUPS = [f"resource.aws.com/devicegroup{size}_id" for size in (1, 4, 8, 16)]
CHIP = attribute("resourceType") + " == 'neuron_device'"
NODE = attribute("resourceType") + " == 'neuron_node'"


@st.composite
def claims(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw claims of one or two requests, with and without constraints."""
    bodies = []
    for number in range(draw(st.integers(1, 6))):
        asks = {}
        for name in draw(st.sampled_from([("a",), ("a", "b")])):
            count = draw(st.sampled_from([1, 1, 2, 3, 4, 8, None]))
            asks[name] = exactly(count, draw(st.sampled_from([CHIP, CHIP, NODE])))
        rules: list[dict[str, Any]] = []
        if draw(st.booleans()):
            key = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
            rules.append(
                {
                    key: draw(st.sampled_from(GROUPS)),
                    "requests": [draw(st.sampled_from(sorted(asks)))],
                }
            )
        bodies.append(claim(f"c{number}", asks, constraints=rules))
    return bodies


def index(slices: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (each["spec"]["pool"]["name"], device["name"]): {
            key: next(iter(value.values())) for key, value in device["attributes"].items()
        }
        for each in slices
        for device in each["spec"]["devices"]
    }


def try_all(bodies: list[dict[str, Any]], slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Allocate one claim after the other and leave out those that do not fit."""
    done: list[dict[str, Any]] = []
    for body in bodies:
        try:
            done += k8s.allocate([body], slices, done).objects
        except k8s.AllocationError:
            continue
    return done


@given(st.sampled_from(sorted(SYSTEMS)), claims())
def test_allocations_keep_every_promise(system: str, bodies: list[dict[str, Any]]) -> None:
    slices = SYSTEMS[system]
    devices = index(slices)
    holders: dict[tuple[str, str], str] = {}
    for body in try_all(bodies, slices):
        allocation = body["status"]["allocation"]
        results = allocation["devices"]["results"]
        given_devices = [(each["pool"], each["device"]) for each in results]
        for place in given_devices:
            # Nobody else has it, nor the node it is in, nor a part of it.
            assert place in devices
            assert place not in holders
            holders[place] = body["metadata"]["name"]
        pools = {pool for pool, _ in given_devices}
        assert len(pools) == 1
        term = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]
        assert term["values"] == sorted(pools)
        spec = body["spec"]["devices"]
        for request in spec["requests"]:
            mine = [
                devices[each["pool"], each["device"]]
                for each in results
                if each["request"] == request["name"]
            ]
            ask = request["exactly"]
            kind = ask["selectors"][0]["cel"]["expression"].rsplit("'", 2)[1]
            assert {each["resourceType"] for each in mine} == {kind}
            if "count" in ask:
                assert len(mine) == ask["count"]
            else:
                pool = next(iter(pools))
                there = [each for (name, _), each in devices.items() if name == pool]
                assert len(mine) == sum(each["resourceType"] == kind for each in there)
            for rule in spec.get("constraints", ()):
                if request["name"] in rule["requests"]:
                    key = rule.get("matchAttribute") or rule["distinctAttribute"]
                    values = [each[key] for each in mine]
                    expected = 1 if "matchAttribute" in rule else len(values)
                    assert len(set(values)) == expected
    for pool in {pool for pool, _ in holders}:
        held = {name for each, name in holders if each == pool}
        assert "neuron-node-0" not in held or held == {"neuron-node-0"}


@given(st.sampled_from(sorted(SYSTEMS)), claims(), st.randoms(use_true_random=False))
def test_allocations_are_a_function_of_their_inputs(
    system: str, bodies: list[dict[str, Any]], random: Any
) -> None:
    slices = SYSTEMS[system]
    mixed = [
        {
            **each,
            "spec": {
                **each["spec"],
                "devices": random.sample(each["spec"]["devices"], len(each["spec"]["devices"])),
            },
        }
        for each in random.sample(slices, len(slices))
    ]
    assert try_all(bodies, slices) == try_all(bodies, mixed)


COLOURS = ("red", "blue", None)


@st.composite
def small(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
    """Draw a node of up to six devices with attributes, a claim on it, and what is asked for."""
    devices = []
    for number in range(draw(st.integers(1, 6))):
        attributes: dict[str, Any] = {
            "id": {"int": number},
            "resourceType": {"string": "neuron_device"},
        }
        for name in ("shape", "colour"):
            value = draw(st.sampled_from(COLOURS))
            if value:
                attributes[name] = {"string": value}
        devices.append({"name": f"d-{number}", "attributes": attributes})
    asks = {}
    wanted = []
    for name in ("a", "b")[: draw(st.integers(1, 2))]:
        allowed = sorted(draw(st.sets(st.integers(0, 5), min_size=1)))
        count = draw(st.integers(1, 3))
        asks[name] = exactly(count, f"{attribute('id')} in {allowed}")
        wanted.append({"name": name, "allowed": allowed, "count": count})
    rules = []
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        chosen = sorted(draw(st.sets(st.sampled_from(sorted(asks)), min_size=1)))
        rules.append(
            {
                key: f"{DRIVER}/{draw(st.sampled_from(['shape', 'colour', 'id']))}",
                "requests": chosen,
            }
        )
    slices = k8s.pool_slices("p", devices, driver=DRIVER, node="n")
    return slices, claim("c", asks, constraints=rules), wanted


def feasible(
    devices: dict[tuple[str, str], dict[str, Any]],
    body: dict[str, Any],
    wanted: list[dict[str, Any]],
) -> bool:
    """Try every choice there is."""
    values = list(devices.values())
    choices = [
        combinations(
            [number for number, each in enumerate(values) if each["id"] in ask["allowed"]],
            ask["count"],
        )
        for ask in wanted
    ]
    for sets in product(*choices):
        flat = [number for each in sets for number in each]
        if len(set(flat)) < len(flat):
            continue
        for rule in body["spec"]["devices"].get("constraints", ()):
            key = (rule.get("matchAttribute") or rule["distinctAttribute"]).split("/")[1]
            covered = [
                values[number].get(key)
                for ask, each in zip(wanted, sets, strict=True)
                if ask["name"] in rule["requests"]
                for number in each
            ]
            distinct = len(covered) if "distinctAttribute" in rule else 1
            if None in covered or len(set(covered)) != distinct:
                break
        else:
            return True
    return False


@settings(max_examples=300)
@given(small())
def test_allocation_finds_devices_whenever_there_are_some(
    case: tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]],
) -> None:
    slices, body, wanted = case
    try:
        k8s.allocate([body], slices)
    except k8s.AllocationError:
        met = False
    else:
        met = True
    assert met == feasible(index(slices), body, wanted)


@given(st.sets(st.integers(0, 15), max_size=12), st.integers(1, 16))
def test_a_refusal_offers_the_largest_number_that_works(taken: set[int], count: int) -> None:
    slices = k8s.resource_slices("trn2", driver=DRIVER)
    held: list[dict[str, Any]] = []
    if taken:
        selector = f"{attribute('deviceId')} in {sorted(taken)}"
        held = k8s.allocate([claim("taken", {"r": exactly(len(taken), selector)})], slices).objects
    rule = [{"matchAttribute": GROUPS[1]}]
    most = max(sum(4 * row + column not in taken for column in range(4)) for row in range(4))
    try:
        k8s.allocate([claim("c", {"r": exactly(count)}, constraints=rule)], slices, held)
    except k8s.AllocationError as error:
        assert count > most
        if count <= 4 and most:
            assert f"ask for {most}" in str(error)  # noqa: PT017
    else:
        assert count <= most
