"""What asynchronous clients' programs do while leaders end: a producer and a worker, which try again until they are answered."""

import asyncio
import sys
import threading


def say(text):
    sys.stdout.write(f"{text}\n")  # at once: two threads do
    sys.stdout.flush()


async def insist(call, errors, words):
    while True:
        try:
            return await call(*words)
        except errors as error:
            say(f"{type(error).__name__}: {error}")
            await asyncio.sleep(0.02)


async def produce(connect, errors):
    call, number = await connect(), 0
    while True:
        number += 1
        await insist(call, errors, ["DELAY.ADD", "q", "0", "x", "ID", f"job:{number}", "NX"])
        say(f"added {number}")


async def work(connect, errors):
    call = await connect()
    while True:
        for _, job, _, token, *_ in await insist(call, errors, ["DELAY.LEASE", "q", "1", "LEASE", "5s"]) or []:
            number = job.decode().split(":")[1]
            say(f"taken {number}")
            await insist(call, errors, ["DELAY.ACK", "q", job, token])
            say(f"done {number}")


async def checks(everything):
    """Says of each what it can do, or why not, and waits for a line."""
    for name, check in everything.items():
        try:
            found = await check()
            say(f"checked {name} right{': ' + found if isinstance(found, str) else ''}")
        except Exception as error:
            say(f"checked {name} {type(error).__name__}: {error}")
        sys.stdin.readline()


def run(connect, errors):
    """`connect` gives a function that says a command over a connection of its own; `errors` are those after which it is said again."""
    for loop in (produce, work):
        threading.Thread(target=lambda loop=loop: asyncio.run(loop(connect, errors)), daemon=True).start()
    sys.stdin.read()
