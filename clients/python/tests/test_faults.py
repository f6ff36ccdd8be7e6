"""Connections that are cut, stalled, slow or killed, and a server that goes away: each job is acknowledged, and twice begun only if its
lease was lost.

DELAYD_CUTS=all cuts at every byte of a session, else at some (40), chosen by DELAYD_SEED.
"""

from __future__ import annotations

import concurrent.futures
import os
import random
import threading
import time

import pytest
import redis
from support import Ledger, Proxy, Server, until

from delayd import Delayd, Retry
from delayd.connection import Line

SEED = int(os.environ.get("DELAYD_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
JOBS = 5
LEASE_MS = 400


class Session:
    """Some jobs, done by a worker in this process that sees the server through a proxy."""

    def __init__(self, server, name, cut=None, mode="threads", lease=f"{LEASE_MS}ms", delay_s=0.0):
        self.server, self.name = server, name
        self.proxy = Proxy(server.port, cut, delay_s)
        self.begun, self.lock = {}, threading.Lock()
        self.queue = Delayd(self.proxy.url)
        declare = self.queue.worker(name, lease=lease, concurrency=2)
        declare(self._work if mode == "threads" else self._work_async)
        adder = Delayd(server.url)
        adder.add_many(name, ({"body": n, "id": str(n), "backoff": "10ms"} for n in range(JOBS)))
        adder.close()

    def _work(self, body, job):
        with self.lock:
            self.begun.setdefault(job.id, []).append(job.attempt)

    async def _work_async(self, body, job):
        self._work(body, job)

    def run(self):
        worker = self.queue.start(grace="5s")
        try:
            until(lambda: self.server.stats(self.name)["acked"] == JOBS)
        finally:
            clean = worker.stop()
            self.proxy.close()
        stats = self.server.stats(self.name)
        assert clean and stats["leased"] == stats["ready"] == stats["dead"] == 0, stats
        assert sorted(self.begun) == [str(n) for n in range(JOBS)]
        # Each delivery beyond the first comes of a lease that ended, or of a job given back. (An ACK counts after the lease, too.)
        starts, more = sum(map(len, self.begun.values())), stats["timeouts"] + stats["nacked"]
        assert JOBS <= starts <= stats["delivered"] <= JOBS + more, (starts, stats)
        return stats


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def test_a_session_is_cut_at_every_byte(server):
    print(f"DELAYD_SEED={SEED}")
    whole = Session(server, "whole")
    whole.run()
    everywhere = [(way, at) for way, total in whole.proxy.bytes.items() for at in range(total + 1)]
    chosen = everywhere if os.environ.get("DELAYD_CUTS") == "all" else random.Random(SEED).sample(everywhere, 40)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = {cut: pool.submit(Session(server, f"cut.{cut}", cut, ("threads", "asyncio")[cut[1] % 2]).run) for cut in chosen}
        wrong = {cut: repr(run.exception()) for cut, run in runs.items() if run.exception()}
    assert not wrong, wrong
    print(f"{len(runs)} cuts, {sum(run.result()['timeouts'] for run in runs.values())} leases ended")


@pytest.mark.parametrize("way", ["up", "down"])
def test_one_way_stalls(server, way):
    """Nothing comes through, no connection is closed: the worker gives up waiting, and goes on once bytes flow again."""
    session = Session(server, f"stall.{way}", lease="1s")
    worker = session.queue.start()
    until(lambda: server.stats(session.name)["acked"] == JOBS)
    session.proxy.stalled[way].set()
    Delayd(server.url).add(session.name, "later", id="later")
    time.sleep(1.5)
    session.proxy.stalled[way].clear()
    until(lambda: server.stats(session.name)["acked"] == JOBS + 1)
    assert worker.stop()
    session.proxy.close()
    assert server.stats(session.name)["leased"] == 0


def test_a_slow_network(server):
    Session(server, "slow", delay_s=0.1, lease="5s").run()


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("outcome", ["ack", "retry"])
def test_an_outcome_that_is_cut_off_is_told_again(server, way, outcome):
    """Whether it or its reply was on its way: nothing waits for the lease, and nothing is done twice."""
    name = f"again.{way}.{outcome}"
    proxy, starts = Proxy(server.port), []
    queue = Delayd(proxy.url)

    @queue.worker(name, lease="60s")
    def work(body, job):
        starts.append(job.attempt)
        if len(starts) == 1:
            proxy.stalled[way].set()
            if outcome == "retry":
                raise Retry("2s")  # Not due before the cut: a reply with the job would be cut off, too.

    Delayd(server.url).add(name, 1)
    worker = queue.start()
    until(lambda: proxy.stalled[way].is_set())
    if way == "down":
        # Applied, and the reply is held back.
        until(lambda: server.stats(name)["acked" if outcome == "ack" else "nacked"] == 1)
    else:
        until(lambda: worker.runner.tellers[0].untold or not worker.runner.running)
    proxy.cut_all()
    proxy.stalled[way].clear()
    until(lambda: server.stats(name)["acked"] == 1)
    until(lambda: worker.counters["done"] == 1)
    assert worker.stop()
    proxy.close()
    counted = worker.counters
    assert (counted["lost"], counted["retried"], len(starts)) == ((0, 0, 1) if outcome == "ack" else (0, 1, 2)), counted


def test_a_job_that_arrives_after_its_lease_is_given_back_and_not_begun(server):
    proxy, starts = Proxy(server.port), []
    queue = Delayd(proxy.url)
    queue.worker("stale", lease="700ms")(lambda body: starts.append(body))
    worker = queue.start()
    until(lambda: server.stats("stale").get("waiters"))
    proxy.stalled["down"].set()
    adder = Delayd(server.url)
    # Reserved in the next request, whose reply is held for longer than the lease.
    adder.add("stale", "x", id="x")
    until(lambda: server.stats("stale")["timeouts"] == 1)
    adder.cancel("stale", "x")
    proxy.stalled["down"].clear()
    adder.add("stale", "y", delay="300ms")
    until(lambda: server.stats("stale")["acked"] == 1)
    assert worker.stop() and starts == ["y"]
    proxy.close()


def test_clients_are_killed_again_and_again(server):
    session = Session(server, "killed", lease="5s")
    adder = Delayd(server.url)
    adder.add_many(session.name, ({"body": n, "id": f"more.{n}", "delay": f"{n * 4}ms"} for n in range(400)))
    worker = session.queue.start()
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        adder.call("CLIENT", "KILL", "SKIPME", "yes")
        time.sleep(0.1)
    until(lambda: server.stats(session.name)["acked"] == JOBS + 400)
    assert worker.stop()
    session.proxy.close()
    stats = server.stats(session.name)
    assert stats["leased"] == stats["dead"] == 0, stats
    assert sum(map(len, session.begun.values())) <= stats["delivered"] <= JOBS + 400 + stats["timeouts"] + stats["nacked"], stats


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_a_server_is_killed_and_comes_back(mode, tmp_path):
    """With a journal, what was answered is there. A delivery whose reply the crash took waits for the end of its lease."""
    with Server(journal=True) as server:
        session = Session(server, "back", mode=mode, lease="2s")
        adder = Delayd(server.url)
        adder.add_many(session.name, ({"body": n, "id": f"more.{n}", "delay": f"{n * 3}ms"} for n in range(400)))
        worker = session.queue.start()
        for _ in range(3):
            time.sleep(0.25)
            server.kill()
            time.sleep(0.05)
            server.start()
        until(lambda: server.stats(session.name)["acked"] == JOBS + 400, 60)
        assert worker.stop()
        session.proxy.close()
        stats = server.stats(session.name)
        assert stats["leased"] == stats["dead"] == 0, stats
        assert len(session.begun) == JOBS + 400
        assert sum(map(len, session.begun.values())) <= stats["delivered"] <= JOBS + 400 + stats["timeouts"] + stats["nacked"], stats


def test_a_handler_whose_server_is_away_is_lost_when_its_lease_is_over(server):
    """By the worker's clock: nobody can tell it."""
    proxy = Proxy(server.port)
    queue, lost = Delayd(proxy.url), threading.Event()

    @queue.worker("away", lease="900ms")
    def wait(body, job):
        until(lambda: job.lost)
        lost.set()

    Delayd(server.url).add("away", 1, id="1", attempts=1)
    worker = queue.start()
    until(lambda: worker.counters["started"] == 1)
    proxy.close()
    assert lost.wait(20)
    # Started, so it is not given back; its place is free once the handler has ended.
    assert worker.stop(at_once=True) is True
    assert worker.counters == {**dict.fromkeys(worker.counters, 0), "started": 1, "lost": 1}
    until(lambda: server.stats("away")["dead"] == 1)


@pytest.mark.parametrize("text", ["MISCONF no room", "OOM no memory", "READONLY a follower", "LOADING", "MASTERDOWN no leader", "MOVED 7 n2:9248", "CLUSTERDOWN forming"])
def test_what_passes_is_tried_again(server, text, monkeypatch):
    """The telling and the taking connection are answered this, once each."""
    real, refused, name = Line.read, [], f"passes.{text}"
    queue, begun = Delayd(server.url), []
    queue.worker(name, lease="1s")(lambda body: begun.append(body))
    worker = queue.start()

    def read(line):
        reply = real(line)
        if begun and line not in refused and not line.id == reply:
            refused.append(line)
            return redis.ResponseError(text)
        return reply

    until(lambda: server.stats(name).get("waiters"))
    monkeypatch.setattr(Line, "read", read)
    for number in range(3):
        queue.add(name, number, delay=f"{number * 100}ms")
    until(lambda: len(set(begun)) == 3 and server.stats(name)["acked"] == 3)
    assert worker.stop() and len(refused) == 2


@pytest.mark.parametrize("setting, text", [("requirepass", "NOAUTH"), ("user", "NOPERM")])
def test_a_worker_that_may_not_stops_with_the_servers_text(setting, text):
    with Server() as server:
        if setting == "requirepass":
            server.call("CONFIG", "SET", "requirepass", "secret")
            url = server.url
        else:
            server.call("ACL", "SETUSER", "ada", "on", ">pw", "+@all", "-delay.reserve", "~*")
            url = server.url.replace("//", "//ada:pw@")
        queue = Delayd(url)
        queue.worker("a")(print)
        with pytest.raises(Exception) as caught:
            worker = queue.start()
            worker._thread.join(20)
            worker.stop()
        assert "permission" in str(caught.value).lower() or "auth" in str(caught.value).lower(), caught.value


def test_an_add_with_an_id_is_tried_again_and_one_without_is_not(server):
    def through(cut):
        proxy = Proxy(server.port, ("down", cut))
        return proxy, Delayd(proxy.url)

    measured, queue = through(10**6)
    queue.add("adds", 1, id="first")
    # The reply to ADD is the last there was: cut before its last byte.
    proxy, queue = through(measured.bytes["down"] - 1)
    assert queue.add("adds", 1, id="other") == "other"
    proxy2, queue = through(measured.bytes["down"] - 1)
    with pytest.raises(redis.ConnectionError):
        queue.add("adds", 1)
    assert (proxy.cuts, proxy2.cuts) == (1, 1)
    assert server.stats("adds")["added"] == 3
    for each in (measured, proxy, proxy2):
        each.close()


def test_a_reply_that_comes_when_the_grace_is_over_is_given_back(server):
    """The network stalls while jobs are on their way, and recovers just before the worker gives up."""
    proxy, name = Proxy(server.port), "late"
    queue = Delayd(proxy.url)
    queue.worker(name, concurrency=4, lease="60s")(print)
    worker = queue.start(grace="600ms")
    until(lambda: server.stats(name).get("waiters"))
    proxy.stalled["down"].set()
    Delayd(server.url).add_many(name, [{"body": 1, "attempts": 1}] * 4, atomic=True)
    until(lambda: server.stats(name)["leased"] == 4)
    threading.Timer(1.2, proxy.stalled["down"].clear).start()
    clean, stats = worker.stop(), server.stats(name)
    proxy.close()
    # On a loaded machine it may come too late; what must not be is that all seems well.
    assert clean == (stats["leased"] == 0) and stats["dead"] == 0, (clean, stats)


def test_stop_while_the_network_stalls_ends_in_time(server):
    session = Session(server, "stuck", lease="20s")
    worker = session.queue.start(grace="1s")
    until(lambda: server.stats(session.name)["acked"] == JOBS)
    session.proxy.stalled["down"].set()
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < 1 + 1 + 4
    session.proxy.stalled["down"].clear()
    session.proxy.close()
