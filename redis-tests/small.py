"""A server in a control group of 96 MB with `maxmemory 48mb`: whatever it is asked, the group never kills it. Only in `run --small`.

Waves of jobs of other sizes until OOM, pipelines, large replies that are read late or never, HTTP by the dozen, and all of it at once.
"""

import concurrent.futures
import contextlib
import json
import os
import random
import socket
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
sys.dont_write_bytecode = True

from harness import Closed, Raw, ReplyError, Server, Skip, check, encode, finish, free_port, info, peak_bytes, until  # noqa: E402

MIB = 2**20
# 1.1 times maxmemory, 32 MiB, and what clients may hold.
BOUND = int(48 * MIB * 1.1) + 32 * MIB + 96 * MIB * 8 // 100 if "DELAYD_SMALL_GROUP" in os.environ else 2**62


def pipelined(raw, commands):
    """Sends them together and reads the replies."""
    raw.send(b"".join(encode(*command) for command in commands))
    return [raw.read() for _ in commands]


def fill(raw, sizes):
    """Adds jobs until they are refused, and still are when memory has had time to come back; how many bytes got in."""
    added, refused = 0, 0
    while refused < 2:
        batch = [random.choice(sizes) for _ in range(64)]
        replies = pipelined(raw, [("DELAY.ADD", "q", "0", b"x" * size) for size in batch])
        added += sum(size for size, reply in zip(batch, replies) if not isinstance(reply, ReplyError))
        errors = [reply for reply in replies if isinstance(reply, ReplyError)]
        assert all(reply.kind == "OOM" for reply in errors), errors
        refused = refused + 1 if errors else 0
        if errors:
            time.sleep(0.5)
    return added


def empty(raw):
    """Removes all jobs, whose memory is given back in slices. What was popped for a client that has just gone may come
    back after the first purge."""
    until(lambda: raw.call("DELAY.PURGE", "q") == 0 and int(info(raw, "memory")["used_memory"]) < 4 * MIB, 30)


