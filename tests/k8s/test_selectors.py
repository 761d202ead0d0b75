"""Selectors by what users call; the core's own tests have the language."""

from __future__ import annotations

import pytest

from support.resource_claims import DRIVER, claim, exactly
from trn3 import k8s
from trn3.k8s.errors import SelectorError

A = f"device.attributes['{DRIVER}']"
C = f"device.capacity['{DRIVER}']"


def selects(expression: str) -> bool:
    """Tell whether the seventh chip of an instance matches."""
    slices = k8s.resource_slices("trn2", driver=DRIVER)
    slices[0]["spec"]["devices"] = slices[0]["spec"]["devices"][6:7]
    try:
        k8s.allocate([claim("c", {"r": exactly(1, expression)})], slices)
    except k8s.AllocationError as error:
        assert "passes the selector" in str(error)  # noqa: PT017
        return False
    return True


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
def test_selectors_select(expression: str, expected: bool) -> None:
    assert selects(expression) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.driver ==", "line 1, column"),
        ("  ", "line 1, column 1"),
        ("true &&\n  (false", "line 2, column"),
        (f"{A}[?'x'].orValue(1) == 1", r"optional selection with \? is not supported, has"),
        ("x" * 10241, "10241 bytes; at most 10240"),
        ("(" * 5000, "more than 96 operators in each other"),
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
        ("semver('1.2') == semver('1.2.0')", "'1.2' is not a semantic version"),
        ("1 / 0 == 1", "fails for .*by zero"),
    ],
)
def test_selectors_that_are_wrong_say_why(expression: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message) as refusal:
        selects(expression)
    assert "\n" not in str(refusal.value)
