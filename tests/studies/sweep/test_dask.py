"""A real Dask cluster on loopback: two processes, one thread each."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trn3
from support import sweeps as functions
from support.checks import error
from trn3.studies.sweep import BrokenExecutorError

distributed = pytest.importorskip("distributed")


def make_cluster(workers: int = 2) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=logging.CRITICAL,
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with make_cluster() as cluster, distributed.Client(cluster) as made:
        yield made


@pytest.mark.parametrize("kind", ["client", "executor"])
def test_results_are_those_of_local_processes(client: Any, kind: str) -> None:
    executor = client if kind == "client" else client.get_executor()
    grid = {"x": range(6), "y": [1, 2]}
    result = trn3.sweep(functions.add, grid, executor=executor)
    assert result.values == trn3.sweep(functions.add, grid, workers=1).values
    late = functools.partial(functions.later_first, count=4)
    assert trn3.sweep(late, {"x": range(4)}, executor).values == [0, 1, 2, 3]


def test_failed_points_do_not_lose_the_rest(client: Any, tmp_path: Path) -> None:
    result = trn3.sweep(functions.fail_on_odd, {"x": range(4)}, client, retries=1)
    assert result.values == [0, None, 2, None]
    assert [point.attempts for point in result] == [1, 2, 1, 2]
    assert str(result[1].error) == "ValueError: 1 is odd"
    fn = functools.partial(functions.fail_first, folder=str(tmp_path))
    assert trn3.sweep(fn, {"x": range(3)}, client, retries=1).values == [0, 1, 2]


def test_points_run_on_the_workers_and_lambdas_reach_them(client: Any) -> None:
    pids = set(trn3.sweep(functions.get_pid, {"x": range(8)}, client).values)
    assert pids <= set(client.run(lambda: __import__("os").getpid()).values())
    assert trn3.sweep(lambda x: x + 1, {"x": [1, 2]}, client).values == [2, 3]


def test_equal_points_are_called_each(client: Any, tmp_path: Path) -> None:
    """Dask gives calls that look the same one result unless told otherwise."""
    fn = functools.partial(functions.record_call, folder=str(tmp_path))
    for _ in range(2):
        trn3.sweep(fn, {"x": [1, 1, 1]}, client)
    assert (tmp_path / "calls").read_text(encoding="ascii").split() == ["1"] * 6


def test_nested_sweeps_run_in_their_worker(client: Any) -> None:
    assert trn3.sweep(functions.nested, {"x": [1, 2]}, client).values == [[1, 4], [4, 9]]
    refused = trn3.sweep(functions.nested_processes, {"x": [1]}, client)
    assert "pass workers=0" in str(refused[0].error)


def test_functions_that_cannot_be_sent_are_named(client: Any) -> None:
    with error(TypeError, "cannot", "sent", "Dask", "add"):
        trn3.sweep(functools.partial(functions.add, y=functions.give_lock(0)), {"x": [1]}, client)


def test_checkpoint(client: Any, tmp_path: Path) -> None:
    fn = functools.partial(functions.record_call, folder=str(tmp_path))
    log = tmp_path / "log"
    first = trn3.sweep(fn, {"x": range(5)}, client, checkpoint=log)
    assert first.values == [0, 1, None, 3, 4]
    (tmp_path / "repaired").touch()
    # A sweep begun on one kind of workers goes on on another.
    second = trn3.sweep(fn, {"x": range(5)}, checkpoint=log, workers=0)
    assert second.values == [0, 1, 2, 3, 4]
    assert [point.is_resumed for point in second] == [True, True, False, True, True]


def test_worker_that_is_killed_loses_nothing(client: Any, tmp_path: Path) -> None:
    fn = functools.partial(functions.report_pid, folder=str(tmp_path), seconds=0.15)
    with functions.killer(tmp_path) as killed:
        result = trn3.sweep(fn, {"x": range(10)}, client)
    assert len(killed) == 1
    assert result.values == list(range(10))
    assert not result.errors


def test_point_that_kills_every_worker_is_blamed_alone(client: Any) -> None:
    fn = functools.partial(functions.die_on, victim=2)
    distributed_config = {"distributed.scheduler.allowed-failures": 1}
    dask = pytest.importorskip("dask")
    with (
        dask.config.set(distributed_config),
        make_cluster() as cluster,
        distributed.Client(cluster) as made,
    ):
        result = trn3.sweep(fn, {"x": range(6)}, made)
    assert result.values == [0, 1, None, 3, 4, 5]
    assert [point.index for point in result.errors] == [2]
    problem = result[2].error
    assert problem is not None
    assert problem.type == "WorkerDiedError"


def test_cluster_that_goes_away_gives_what_is_finished() -> None:
    cluster = make_cluster(1)
    made = distributed.Client(cluster)

    def close(done: int, total: int | None) -> None:
        if done == 3:
            made.close()

    with pytest.raises(BrokenExecutorError, match=r"start a cluster again") as broken:
        trn3.sweep(functions.square, {"x": range(50)}, made, in_flight=1, progress=close)
    cluster.close()
    assert broken.value.result is not None
    assert broken.value.result.values == [0, 1, 4]


def test_parameters_that_cannot_be_sent_fail_their_point_only(client: Any) -> None:
    result = trn3.sweep(functions.square, [{"x": functions.give_lock(0)}, {"x": 2}], client)
    assert result.values == [None, 4]
    assert "serialize" in str(result[0].error)


def test_asynchronous_clients_are_refused(client: Any) -> None:
    async def attempt() -> None:
        address = client.scheduler.address
        async with distributed.Client(address, asynchronous=True) as made:
            with error(TypeError, "asynchronous"):
                trn3.sweep(functions.square, {"x": [1]}, made)

    asyncio.run(attempt())
