"""valkey-glide's cluster client, which is told where three nodes are: what it can do, then a producer and a worker."""

import asyncio
import os
import sys
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import workload  # noqa: E402

addresses = [address.split(":") for address in sys.argv[1].split(",")]


async def connect():
    # A request may take as long as the longest wait, and a bit.
    nodes = [NodeAddress(host, int(port)) for host, port in addresses]
    advanced = AdvancedGlideClusterClientConfiguration(connection_timeout=500)
    configuration = GlideClusterClientConfiguration(nodes, request_timeout=1500, advanced_config=advanced)
    return await GlideClusterClient.create(configuration)


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
    await workload.checks(everything)
    await client.close()


async def queue():
    client = await connect()
    return lambda *words: client.custom_command(list(words))


asyncio.run(checks())
workload.run(queue, GlideError)
