#!/usr/bin/env python3
"""Empty jobs a second, and lateness at the handler: this library beside rq and arq.

    python bench/throughput.py [ROUNDS]

needs redis-server, rq and arq, and DELAYD_BIN. Rates are from the first job's start to the last one's end in one worker process; all jobs
are there before it starts. Client and server share the machine.
"""

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
from support import Server, until  # noqa: E402

from delayd import Delayd  # noqa: E402

JOBS = int(os.environ.get("BENCH_JOBS", "10000"))
PEER_JOBS = JOBS // 5
FORKED_JOBS = JOBS // 50
LATE_JOBS = 1000
scripts = Path(sys.executable).parent


class Redis:
    """Redis as it comes, in memory."""

    def __enter__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until(self._listens)
        return self

    def _listens(self):
        try:
            return not socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def worked(command, port, jobs, marks=(), **environment):
    """Runs a worker until the ledger is there; what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "ledger")
        names = [Path(f"{ledger}.{mark}") for mark in marks] or [ledger]
        env = {**os.environ, "BENCH_PORT": str(port), "BENCH_LEDGER": str(ledger), "BENCH_JOBS": str(jobs), "PYTHONPATH": str(HERE)}
        process = subprocess.Popen(
            command, cwd=HERE, env={**env, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        try:
            until(lambda: all(name.exists() and name.read_text().endswith("\n") for name in names), 300, 0.02)
        finally:
            process.terminate()
            process.wait()
        return [[float(word) for word in name.read_text().split()] for name in names]


def rate_delayd(mode, **options):
    with Server(**options) as server:
        queue = Delayd(server.url)
        queue.add_many("bench", ({"body": number} for number in range(JOBS)))
        ((took,),) = worked([scripts / "delayd-worker", "jobs:queue"], server.port, JOBS, BENCH_DELAYD=mode)
    return (JOBS - 1) / took


def rate_rq(kind, jobs):
    import redis
    import rq

    with Redis() as server:
        connection = redis.Redis(port=server.port)
        queue = rq.Queue("bench", connection=connection)
        queue.enqueue_many([rq.Queue.prepare_data("jobs.empty", (number,), result_ttl=0) for number in range(jobs)])
        command = [scripts / "rq", "worker", "bench", "--url", f"redis://127.0.0.1:{server.port}", "--worker-class", kind, "--quiet"]
        (began,), (ended,) = worked(command, server.port, jobs, (0, jobs - 1))
    return (jobs - 1) / (ended - began)


def rate_arq():
    from arq import create_pool
    from arq.connections import RedisSettings

    async def fill(port):
        pool = await create_pool(RedisSettings(port=port))
        for number in range(PEER_JOBS):
            await pool.enqueue_job("arq_empty", number)

    with Redis() as server:
        asyncio.run(fill(server.port))
        ((took,),) = worked([scripts / "arq", "jobs.WorkerSettings"], server.port, PEER_JOBS, BENCH_ARQ="1")
    return (PEER_JOBS - 1) / took


def lateness(mode):
    """Milliseconds from the due time to the handler's first line, with a worker that waits."""
    with Server() as server:
        queue = Delayd(server.url)
        start = time.time() + 3
        queue.add_many("bench", ({"body": n, "at": f"@{int((start + n * 0.0071) * 1000)}"} for n in range(LATE_JOBS)))
        ((_, *late),) = worked([scripts / "delayd-worker", "jobs:queue"], server.port, LATE_JOBS, BENCH_DELAYD=mode, BENCH_LATE="1")
        released = server.stats("bench")["lateness-p99-us"] / 1000
    late.sort()
    return late[len(late) // 2], late[len(late) * 99 // 100], late[-1], released


RATES = {
    "delayd, 8 threads": lambda: rate_delayd("threads:8"),
    "delayd, 8 threads, journal synced": lambda: rate_delayd("threads:8", journal=True),
    "rq, SimpleWorker": lambda: rate_rq("rq.SimpleWorker", PEER_JOBS),
    "rq, a process for each job": lambda: rate_rq("rq.Worker", FORKED_JOBS),
    "delayd, asyncio, 100 at once": lambda: rate_delayd("asyncio:100"),
    "delayd, asyncio, 100 at once, journal synced": lambda: rate_delayd("asyncio:100", journal=True),
    "arq, 100 at once": rate_arq,
}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    for name, measure in RATES.items():
        if only in name:
            rates = [measure() for _ in range(rounds)]
            print(f"{name:<46} {statistics.median(rates):8.0f} jobs/s   of {', '.join(f'{rate:.0f}' for rate in rates)}", flush=True)
    for mode in ("threads:8", "asyncio:100"):
        if only in "lateness":
            p50, p99, worst, released = map(statistics.median, zip(*(lateness(mode) for _ in range(rounds))))
            figures = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {worst:.2f} ms (p99 at the server's reply {released:.2f} ms)"
            print(f"lateness, {mode:<36} {figures}", flush=True)


if __name__ == "__main__":
    main()
