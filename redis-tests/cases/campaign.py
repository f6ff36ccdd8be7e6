#!/usr/bin/env python3
"""Send a campaign's messages at set times of day: many jobs due in the same millisecond.

Two sendings of 2,000 messages, four workers. `@<unix-ms>` or an RFC 3339 time names the instant.
"""

import collections
import datetime
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from story import claim, clock_ms, connect, fresh, say  # noqa: E402

QUEUE, SENDINGS, SIZE = "case:campaign", 2, 2000
fresh(QUEUE)
planner = connect()

first = int(clock_ms()) + 700
times = [first + n * 400 for n in range(SENDINGS)]
for number, due in enumerate(times):
    # The first as milliseconds, the second as people and calendars write it.
    when = f"@{due}"
    if number % 2:
        utc = datetime.datetime.fromtimestamp(due / 1000, datetime.timezone.utc)
        when = utc.isoformat(timespec="milliseconds")
    with planner.pipeline(transaction=False) as pipe:
        for n in range(SIZE):
            pipe.execute_command("DELAY.ADD", QUEUE, when, n, "ID", f"{number}:{n}")
        pipe.execute()
    say(f"sending {number} is planned for {when}: {SIZE} messages in one millisecond")

got, lock = [], threading.Lock()


def worker():
    client = connect()
    while jobs := client.execute_command("DELAY.RESERVE", "1", "1", QUEUE, "COUNT", "100"):
        now = clock_ms()
        acks = [part for job in jobs for part in (job[1], job[3])]
        client.execute_command("DELAY.ACK", QUEUE, *acks)
        with lock:
            got.extend((job[1], job[5], now, int(job[3])) for job in jobs)


workers = [threading.Thread(target=worker) for _ in range(4)]
for thread in workers:
    thread.start()
for thread in workers:
    thread.join()

for number, due in enumerate(times):
    mine = [job for job in got if job[0].startswith(f"{number}:")]
    late = sorted(now - due for _, _, now, _ in mine)
    say(f"sending {number}: {len(mine)} messages, {late[0]:.0f} to {late[-1]:.0f} ms after its time")
    claim(f"none of sending {number} was early", late[0] >= 0)
    # A token grows with every delivery: sorted by token is the order in which the server gave them.
    order = [int(name.split(":")[1]) for name, _, _, _ in sorted(mine, key=lambda job: job[3])]
    claim(f"sending {number} left in the order in which it was planned", order == list(range(SIZE)))
claim("every message was sent once", set(collections.Counter(job[0] for job in got).values()) == {1}
      and len(got) == SENDINGS * SIZE)
