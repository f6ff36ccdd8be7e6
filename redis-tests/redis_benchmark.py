#!/usr/bin/env python3
"""redis-benchmark: its own tests and commands of ours, alone and pipelined, in both protocols."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import HOST, PORT, Raw, Server, check, equal, finish, free_ports, needs, queue  # noqa: E402


def bench(*args):
    """Runs redis-benchmark quietly; every line must be a rate, no error, no warning."""
    done = subprocess.run(
        ["redis-benchmark", "-h", HOST, "-p", str(PORT), "-q", *args],
        capture_output=True, text=True, timeout=60,
    )
    text = done.stdout + done.stderr
    equal(done.returncode, 0)
    if re.search(r"(?i)error|warning", text):
        raise AssertionError(text)
    rates = re.findall(r"([\d.]+) requests per second", text)
    if not rates:
        raise AssertionError(f"no rate in {text!r}")
    return [float(rate) for rate in rates]


def length(q):
    with Raw() as raw:
        return raw.call("DELAY.LEN", q)


with check("-t ping, inline and multibulk"):
    equal(len(bench("-t", "ping", "-n", "20000")), 2)

with check("-t ping -P 16 -3"):
    bench("-t", "ping", "-n", "50000", "-P", "16", "-3")

with check("-t lpush,rpush,lpop,rpop on the list face"):
    needs("LPUSH", "RPUSH", "LPOP", "RPOP")
    equal(len(bench("-t", "lpush,rpush,lpop,rpop", "-n", "5000")), 4)

for name, flags in {
    "DELAY.ADD with __rand_int__ as the delay": [],
    "DELAY.ADD -3": ["-3"],
    "DELAY.ADD -P 16": ["-P", "16"],
    "DELAY.ADD -P 16 -3, 10 clients": ["-P", "16", "-3", "-c", "10"],
}.items():
    with check(name):
        q = queue("bench")
        # 12 digits with leading zeros: a number of milliseconds. The least delay here is an hour
        # and the longest 1,000,000,000 ms, so that nothing falls due meanwhile.
        bench(*flags, "-n", "20000", "-r", "1000000000", "DELAY.ADD", q, "__rand_int__", "x")
        if not 19_000 <= length(q) <= 21_000:
            raise AssertionError(f"{length(q)} jobs in the queue after 20,000 additions")

with check("DELAY.ADD with an id of __rand_int__, then DELAY.DEL"):
    q = queue("bench")
    bench("-n", "5000", "-r", "1000", "DELAY.ADD", q, "1h", "x", "ID", "__rand_int__", "REPLACE")
    if not 900 <= length(q) <= 1000:
        raise AssertionError(f"{length(q)} jobs, expected nearly 1,000")
    bench("-n", "20000", "-P", "16", "-r", "1000", "DELAY.DEL", q, "__rand_int__")
    equal(length(q), 0)

with check("DELAY.RESERVE and DELAY.POP on what is there"):
    q = queue("bench")
    bench("-n", "5000", "DELAY.ADD", q, "0", "x")
    bench("-n", "2000", "DELAY.RESERVE", "NOWAIT", "1", q, "LEASE", "1h")
    bench("-n", "2000", "-P", "16", "DELAY.POP", q, "NOWAIT")

with check("--cluster finds all partitions"):
    with Server("--cluster-partitions", "4", port=free_ports(4)) as server:
        bench("-p", str(server.port), "--cluster", "-n", "4000", "DELAY.ADD", "q{tag}", "1h", "x")
        counts = []
        for at in range(4):
            with Raw("127.0.0.1", server.port + at) as raw:
                counts.append(sum(raw.call("DELAY.LEN", q) for q in raw.call("KEYS", "*")))
        # Its clients share the requests as each is answered, so that a busy machine shares them unevenly.
        if sum(counts) < 4000 or min(counts) == 0:
            raise AssertionError(f"{counts} jobs in the partitions")

finish()
