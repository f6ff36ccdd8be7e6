"""A server of several partitions, given by the address of one, and a cluster of such servers whose leaders are killed."""

from __future__ import annotations

import functools
import signal
import socket
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from support import HERE, Ledger, Server, end, output, until, worker_process

from delayd import Delayd, Exists, Full, Refused
from delayd.places import Places

PARTITIONS = 4
QUEUES = [f"q{number}" for number in range(50)]
# One in each partition.
FOUR = ["mail", "a", "b", "{q}:low"]


@pytest.fixture(scope="module")
def server():
    with Server(partitions=PARTITIONS) as server:
        yield server


@pytest.fixture
def queue(server):
    for node in server.redis.get_primaries():
        server.redis.execute_command("FLUSHALL", target_nodes=node)
    queue = Delayd(server.url)
    yield queue
    queue.close()


def write(path, body, job):
    Ledger(path).write(job.queue, job.id, job.attempt)


async def write_async(path, body, job):
    Ledger(path).write(job.queue, job.id, job.attempt)


def partitions_of(server, queues):
    return {server.redis.get_node_from_key(queue).port for queue in queues}


@pytest.mark.parametrize("mode", ["threads", "asyncio", "processes"])
def test_jobs_of_many_queues_are_done_once(server, queue, mode, tmp_path):
    assert len(partitions_of(server, QUEUES)) == len(partitions_of(server, FOUR)) == PARTITIONS
    ledger = Ledger(tmp_path / "ledger")
    places = {"processes": 2} if mode == "processes" else {"concurrency": 8}
    queue.worker(*QUEUES, **places)(functools.partial(write_async if mode == "asyncio" else write, ledger.path))
    early = {name: queue.add_many(name, [{"body": n, "attempts": 1} for n in range(5)]) for name in QUEUES}
    worker = queue.start()
    later = {name: queue.add(name, 1, delay=at * 10 / 1000) for at, name in enumerate(QUEUES)}
    wanted = Counter((name, id) for name in QUEUES for id in (*early[name], later[name]))
    until(lambda: len(ledger.rows()) >= len(wanted))
    assert worker.stop()
    assert Counter((name, id) for name, id, _ in ledger.rows()) == wanted
    stats = [server.stats(name) for name in QUEUES]
    assert all(each["acked"] == 6 and not each["leased"] and not each["dead"] for each in stats), stats
    # While many jobs are ready, none is fetched for which there is no place.
    assert worker.counters["done"] == len(wanted) and worker.counters["given_back"] < len(QUEUES), worker.counters


def test_few_places_are_filled_in_the_order_of_the_queues(server, queue):
    """One place, and a connection that waits for each of four slots: never two at once, and nothing fetched in vain."""
    order, running, most = [], [], []

    @queue.worker(*FOUR)
    def work(body, job):
        running.append(job)
        most.append(len(running))
        order.append(job.queue)
        # While the place is taken nothing waits at the other queues.
        until(lambda: not any(server.stats(name).get("waiters") for name in FOUR), 2)
        running.pop()

    for name in reversed(FOUR):
        queue.add_many(name, [{"attempts": 1}] * 3)
    worker = queue.start()
    until(lambda: worker.counters["done"] == 12)
    queue.add("a", 1)
    until(lambda: worker.counters["done"] == 13)
    assert worker.stop()
    assert order == [name for name in FOUR for _ in range(3)] + ["a"] and max(most) == 1
    assert sum(server.stats(name)["delivered"] for name in FOUR) == 13


def test_one_taker_asks_at_a_time():
    places = Places(SimpleNamespace(rotate=False), 1, 2)
    places.leave(0)
    with places.turn(1) as free:
        assert free == 1
        with places.turn(0) as first:
            assert first == 0, "the other one has not been answered yet"
    with places.turn(0) as first:
        assert first == 1


