#!/usr/bin/env python3
"""A report at the same time every night, a poll every 100ms; whoever starts says so, and nobody keeps a list of who did.

Three instances of one program, each with a worker. One is restarted, by a version that has no cleaning any more. The night
begins within three seconds here: it is a time of day in Tokyo that is about to come.
"""

import collections
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from story import claim, clock_ms, connect, fresh, say  # noqa: E402

QUEUE, PREFIX = "case:recurring", "shop:"
fresh(QUEUE)
# The second full second from now: in 2 to 3 s, so there are more than 15 polls whenever it begins.
NIGHT_MS = int(clock_ms()) // 1000 * 1000 + 3000
# What the clocks show there then, as the server knows it: 2027-01-15T17:00:00+09:00.
(_, there), = connect().execute_command(
    "DELAY.SCHEDULE", "EXPLAIN", "CRON", "* * * * * *", "TZ", "Asia/Tokyo", "FROM", f"@{NIGHT_MS}")
hour, minute, second = there[11:19].split(":")
WANTED = {
    "report": ("build", "CRON", f"{second} {minute} {hour} * * *", "TZ", "Asia/Tokyo", "OVERLAP", "SKIP"),
    # However long a machine stands still, no poll is left out.
    "poll": ("bank", "EVERY", "100ms", "CATCHUP", "100"),
}
BEFORE = {**WANTED, "clean": ("rows", "EVERY", "150ms")}


def sync(client, queue, prefix, wanted):
    """Sets each of `wanted` under its name, and removes what an earlier version left under this prefix."""
    told = {}
    for name, words in wanted.items():
        told[name], _ = client.execute_command("DELAY.SCHEDULE", "SET", queue, prefix + name, *words)
    last = prefix
    while rows := client.execute_command("DELAY.SCHEDULE", "LIST", queue, "AFTER", last, "MATCH", prefix + "*"):
        last = rows[-1][0]
        orphans = [name for name, *_ in rows if name[len(prefix):] not in wanted]
        if orphans:
            client.execute_command("DELAY.SCHEDULE", "DEL", queue, *orphans)
    return told


got, lock = [], threading.Lock()


class Instance:
    def __init__(self, wanted):
        self.stopping, self.told = threading.Event(), None
        self.thread = threading.Thread(target=self.run, args=(wanted,))
        self.thread.start()

    def run(self, wanted):
        client = connect()
        self.told = sync(client, QUEUE, PREFIX, wanted)
        while not self.stopping.is_set():
            for _, name, _, token, *_ in client.execute_command("DELAY.RESERVE", "0.2", "1", QUEUE) or []:
                with lock:
                    got.append((name, clock_ms()))
                client.execute_command("DELAY.ACK", QUEUE, name, token)

    def stop(self):
        self.stopping.set()
        self.thread.join()


everyone = [Instance(BEFORE) for _ in range(3)]
threading.Event().wait(0.8)
everyone[0].stop()
say("one of three instances is restarted, by a version that has no cleaning any more")
everyone.append(Instance(WANTED))
client = connect()
while clock_ms() < NIGHT_MS + 500:
    threading.Event().wait(0.1)
client.execute_command("DELAY.SCHEDULE", "PAUSE", QUEUE, "shop:poll")
while client.execute_command("DELAY.LEN", QUEUE):
    threading.Event().wait(0.01)
for each in everyone:
    each.stop()

outcomes = collections.Counter((name, what) for each in everyone for name, what in each.told.items())
say(", ".join(f"{name}: {count} {what}" for (name, what), count in sorted(outcomes.items())))
once = {(name, "created"): 1 for name in BEFORE}
claim("each schedule was made once, whoever said it", {key: n for key, n in outcomes.items() if key[1] != "same"} == once)
rows = client.execute_command("DELAY.SCHEDULE", "LIST", QUEUE)
claim("the one that no version names any more is gone", [row[0] for row in rows] == ["shop:poll", "shop:report"])

late = [now - int(name.split("@")[1]) for name, now in got]
say(f"{len(got)} jobs, {min(late):.0f} to {max(late):.0f} ms after their times")
claim("none was early", min(late) >= 0)
claim("none came twice", len({name for name, _ in got}) == len(got))
polls = sorted(int(name.split("@")[1]) for name, _ in got if name.startswith("shop:poll@"))
claim("each poll came, 100 ms from the one before", polls == list(range(polls[0], polls[-1] + 1, 100)) and len(polls) > 15)
reports = [name for name, _ in got if name.startswith("shop:report@")]
claim(f"the report came once, at {there}", reports == [f"shop:report@{NIGHT_MS}"])
