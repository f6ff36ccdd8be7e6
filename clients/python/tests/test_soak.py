"""Workers killed at random, and a ledger: each job is done, and none is lost.

Ten seconds; DELAYD_SOAK_SECONDS for longer, DELAYD_SOAK_WORKERS for more than three workers.
"""

from __future__ import annotations

import collections
import os
import random
import signal
import time

from support import Ledger, Server, end, output, until, worker_process

from delayd import Delayd

SECONDS = float(os.environ.get("DELAYD_SOAK_SECONDS", "8"))
WORKERS = int(os.environ.get("DELAYD_SOAK_WORKERS", "3"))
SEED = int(os.environ.get("DELAYD_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)


def test_workers_are_killed_and_every_job_is_done(tmp_path):
    print(f"DELAYD_SEED={SEED}")
    chance = random.Random(SEED)
    with Server(journal=True, appendfsync="everysec") as server:
        ledger, queue = Ledger(tmp_path / "ledger"), Delayd(server.url)
        modes = ["threads", "asyncio", "processes"]
        start = lambda n: worker_process("sink.py", server.url, ledger.path, modes[n % 3], 5, SINK_LEASE="2s")
        workers = [start(n) for n in range(WORKERS)]
        added, deadline = 0, time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            batch = [{"body": 1, "id": str(added + n), "delay": f"{chance.randrange(2000)}ms", "backoff": "10ms"} for n in range(200)]
            queue.add_many("sink", batch)
            added += len(batch)
            until(lambda: server.stats("sink")["ready"] < 2000, 120)
            if chance.random() < 0.5:
                number = chance.randrange(WORKERS)
                how = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
                status = end(workers[number], how)
                assert status in (0, -how), output(workers[number])
                workers[number] = start(number + chance.randrange(3))
            time.sleep(0.3)
        until(lambda: server.stats("sink")["acked"] == added, 120, 0.1)
        for process in workers:
            assert end(process) in (0, -signal.SIGTERM), output(process)
        stats = server.stats("sink")
        done = collections.Counter(row[1] for row in ledger.rows() if row[0] == "done")
        assert set(done) == {str(n) for n in range(added)}
        twice = sum(times - 1 for times in done.values())
        assert stats["leased"] == stats["dead"] == stats["ready"] == 0, stats
        assert twice <= stats["timeouts"], (twice, stats)
        print(f"{added} jobs, {stats['timeouts']} leases ended, {twice} jobs done again")
