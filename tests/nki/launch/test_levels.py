"""At which level of the compiler a kernel runs: who decides, and what stays as it is."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3
import trn3.nki.collectives as ncc
import trn3.nki.dialects.legacy.language as older
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.nki.dialects import legacy
from trn3.profile import Profile

LEVELS = ("as-written", "nki", "neuronx-cc")
X = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)


def doubling(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        rows = slice(i * 128, (i + 1) * 128)
        nl.store(out[rows], nl.multiply(nl.load(x[rows]), 2.0))
    return out


def older_doubling(x: Any) -> Any:
    out = older.ndarray(x.shape, dtype=x.dtype, buffer=older.shared_hbm)
    for i in older.affine_range(2):
        tile = older.load(x[i * 128 : (i + 1) * 128])
        older.store(out[i * 128 : (i + 1) * 128], value=tile + tile)
    return out


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRN3_COMPILE", raising=False)
    monkeypatch.delenv("TRN3_NKI_VERSION", raising=False)


@pytest.fixture
def ran() -> Iterator[list[str]]:
    """Yield the levels of the launches of a test."""
    seen: list[str] = []
    with nki.observing(lambda launched: seen.append(launched.level)):
        yield seen


@pytest.mark.parametrize("dialect", ["modern", "legacy"])
@pytest.mark.parametrize("environment", [None, "as-written", "nki"])
@pytest.mark.parametrize("of_kernel", [None, "nki", "neuronx-cc"])
@pytest.mark.parametrize("argument", [None, "as-written", "neuronx-cc"])
def test_the_nearest_word_decides(
    argument: str | None,
    of_kernel: str | None,
    environment: str | None,
    dialect: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = legacy.jit(older_doubling) if dialect == "legacy" else nki.jit(doubling)
    if environment is not None:
        monkeypatch.setenv("TRN3_COMPILE", environment)
    if of_kernel is not None:
        kernel = nki.simulate(kernel, compile=of_kernel)
    own = "neuronx-cc" if dialect == "legacy" else "as-written"
    wanted = argument or of_kernel or environment or own
    given: dict[str, Any] = {} if argument is None else {"compile": argument}
    result, profile = nki.profile(kernel, X, **given)
    assert profile.compile["level"] == wanted
    assert np.array_equal(result, 2 * X)
    (core,) = kernel.cores(**given)
    assert core.compile_level == kernel.compile_level(argument) == wanted


def _wrapping(kernel: Any) -> Any:
    @functools.wraps(kernel)
    def wrapped(*args: Any) -> Any:
        return kernel(*args)

    return wrapped


#: Ways to make a kernel of the legacy dialect of a function.
MADE: dict[str, Callable[[Any], Any]] = {
    "jit": legacy.jit,
    "jit with a mode": legacy.jit(mode="simulation"),
    "trace": legacy.trace,
    "baremetal": legacy.baremetal(save_neff_name="file.neff"),
    "benchmark": legacy.benchmark(warmup=1, iters=2),
    "profile": legacy.profile(working_directory="."),
    "jit of today": lambda function: nki.jit(legacy.jit(function)),
    "baremetal of today": lambda function: nki.baremetal(legacy.jit(function)),
    "benchmark of today": lambda function: nki.benchmark(legacy.jit(function)),
    "benchmark of a benchmark": lambda function: nki.benchmark(legacy.benchmark(function)),
    "simulate": lambda function: nki.simulate(legacy.jit(function)),
    "simulate of a benchmark": lambda function: nki.simulate(legacy.benchmark(function)),
    "with brackets": lambda function: legacy.jit(function)[1],
    "with a schedule": lambda function: legacy.jit(function).with_schedule([]),
    "wrapped": lambda function: _wrapping(legacy.jit(function)),
}
#: Ways to run one.
RUN: dict[str, Callable[[Any], Any]] = {
    "call": lambda kernel: kernel(X),
    "simulate_kernel": lambda kernel: legacy.simulate_kernel(kernel, X),
    "simulate_kernel of today": lambda kernel: nki.simulate_kernel(kernel, X),
    "simulate": lambda kernel: nki.simulate(kernel)(X),
    "profile": lambda kernel: nki.profile(kernel, X)[0],
    "without values": lambda kernel: nki.profile(kernel, X, values=False)[0],
    "on another machine": lambda kernel: nki.profile(kernel, X, arch="trn2")[0],
    "simulate_ranks": lambda kernel: nki.simulate_ranks(kernel, [(X,)])[0],
    "profile_ranks": lambda kernel: nki.profile_ranks(kernel, [(X,)])[0][0],
    "checked": lambda kernel: nki.CheckedRun(kernel, [X]).run(),
    "on a chip": lambda kernel: trn3.Chip().run({1: (kernel, X)})[0][1],
}


@pytest.mark.parametrize(
    ("made", "how"),
    [
        (made, how)
        for made, how in itertools.product(MADE, RUN)
        # A function of today's is none of the legacy dialect's; that one makes it a kernel of it.
        if made != "wrapped" or how not in ("call", "simulate_kernel", "simulate_kernel of today")
    ],
)
def test_the_dialect_of_the_kernel_decides_however_it_is_called(
    made: str, how: str, ran: list[str]
) -> None:
    result = RUN[how](MADE[made](older_doubling))
    assert ran == ["neuronx-cc"]
    assert result is None or np.array_equal(result, 2 * X)


@pytest.mark.parametrize("how", RUN)
def test_kernels_of_today_run_as_written_however_they_are_called(how: str, ran: list[str]) -> None:
    RUN[how](nki.jit(doubling))
    assert ran == ["as-written"]


@pytest.mark.parametrize("release", ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"])
@pytest.mark.parametrize("way", ["variable", "install"])
def test_the_release_in_force_is_the_dialect(
    release: str, way: str, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = "neuronx-cc" if release in ("0.1", "0.2") else "as-written"
    before = nki.jit(doubling)
    if way == "variable":
        monkeypatch.setenv("TRN3_NKI_VERSION", release)
    else:
        nki.install(version=release)
    try:
        kernel = nki.jit(doubling)
        for runnable in (kernel, before, nki.simulate(doubling), nki.benchmark(doubling)):
            runnable(X)
        assert ran == [wanted] * 4
    finally:
        nki.uninstall()
        monkeypatch.delenv("TRN3_NKI_VERSION", raising=False)
    # Its dialect stays with a kernel.
    kernel(X)
    kernel[1](X)
    before(X)
    assert ran[4:] == [wanted, wanted, "as-written"]


def test_an_unknown_level_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, names = nki.jit(doubling), "as-written, nki, neuronx-cc"
    calls: list[Callable[[], Any]] = [
        lambda: nki.simulate(kernel, compile="fast"),
        lambda: nki.profile(kernel, X, compile="fast"),
        lambda: nki.simulate_ranks(kernel, [(X,)], compile="fast"),
        lambda: nki.profile_ranks(kernel, [(X,)], compile="fast"),
        lambda: nki.record(kernel, X, compile="fast"),
        lambda: nki.record_ranks(kernel, [(X,)], compile="fast"),
        lambda: nki.diff(kernel, [X], compile="fast"),
        lambda: nki.diff(kernel, [X], compile=["nki", "fast"]),
        lambda: nki.CheckedRun(kernel, [X], compile="fast").run(),
        lambda: nki.jit(compile="fast")(doubling),
        lambda: nki.benchmark(compile="fast")(doubling),
        lambda: legacy.jit(compile="fast")(older_doubling),
        lambda: legacy.profile(compile="fast")(older_doubling),
        lambda: kernel.cores(compile="fast"),
        lambda: trn3.Chip().run({0: (kernel, X)}, compile="fast"),
        lambda: trn3.machine.NeuronCore(compile="fast"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"compile is ['\"]fast['\"]; allowed: {names}"):
            call()
    monkeypatch.setenv("TRN3_COMPILE", "quick")
    with pytest.raises(ValueError, match=f"TRN3_COMPILE is 'quick'; allowed: {names}"):
        kernel(X)
    assert np.array_equal(nki.profile(kernel, X, compile="nki")[0], 2 * X)


@pytest.mark.parametrize("level", LEVELS)
def test_every_door_takes_a_level(level: str, ran: list[str]) -> None:
    kernel, timed = nki.jit(doubling), nki.benchmark(compile=level)(doubling)
    nki.simulate(kernel, compile=level)(X)
    nki.profile(kernel, X, compile=level)
    nki.profile(kernel, X, compile=level, values=False)
    nki.profile_ranks(kernel, [(X,)] * 2, compile=level)
    nki.simulate_ranks(kernel, [(X,)] * 2, compile=level)
    nki.CheckedRun(kernel, [X], compile=level).run()
    trn3.Chip().run({0: (kernel, X), 3: (kernel, X)}, compile=level)
    timed(X)
    nki.benchmark(doubling)(X, compile=level)
    nki.jit(compile=level)(doubling)(X)
    legacy.benchmark(compile=level)(older_doubling)(X)
    legacy.jit(compile=level)(older_doubling)(X)
    assert ran == [level] * 13
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) > 0


def test_a_parameter_of_that_name_is_the_kernels_own() -> None:
    def kernel(x: Any, compile: int = 0) -> Any:  # noqa: A002 -- what is tested
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), compile))
        return out

    result, profile = nki.profile(kernel, X[:128], compile=3)
    assert np.array_equal(result, X[:128] + 3)
    assert profile.compile["level"] == "as-written"
    own = nki.simulate(kernel, compile="nki")
    assert nki.profile(own, X[:128], compile=3)[1].compile["level"] == "nki"

    def open_kernel(x: Any, **kwargs: Any) -> Any:
        assert kwargs == {"compile": 3}
        return x

    assert nki.profile(open_kernel, X, compile=3)[1].compile["level"] == "as-written"


def test_two_levels_stand_side_by_side() -> None:
    found = nki.diff(doubling, [X], archs=["trn2", "trn3"], compile=["as-written", "nki"])
    assert [(row.arch, row.level) for row in found] == [
        (arch, level) for arch in ("trn2", "trn3") for level in ("as-written", "nki")
    ]
    assert all(row.equal and row.profile.compile["level"] == row.level for row in found)
    (own,) = nki.diff(legacy.jit(older_doubling), [X], archs=["trn3"])
    assert own.level == own.figures()["level"] == "neuronx-cc"
    with pytest.raises(ValueError, match="levels of the compiler, each once"):
        nki.diff(doubling, [X], compile=["nki", "nki"])
    with pytest.raises(ValueError, match="levels of the compiler, each once"):
        nki.diff(doubling, [X], compile=[])


def filling(x: Any) -> Any:
    """Keep more tiles than there is room for, and add them up, the first one last."""
    out = older.ndarray((128, 1024), dtype=x.dtype, buffer=older.shared_hbm)
    tiles = [older.load(x) for _ in older.affine_range(72)]
    total = tiles.pop()
    while tiles:
        total = total + tiles.pop()
    older.store(out, value=total)
    return out


def test_capacity_is_the_compilers() -> None:
    x = np.ones((128, 1024), np.float32)
    kernel = legacy.jit(filling)
    with pytest.raises(MemoryError, match="SBUF cannot hold all that is in use"):
        nki.simulate(kernel, compile="as-written")(x)
    with pytest.raises(MemoryError, match="SBUF cannot hold all that is in use"):
        nki.profile(kernel, x, compile="as-written")
    assert np.array_equal(kernel(x), 72 * x)
    assert np.array_equal(nki.simulate(kernel, compile="nki")(x), 72 * x)
    assert np.array_equal(legacy.simulate_kernel(kernel, x), 72 * x)
    assert np.array_equal(nki.simulate_ranks(kernel, [(x,)])[0], 72 * x)
    as_today = nki.simulate(_wrapping(kernel))
    assert np.array_equal(as_today(x), 72 * x)


def test_rules_of_the_hardware_hold_at_every_level() -> None:
    def too_wide(x: Any) -> Any:
        nl.ndarray((129, 4), nl.float32)
        return x

    for level in LEVELS:
        with pytest.raises(ValueError, match="partition dimension 129 exceeds maximum 128"):
            nki.simulate(too_wide, compile=level)(X)


def test_a_profile_says_what_the_compiler_did(tmp_path: Path) -> None:
    written = nki.profile(doubling, X)[1]
    latency = written.latency_us
    assert written.compile == {
        "level": "as-written",
        "as_written_us": latency,
        "compiled_us": latency,
        "bound_us": None,
        "spilled_bytes": 0,
        "passes": [],
        "verified": None,
    }
    made = nki.profile(doubling, X, compile="neuronx-cc")[1]
    found = made.compile
    assert list(found) == list(written.compile)
    assert found["as_written_us"] == pytest.approx(latency)
    assert found["compiled_us"] == made.latency_us
    assert 0 < found["bound_us"] <= made.latency_us
    assert found["spilled_bytes"] == 0
    assert [each["name"] for each in found["passes"]]
    assert made.figures()["compile"] == found
    made.to_json(tmp_path / "profile.json")
    again = Profile.from_json(tmp_path / "profile.json")
    assert again.compile == found
    assert again.to_dict() == made.to_dict()
    assert Profile.from_dict(written.to_dict()).compile == written.compile


def test_a_profile_of_a_run_before_there_were_levels_is_as_written() -> None:
    document = nki.profile(doubling, X)[1].to_dict()
    del document["data"]["compile"], document["figures"]["compile"]
    assert Profile.from_dict(document).compile["level"] == "as-written"
    document["data"]["compile"] = {"level": "nki"}
    with pytest.raises(ValueError, match="compile: missing field"):
        Profile.from_dict(document)


def test_the_summary_has_a_line_for_the_compiler() -> None:
    from rich.console import Console

    def summary(level: str) -> str:
        console = Console(width=120)
        with console.capture() as capture:
            console.print(nki.profile(doubling, X, compile=level)[1].summary())
        return capture.get()

    assert "compiled" not in summary("as-written")
    shown = summary("nki")
    assert "compiled at nki: " in shown
    for part in (" us, as written ", " us, bound ", " us, 0 bytes spilled"):
        assert part in shown


def test_each_core_has_its_own_word_of_the_compiler() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        rows = slice(core * 128, (core + 1) * 128)
        for _ in nl.sequential_range(1 + core):
            nl.store(out[rows], nl.load(x[rows]))
        return out

    result, profile = nki.profile(kernel[2], X, compile="nki")
    assert np.array_equal(result, X)
    first, second = profile.cores
    assert profile.compile == second.compile
    assert first.compile["compiled_us"] == first.latency_us < second.latency_us
    assert [core["compile"] for core in profile.figures()["cores"]] == [
        first.compile,
        second.compile,
    ]


def test_ranks_that_meet_are_compiled_together() -> None:
    @nki.jit
    def total(x: Any, group: Any) -> Any:
        mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(mine, x)
        ncc.all_reduce([mine], [out], group, nl.add)
        return out

    given = [(rank * X, ncc.ReplicaGroup([[0, 1]])) for rank in (1.0, 2.0)]
    for level in LEVELS:
        results, profiles = nki.profile_ranks(total, given, compile=level)
        assert all(np.array_equal(result, 3 * X) for result in results)
        assert [profile.compile["level"] for profile in profiles] == [level] * 2


@pytest.mark.parametrize("level", LEVELS)
def test_kernels_beside_each_other_are_compiled_ones(level: str) -> None:
    """Small ones share HBM without a wait, so that each takes what it takes alone."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(2):
            # Used once, far apart: a compiler may bring them together.
            tile = nl.load(x[i * 128 : (i + 1) * 128])
            other = nl.load(x[i * 128 : (i + 1) * 128])
            tile = nl.exp(nl.multiply(tile, 0.0))
            nl.store(out[i * 128 : (i + 1) * 128], nl.add(tile, other))
        return out

    _, alone = nki.profile(kernel, X, compile=level)
    results, beside = trn3.Chip().run({0: (kernel, X), 4: (kernel, X)}, compile=level)
    assert all(np.array_equal(result, X + 1) for result in results.values())
    for core in beside.cores:
        assert core.latency_us == core.compile["compiled_us"] == alone.latency_us
        assert core.compile["level"] == level
        opcodes = [profile.table("Instruction")["opcode"].tolist() for profile in (core, alone)]
        assert opcodes[0] == opcodes[1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kernel", [nki.jit(doubling), legacy.jit(older_doubling)])
def test_a_recorded_program_is_of_the_level(kernel: Any, level: str) -> None:
    _, profile = nki.profile(kernel, X, compile=level)
    programs = [
        nki.record(kernel, X, compile=level),
        nki.record(nki.simulate(kernel, compile=level), X),
        *nki.record_ranks(kernel, [(X,)], compile=level),
    ]
    for program in programs:
        assert all(
            tensor.address is not None for tensor in program.tensors if "hbm" not in tensor.space
        )
        replay = program.run({"x": X})
        assert np.array_equal(replay.outputs["result"], 2 * X)
        # Which ring of a queue's engines a transfer takes is no part of a program.
        exact = level != "neuronx-cc"
        wanted = profile.data.latency_ps
        assert replay.picoseconds == (wanted if exact else pytest.approx(wanted, rel=0.05))


def test_programs_are_of_the_dialects_level(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = legacy.jit(older_doubling)
    own, written = nki.record(kernel, X), nki.record(kernel, X, compile="as-written")
    assert own == nki.record(kernel, X, compile="neuronx-cc") != written
    monkeypatch.setenv("TRN3_COMPILE", "as-written")
    assert nki.record(kernel, X) == written
    monkeypatch.setenv("TRN3_COMPILE", "neuronx-cc")
    assert nki.record(doubling, X) != nki.record(doubling, X, compile="as-written")
    # What a compiler takes is as the kernel says it, and so are programs that meet.
    assert any(tensor.address is None for tensor in nki.record(kernel, X, open_places=True).tensors)
    assert [*nki.record_ranks(kernel, [(X,)] * 2)] == [written] * 2


def test_a_kernel_that_does_not_fit_is_recorded_compiled() -> None:
    x = np.ones((128, 1024), np.float32)
    kernel = legacy.jit(filling)
    replay = nki.record(kernel, x).run({"x": x})
    assert np.array_equal(replay.outputs["result"], 72 * x)
    with pytest.raises(MemoryError, match="SBUF cannot hold all that is in use"):
        nki.record(kernel, x, compile="as-written")


def test_a_kernel_that_fails_is_not_compiled() -> None:
    def failing(x: Any) -> Any:
        nl.load(x[:128])
        message = "by itself"
        raise KeyError(message)

    with pytest.raises(KeyError, match="by itself"):
        nki.profile(failing, X, compile="neuronx-cc")
