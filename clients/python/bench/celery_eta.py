#!/usr/bin/env python3
"""An ETA that is further away than the visibility timeout (kombu #337): how often does each task run?

    celery_eta.py DELAYD REDIS-SERVER [TASKS] [ETA-S] [SEED]

The same application, once with each broker. TASKS tasks are due in ETA-S seconds; the visibility timeout, or the lease, is
two seconds. Until then one of three workers is killed (kill -9) and replaced again and again.
"""

import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from celery_redis import HERE, server

OPTIONS = {
    "delayd": {"lease": 2},
    # The last two make Redis's transport look each second, so that what it does with a timeout of 2 s shows early.
    "redis": {"visibility_timeout": 2, "unacked_restore_interval": 1, "unacked_restore_throttle": 1},
}


def main():
    delayd, redis = sys.argv[1:3]
    words = sys.argv[3:]
    tasks, eta_s = int(words[0]) if words else 200, float(words[1]) if len(words) > 1 else 25
    seed = int(words[2]) if len(words) > 2 else random.randrange(2**32)
    print(f"{tasks} tasks, due after {eta_s:.0f} s, seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "delayd": [delayd, "--port", "{port}", "--appendonly", "no", "--dir", folder],
            "redis": [redis, "--port", "{port}", "--save", "", "--appendonly", "no", "--dir", folder],
        }
        for name, command in commands.items():
            process, url = server(folder, name, command)
            try:
                print(f"{name}: {run(folder, name, url, tasks, eta_s, random.Random(seed))}")
            finally:
                process.terminate()
                process.wait()


def run(folder, name, url, tasks, eta_s, chance):
    marks = os.path.join(folder, name + ".marks")
    environment = dict(os.environ, BROKER=url, MARKS=marks, PYTHONPATH=HERE + os.pathsep + os.environ.get("PYTHONPATH", ""))
    environment["TRANSPORT_OPTIONS"] = repr(OPTIONS[name])
    workers = [worker(folder, environment, number) for number in range(3)]
    try:
        publish = f"import celery_app\nfor n in range({tasks}): celery_app.named.apply_async((n,), countdown={eta_s})"
        subprocess.run([sys.executable, "-c", publish], env=environment, check=True)
        due, killed = time.time() + eta_s, 0
        while time.time() < due - 5:
            time.sleep(2 + 2 * chance.random())
            victim = chance.randrange(3)
            os.killpg(workers[victim].pid, signal.SIGKILL)
            workers[victim].wait()
            workers[victim] = worker(folder, environment, victim)
            killed += 1
        time.sleep(max(0.0, due - time.time()) + 20)
    finally:
        for each in workers:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()
    with open(marks) as file:
        runs = collections.Counter(file.read().split())
    more = [count for count in runs.values() if count > 1]
    once = sum(count == 1 for count in runs.values())
    return (
        f"{killed} workers killed; {once} tasks ran once, {len(more)} more often (at most {max(more, default=1)} times),"
        f" {tasks - len(runs)} never"
    )


def worker(folder, environment, number):
    words = ["-A", "celery_app", "worker", "-n", f"w{number}@bench", "-c", "1", "-l", "WARNING"]
    with open(os.path.join(folder, "worker.log"), "a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "celery", *words, "--without-gossip", "--without-mingle"], env=environment, stdout=log,
            stderr=log, start_new_session=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
