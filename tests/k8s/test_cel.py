"""Selectors."""

from __future__ import annotations

import pytest

from support.resource_claims import DRIVER
from trn3 import k8s
from trn3.k8s.cel import SelectorError, compile_selector
from trn3.k8s.inventory import Device, Inventory
from trn3.k8s.values import ResourceQuantity, Semver

A = f"device.attributes['{DRIVER}']"
C = f"device.capacity['{DRIVER}']"


@pytest.fixture(scope="module")
def chip() -> Device:
    slices = k8s.parse(k8s.to_yaml(k8s.resource_slices("trn2", driver=DRIVER)))
    return Inventory.from_documents(slices).devices[6]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"device.driver == '{DRIVER}'", True),
        (f"{A}.deviceId == 6", True),
        (f"{A}.topology_x == 1 && {A}.topology_y == 2", True),
        (f"{A}.deviceId < 6 || {A}.deviceId >= 7", False),
        (f"!({A}.instanceType == 'trn2.48xlarge')", False),
        (f"{A}.deviceId in [4, 5, 6]", True),
        (f"{A}.instanceType.startsWith('trn2') && {A}.instanceType.endsWith('xlarge')", True),
        (f"{A}.instanceType.contains('48')", True),
        (f"{A}.instanceType.matches('^trn[23]')", True),
        (f"{A}.instanceType.upperAscii() == 'TRN2.48XLARGE'", True),
        (f"has({A}.capacityBlockId)", False),
        ("has(device.attributes['other.example'].x)", False),
        (f"'deviceId' in {A}", True),
        (f"!has({A}.x) || {A}.x == 1", True),
        (f"{A}.deviceId > 3 ? true : false", True),
        ("device.attributes['resource.aws.com'].devicegroup1_id == '0000:16:00.0'", True),
        (f"{C}.memory == quantity('98304Mi')", True),
        (f"{C}.memory.isGreaterThan(quantity('95Gi'))", True),
        (f"{C}.memory.compareTo(quantity('100G')) == 1", True),
        (f"{A}.draDriverVersion.isLessThan(semver('1.0.1'))", True),
        (f"{A}.draDriverVersion == semver('1.0.0+build')", True),
        (f"{A}.draDriverVersion.major() == 1", True),
        ("isSemver('1.2') || isQuantity('x')", False),
        (f"cel.bind(a, {A}, a.deviceId == 6 && cel.bind(b, a.topology_x, b == 1))", True),
        (f"['trn1', 'trn2'].exists(each, {A}.instanceType.startsWith(each))", True),
    ],
)
def test_selectors_select(chip: Device, expression: str, expected: bool) -> None:
    assert compile_selector(expression)(chip) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.driver ==", "line 1, column"),
        ("", "line 1, column 1"),
        ("true &&\n  (false", "line 2, column"),
        (f"{A}[?'x'].orValue(1) == 1", r"optional selection with \? is not supported, has"),
        ("x" * 10241, "10241 bytes; at most 10240"),
    ],
)
def test_selectors_that_cannot_be_read_have_a_position(expression: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        compile_selector(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{A}.deviceID == 6", r"no attribute deviceID; did you mean deviceId\?"),
        (
            f"{A}.devicegroup4_id == 'x'",
            "has devicegroup4_id in the domain resource.aws.com alone",
        ),
        (f"{A}.deviceId", "gives int, not a truth value"),
        (f"{A}.deviceId > 'x'", r"types that do not go together \(int and string\)"),
        (f"{A}.draDriverVersion > semver('1.0.0')", "types that do not go together"),
        ("quantty('1Gi') == quantity('1Gi')", r"quantty is neither .*did you mean quantity\?"),
        ("devic.driver == 'x'", r"devic is neither .*did you mean device\?"),
        ("quantity('many') == quantity('1')", "'many' is not a quantity"),
        ("1 / 0 == 1", "fails for .*by zero"),
    ],
)
def test_selectors_that_fail_say_why(chip: Device, expression: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        compile_selector(expression)(chip)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("1Ki", 1024),
        ("1.5Gi", 1.5 * 2**30),
        ("2k", 2000),
        ("3e3", 3000),
        ("500m", 0.5),
        (".5", 0.5),
    ],
)
def test_quantities_are_numbers(text: str, number: float) -> None:
    assert ResourceQuantity.parse(text).number == number


def test_versions_are_ordered_as_the_standard_says() -> None:
    # The example of semver.org, section 11.
    words = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 "
    "1.0.0-rc.1 1.0.0"
    versions = [Semver.parse(word) for word in words.split()]
    for low, left in enumerate(versions):
        for high, right in enumerate(versions):
            assert left.compare(right) == (low > high) - (low < high)


@pytest.mark.parametrize("text", ["1.2", "01.2.3", "1.2.3.4", "v1.2.3", "1.2.3-"])
def test_versions_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(k8s.K8sError, match="not a semantic version"):
        Semver.parse(text)
