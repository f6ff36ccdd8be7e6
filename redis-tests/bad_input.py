#!/usr/bin/env python3
"""Clients that break off, flood, stall, lie and die. The server answers, stays small and loses nothing."""

import contextlib
import os
import random
import resource
import select
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import (  # noqa: E402
    HOST, PORT, Closed, Raw, ReplyError, Skip, check, encode, equal, finish, info, pairs, queue,
    resident_bytes, until,
)

MIB = 1024 * 1024
SEED = int(os.environ.get("DELAYD_SEED", time.time_ns() % 1_000_000))
print(f"DELAYD_SEED={SEED}")
chance = random.Random(SEED)

control = Raw()
SERVER = int(info(control, "server")["process_id"])


def memory():
    """What the server holds, by the kernel's count where that can be seen, else by its own."""
    seen = resident_bytes(SERVER) if HOST in ("127.0.0.1", "localhost", "::1") else None
    return seen or int(info(control, "memory")["used_memory"])


def answers_quickly(limit_s=0.5):
    """Another client's command must not wait for the troublemaker."""
    started = time.monotonic()
    equal(control.call("PING"), "PONG")
    took = time.monotonic() - started
    if took > limit_s:
        raise AssertionError(f"PING took {took:.3f}s")


@contextlib.contextmanager
def crowd_of(size):
    """So many connections, closed at the end whatever happens."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Raw()) for _ in range(size)]


def stats(q):
    return pairs(control.call("DELAY.STATS", q) or [])


# --- Requests that are wrong ------------------------------------------------------------------

with check("a bad request gets an error that says what is wrong, changes nothing, keeps the connection"):
    q = queue("bad")
    cases = [
        (("DELAY.ADD", q), "ERR wrong number of arguments for 'delay.add' command"),
        (("DELAY.ADD", q, "1h", "x", "SOON"), "SOON"),
        (("DELAY.ADD", q, "1h", "x", "PRIORITY", "1", "PRIORITY", "2"), "PRIORITY"),
        (("DELAY.ADD", q, "1h", "x", "PRIORITY", "10"), "10"),
        (("DELAY.ADD", q, "1h", "x", "PRIORITY"), "PRIORITY"),
        (("DELAY.ADD", q, "1h", "x", "NX"), "ID"),
        (("DELAY.ADD", q, "1h", "x", "ID", ""), "ERR"),
        (("DELAY.ADD", q, "1h", "x", "ID", "i" * 513), "512"),
        (("DELAY.ADD", "q" * 513, "1h", "x"), "512"),
        (("DELAY.ADD", "", "1h", "x"), "ERR"),
        (("DELAY.ADD", q, "-1", "x"), "-1"),
        (("DELAY.ADD", q, "1x", "x"), "1x"),
        (("DELAY.ADD", q, "", "x"), "ERR"),
        (("DELAY.ADD", q, "18446744073709551616", "x"), "18446744073709551616"),
        (("DELAY.ADD", q, "99999999d", "x"), "3650d"),
        (("DELAY.ADD", q, str(int(time.time() * 1000)), "x"), "@"),
        (("DELAY.ADD", q, "1h", "x", "LEASE", "0"), "1ms"),
        (("DELAY.ADD", q, "1h", "x", "BACKOFF", "1s,,2s"), "1s,,2s"),
        (("DELAY.RESERVE", "1", "0", q), "ERR"),
        (("DELAY.RESERVE", "1", "2", q), "ERR"),
        (("DELAY.RESERVE", "1", "1", q, "COUNT", "10001"), "10000"),
        (("DELAY.POP", q, "-1"), "ERR timeout is negative"),
        (("DELAY.POP", q, "soon"), "ERR timeout is not a float or out of range"),
        (("DELAY.NACK", q, "a", "1", "BURY", "IN", "1s"), "BURY"),
        (("DELAY.EXTEND", q, "a", "1", "0"), "1ms"),
        (("DELAY.NOPE", q), "ERR unknown command 'DELAY.NOPE'"),
        (("CLIENT", "NOPE"), "ERR unknown subcommand"),
        (("EXPIRE", q, "10"), "ERR"),
    ]
    wrong = []
    with Raw() as client:
        me = client.call("CLIENT", "ID")
        for command, needle in cases:
            text = client.error(*command)
            if needle not in text or not text.split(" ")[0].isupper():
                wrong.append(f"{' '.join(command)[:60]} -> {text[:160]} (expected {needle})")
        equal(client.call("CLIENT", "ID"), me)
        equal(client.call("EXISTS", q), 0)
    if wrong:
        raise AssertionError("; ".join(wrong))

with check("broken framing closes the connection after every earlier command was answered"):
    # What is sent after three good commands, and the error that must come last.
    for bad, text in {
        b"*abc\r\n": "invalid multibulk length",
        b"*3000000000\r\n": "invalid multibulk length",
        b"*1\r\nfoo\r\n": "expected '$', got 'f'",
        b"*1\r\n$-10\r\n": "invalid bulk length",
        b"*1\r\n$abc\r\n": "invalid bulk length",
        b'PING "open\r\n': "unbalanced quotes",
        b"x" * (65 * 1024): "too big inline request",
        b"*" + b"1" * (65 * 1024): "too big mbulk count string",
    }.items():
        q = queue("frame")
        with Raw() as client:
            with contextlib.suppress(ConnectionError):
                client.send(
                    encode("PING") + encode("DELAY.ADD", q, "0", "x", "ID", "a")
                    + encode("DELAY.POP", q, "1") + bad
                )
            equal(client.read(), "PONG")
            equal(client.read(), b"a")
            equal(client.read(), [q.encode(), b"a", b"x"])
            last = str(client.read())
            if "Protocol error" not in last or text not in last:
                raise AssertionError(f"{bad[:30]!r} was answered with {last!r}")
            client.expect_end()

with check("an HTTP request is closed, not served"):
    with Raw() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nDELAY.ADD q 0 x\r\n")
        with contextlib.suppress(Closed):
            client.read()
        client.expect_end()

with check("random bytes: 300 connections, the server lives"):
    for _ in range(300):
        with Raw() as client:
            junk = chance.randbytes(chance.randrange(1, 2000))
            if chance.random() < 0.5:
                junk = encode("DELAY.ADD", "junk", "1h", junk)[: chance.randrange(1, len(junk) + 20)]
            with contextlib.suppress(ConnectionError):
                client.send(junk)
                client.socket.shutdown(socket.SHUT_WR)
                while client.input.read(65536):
                    pass
    answers_quickly()

with check("a command in single bytes, and every split of it in two"):
    q = queue("split")
    command = encode("DELAY.ADD", q, "1h", "a\r\nb")
    with Raw() as client:
        for byte in command:
            client.send(bytes([byte]))
        assert client.read()
        for at in range(1, len(command)):
            client.send(command[:at])
            client.send(command[at:])
            assert client.read()
    equal(control.call("DELAY.LEN", q), len(command))

with check("a body above the limit is drained and refused; the connection lives"):
    q = queue("big")
    with Raw(timeout=60) as client:
        me = client.call("CLIENT", "ID")
        before = memory()
        for size in (16 * MIB + 1, 200 * MIB):
            client.send(b"*4\r\n$9\r\nDELAY.ADD\r\n$%d\r\n%s\r\n$2\r\n1h\r\n$%d\r\n" % (len(q), q.encode(), size))
            piece, left = b"x" * MIB, size
            while left:
                client.send(piece[: min(left, MIB)])
                left -= min(left, MIB)
            client.send(b"\r\n")
            error = client.read()
            assert isinstance(error, ReplyError), error
            equal(client.call("CLIENT", "ID"), me)
        grown = memory() - before
        if grown > 64 * MIB:
            raise AssertionError(f"draining cost {grown // MIB} MiB")
        # One that just fits: what clients may hold has room for two requests.
        held = int(client.call("CONFIG", "GET", "max-clients-memory")[1])
        fits = min(16 * MIB, held // 2 - 16 * 1024)
        if fits < 16 * MIB:
            error = client.error("DELAY.ADD", q, "1h", b"x" * (fits + 1), "ID", "a")
            assert "max-clients-memory" in error, error
        equal(client.call("DELAY.ADD", q, "1h", b"x" * fits, "ID", "a"), b"a")
        equal(client.call("DELAY.DEL", q, "a"), 1)

with check("an announced size costs nothing until the bytes come"):
    before = memory()
    with crowd_of(100) as (many, *crowd):
        for client in crowd:
            client.send(b"*4\r\n$9\r\nDELAY.ADD\r\n$1\r\nq\r\n$2\r\n1h\r\n$16000000\r\n")
        many.send(b"*1000000\r\n$4\r\nPING\r\n")
        answers_quickly()
        grown = memory() - before
    if grown > 32 * MIB:
        raise AssertionError(f"100 announcements cost {grown // MIB} MiB")

# --- Many and slow ones -----------------------------------------------------------------------

with check("1,000 connections that each sent half a command"):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        raise Skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096) if hard > 0 else 4096), hard))
    q = queue("half")
    command = encode("DELAY.ADD", q, "1h", "x" * 4000)
    before = memory()
    with crowd_of(1000) as crowd:
        for client in crowd:
            client.send(command[: chance.randrange(1, len(command))])
        answers_quickly()
        grown = memory() - before
        equal(control.call("DELAY.LEN", q), 0)
    until(lambda: int(info(control, "clients")["connected_clients"]) < 100)
    equal(control.call("DELAY.LEN", q), 0)
    if grown > 128 * MIB:
        raise AssertionError(f"1,000 half commands cost {grown // MIB} MiB")

with check("a client that never reads its replies: the server stays small and serves the others"):
    q = queue("deaf")
    for _ in range(4):
        control.call("DELAY.ADD", q, "0", b"x" * MIB)
    before, most = memory(), 0
    deaf = Raw()
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.socket.setblocking(False)
    wish, ended = encode("DELAY.PEEK", q, "COUNT", 10) * 200, time.monotonic() + 4
    asked = 0
    while time.monotonic() < ended and asked < 2000 * len(wish):
        try:
            if select.select([], [deaf.socket], [], 0.1)[1]:
                asked += deaf.socket.send(wish)
        except BlockingIOError:
            pass
        except ConnectionError:
            break  # closed: that is an answer too
        answers_quickly(1.0)
        most = max(most, memory() - before)
    deaf.close()
    answers_quickly()
    control.call("DEL", q)
    if most > (256 + 96) * MIB:
        raise AssertionError(f"replies that nobody read took {most // MIB} MiB")

with check("fifty of them together stay within the same limit"):
    q = queue("deaf")
    for _ in range(4):
        control.call("DELAY.ADD", q, "0", b"x" * MIB)
    before, most = memory(), 0
    with crowd_of(50) as crowd:
        for client in crowd:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(ConnectionError):
                client.send(encode("DELAY.PEEK", q, "COUNT", 10) * 50)
        for _ in range(20):
            answers_quickly(1.0)
            most = max(most, memory() - before)
            time.sleep(0.05)
    control.call("DEL", q)
    if most > (256 + 96) * MIB:
        raise AssertionError(f"replies that nobody read took {most // MIB} MiB")

with check("a pipeline of 100,000 commands in one go is answered in order"):
    with Raw(timeout=60) as client:
        writer = threading.Thread(
            target=client.send, args=(b"".join(encode("ECHO", n) for n in range(100_000)),)
        )
        writer.start()
        for n in range(100_000):
            equal(client.read(), b"%d" % n)
        writer.join()

# --- Clients that die -------------------------------------------------------------------------

with check("a waiter that has gone takes no job with it"):
    q = queue("gone")
    for _ in range(50):
        client = Raw()
        client.send(encode("DELAY.POP", q, "0"))
        until(lambda: stats(q).get("waiters") == 1)
        client.close()
        until(lambda: stats(q).get("waiters", 0) == 0)
    control.call("DELAY.ADD", q, "0", "x", "ID", "a")
    equal(control.call("DELAY.POP", q, "1"), [q.encode(), b"a", b"x"])

with check("a job deleted while it falls due is either deleted or delivered, never both, never neither"):
    q, got = queue("race"), set()
    stop = threading.Event()

    def taker():
        with Raw() as client:
            while not stop.is_set() or stats_left():
                job = client.call("DELAY.POP", q, "0.1")
                if job:
                    got.add(job[1])

    def stats_left():
        with Raw() as client:
            return client.call("DELAY.LEN", q)

    takers = [threading.Thread(target=taker) for _ in range(2)]
    for thread in takers:
        thread.start()
    deleted, cancelled, everything = set(), set(), set()
    for round_number in range(40):
        ids = [b"%d-%d" % (round_number, n) for n in range(25)]
        everything.update(ids)
        for name in ids:
            control.call("DELAY.ADD", q, f"{chance.randrange(1, 12)}ms", "x", "ID", name)
        chance.shuffle(ids)
        time.sleep(chance.random() * 0.006)
        for name in ids:
            if chance.random() < 0.5:
                if control.call("DELAY.DEL", q, name) == 1:
                    deleted.add(name)
            elif control.call("DELAY.CANCEL", q, name) in (b"delayed", b"ready"):
                cancelled.add(name)
    stop.set()
    for thread in takers:
        thread.join()
    removed = deleted | cancelled
    equal(removed & got, set())
    equal(removed | got, everything)
    if not removed or not got:
        raise AssertionError("the race never went both ways")
    total = stats(q)
    equal((total["added"], total["deleted"] + total["delivered"]), (1000, 1000))


def consumer(q, acknowledge):
    """A child process that reserves and acknowledges until it is killed."""
    pid = os.fork()
    if pid:
        return pid
    try:
        client = Raw()
        while True:
            jobs = client.call("DELAY.RESERVE", "1", "1", q, "COUNT", "20", "LEASE", "500ms") or []
            for job in jobs:
                if acknowledge:
                    client.call("DELAY.ACK", q, job[1], job[3])
    finally:
        os._exit(0)


with check("consumers killed between hand-off and acknowledgement: every job is done, none is lost"):
    q, count = queue("killed"), 3000
    for start in range(0, count, 500):
        control.send(b"".join(
            encode("DELAY.ADD", q, f"{chance.randrange(0, 800)}ms", "x", "ID", n, "ATTEMPTS", "0", "BACKOFF", "10ms")
            for n in range(start, start + 500)
        ))
        for _ in range(500):
            equal(isinstance(control.read(), bytes), True)
    kills, children = 0, []
    while kills < 150 and stats(q)["acked"] < count:
        while len(children) < 3:
            # Every third consumer takes jobs and never gets to acknowledge one.
            children.append(consumer(q, kills % 3 != 2))
        time.sleep(chance.uniform(0.01, 0.08))
        victim = children.pop(0)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        kills += 1
    # What is left is for one that nobody kills: on a slow machine no lease outlives so many.
    children.append(consumer(q, True))
    deadline = time.monotonic() + 60
    while stats(q)["acked"] < count:
        if time.monotonic() > deadline:
            raise AssertionError(f"not done within a minute: {stats(q)}")
        if len(children) > 1:
            os.kill(children[0], signal.SIGKILL)
            os.waitpid(children.pop(0), 0)
        time.sleep(0.05)
    for victim in children:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    end = stats(q)
    left = {name: end[name] for name in ("delayed", "ready", "leased", "dead", "expired", "dropped")}
    equal(left, dict.fromkeys(left, 0))
    equal((end["added"], end["acked"]), (count, count))
    if end["delivered"] < count or end["timeouts"] == 0 or kills < 5:
        raise AssertionError(f"{kills} kills did not disturb anything: {end}")

with check("consumers killed while popping: what was delivered and what is left make up all"):
    q, count = queue("popped"), 5000
    control.send(b"".join(encode("DELAY.ADD", q, "0", "x" * 500) for _ in range(count)))
    for _ in range(count):
        control.read()
    read_end, write_end = os.pipe()
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            try:
                client = Raw()
                while True:
                    if client.call("DELAY.POP", q, "0.5"):
                        os.write(write_end, b".")
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0.005, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(write_end)
    seen = 0
    while chunk := os.read(read_end, 65536):
        seen += len(chunk)
    os.close(read_end)
    time.sleep(0.05)
    end = stats(q)
    equal(end["delivered"] + end["ready"], count)
    # Each kill can cost the one job whose reply was on its way: at most once means that.
    if not seen <= end["delivered"] <= seen + 20:
        raise AssertionError(f"{seen} jobs were seen, {end['delivered']} counted as delivered")

with check("leases bound to a connection end with it"):
    q = queue("bound")
    control.call("DELAY.ADD", q, "0", "x", "ID", "a")
    client = Raw()
    equal(client.call("DELAY.RESERVE", "1", "1", q, "LEASE", "1h", "BOUND")[0][1], b"a")
    client.close()
    (job,) = control.call("DELAY.RESERVE", "2", "1", q, "LEASE", "1h")
    equal((job[1], job[4]), (b"a", 2))
    equal(control.call("DELAY.ACK", q, "a", job[3]), 1)

with check("after all this the server is small, idle and empty-handed"):
    equal(int(info(control, "clients")["blocked_clients"]), 0)
    until(lambda: int(info(control, "clients")["connected_clients"]) < 20)
    answers_quickly()
    print(f"resident memory: {memory() // MIB} MiB")

finish()
