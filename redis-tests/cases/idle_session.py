#!/usr/bin/env python3
"""Drop a session that has been idle for N seconds; every heartbeat pushes the timer out.

500 sessions with an idle limit of 500ms. 499 send a heartbeat every 100ms, one falls silent.
`RESCHEDULE` costs the same for one session or a million.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from story import claim, clock_ms, connect, fresh, say  # noqa: E402

QUEUE, SESSIONS, SILENT, IDLE = "case:sessions:idle", 500, "session:13", "500ms"
fresh(QUEUE)
gateway, reaper = connect(), connect()
names = [f"session:{n}" for n in range(SESSIONS)]

with gateway.pipeline(transaction=False) as pipe:
    for name in names:
        pipe.execute_command("DELAY.ADD", QUEUE, IDLE, "", "ID", name)
    opened = clock_ms()
    pipe.execute()
say(f"{SESSIONS} sessions are open; idle for {IDLE} means closed")

beats = 0
for _ in range(8):
    time.sleep(0.1)
    with gateway.pipeline(transaction=False) as pipe:
        for name in names:
            if name != SILENT:
                pipe.execute_command("DELAY.RESCHEDULE", QUEUE, name, IDLE)
        beats += sum(pipe.execute())
say(f"{beats} heartbeats later")
claim("every heartbeat found its session alive", beats == 8 * (SESSIONS - 1))

(_, name, _) = reaper.execute_command("DELAY.POP", QUEUE, "1")
say(f"{name} is closed")
claim("only the silent one was closed, and not early", name == SILENT and clock_ms() - opened >= 500)
late = gateway.execute_command("DELAY.RESCHEDULE", QUEUE, SILENT, IDLE)
claim("its late heartbeat is told that the session is gone", late == 0)

say("the gateway stops: no more heartbeats")
stopped, closed = clock_ms(), 0
while jobs := reaper.execute_command("DELAY.RESERVE", "1", "1", QUEUE, "COUNT", "100", "NOACK"):
    if not closed:
        first = clock_ms() - stopped
    closed += len(jobs)
say(f"{closed} sessions are closed, the first {first:.0f} ms after the stop")
claim("the others were closed when their own limit had passed", closed == SESSIONS - 1 and first >= 300)
