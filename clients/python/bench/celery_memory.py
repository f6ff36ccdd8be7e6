#!/usr/bin/env python3
"""The memory of a Celery worker while many tasks wait for their ETA, with delayd and with Redis as the broker.

    celery_memory.py DELAYD REDIS-SERVER [TASKS]
"""

import os
import subprocess
import sys
import tempfile
import time

from celery_eta import OPTIONS, worker
from celery_redis import HERE, server


def main():
    delayd, redis = sys.argv[1:3]
    tasks = int(sys.argv[3]) if len(sys.argv) > 3 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "delayd": [delayd, "--port", "{port}", "--appendonly", "no", "--dir", folder],
            "redis": [redis, "--port", "{port}", "--save", "", "--appendonly", "no", "--dir", folder],
        }
        for name, command in commands.items():
            process, url = server(folder, name, command)
            try:
                before, after = run(folder, name, url, tasks)
                print(f"{name}: {before:.1f} MiB before, {after:.1f} MiB with {tasks} ETAs", flush=True)
            finally:
                process.terminate()
                process.wait()


def run(folder, name, url, tasks):
    environment = dict(os.environ, BROKER=url, MARKS=os.path.join(folder, "marks"))
    environment["PYTHONPATH"] = HERE + os.pathsep + os.environ.get("PYTHONPATH", "")
    environment["TRANSPORT_OPTIONS"] = repr({} if name == "redis" else OPTIONS[name])
    process = worker(folder, environment, 0)
    try:
        publish = f"import celery_app\nfor n in range({tasks}): celery_app.empty.apply_async(countdown=3600)"
        subprocess.run([sys.executable, "-c", publish.replace(str(tasks), "20")], env=environment, check=True)
        time.sleep(15)
        before = resident_mib(process.pid)
        subprocess.run([sys.executable, "-c", publish], env=environment, check=True)
        time.sleep(15)
        return before, resident_mib(process.pid)
    finally:
        process.terminate()
        process.wait()


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))


if __name__ == "__main__":
    main()
