#!/usr/bin/env python3
"""Close an order that is unpaid after 30 minutes; cancel the timer when it is paid.

The 30 minutes are 600ms here. The order number is the job's id, so paying needs no lookup.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from story import claim, clock_ms, connect, fresh, say  # noqa: E402

QUEUE, PATIENCE_MS = "case:orders:unpaid", 600
fresh(QUEUE)
shop = connect()

placed = clock_ms()
for order in (7, 8, 9):
    shop.execute_command("DELAY.ADD", QUEUE, f"{PATIENCE_MS}ms", f"close {order}", "ID", f"order:{order}")
say("orders 7, 8 and 9 are placed; each closes in 600ms unless it is paid")

state = shop.execute_command("DELAY.CANCEL", QUEUE, "order:8")
say(f"order 8 is paid; its timer was {state} and is cancelled")
claim("the timer of a paid order is gone", state == "delayed")

closed = []
while job := shop.execute_command("DELAY.RESERVE", "1", "1", QUEUE, "LEASE", "30s"):
    (_, order, body, token, *_) = job[0]
    waited = clock_ms() - placed
    say(f"{body}: {waited:.0f} ms after it was placed")
    claim(f"{order} was not closed early", waited >= PATIENCE_MS)
    closed.append(order)
    claim(f"closing {order} is acknowledged", shop.execute_command("DELAY.ACK", QUEUE, order, token) == 1)

claim("orders 7 and 9 were closed, in that order, and order 8 was not", closed == ["order:7", "order:9"])
say("order 9 is paid too late")
claim("a timer that has fired cannot be cancelled", shop.execute_command("DELAY.CANCEL", QUEUE, "order:9") is None)
