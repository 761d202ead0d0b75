"""What the compiler made of a launch, verified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.compiler import VerificationError
from trn3.nki.launch import compiled

X = np.arange(512 * 64, dtype=np.float32).reshape(512, 64) / 7
LEVELS = ("nki", "neuronx-cc")


@nki.jit
def scaled(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        rows = nl.ds(i * 128, 128)
        nl.store(out[rows], nl.exp(nl.multiply(nl.load(x[rows]), -0.5)))
    return out


@nki.jit
def in_place(x: Any) -> Any:
    tile = nl.load(x[0:128])
    nl.store(x[128:256], nl.add(tile, 1.0))
    nl.store(x[0:128], nl.multiply(tile, 2.0))


@nki.jit
def swapped(x: Any) -> Any:
    out = nl.ndarray((256, 64), x.dtype, buffer=nl.shared_hbm)
    mine, other = nl.ndarray((128, 64), x.dtype), nl.ndarray((128, 64), x.dtype)
    here, there = nl.program_id(0), 1 - nl.program_id(0)
    nisa.dma_copy(mine, x[nl.ds(here * 128, 128)])
    nisa.sendrecv(mine, other, there, there, 0)
    nisa.tensor_tensor(other, other, mine, nl.add)
    nisa.dma_copy(out[nl.ds(here * 128, 128)], other)
    nisa.core_barrier(out, (0, 1))
    return out


@pytest.mark.parametrize("level", LEVELS)
def test_profile_says_what_was_verified(level: str) -> None:
    _, profile = nki.profile(scaled, X, compile=level, verify=True)
    verified = profile.compile["verified"]
    assert verified["outputs"] == 1
    assert verified["passes"] == len(profile.compile["passes"]) > 0
    _, other = nki.profile(scaled, X, compile=level)
    assert other.compile["verified"] is None
    assert other.latency_us == profile.latency_us


def test_arguments_that_are_written_to_count() -> None:
    x, same = X.copy(), X.copy()
    _, profile = nki.profile(in_place, x, compile="nki", verify=True)
    assert profile.compile["verified"]["outputs"] == 1
    in_place(same)
    assert (x == same).all()
    assert not (x == X).all()


@pytest.mark.parametrize("level", LEVELS)
def test_two_cores_are_verified_together(level: str) -> None:
    _, profile = nki.profile(swapped[2], X, compile=level, verify=True)
    assert [core.compile["verified"]["outputs"] for core in profile.cores] == [1, 1]


def test_a_call_is_verified_too() -> None:
    found = nki.simulate(scaled, compile="nki", verify=True)(X)
    assert found.tobytes() == scaled(X).tobytes()


def test_recorded_programs_are_verified() -> None:
    program = nki.record(scaled, X, compile="nki", verify=True)
    assert program.to_json() == nki.record(scaled, X, compile="nki").to_json()
    with pytest.raises(ValueError, match="verify is True at level as-written"):
        nki.record(scaled, X, verify=True)


def test_what_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        message = "output 'result' differs from byte 4 on"
        raise ValueError(message)

    monkeypatch.setattr(compiled, "verify_cores", refuse)
    with pytest.raises(VerificationError, match="scaled is not verified: output 'result' differs"):
        nki.profile(scaled, X, compile="nki", verify=True)


def test_what_cannot_be_verified_is_refused() -> None:
    with pytest.raises(ValueError, match="as-written, which compiles nothing; allowed: nki, neur"):
        nki.profile(scaled, X, compile="as-written", verify=True)
    with pytest.raises(ValueError, match="without values no bits are compared"):
        nki.profile(scaled, X, compile="nki", verify=True, values=False)

    @nki.jit
    def gathered(x: Any, group: Any) -> Any:
        out = nl.ndarray((256, 64), x.dtype, buffer=nl.shared_hbm)
        ncc.all_gather([x], [out], group, collective_dim=0)
        return out

    group = ncc.ReplicaGroup([[0, 1]])
    kernel = nki.simulate(gathered, compile="nki", verify=True)
    with pytest.raises(NotImplementedError, match="runs on 2 ranks, whose collectives"):
        nki.simulate_ranks(kernel, [(X[:128], group)] * 2)
