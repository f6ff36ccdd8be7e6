#!/usr/bin/env python3
"""Five stars by default 48 hours after the ride; the receipt counts as confirmed after 15 days.

Ten thousand rides wait. Nothing looks at them meanwhile: the server knows which is next. To see one
arrive without waiting for two days, the last step makes it due now.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from story import claim, clock_ms, connect, fresh, say  # noqa: E402

RATINGS, RECEIPTS = "case:rides:rate", "case:parcels:confirm"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
fresh(RATINGS, RECEIPTS)
service = connect()


def job(queue, name):
    """DELAY.GET as a dict: RESP3 sends a map, RESP2 a flat array."""
    reply = service.execute_command("DELAY.GET", queue, name)
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


before = clock_ms()
with service.pipeline(transaction=False) as pipe:
    for ride in range(10_000):
        pipe.execute_command("DELAY.ADD", RATINGS, "48h", "5 stars", "ID", f"ride:{ride}")
    pipe.execute()
service.execute_command("DELAY.ADD", RECEIPTS, "15d", "confirm", "ID", "parcel:1")
after = clock_ms()
say("10,000 rides have ended, one parcel was delivered")

due = int(job(RATINGS, "ride:42")["due"])
claim("a ride's rating is due 48 hours later, to the millisecond",
      before + 48 * HOUR_MS <= due <= after + 48 * HOUR_MS + 1)
due = int(job(RECEIPTS, "parcel:1")["due"])
claim("a receipt is due 15 days later", before + 15 * DAY_MS <= due <= after + 15 * DAY_MS + 1)

((first, _, first_due, _),) = service.execute_command("DELAY.PEEK", RATINGS, "COUNT", "1")
say(f"the next one is {first}, in {(first_due - clock_ms()) / HOUR_MS:.3f} hours")
claim("the first ride that ended is the first to be rated", first == "ride:0")

state = service.execute_command("DELAY.CANCEL", RATINGS, "ride:42")
say(f"the rider of ride 42 gave three stars; the default was {state} and is cancelled")
claim("nothing has been delivered", service.execute_command("DELAY.POP", RATINGS, "NOWAIT") is None)

service.execute_command("DELAY.RESCHEDULE", RATINGS, "ride:7", "0")
say("ride 7 is run now")
claim("exactly that one arrives",
      service.execute_command("DELAY.POP", RATINGS, "1") == [RATINGS, "ride:7", "5 stars"])
claim("9,998 wait on", service.execute_command("DELAY.LEN", RATINGS, "DELAYED") == 9_998)
fresh(RATINGS, RECEIPTS)
