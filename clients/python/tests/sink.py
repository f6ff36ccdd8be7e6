"""A worker as a program: writes each job it has done into a ledger. Its arguments are a URL, the ledger, mode and pace in ms."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import random
import signal
import sys
import time

from support import Ledger

from delayd import Delayd

PLACES = 4


def work(body, job):
    ledger, pace = Ledger(os.environ["SINK_LEDGER"]), float(os.environ["SINK_PACE_MS"])
    ledger.write("begun", job.id)
    time.sleep(random.uniform(0, pace / 1000))
    ledger.write("done", job.id, job.attempt)


async def work_async(body, job):
    pace = float(os.environ["SINK_PACE_MS"])
    await asyncio.sleep(random.uniform(0, pace / 1000))
    Ledger(os.environ["SINK_LEDGER"]).write("done", job.id, job.attempt)


def main():
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s")
    url, ledger, mode, pace = sys.argv[1:5]
    os.environ.update(SINK_LEDGER=ledger, SINK_PACE_MS=pace)
    queue = Delayd(url)
    places = {"processes": PLACES // 2} if mode == "processes" else {"concurrency": PLACES}
    lease = os.environ.get("SINK_LEASE", "60s")
    queue.worker(*os.environ.get("SINK_QUEUES", "sink").split(), lease=lease, **places)(work_async if mode == "asyncio" else work)
    Ledger(ledger).write("up", os.getpid())
    queue.run(grace=os.environ.get("SINK_GRACE", "10s"))


if __name__ == "__main__":
    main()
