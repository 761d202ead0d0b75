"""Descriptions of machines as values: what is changed is run, and nothing else changes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from trn3.machine import ArchError, ArchSpec, NeuronCore, arch

#: The machines as files of 0.1.0 described them, the form of a user's own.
SPECS = Path(__file__).parent / "descriptions"
NAMES = ["trn1", "trn2", "trn3"]


@pytest.mark.parametrize("name", NAMES)
def test_arch_has_the_entries_of_its_file(name: str) -> None:
    line = re.compile(r'^(\w+) = \{ value = ([^,]+), unit = "([^"]*)", source = "(.*)" \}$')
    wanted = [
        (found[1], float(found[2]), found[3], found[4])
        for text in (SPECS / f"{name}.toml").read_text().splitlines()
        if (found := line.match(text))
    ]
    spec = arch(SPECS / f"{name}.toml")
    entries = sorted((key, e.value, e.unit, e.source) for key, e in spec.entries.items())
    assert entries == sorted(wanted)
    assert spec.name == name


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_is_as_0_1_0_described_it(name: str) -> None:
    now, then = arch(name).entries, arch(SPECS / f"{name}.toml").entries
    assert {key: each.value for key, each in now.items()} == {
        key: each.value for key, each in then.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_to_toml_is_read_back_the_same(name: str, tmp_path: Path) -> None:
    spec = arch(name).replace(name="mine", hbm_gbps=1234.5)
    path = tmp_path / "mine.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert arch(path) == spec
    assert NeuronCore(str(path)).spec()["hbm_gbps"] == 1234.5


@given(clock=st.integers(1, 100000), rate=st.floats(0.01, 64, allow_subnormal=False))
def test_replace_changes_only_what_is_named(clock: int, rate: float) -> None:
    spec = arch("trn3")
    changed = spec.replace(vector_clock_mhz=clock, vector_rate=rate)
    assert changed["vector_clock_mhz"] == clock
    assert changed["vector_rate"] == pytest.approx(rate, rel=1e-11)
    rest = {key for key in spec.entries if changed.entries[key].value != spec.entries[key].value}
    assert rest <= {"vector_clock_mhz", "vector_rate"}


@pytest.mark.parametrize(
    ("given", "figure", "value"),
    [
        ("trn3:vector_clock_mhz=+20%", "vector_clock_mhz", 1440),
        ("trn3:vector_clock_mhz=-25 %,psum_banks=16", "vector_clock_mhz", 900),
        ("trn3:psum_banks=16", "psum_banks", 16),
        ({"base": "trn2", "psum_banks": 16, "name": "mine"}, "psum_banks", 16),
        ({"base": "trn3", "vector.clock_mhz": "+20%"}, "vector_clock_mhz", 1440),
        ({"base": {"base": "trn3", "psum_banks": 4}, "hbm_gbps": 1}, "psum_banks", 4),
        (str(SPECS / "trn2.toml") + ":psum_banks=2", "psum_banks", 2),
    ],
)
def test_arch_takes_changes_in_every_form(given: Any, figure: str, value: float) -> None:
    assert arch(given)[figure] == value


CORES = """
[wide]
_base = "trn3"
vector_clock_mhz = { value = 2400, unit = "MHz", source = "a what-if" }
[old]
_base = "trn2"
"""


def test_a_file_may_describe_several_cores(tmp_path: Path) -> None:
    path = tmp_path / "cores.toml"
    path.write_text(CORES, encoding="utf-8")
    wide = arch(f"{path}:wide")
    assert (wide.name, wide["vector_clock_mhz"], wide["psum_banks"]) == ("wide", 2400, 8)
    assert wide.entries["vector_clock_mhz"].source == "a what-if"
    assert arch(f"{path}:wide:psum_banks=4")["psum_banks"] == 4
    assert NeuronCore(f"{path}:old").spec()["hbm_gbps"] == arch("trn2")["hbm_gbps"]
    with pytest.raises(
        ArchError, match=r"arch cores: core \"wid\" is unknown; the nearest is \"wide\""
    ):
        arch(f"{path}:wid")


def test_arch_name_says_what_was_changed() -> None:
    once = arch("trn3").replace(psum_banks=16)
    assert once.name == "trn3:psum_banks=16"
    assert once.replace(hbm_gbps="+10%").name == "trn3:psum_banks=16,hbm_gbps=5390"
    assert once.replace(name="mine").name == "mine"
    assert once.entries["psum_banks"].source == "what-if: 8 banks changed to 16"


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ("trn4", ArchError, "arch is trn4; allowed: trn1, trn2, trn3"),
        (
            "trn3:vector_clk=1",
            ArchError,
            r"no figure vector_clk; nearest: vector_clock_mhz \(1200 MHz",
        ),
        ({"base": "trn3", "vector.clock_ghz": 1}, ArchError, "nearest: vector_clock_mhz"),
        ({"psum_banks": 4}, TypeError, "allowed: a dict with 'base'"),
        ("trn3:psum_banks=2.5", ArchError, "whole number"),
        ("trn3:psum_banks=1000", ArchError, "is 1000 banks; allowed: 1 to 64"),
        ("trn3:psum_banks=many", ArchError, r"is 'many'; allowed: a number in banks"),
        ("trn3:psum_banks=nan", ArchError, "allowed: a number in banks"),
        ("trn3:psum_banks=4,", ArchError, "write NAME:FIGURE=VALUE"),
        ({"base": "trn3", "psum_banks": True}, TypeError, "is of type bool"),
        ({"base": "trn3", "psum_banks": [4]}, TypeError, "is of type list"),
        ({"base": "trn3", "name": "a/b"}, ArchError, "without /"),
        (3, TypeError, "is of type int"),
        ("nowhere.toml", ArchError, r"nowhere\.toml: "),
    ],
)
def test_arch_refuses_what_names_no_machine(given: Any, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        arch(given)


def test_arch_figures_are_found_by_name() -> None:
    with pytest.raises(KeyError, match="nearest: hbm_gbps"):
        arch("trn3")["hbm_gbs"]
    with pytest.raises(AttributeError):
        arch("trn3").name = "x"  # type: ignore[misc]


def test_arch_pickles_and_compares() -> None:
    spec = arch("trn3:psum_banks=16")
    again = pickle.loads(pickle.dumps(spec))
    assert (again, hash(again)) == (spec, hash(spec))
    assert isinstance(again, ArchSpec)
    assert spec != arch("trn3")
