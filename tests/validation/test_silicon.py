"""The register of real chips' bits: every verdict computed, every named test there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from trn3.validation import RowError, probe as probing, silicon

ROOT = Path(__file__).parents[2]
CLAIM = """
[[claim]]
id = "one"
claim = "it is so"
chips = ["trn2"]
source = "someone"
verdict = "equal"
check = "adds_as_numpy"
test = "tests/validation/test_silicon.py::test_tiles_are_added_as_numpy_adds"
"""


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_rows_are_summed_in_order(chip: str) -> None:
    assert silicon.sums_rows_in_order(chip)


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_tiles_are_added_as_numpy_adds(chip: str) -> None:
    assert silicon.adds_as_numpy(chip)


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_large_integers_are_rounded(chip: str) -> None:
    assert silicon.rounds_large_integers(chip)


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_products_keep_their_low_bits(chip: str) -> None:
    assert not silicon.rounds_products_to_bfloat16(chip)


def test_verdicts_are_what_trn3_computes() -> None:
    for claim in silicon.register().claims:
        assert silicon.compute(claim) == claim.verdict, claim


def test_every_named_test_exists() -> None:
    for claim in silicon.register().claims:
        path, _, name = claim.test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, claim


def test_every_check_has_a_claim() -> None:
    assert {claim.check for claim in silicon.register().claims} >= set(silicon.CHECKS)


def test_claims_of_probes_compare_bits() -> None:
    [probe] = [each for each in probing.probes() if each.id == "psum-width"]
    bits = probing.bits_of(probe, "trn2")
    text = CLAIM.replace('check = "adds_as_numpy"', f'probe = "psum-width"\nbits = "{bits}"')
    assert silicon.compute(silicon.parse(text).claims[0]) == "equal"
    wrong = text.replace(bits, "0" * 64)
    assert silicon.compute(silicon.parse(wrong).claims[0]) == "differs"
    contested = wrong.replace('"equal"', '"disputed"\nagainst = "x"')
    assert silicon.compute(silicon.parse(contested).claims[0]) == "disputed"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"equal"', '"so"', "verdict is so; allowed: equal, differs, disputed"),
        ('"equal"', '"disputed"', "has against if, and only if, it is disputed"),
        ('"equal"', '"equal"\nagainst = "x"', "has against if, and only if, it is disputed"),
        ('["trn2"]', '["gpu"]', "chips is ['gpu']; allowed: a list of trn1, trn2, trn3"),
        ('["trn2"]', "[]", "chips is []"),
        ('"adds_as_numpy"', '"guesses"', "check is guesses; allowed: adds_as_numpy"),
        ('check = "adds_as_numpy"', "", "needs check, or else probe and bits"),
        ('check = "adds_as_numpy"', 'probe = "x"', "needs check, or else probe and bits"),
        ('check = "adds_as_numpy"', 'probe = "x"\nbits = "0"', "probe is x; allowed: reduce-order"),
        ('source = "someone"', "", "source is None, must be a text"),
        ('id = "one"', 'id = "one"\nwhy = 1', "has why; allowed"),
    ],
)
def test_parse_refuses(old: str, new: str, complaint: str) -> None:
    with pytest.raises(RowError) as error:
        silicon.parse(CLAIM.replace(old, new))
    assert complaint in str(error.value)


def test_parse_refuses_a_claim_twice() -> None:
    with pytest.raises(RowError, match="claim one comes twice"):
        silicon.parse(CLAIM + CLAIM)