def http(token, port, path, body=None):
    """Asks the console or the metrics; what is refused is an answer, too."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body)
    request.add_header("Authorization", f"Bearer {token}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return len(answer.read())
    except (urllib.error.URLError, OSError):
        return 0


def never_read(port, data):
    """A connection that asks and does not read."""
    wire = socket.create_connection(("127.0.0.1", port), 5)
    wire.settimeout(2)
    try:
        wire.sendall(data)
    except OSError:
        pass
    return wire


def stands(server, bound=2**62):
    """The group has not killed it, and it never had more resident than `bound`."""
    if not server.alive():
        raise AssertionError(f"the server ended: {server.tail()}")
    peak = peak_bytes(server.process.pid)
    if peak > bound:
        raise AssertionError(f"{peak / MIB:.1f} MiB resident, of {bound / MIB:.1f}")
    print(f"    at most {peak / MIB:.1f} MiB resident so far", flush=True)


@contextlib.contextmanager
def unread(wires):
    """Connections that are closed at the end."""
    try:
        yield wires
    finally:
        for wire in wires:
            wire.close()


def main():
    seed = int(os.environ.get("DELAYD_SEED", random.randrange(2**32)))
    print(f"DELAYD_SEED={seed}")
    random.seed(seed)
    console, metrics = free_port(), free_port()
    with Server("--console-port", str(console), "--metrics-port", str(metrics)) as server:
        raw = lambda: Raw("127.0.0.1", server.port, timeout=60)
        with open(os.path.join(server.home.name, "console-link")) as file:
            token = file.read().strip().split("token=")[1]
        with raw() as client:
            with check("waves of jobs of other sizes, each until OOM"):
                for sizes in ([1_000, 5_000], [200_000], [60_000, 90_000], [3_000_000], [400, 40_000]):
                    added = fill(client, sizes)
                    assert added > 3 * MIB, (sizes, added)
                    empty(client)
                    stands(server, BOUND)
            with check("jobs of all sizes at once, taken, acknowledged and added again"):
                fill(client, [10, 300, 7_000, 100_000])
                for _ in range(3):
                    jobs = client.call("DELAY.RESERVE", "NOWAIT", 1, "q", "COUNT", 200) or []
                    for job in jobs:
                        client.call("DELAY.ACK", "q", job[1], job[3])
                    fill(client, [10, 300, 7_000, 100_000])
                stands(server, BOUND)
            with check("large replies that nobody reads"):
                asks = [encode("LRANGE", "q", 0, 9_000), encode("DELAY.PEEK", "q", "COUNT", 10_000) * 50]
                asks += [encode("DELAY.RESERVE", "NOWAIT", 1, "q", "COUNT", 10_000, "NOACK")]
                with unread([never_read(server.port, random.choice(asks)) for _ in range(100)]):
                    assert client.call("PING") == "PONG"
                    stands(server)
            with check("requests that are never whole"):
                whole = b"*4\r\n$9\r\nDELAY.ADD\r\n$1\r\nq\r\n$2\r\n1h\r\n$3000000\r\n" + b"x" * 2_900_000
                with unread([never_read(server.port, whole) for _ in range(30)]):
                    assert client.call("PING") == "PONG"
                    stands(server)
        with raw() as client:
            empty(client)
            for number in range(300):
                client.call("DELAY.CONFIG", "SET", f"{number:03}" + "n" * 500, "attempts", 3)
            fill(client, [300_000, 900_000])
            ids = [job[0] for job in client.call("DELAY.PEEK", "q", "COUNT", 5)]
            peek = json.dumps(["DELAY.PEEK", "q", "COUNT", "1000"]).encode()
            gets = json.dumps([["DELAY.GET", "q", id.decode()] for id in ids * 40]).encode()
            asks = [(console, "/api/v1/command", peek), (console, "/api/v1/pipeline", gets), (metrics, "/metrics", None)]
            asks += [(console, path, None) for path in ("/", "/queues", "/queue?name=q", "/search?q=x", "/wall")]
            with check("HTTP by the dozen"), concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda at: http(token, *asks[at % len(asks)]), range(160)))
                assert sum(map(bool, answers)) > 40, answers
                stands(server)
            with check("HTTP that nobody reads"):
                head = "POST /api/v1/command HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                head += f"Authorization: Bearer {token}\r\nContent-Length: %d\r\n\r\n"
                wires = [never_read(console, (head % len(peek)).encode() + peek) for _ in range(20)]
                wires += [never_read(metrics, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(20)]
                with unread(wires):
                    assert client.call("PING") == "PONG"
                    stands(server)
        with check("all of it at once"), concurrent.futures.ThreadPoolExecutor(16) as pool:
            ends = time.monotonic() + 5

            def storm(number):
                count = 0
                while time.monotonic() < ends and server.alive():
                    try:
                        if number % 4 == 0:
                            count += bool(http(token, *asks[random.randrange(len(asks))]))
                            continue
                        with raw() as other:
                            if number % 4 == 1:
                                body = b"x" * random.choice([50, 2_000, 70_000, 1_000_000])
                                pipelined(other, [("DELAY.ADD", "q", "0", body)] * (2_000_000 // (len(body) + 100)))
                            elif number % 4 == 2:
                                other.call("DELAY.RESERVE", "NOWAIT", 1, "q", "COUNT", 1_000, "NOACK")
                                other.call("DELAY.PEEK", "q", "COUNT", 1_000)
                            else:
                                never_read(server.port, encode("DELAY.PEEK", "q", "COUNT", 10_000) * 3).close()
                                # What is asked is done, whether or not anything reads it.
                                time.sleep(0.1)
                        count += 1
                    except (OSError, Closed, ReplyError):
                        pass
                return count

            done = list(pool.map(storm, range(16)))
            assert sum(done) > 16, done
            stands(server)
        with check("it answers, and nothing was lost in the log"), raw() as client:
            assert client.call("PING") == "PONG"
            fields = info(client, "memory")
            print(f"    used_memory {int(fields['used_memory']) / MIB:.1f} MiB")
            server.stop()
            server.start()
            stands(server)


try:
    main()
except Skip as why:
    print(f"skip - {why}")
finish()
