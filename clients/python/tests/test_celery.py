"""Celery on the transport, with real workers: what waits, comes again, is cancelled, and comes in which order."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("celery")
from celery import VERSION as celery_version  # noqa: E402
from celery import Celery  # noqa: E402
from celery_queues import QUEUES  # noqa: E402
from support import HERE, Ledger, Server, until  # noqa: E402

import delayd.celery  # noqa: E402, F401 (for a source tree that is not installed)

LONG = bool(os.environ.get("DELAYD_LONG"))
#: A worker that starts while the machine is busy.
START_S = 60
#: A child that was handed a task while its worker was told to stop waits 30 s before it ends (billiard counts results,
#: 300 times 0.1 s; Celery no longer reads that one). One stop in 60 on a busy machine, with any broker.
STOP_S = 90


class Broker:
    """A server, the application's side of it, and the ledger of its workers."""

    def __init__(self, server, folder):
        self.server = server
        self.url = f"delayd://127.0.0.1:{server.port}/0"
        self.ledger = Ledger(folder / "ledger")
        self.folder = folder
        self.app = Celery("tests", broker=self.url, set_as_current=False)
        self.app.conf.update(task_ignore_result=True, task_default_queue="celery", task_queues=QUEUES)
        self._files = 0

    def send(self, task, *args, **options):
        return self.app.send_task(f"celery_app.{task}", args, **options)

    def rows(self, name):
        return [row[1:] for row in self.ledger.rows() if row[0] == name]

    def gate(self):
        self._files += 1
        return self.folder / f"gate{self._files}"

    def state(self, task, queue="celery"):
        return self.job(task, queue).get(b"state", b"").decode() or None

    def job(self, task, queue="celery"):
        """DELAY.GET's fields: a map in RESP3, a flat array in RESP2."""
        reply = self.server.call("DELAY.GET", queue, task.id) or {}
        return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))

    def length(self, state, queue="celery"):
        return self.server.call("DELAY.LEN", queue, state)

    def waits(self, queue="celery"):
        """Whether a worker waits for this queue's messages."""
        reply = self.server.call("DELAY.STATS", queue) or {}
        return (reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))).get(b"waiters")

    @contextmanager
    def worker(self, *words, concurrency=1, queues="celery,mails,news", **environment):
        process = self.start(*words, concurrency=concurrency, queues=queues, **environment)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                # Celery logs where each of its threads is.
                process.send_signal(signal.SIGUSR1)
                time.sleep(1)
                raise AssertionError(f"a worker does not end: {process.log.read_text()}") from None
            finally:
                kill(process)

    def start(self, *words, concurrency=1, queues="celery,mails,news", **environment):
        self._files += 1
        log = self.folder / f"worker{self._files}.log"
        name = f"w{self._files}@test"
        words = ["-A", "celery_app", "worker", "-n", name, "-c", str(concurrency), "-Q", queues, "-l", "INFO", *words]
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", *words, "--without-gossip", "--without-mingle"], cwd=HERE,
            stdout=log.open("w"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "BROKER": self.url, "LEDGER": self.ledger.path, **environment},
        )
        process.log = log
        until(lambda: " ready." in log.read_text() or self._failed(process), START_S)
        return process

    def _failed(self, process):
        assert process.poll() is None, process.log.read_text()