def test_a_job_for_which_there_is_no_place_is_given_back_at_once(server, queue):
    """One place, and two connections that wait: both are given a job in the same millisecond."""
    both, seen = ["a", "b"], []

    @queue.worker(*both)
    def work(body, job):
        until(lambda: sum(server.stats(name).get("leased", 0) for name in both) == 1, 2)
        seen.append(job.attempt)

    worker = queue.start()
    for turn in range(1, 200):
        until(lambda: all(server.stats(name).get("waiters") for name in both))
        at = f"@{int(time.time() * 1000) + 20}"
        for name in both:
            queue.add(name, 1, at=at, attempts=1)
        until(lambda: worker.counters["done"] == 2 * turn)
        if worker.counters["given_back"]:
            break
    assert worker.stop() and worker.counters["given_back"]
    assert set(seen) == {1}


def test_with_rotate_the_queues_take_turns(server, queue):
    order = []
    queue.worker(*FOUR, rotate=True)(lambda body, job: order.append(job.queue))
    for name in FOUR:
        queue.add_many(name, [{}] * 10)
    worker = queue.start()
    until(lambda: worker.counters["done"] == 40)
    until(lambda: all(server.stats(name).get("waiters") for name in FOUR))
    began = time.monotonic()
    assert worker.stop() and time.monotonic() - began < 3, "none waits for the end of its RESERVE"
    assert all(set(order[at : at + 4]) == set(FOUR) for at in range(0, 40, 4)), order


def test_every_call_finds_its_partition(server, queue):
    for name in FOUR:
        ids = queue.add_many(name, [{"body": n, "id": f"{n:04}", "delay": "1h"} for n in range(1001)])
        assert ids == [f"{n:04}" for n in range(1001)]
        assert queue.add_many(name, [{"id": "x"}, {"id": "y"}], atomic=True) == ["x", "y"]
        with pytest.raises(Exists):
            queue.add(name, 1, id="x")
        with pytest.raises(Exists):
            queue.add_many(name, [{"id": "x"}, {"id": "z", "delay": "1h"}])
        assert queue.get(name, "0007")["body"] == 7 and queue.get(name, "none") is None
        assert queue.reschedule(name, "0007", delay="2h") and queue.cancel(name, "0007") == "delayed"
        assert queue.stats(name)["delayed"] == 1001 and queue.purge(name, "DELAYED") == 1001
        assert queue.redrive(name) == 0
        assert queue.call("DELAY.RESERVE", "NOWAIT", 1, name)[0][0] == name.encode()
        queue.call("DELAY.CONFIG", "SET", name, "max-jobs", 1)
        with pytest.raises(Full):
            queue.add(name, 1)
    with pytest.raises(Refused, match="CROSSSLOT|hash to the same slot"):
        queue.call("DELAY.RESERVE", "NOWAIT", 2, "a", "b")
    assert queue.stats("none") is None


def test_partitions_that_have_changed_places_are_found(server, queue):
    """As after a failover: all that is known of the leaders is wrong."""
    def mix_up(queue):
        starts, nodes = queue._servers._table
        queue._servers._table = starts, nodes[1:] + nodes[:1]
        queue._servers._asked = 0.0

    queue.add("a", 1)
    for call in (
        lambda: queue.add("a", 1, id="1") == "1", lambda: queue.add_many("a", [{"id": "2"}, {"id": "3"}]) == ["2", "3"],
        lambda: queue.add_many("a", [{"id": "4"}, {"id": "5"}], atomic=True) == ["4", "5"], lambda: queue.stats("a")["ready"] == 6,
    ):  # fmt: skip
        mix_up(queue)
        assert call()
    mix_up(queue)
    queue.worker("a")(print)
    worker = queue.start()
    until(lambda: worker.counters["done"] == 6)
    assert worker.stop()


def test_leases_are_extended_where_their_jobs_are(server, queue):
    queue.worker(*FOUR, concurrency=4, lease="600ms")(lambda body: time.sleep(1.5))
    for name in FOUR:
        queue.add(name, 1, attempts=1)
    worker = queue.start()
    until(lambda: worker.counters["done"] == 4)
    assert worker.stop() and worker.counters["lost"] == 0
    assert [server.stats(name)["timeouts"] for name in FOUR] == [0] * 4


