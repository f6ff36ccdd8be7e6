"""The empty job of each library, as a module that their workers import. PORT is the server's."""

import os
import time

PORT = int(os.environ.get("BENCH_PORT", "0"))
LEDGER = os.environ.get("BENCH_LEDGER", "")
WANTED = int(os.environ.get("BENCH_JOBS", "0"))
_state = {"count": 0, "began": 0.0}
_late = []


def note(late_ms=None):
    """Counts, and writes down how long all of them took."""
    _state["count"] += 1
    if late_ms is not None:
        _late.append(late_ms)
    if _state["count"] == 1:
        _state["began"] = time.monotonic()
    elif _state["count"] == WANTED:
        with open(LEDGER, "w") as file:
            print(time.monotonic() - _state["began"], *_late, file=file)


def empty(number):
    """rq forks: its jobs only leave a mark, at the first and the last."""
    if number in (0, WANTED - 1):
        with open(f"{LEDGER}.{number}", "w") as file:
            print(time.monotonic(), file=file)


async def arq_empty(context, number):
    note()


if os.environ.get("BENCH_ARQ"):
    from arq.connections import RedisSettings

    class WorkerSettings:
        functions = [arq_empty]
        max_jobs = 100
        poll_delay = 0.01
        keep_result = 0
        redis_settings = RedisSettings(port=PORT)


if os.environ.get("BENCH_DELAYD"):
    from delayd import Delayd

    queue = Delayd(f"redis://127.0.0.1:{PORT}")
    mode, places = os.environ["BENCH_DELAYD"].split(":")
    late = os.environ.get("BENCH_LATE")

    def handle(body, job):
        note(time.time() * 1000 - job.due_ms if late else None)

    async def handle_async(body, job):
        note(time.time() * 1000 - job.due_ms if late else None)

    queue.worker("bench", concurrency=int(places))(handle_async if mode == "asyncio" else handle)