def kill(process):
    """A worker and its children, as a machine does that goes away."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def broker(server, tmp_path):
    server.call("FLUSHALL")
    return Broker(server, tmp_path)


def test_a_countdown_waits_in_the_server_and_is_never_early(broker):
    with broker.worker():
        # Far enough for a look at the worker, however busy the machine is.
        waiting = [broker.send("note", f"w{n}", countdown=600) for n in range(5)]
        sent = [(time.time(), broker.send("note", f"n{n}", countdown=2)) for n in range(20)]
        assert {broker.state(task) for task in waiting} == {"delayed"}
        inspect, far = broker.app.control.inspect(timeout=1, limit=1), {task.id for task in waiting}
        assert [*until(inspect.scheduled).values()] == [[]], "a waiting task is in a worker's memory"
        for tasks in until(inspect.reserved).values():
            assert not far & {task["id"] for task in tasks}, "a waiting task is in a worker's memory"
        until(lambda: all(broker.rows(f"n{n}") for n in range(20)))
        for n, (at, _) in enumerate(sent):
            [(ran, _)] = broker.rows(f"n{n}")
            assert ran - at >= 2


def test_the_due_time_is_the_eta_rounded_up_to_the_millisecond():
    from delayd.celery.transport import _due

    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(1000):
        zone = timezone(timedelta(minutes=chance.randrange(-720, 840)))
        eta = datetime(2060, 1, 1, tzinfo=zone) + timedelta(microseconds=chance.randrange(10**15))
        early = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=int(_due(eta.isoformat())[1:])) - eta
        assert timedelta(0) <= early < timedelta(milliseconds=1)
    assert _due("2060-01-01T00:00:00") == _due("2060-01-01T00:00:00Z") == "@2840140800000"
    assert [_due(eta) for eta in (None, "", "2001-01-01T00:00:00Z", "1960-01-01T00:00:00Z", "tomorrow")] == ["0"] * 5


def test_revoke_deletes_a_waiting_task(broker):
    delayed, other = broker.send("note", "a", countdown=60), broker.send("note", "c", countdown=60)
    ready = broker.send("mail", "b", queue="mails")
    delayed.revoke()
    assert (broker.state(delayed), broker.state(other)) == (None, "delayed")
    broker.app.control.revoke([ready.id, "no-such-task"])
    assert broker.state(ready, "mails") is None
    broker.app.control.revoke(other.id, destination=["somebody@else"])
    assert broker.state(other) == "delayed", "what is said to one worker is not ours"


def test_a_running_task_is_revoked_by_its_worker(broker):
    gate = broker.gate()
    with broker.worker():
        task = broker.send("late", "t", str(gate))
        until(lambda: broker.rows("t"))
        task.revoke()
        assert broker.state(task) == "leased"
        gate.touch()
        until(lambda: ["ends"] in broker.rows("t"))


def test_the_result_of_a_revoked_task_is_revoked(broker, tmp_path):
    from celery import current_app
    from celery.exceptions import TaskRevokedError

    results = Celery("results", broker=broker.url, backend=f"file://{tmp_path}")
    try:
        task = results.send_task("celery_app.note", ("x",), countdown=60)
        task.revoke()
        with pytest.raises(TaskRevokedError):
            task.get(timeout=5)
    finally:
        results.close()
        assert current_app is not results


def test_priority_0_comes_first(broker):
    for n, priority in enumerate([9, 5, 0, 7, 0, 3]):
        broker.send("note", f"p{priority}.{n}", priority=priority)
    with broker.worker(PREFETCH="1"):
        until(lambda: len(broker.ledger.rows()) == 6)
    assert [row[0] for row in broker.ledger.rows()] == ["p0.2", "p0.4", "p3.5", "p5.1", "p7.3", "p9.0"]


def test_queues_routes_topics_and_broadcasts(broker):
    with broker.worker(queues="celery,mails,news,everywhere"), broker.worker(queues="news,everywhere"):
        broker.send("mail", "direct", queue="mails")
        broker.send("mail", "topic", queue="news", routing_key="news.sports")
        broker.send("mail", "nowhere", queue="news", routing_key="olds.sports")
        until(lambda: broker.rows("topic") and broker.rows("direct"))
        assert broker.rows("direct") == [["mails"]]
        assert broker.rows("topic") == [["news.sports"]]
        assert broker.rows("nowhere") == []

        def heard():
            # What is published before a worker has subscribed is not kept.
            broker.send("note", "all", queue="everywhere", declare=[QUEUES[3].exchange])
            time.sleep(0.1)
            return len({pid for _, pid in broker.rows("all")}) == 2

        until(heard)


def test_a_task_longer_than_its_lease_runs_once(broker):
    gate = broker.gate()
    with broker.worker(LEASE="3"), broker.worker(LEASE="3"):
        broker.send("late", "long", str(gate))
        until(lambda: broker.rows("long"))
        time.sleep(7)
        gate.touch()
        until(lambda: ["ends"] in broker.rows("long"))
        until(lambda: broker.length("LEASED") == 0)
    assert len(broker.rows("long")) == 2
    assert [row[1] for row in broker.rows("long") if row[0] == "begins"] == [False]


def test_acks_late_a_killed_workers_task_comes_again(broker):
    gate = broker.gate()
    with broker.worker(LEASE="1") as first:
        broker.send("late", "k", str(gate))
        until(lambda: broker.rows("k"))
        kill(first)
    with broker.worker(LEASE="1"):
        until(lambda: len(broker.rows("k")) == 2)
        gate.touch()
        until(lambda: ["ends"] in broker.rows("k"))
        until(lambda: broker.length("LEASED") == 0)
    assert [row[:2] for row in broker.rows("k")] == [["begins", False], ["begins", True], ["ends"]]


def test_a_retry_keeps_its_id_and_its_countdown(broker):
    with broker.worker():
        task = broker.send("stubborn", "s", 3)
        until(lambda: len(broker.rows("s")) == 4)
        until(lambda: broker.state(task) is None)
    runs = broker.rows("s")
    assert [row[0] for row in runs] == [0, 1, 2, 3]
    assert all(later[1] - earlier[1] >= 0.3 for earlier, later in zip(runs, runs[1:]))


def test_a_worker_that_stops_gives_back_what_it_has_not_begun(broker):
    gate = broker.gate()
    tasks = [broker.send("late", "w", str(gate)) for _ in range(6)]
    with broker.worker(PREFETCH="4") as worker:
        until(lambda: broker.rows("w"))
        until(lambda: broker.length("LEASED") == 4)
        worker.terminate()
        gate.touch()
        worker.wait(STOP_S)
    # One ran, the others are where they were, and not counted as tried.
    states = [broker.state(task) for task in tasks]
    assert states.count("leased") == 0 and "ready" in states
    assert {broker.job(task).get(b"attempt", 0) for task in tasks} == {0}


def test_what_cannot_run_is_a_dead_letter(broker):
    broker.server.call("DELAY.ADD", "celery", "0", "no message", "ID", "alien")
    with broker.worker():
        unknown, refused = broker.send("no_such_task"), broker.send("rejected", "r")
        until(lambda: broker.length("DEAD") == 3)
        assert (broker.state(unknown), broker.state(refused)) == ("dead", "dead")
        assert broker.server.call("DELAY.REDRIVE", "celery", "IDS", 1, refused.id) == 1
        until(lambda: broker.state(refused) == "dead")


@pytest.mark.skipif(celery_version < (5, 6), reason="earlier ones never learn the end of a task that outlived their connection")
def test_a_running_task_survives_a_lost_connection_and_runs_once(broker):
    gate = broker.gate()
    with broker.worker() as worker:
        broker.send("late", "c", str(gate))
        until(lambda: broker.rows("c"))
        for _ in range(2):
            broker.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            until(broker.waits)
        gate.touch()
        until(lambda: ["ends"] in broker.rows("c"))
        after = broker.send("note", "after")
        until(lambda: broker.rows("after"))
        until(lambda: broker.length("LEASED") == 0)
        assert broker.state(after) is None
        assert "Connection to broker lost" in worker.log.read_text()
    assert len(broker.rows("c")) == 2, "begun and ended once"


def test_etas_run_once_though_workers_are_killed(broker):
    """kombu #337: with Redis each of these runs again after each visibility timeout that ends before its ETA."""
    tasks, eta_s, kills = (200, 25, 12) if LONG else (60, 5, 2)
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    workers = [broker.start(LEASE="3") for _ in range(2)]
    try:
        due = time.time() + eta_s + kills * (3 if LONG else 2)
        for n in range(tasks):
            broker.send("note", f"e{n}", countdown=due - time.time())
        for _ in range(kills):
            time.sleep(chance.random() * (eta_s / kills / 2))
            victim = chance.randrange(2)
            kill(workers[victim])
            workers[victim] = broker.start(LEASE="3")
        until(lambda: all(broker.rows(f"e{n}") for n in range(tasks)), 60 + eta_s)
        time.sleep(4)  # longer than a lease
    finally:
        for worker in workers:
            kill(worker)
    runs = [broker.rows(f"e{n}") for n in range(tasks)]
    assert [len(run) for run in runs] == [1] * tasks
    assert all(ran >= due for [(ran, _)] in runs)