def test_schedules_are_set_where_their_queues_are(server):
    def declare(names):
        queue = Delayd(server.url, app="spread")
        for name in FOUR:
            for each in names:
                queue.every("1h", name, name=each)(print)
        return queue.start(sync=True)

    for names in (["one", "two"], ["two"]):
        worker = declare(names)
        wanted = [f"spread:{each}" for each in names]
        until(lambda: all([row[0].decode() for row in server.call("DELAY.SCHEDULE", "LIST", name)] == wanted for name in FOUR))
        assert worker.stop()


@pytest.mark.parametrize("pace", [0, 20])
def test_sigterm_gives_back_in_all_partitions(server, queue, pace, tmp_path):
    """Jobs of one attempt: a delivery that counted and was not acknowledged would kill its job."""
    for name in FOUR:
        queue.add_many(name, [{"attempts": 1, "delay": f"{n}ms"} for n in range(300)])
    ledger = Ledger(tmp_path / "ledger")
    process = worker_process("sink.py", server.url, ledger.path, "threads", pace, SINK_QUEUES=" ".join(FOUR))
    until(lambda: sum(server.stats(name)["acked"] for name in FOUR) > 20)
    assert end(process) == 0, output(process)
    for name in FOUR:
        stats = server.stats(name)
        assert not (stats["leased"] or stats["dead"] or stats["timeouts"]), stats
        assert stats["ready"] + stats["delayed"] + stats["acked"] == 300, stats
    assert sum(row[0] == "done" for row in ledger.rows()) == sum(server.stats(name)["acked"] for name in FOUR)


@pytest.mark.parametrize("scheme", ["redis", "unix"])
def test_one_partition_with_slots(scheme, tmp_path):
    """A Unix socket has no address that another node's could take the place of, as Sentinels have none."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # With port 0 there would be the socket alone.
    with Server(port=port, **{"cluster-enabled": "yes", "unixsocket": tmp_path / "socket"}) as server:
        queue = Delayd(server.url if scheme == "redis" else f"unix://{tmp_path}/socket")
        queue.worker("a", "b")(print)
        for name in ("a", "b"):
            queue.add_many(name, [{}, {}])
        worker = queue.start()
        until(lambda: worker.counters["done"] == 4)
        assert worker.stop()


class Producer(threading.Thread):
    """Adds jobs with ids, round the queues; what was answered is in `added`."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.queue, self.added, self.failed, self.ended = Delayd(url), [], [], threading.Event()

    def run(self):
        number = 0
        while not self.ended.is_set():
            number += 1
            name = FOUR[number % len(FOUR)]
            try:
                self.queue.add(name, number, id=str(number))
                self.added.append((name, str(number)))
            except Exception as error:
                self.failed.append(error)
            time.sleep(0.002)

    def stop(self):
        self.ended.set()
        self.join()


def test_leaders_are_killed_and_nothing_is_lost_or_done_twice(tmp_path):
    sys.path.insert(0, str(HERE.parents[2] / "redis-tests" / "lib"))
    from harness import Cluster

    done = Counter()

    def work(body, job):
        done[job.queue, job.id] += 1

    with Cluster("--journal-segment-size", "4mb", partitions=PARTITIONS) as cluster:
        queue = Delayd([f"redis://{address}" for address in cluster.clients().split(",")])
        queue.worker(*FOUR, concurrency=8, lease="6s")(work)
        worker, producer = queue.start(), Producer(f"redis://127.0.0.1:{cluster.ports[0][0]}")
        producer.start()

        def goes_on():
            """Jobs that are added from now on are done, in each partition."""
            at = len(producer.added)
            until(lambda: len(producer.added) > at + 40 and all(done[job] for job in producer.added[at : at + 40]), 60)

        goes_on()
        for how in (signal.SIGKILL, signal.SIGTERM):
            leader = cluster.leader()
            cluster.stop(leader, how)
            goes_on()
            cluster.start(leader)
            cluster.wait_for(leader)
            goes_on()
        producer.stop()
        until(lambda: all(done[job] for job in producer.added))
        assert worker.stop(), worker.counters
        assert not producer.failed, producer.failed
        assert {job: times for job, times in done.items() if times > 1} == {}
        assert worker.counters["lost"] == 0 and worker.counters["done"] == len(done), worker.counters
