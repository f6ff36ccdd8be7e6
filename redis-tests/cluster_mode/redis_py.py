"""redis-py's RedisCluster, which is told where three nodes are: what it can do, then a producer and a worker.

With `async` it is that of redis.asyncio.
"""

import asyncio
import inspect
import os
import sys
import threading
import time

import redis
import redis.asyncio

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import workload  # noqa: E402

addresses = [address.split(":") for address in sys.argv[1].split(",")]
library = redis.asyncio if "async" in sys.argv[2:] else redis
TAGGED = ("DELAY.ADD", "{t}:a", "0", "x"), ("DELAY.ADD", "{t}:b", "0", "x")


def connect():
    nodes = [library.cluster.ClusterNode(host, int(port)) for host, port in addresses]
    # By itself it gives up after three answers CLUSTERDOWN, a second or so: an election may take longer.
    return library.cluster.RedisCluster(startup_nodes=nodes, socket_timeout=1.5, socket_connect_timeout=0.3)


async def done(result):
    """What a call of either library gives."""
    return await result if inspect.isawaitable(result) else result


async def together(client, transaction, commands):
    pipeline = client.pipeline(transaction=transaction)
    for words in commands:
        pipeline.execute_command(*words)
    return await done(pipeline.execute())


async def wait_and_add(client):
    """How long an add takes beside a LEASE that waits for a second."""
    call = lambda *words: done(client.execute_command(*words))
    if library is redis:
        waiting = threading.Thread(target=client.execute_command, args=("DELAY.LEASE", "empty", "1"))
        waiting.start()
    else:
        waiting = asyncio.ensure_future(call("DELAY.LEASE", "empty", "1"))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await call("DELAY.ADD", "other", "0", "x")
    took = time.monotonic() - began
    await waiting if library is not redis else waiting.join()
    return f"an add beside it took {'no time' if took < 0.3 else 'its time, too'}"


async def checks():
    client = connect()
    call = lambda *words, **how: done(client.execute_command(*words, **how))
    await call("DELAY.LEN", "q")
    everything = {
        "add": lambda: call("DELAY.ADD", "q", "0", "x"),
        "lease": lambda: call("DELAY.LEASE", "q", "NOWAIT"),
        "reserve": lambda: call("DELAY.RESERVE", "NOWAIT", "1", "q"),
        "pipeline": lambda: together(client, False, [("DELAY.ADD", f"q{n}", "0", "x") for n in range(3)]),
        "multi": lambda: together(client, True, TAGGED),
        "wait": lambda: wait_and_add(client),
        "keyless": lambda: call("DELAY.QUEUES"),
        "all": lambda: call("DELAY.QUEUES", target_nodes=client.get_primaries()),
    }
    await workload.checks(everything)
    await done(client.aclose() if library is not redis else client.close())


async def queue():
    client = connect()
    return lambda *words: done(client.execute_command(*words))


asyncio.run(checks())
# Two nodes that name two leaders, as they may for a moment after one has gone, make it raise what is no RedisError.
workload.run(queue, (redis.RedisError, redis.exceptions.RedisClusterException, OSError))
