"""Handlers that do what nobody expects of them: what did not run is not acknowledged, what ran is not run again, and the next job is served."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys

import pytest
import slow_start
from support import Ledger, Server, until

from delayd import Delayd, Exists
from delayd.testing import run_inline


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture
def queue(server):
    server.call("FLUSHALL")
    queue = Delayd(server.url)
    yield queue
    queue.close()


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


# Bodies are the ledger's path: handlers run in other processes, too.


async def plain(body, job):
    await asyncio.sleep(0)
    Ledger(body).write(job.id)


class Callable:
    async def __call__(self, body, job):
        await plain(body, job)


def fork(body, job):
    Ledger(body).write(job.id)
    if job.id == "fork" and os.fork() == 0:
        sys.exit(0)
    if job.id == "fail":
        raise ValueError("as it should")


def start_and_end(body):
    with subprocess.Popen(["sleep", "60"]) as process:
        process.terminate()
        process.wait(10)


async def swallow(body):
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        pass


def done(server, jobs, name="a"):
    until(lambda: server.stats(name).get("acked") == jobs)


@pytest.mark.parametrize("handler, options", [
    (plain, {}), (plain, {"processes": 1}), (decorated(plain), {}), (Callable(), {}), (Callable(), {"processes": 1}),
    (functools.partial(plain), {}),
])  # fmt: skip
def test_a_coroutine_runs_wherever_it_comes_from(server, queue, tmp_path, handler, options):
    ledger = Ledger(tmp_path / "ledger")
    queue.worker("a", **options)(handler)
    queue.add_many("a", [{"body": ledger.path, "id": "1"}, {"body": ledger.path, "id": "2"}])
    worker = queue.start()
    done(server, 2)
    assert worker.stop()
    assert sorted(ledger.rows()) == [["1"], ["2"]]


def test_a_generator_is_no_handler(queue):
    def generator(body):
        yield body

    async def another(body):
        yield body

    for function in (generator, another):
        with pytest.raises(TypeError, match="nothing of it would run"):
            queue.worker("a")(function)


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_an_error_without_a_text_is_a_failure(server, queue, mode):
    def fails(body):
        if body:
            raise Unprintable

    async def fails_too(body):
        fails(body)

    queue.worker("a")(fails if mode == "threads" else fails_too)
    queue.add("a", True, id="bad", attempts=1)
    queue.add("a", False, id="good")
    worker = queue.start()
    done(server, 1)
    assert worker.stop()
    job = queue.get("a", "bad")
    assert job["state"] == "dead" and job["error"].startswith("Unprintable: (its text raised RuntimeError)"), job


def test_a_task_beside_the_handlers_ends_nothing(server, queue):
    async def exits():
        sys.exit(3)

    tasks = []

    @queue.worker("a")
    async def work(body):
        tasks.append(asyncio.create_task(exits()))
        await asyncio.sleep(0.05)

    queue.add_many("a", [{"body": 1}] * 3)
    worker = queue.start()
    done(server, 3)
    assert worker.stop()


def test_a_hook_that_exits_changes_nothing(server, queue):
    queue.worker("a")(lambda body: None)

    @queue.on("done")
    def exits(job):
        sys.exit(1)

    queue.add_many("a", [{"body": 1}] * 3)
    worker = queue.start()
    done(server, 3)
    assert worker.stop()


@pytest.mark.parametrize("options", [{"concurrency": 2}, {"processes": 1}])
def test_a_handlers_fork_does_not_go_on_as_a_worker(server, queue, tmp_path, options):
    ledger = Ledger(tmp_path / "ledger")
    queue.worker("a", **options)(fork)
    names = ["fork", "1", "fail", "2", "3"]
    queue.add_many("a", [{"body": ledger.path, "id": name, "attempts": 1} for name in names])
    worker = queue.start()
    done(server, 4)
    until(lambda: server.stats("a")["dead"] == 1)
    assert worker.stop()
    assert sorted(row[0] for row in ledger.rows()) == sorted(names)
    assert queue.get("a", "fail")["state"] == "dead"


def test_a_childs_start_is_no_part_of_its_handlers_time(server, queue):
    queue.worker("a", processes=1, timeout="1s")(slow_start.work)
    queue.add("a", 1, attempts=1)
    worker = queue.start()
    done(server, 1)
    assert worker.stop()


def test_programs_that_a_handler_starts_end_by_signals(server, queue):
    queue.worker("a", processes=1, timeout="30s")(start_and_end)
    queue.add("a", 1, attempts=1)
    worker = queue.start()
    done(server, 1)
    assert worker.stop()


def test_whoever_swallows_its_timeout_has_failed_all_the_same(server, queue):
    queue.worker("a", timeout="50ms")(swallow)
    queue.add("a", 1, id="slow", attempts=1)
    worker = queue.start()
    until(lambda: server.stats("a").get("dead") == 1)
    assert worker.stop()
    job = queue.get("a", "slow")
    assert job["error"] == "timeout"
    assert job["errors"] == [{"error": "timeout", "at": job["died"], "attempt": 1}]


def test_a_refusal_of_one_job_keeps_no_other_from_being_added(server, queue):
    queue.add("a", 1, id="5")
    with pytest.raises(Exists):
        queue.add_many("a", [{"body": 1, "id": str(number)} for number in range(2500)])
    assert server.stats("a")["added"] == 2500


def test_ids_are_kept_without_a_server(queue):
    queue.worker("a")(lambda body: None)
    with run_inline(queue) as ran:
        assert queue.add_many("a", [{"body": 1, "id": "b"}, {"body": 2}]) == ["b", "inline:1"]
    assert [job.id for job in ran.jobs] == ["b", "inline:1"]
