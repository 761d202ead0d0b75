"""Tokens of op= arguments, engines and enums as instructions take them."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import run
from support.operators import OPERATORS
from trn3.nki.isa import constants
from trn3.nki.isa.spellings import engine_name, enum_name
from trn3.nki.values.operators import op_name, optional_op_name

ALIASES: list[tuple[Any, str]] = [
    (nl.max, "maximum"), (nl.min, "minimum"), (nl.sum, "add"), (nl.prod, "multiply"),
    (np.add, "add"), (np.subtract, "subtract"), (np.multiply, "multiply"),
    (np.maximum, "maximum"), (np.minimum, "minimum"), (np.max, "maximum"), (np.min, "minimum"),
    (np.bitwise_and, "bitwise_and"), (np.bitwise_or, "bitwise_or"), (np.invert, "invert"),
    (np.less_equal, "less_equal"), (np.exp, "exp"), (np.logical_and, "logical_and"),
    (max, "maximum"), (min, "minimum"), ("add", "add"), ("max", "maximum"), ("nl.exp", "exp"),
    ("np.multiply", "multiply"),
]  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_every_function_of_the_language_is_a_token(name: str) -> None:
    assert op_name(getattr(nl, name)) == name
    assert op_name(name) == name


@pytest.mark.parametrize(("token", "name"), ALIASES, ids=range(len(ALIASES)))
def test_other_tokens_mean_the_same(token: Any, name: str) -> None:
    assert op_name(token) == name


@pytest.mark.parametrize("token", [3, None, "plus", [], nl.float32, nl.load, np.cumsum])
def test_other_things_are_no_operators(token: Any) -> None:
    with pytest.raises(TypeError, match=r"op is .*; allowed: nl.abs, "):
        op_name(token)


def test_optional_operators() -> None:
    assert optional_op_name(None) is None
    assert optional_op_name(nl.add) == "add"


@pytest.mark.parametrize("name", ["prelu", "bypass", "average"])
def test_tokens_that_are_no_functions_say_so(name: str) -> None:
    with pytest.raises(TypeError, match=rf"nl.{name} is an op= token"):
        getattr(nl, name)(1)


def test_engines_by_member_alias_and_name() -> None:
    for member in nisa.engine:
        assert engine_name(member) == member.name
        assert engine_name(member.name) == member.name
        if member.name != "dma":  # that name is the enum of sendrecv's movers
            assert getattr(nisa, f"{member.name}_engine") is member
    assert engine_name(None) == "unknown"


@pytest.mark.parametrize("value", [9, np.int32(7), True, "pool", nisa.oob_mode.skip, 1.0])
def test_engines_are_nothing_else(value: Any) -> None:
    with pytest.raises(TypeError, match=r"engine is .*allowed: nisa.engine.unknown"):
        engine_name(value)


KINDS = [
    constants.dge_mode,
    constants.oob_mode,
    constants.dma_engine,
    constants.matmul_perf_mode,
    constants.reduce_cmd,
]


@pytest.mark.parametrize("kind", KINDS)
def test_enums_by_member_name_and_value(kind: type[enum.Enum]) -> None:
    assert getattr(nisa, kind.__name__) is kind
    for member in kind:
        assert enum_name(member, kind, "mode") == member.name
        assert enum_name(member.name, kind, "mode") == member.name
        if isinstance(member.value, int):
            assert enum_name(member.value, kind, "mode") == member.name
    for wrong in (9, True, 1.5):
        with pytest.raises(TypeError, match=rf"mode is {wrong}; allowed: nisa.{kind.__name__}"):
            enum_name(wrong, kind, "mode")


def test_values_of_enums_are_the_published_ones() -> None:
    assert [(e.name, e.value) for e in constants.engine] == [
        ("unknown", 0), ("tensor", 1), ("scalar", 2), ("gpsimd", 3), ("dma", 4), ("vector", 5),
        ("sync", 6),
    ]  # fmt: skip
    assert [c.value for c in constants.reduce_cmd] == [0, 1, 2, 3, 4]
    assert constants.matmul_perf_mode.double_row.value == "double_row"


def test_a_number_of_no_engine_is_refused_by_the_instruction() -> None:
    wrong: Any = 7
    with pytest.raises(TypeError, match=r"engine is 7; allowed: nisa.engine.unknown"):
        run(lambda: nisa.memset(nl.ndarray((2, 2), nl.float32), 0.0, engine=wrong))


def exponentials(**options: Any) -> None:
    tile = nl.ndarray((2, 2), nl.float32)
    nisa.memset(tile, 0.0)
    nisa.activation(**{"dst": tile, "op": nl.exp, "data": tile, **options})


def test_instructions_take_every_spelling_of_a_word() -> None:
    """Members, names, values; tokens of the language and of NumPy, and names of functions."""
    for op in (nl.exp, np.exp, "exp", "nl.exp"):
        run(lambda op=op: exponentials(op=op))
    for command in (nisa.reduce_cmd.reduce, "reduce", 2, np.int32(2)):
        run(lambda command=command: exponentials(reduce_op=nl.add, reduce_cmd=command))
    for engine in (None, nisa.engine.unknown, "unknown", nisa.vector_engine, "vector", 5):
        run(lambda engine=engine: nisa.memset(nl.ndarray((2, 2), nl.float32), 0.0, engine))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"op": 3}, r"op is 3; allowed: nl\.abs"),
        ({"op": []}, r"op is \[\]; allowed: nl\.abs"),
        ({"op": "plus"}, r"op is 'plus'; allowed: nl\.abs"),
        ({"reduce_op": nl.load}, r"op is <function load"),
        ({"reduce_cmd": "all"}, r"reduce_cmd is 'all'; allowed: nisa\.reduce_cmd\.idle"),
        ({"reduce_cmd": nisa.oob_mode.skip}, r"reduce_cmd is <oob_mode\.skip: 1>; allowed: nisa"),
        ({"reduce_cmd": 9}, r"reduce_cmd is 9; allowed: nisa\.reduce_cmd\.idle"),
    ],
)
def test_instructions_refuse_what_spells_no_word(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        run(lambda: exponentials(**options))


def test_instructions_of_several_cores_need_several() -> None:
    tile: Any = None
    assert nisa.core_barrier(tile, (0,)) is None
    for call in (
        lambda: nisa.core_barrier(tile, [0, 1]),
        lambda: nisa.sendrecv(src=tile, dst=tile, send_to_rank=1, recv_from_rank=1, pipe_id=0),
    ):
        with pytest.raises(RuntimeError, match="no kernel runs on this thread"):
            call()
        with pytest.raises(ValueError, match=r"one core"):
            run(call)


@pytest.mark.parametrize("groups", [[], [[]], [[0], [1, 2]], [[0, 0]], [[0, 1], [1, 2]], [[-1]]])
def test_replica_groups_hold_each_rank_once(groups: Any) -> None:
    from trn3.nki.collectives import ReplicaGroup

    with pytest.raises(ValueError, match="groups is"):
        ReplicaGroup(groups)
    good = ReplicaGroup([[0, 2], [1, 3]])
    assert good.groups == list(good) == [[0, 2], [1, 3]]
    assert good == ReplicaGroup(((0, 2), (1, 3)))
    assert hash(good) == hash(ReplicaGroup([[0, 2], [1, 3]]))


@pytest.mark.parametrize("name", ["tensor_copy", "memset", "nc_matmul", "activation", "dma_copy"])
def test_unknown_keywords_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'mask'"):
        getattr(nisa, name)(mask=1)
