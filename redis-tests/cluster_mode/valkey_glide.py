"""valkey-glide's cluster client, which is told where three nodes are: what it can do, then a producer and a worker."""

import asyncio
import sys
import threading
import time

from glide import (
    AllPrimaries,
    AdvancedGlideClusterClientConfiguration,
    ClusterBatch,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    GlideError,
    NodeAddress,
)

addresses = [address.split(":") for address in sys.argv[1].split(",")]


async def connect():
    # A request may take as long as the longest wait, and a bit.
    nodes = [NodeAddress(host, int(port)) for host, port in addresses]
    advanced = AdvancedGlideClusterClientConfiguration(connection_timeout=500)
    configuration = GlideClusterClientConfiguration(nodes, request_timeout=1500, advanced_config=advanced)
    return await GlideClusterClient.create(configuration)


def say(text):
    sys.stdout.write(f"{text}\n")  # at once: two threads do
    sys.stdout.flush()


async def together(client, atomic, commands):
    batch = ClusterBatch(atomic)
    for words in commands:
        batch.custom_command(list(words))
    await client.exec(batch, raise_on_error=True)


async def wait_and_add(client):
    """How long an add takes beside a LEASE that waits for a second."""
    waiting = asyncio.ensure_future(client.custom_command(["DELAY.LEASE", "empty", "1"]))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await client.custom_command(["DELAY.ADD", "other", "0", "x"])
    took = time.monotonic() - began
    await waiting
    return f"an add beside it took {'no time' if took < 0.3 else 'its time, too'}"


async def checks():
    client = await connect()
    call = lambda *words, **how: client.custom_command(list(words), **how)
    await call("DELAY.LEN", "q")
    everything = {
        "add": lambda: call("DELAY.ADD", "q", "0", "x"),
        "lease": lambda: call("DELAY.LEASE", "q", "NOWAIT"),
        "reserve": lambda: call("DELAY.RESERVE", "NOWAIT", "1", "q"),
        "pipeline": lambda: together(client, False, [("DELAY.ADD", f"q{n}", "0", "x") for n in range(3)]),
        "multi": lambda: together(client, True, [("DELAY.ADD", "{t}:a", "0", "x"), ("DELAY.ADD", "{t}:b", "0", "x")]),
        "wait": lambda: wait_and_add(client),
        "keyless": lambda: call("DELAY.QUEUES"),
        "all": lambda: call("DELAY.QUEUES", route=AllPrimaries()),
    }
    for name, check in everything.items():
        try:
            found = await check()
            say(f"checked {name} right{': ' + found if isinstance(found, str) else ''}")
        except Exception as error:
            say(f"checked {name} {type(error).__name__}: {error}")
        sys.stdin.readline()
    await client.close()


async def call(client, *words):
    while True:
        try:
            return await client.custom_command([str(word) if isinstance(word, int) else word for word in words])
        except GlideError as error:
            say(f"{type(error).__name__}: {error}")
            await asyncio.sleep(0.02)


async def produce():
    client, number = await connect(), 0
    while True:
        number += 1
        await call(client, "DELAY.ADD", "q", "0", "x", "ID", f"job:{number}", "NX")
        say(f"added {number}")


async def work():
    client = await connect()
    while True:
        for _, job, _, token, *_ in await call(client, "DELAY.LEASE", "q", 1, "LEASE", "5s") or []:
            number = job.decode().split(":")[-1]
            say(f"taken {number}")
            await call(client, "DELAY.ACK", "q", job, token)
            say(f"done {number}")


asyncio.run(checks())
for loop in (produce, work):
    threading.Thread(target=lambda loop=loop: asyncio.run(loop()), daemon=True).start()
sys.stdin.read()
