"""SIGTERM at random instants under load: no job waits for a lease afterwards, no attempt is counted.

DELAYD_STOPS sets how often (20).
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from support import Ledger, Server, end, output, until, worker_process

from delayd import Delayd

STOPS = int(os.environ.get("DELAYD_STOPS", "20"))
SEED = int(os.environ.get("DELAYD_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)


def fill(server, name, chance):
    """Jobs of one attempt: a delivery that counted and was not acknowledged would kill its job.

    Either many are ready, or they fall due one by one, so that the worker mostly waits.
    """
    spread_ms = chance.choice([0, 800])
    queue = Delayd(server.url)
    jobs = ({"body": 1, "id": f"{name}.{n}", "attempts": 1, "delay": f"{chance.randrange(spread_ms + 1)}ms"} for n in range(2000))
    queue.add_many("sink", jobs)
    queue.close()


def the_queue_is_at_rest(server):
    stats = server.stats("sink")
    assert (stats["leased"], stats["dead"], stats["timeouts"], stats["lost"]) == (0, 0, 0, 0), stats
    # Whatever is there has not used up its one attempt.
    assert stats["ready"] + stats["delayed"] == stats["added"] - stats["acked"] - stats["deleted"], stats


@pytest.mark.parametrize("mode", ["threads", "asyncio", "processes"])
def test_sigterm_at_random_instants(mode, tmp_path):
    print(f"DELAYD_SEED={SEED}")
    chance = random.Random(SEED)
    stops = STOPS * {"threads": 5, "asyncio": 3, "processes": 2}[mode] // 10
    with Server() as server:
        ledger = Ledger(tmp_path / "ledger")
        for number in range(stops):
            server.call("DELAY.PURGE", "sink")
            up = sum(row[0] == "up" for row in ledger.rows())
            process = worker_process("sink.py", server.url, ledger.path, mode, chance.choice([0, 0, 2, 20]))
            until(lambda: sum(row[0] == "up" for row in ledger.rows()) > up, 120)
            fill(server, number, chance)
            time.sleep(chance.choice([0.03, 0.3]) * chance.random())
            status = end(process)
            # It may come before run() has its handlers in place: then nothing was taken yet.
            assert status in (0, -signal.SIGTERM), output(process)
            the_queue_is_at_rest(server)
        assert sum(row[0] == "done" for row in ledger.rows()) == server.stats("sink")["acked"]


def test_sigterm_while_the_server_is_away(tmp_path):
    with Server() as server:
        process = worker_process("sink.py", server.url, Ledger(tmp_path / "ledger").path, "threads", 0)
        until(lambda: server.stats("sink").get("waiters"))
        server.kill()
        time.sleep(0.3)
        began = time.monotonic()
        assert end(process) == 0, output(process)
        assert time.monotonic() - began < 5


def test_sigterm_before_the_server_was_reached(tmp_path):
    with Server() as server:
        server.kill()
        ledger = Ledger(tmp_path / "ledger")
        process = worker_process("sink.py", server.url, ledger.path, "threads", 0)
        until(lambda: "trying again" in output(process))
        assert end(process) == 0, output(process)


def test_a_job_that_outlasts_the_grace_of_a_thread_is_left_and_the_status_says_so(tmp_path):
    with Server() as server:
        Delayd(server.url).add("sink", 1)
        ledger = Ledger(tmp_path / "ledger")
        process = worker_process("sink.py", server.url, ledger.path, "threads", 1e6, SINK_GRACE="200ms")
        # A job that is leased and not begun is given back.
        until(lambda: any(row[0] == "begun" for row in ledger.rows()))
        assert end(process) == 1, output(process)
        assert "is still running" in output(process)
