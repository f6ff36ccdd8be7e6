#!/usr/bin/env python3
"""Put a new price in force at a given moment; changes of the same moment apply in their order.

`GT` moves a change only to a later time, so that two editors cannot bring one forward by accident.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from story import claim, clock_ms, connect, fresh, say  # noqa: E402

QUEUE = "case:prices"
fresh(QUEUE)
editor, shop = connect(), connect()

moment = int(clock_ms()) + 400
for change, price in enumerate(("tea 4.10", "milk 1.05", "tea 3.90")):
    editor.execute_command("DELAY.ADD", QUEUE, f"@{moment}", price, "ID", f"change:{change}")
editor.execute_command("DELAY.ADD", QUEUE, f"@{moment + 300}", "coffee 6.00", "ID", "coffee")
say("three prices change at one moment, coffee 300ms later")

claim("a change is not brought forward with GT",
      editor.execute_command("DELAY.RESCHEDULE", QUEUE, "coffee", f"@{moment}", "GT") == 0)
claim("but moved to a later time",
      editor.execute_command("DELAY.RESCHEDULE", QUEUE, "coffee", f"@{moment + 400}", "GT") == 1)

prices, seen = {"tea": "4.50", "milk": "1.00", "coffee": "5.00"}, []
while job := shop.execute_command("DELAY.POP", QUEUE, "1"):
    name, price = job[2].split()
    prices[name] = price
    seen.append(job[2])
    due = moment + (400 if name == "coffee" else 0)
    say(f"{name} now costs {price}")
    claim("it was not in force early", clock_ms() >= due)

claim("all changes came, in the order in which they were made",
      seen == ["tea 4.10", "milk 1.05", "tea 3.90", "coffee 6.00"])
claim("the last word on tea holds", prices == {"tea": "3.90", "milk": "1.05", "coffee": "6.00"})
