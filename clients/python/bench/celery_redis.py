#!/usr/bin/env python3
"""Celery's tasks per second through delayd and through Redis, in one run and turn about.

    celery_redis.py DELAYD REDIS-SERVER [TASKS] [ROUNDS]

A round publishes TASKS empty tasks, starts a worker with two processes, and takes the time from its first task to its
last. Both servers keep nothing on disk; the lines are medians of the rounds.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    delayd, redis = sys.argv[1:3]
    tasks, rounds = (int(word) for word in (sys.argv[3:] + ["10000", "5"][len(sys.argv) - 3 :])[:2])
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            "delayd": server(folder, "delayd", [delayd, "--port", "{port}", "--appendonly", "no", "--dir", folder]),
            "redis": server(folder, "redis", [redis, "--port", "{port}", "--save", "", "--appendonly", "no", "--dir", folder]),
        }
        try:
            rates = {name: [] for name in servers}
            for _ in range(rounds):
                for name, (_, url) in servers.items():
                    rates[name].append(one_round(folder, url, tasks))
                    print(name, *(f"{rate:.0f}/s" for rate in rates[name][-1]), flush=True)
            median = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in rates.items()}
            for at, what in enumerate(("published", "run")):
                ours, theirs = median["delayd"][at], median["redis"][at]
                print(f"{what}: delayd {ours:.0f}/s, redis {theirs:.0f}/s, {ours / theirs:.2f} times")
        finally:
            for process, _ in servers.values():
                process.terminate()
                process.wait()


def server(folder, scheme, command):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = open(os.path.join(folder, scheme + ".log"), "w")
    process = subprocess.Popen([word.format(port=port) for word in command], stdout=log, stderr=log)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"{scheme}://127.0.0.1:{port}/0"
        time.sleep(0.1)
    raise SystemExit(f"{command[0]} does not answer")


def one_round(folder, url, tasks):
    marks = os.path.join(folder, "marks")
    open(marks, "w").close()
    environment = dict(os.environ, BROKER=url, MARKS=marks, PYTHONPATH=HERE + os.pathsep + os.environ.get("PYTHONPATH", ""))
    publish = (
        "import time, celery_app\ncelery_app.empty.delay()\nstart = time.monotonic()\n"
        f"for _ in range({tasks} - 1): celery_app.empty.delay()\nprint({tasks} / (time.monotonic() - start))"
    )
    published = float(subprocess.run([sys.executable, "-c", publish], env=environment, check=True, capture_output=True).stdout)
    words = ["-A", "celery_app", "worker", "-c", "2", "-l", "WARNING", "--without-gossip", "--without-mingle"]
    with open(os.path.join(folder, "worker.log"), "a") as log:
        worker = subprocess.Popen([sys.executable, "-m", "celery", *words], env=environment, stdout=log, stderr=log)
    try:
        first = reached(marks, 1)
        last = reached(marks, tasks)
        return published, tasks / (last - first)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def reached(marks, size):
    limit = time.monotonic() + 600
    while os.path.getsize(marks) < size:
        if time.monotonic() > limit:
            raise SystemExit(f"only {os.path.getsize(marks)} of {size} tasks ran")
        time.sleep(0.002)
    return time.monotonic()


if __name__ == "__main__":
    main()
