#!/usr/bin/env python3
"""The consumers in README.md work as they stand there: each is taken out, run, and given jobs to do."""

import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
from harness import HOST, PORT, Raw, Skip, check, equal, finish, pairs, queue, until  # noqa: E402

README = os.path.join(HERE, "..", "README.md")
CACHE = os.environ.get("DELAYD_CACHE", os.path.join(HERE, "..", ".cache"))
RUST = os.environ.get("DELAYD_RUST_TESTS", os.path.join(CACHE, "redis-tests-rust", "debug"))


def snippet(language):
    """The block of this language that reserves jobs."""
    with open(README) as readme:
        blocks = re.findall(rf"^```{language}\n(.*?)^```", readme.read(), re.S | re.M)
    (found,) = [block for block in blocks if "DELAY.RESERVE" in block]
    return found


def does_three_jobs(command, q, fails):
    """Runs a consumer of `q`, adds three jobs, and returns when it has done them and waits again."""
    with Raw() as raw:
        stats = lambda: pairs(raw.call("DELAY.STATS", q))
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=dict(os.environ, PYTHONUNBUFFERED="1"), start_new_session=True,
        )
        try:
            for body in ("one", "two", "three"):
                raw.call("DELAY.ADD", q, "100ms", body, "BACKOFF", "100ms")
            until(lambda: stats()["acked"] == 3 and stats()["waiters"] == 1, 20)
            equal(stats()["nacked"], fails)
            problem = None
        except Exception as error:
            problem = error
        os.killpg(child.pid, signal.SIGKILL)
        printed = child.communicate()[0]
        if problem:
            raise AssertionError(f"{problem}; it printed {printed[-400:]!r}") from problem
        equal({"one", "two", "three"} - set(printed.split()), set())


def consumes(command, text, name, fails):
    """Runs a consumer out of the README, on this server and a queue of its own, its work failing once."""
    q = queue("readme")
    text = text.replace("emails", q).replace("9248", str(PORT)).replace("127.0.0.1", HOST)
    text = text.replace("redis-cli -p", f"redis-cli -h {HOST} -p")
    text = text.replace("redis.Redis(port", f"redis.Redis(host='{HOST}', port")
    text = text.replace(*fails)
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".readme-") as home:
        path = os.path.join(home, name)
        with open(path, "w") as file:
            file.write(text)
        does_three_jobs([*command, path], q, 1)


# How the work of each is made to fail once: what to look for, what to put in its place.
with check("Python"):
    consumes(
        [os.path.join(CACHE, "venv", "bin", "python")], snippet("python"), "consumer.py",
        ("    print(body.decode())\n",
         "    print(body.decode())\n    if body == b'two' and not work.__dict__.setdefault('done', False):\n"
         "        work.done = True\n        raise ValueError('once')\n"),
    )

with check("Node"):
    beside = os.path.join(CACHE, "venv-node", "bin", "node")
    consumes(
        [beside if os.path.exists(beside) else "node"], snippet("js"), "consumer.mjs",
        ("  console.log(body);\n",
         "  console.log(body);\n  if (body === 'two' && !work.done) {\n    work.done = true;\n"
         "    throw new Error('once');\n  }\n"),
    )

with check("shell"):
    consumes(
        ["bash"], snippet("sh"), "consumer.sh",
        ('work() { echo "$1"; }',
         'work() { echo "$1"; [ "$1" != two ] || [ -e "$0.done" ] || { touch "$0.done"; return 1; }; }'),
    )

with check("Rust: the README shows the program that is built and run here"):
    with open(os.path.join(HERE, "rust", "src", "bin", "consumer.rs")) as file:
        equal(snippet("rust"), file.read())
    with Raw() as raw:
        if raw.call("EXISTS", "emails"):
            raise Skip("the server has a queue named emails already")
    does_three_jobs([os.path.join(RUST, "consumer"), f"redis://{HOST}:{PORT}/"], "emails", 0)

finish()
