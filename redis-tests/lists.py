#!/usr/bin/env python3
"""Workers written for Redis lists, unchanged: redis-py in both protocols, redis-cli, a shell loop, redis-benchmark.

What they rely on: LPUSH with BRPOP and RPUSH with BLPOP are first in, first out; waiters are served in
the order in which they came; BLMOVE never loses an element; the shapes of nil. Then what a queue has and
a list has not: jobs that fall due, that are leased, that are refused.
"""

import os
import subprocess
import sys
import threading

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import (  # noqa: E402
    HOST,
    PORT,
    Raw,
    check,
    equal,
    finish,
    info,
    needs,
    now_ms,
    queue,
    until,
)

LISTS = """LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP BLPOP BRPOP LMPOP BLMPOP LLEN LRANGE LINDEX LPOS LREM
           LMOVE BLMOVE RPOPLPUSH BRPOPLPUSH""".split()
CLI = ["redis-cli", "-h", HOST, "-p", str(PORT)]


def client(protocol=3):
    return redis.Redis(host=HOST, port=PORT, protocol=protocol, decode_responses=True, socket_timeout=None)


def start(work, *args):
    """Runs a worker in a thread of its own; `join` of what is returned gives its result."""
    result = []
    thread = threading.Thread(target=lambda: result.append(work(*args)), daemon=True)
    thread.start()

    def join():
        thread.join(10)
        if not result:
            raise AssertionError("the worker did not end")
        return result[0]

    return join


def waiting(count):
    """Returns when so many clients of the server wait."""
    with Raw() as raw:
        until(lambda: int(info(raw, "clients")["blocked_clients"]) >= count)


def workers(protocol):
    """The loops that people write, in one protocol."""
    r = client(protocol)

    for push, pop in ((r.lpush, r.brpop), (r.rpush, r.blpop)):
        with check(f"RESP{protocol}: a worker with {push.__name__} and {pop.__name__}: first in, first out"):
            q = queue("list")
            taken = start(lambda: [client_pop(pop, q) for _ in range(100)])
            for n in range(100):
                push(q, n)
            equal(taken(), [(q, str(n)) for n in range(100)])
            equal((r.llen(q), r.exists(q)), (0, 0))

    with check(
        f"RESP{protocol}: several queues: the first that has something, in the order of the arguments"
    ):
        high, low = queue("high"), queue("low")
        r.rpush(low, "a", "b")
        r.rpush(high, "c")
        got = [tuple(r.blpop([high, low], timeout=1)) for _ in range(3)]
        equal(got, [(high, "c"), (low, "a"), (low, "b")])
        r.rpush(low, "d", "e", "f")
        equal(as_list(r.lmpop(2, high, low, direction="RIGHT", count=2)), [low, ["f", "e"]])
        equal(as_list(r.blmpop(1, 2, high, low, direction="LEFT", count=5)), [low, ["d"]])

    with check(f"RESP{protocol}: nil, empty and zero, each where a list gives it"):
        q = queue("list")
        equal(
            [r.blpop(q, timeout=0.02), r.brpop([q], timeout=0.02), r.lpop(q), r.rpop(q), r.lpop(q, 3)],
            [None] * 5,
        )
        equal(
            [
                r.lmove(q, q + "2"),
                r.blmove(q, q + "2", 0.02),
                r.rpoplpush(q, q + "2"),
                r.lmpop(1, q, direction="LEFT"),
            ],
            [None] * 4,
        )
        equal(
            [
                r.lrange(q, 0, -1),
                r.lindex(q, 0),
                r.llen(q),
                r.lpushx(q, "x"),
                r.rpushx(q, "x"),
                r.lrem(q, 0, "x"),
            ],
            [[], None, 0, 0, 0, 0],
        )
        equal((r.type(q), r.exists(q)), ("none", 0))
        r.rpush(q, "x")
        equal((r.lpop(q, 0), r.lpushx(q, "w"), r.rpushx(q, "y"), r.type(q)), ([], 2, 3, "list"))

    with check(f"RESP{protocol}: looking: ranges, positions, both ends; removing by value"):
        q = queue("list")
        equal(r.rpush(q, *"abcabc"), 6)
        equal(r.lpush(q, "z"), 7)
        equal(
            (r.lrange(q, 0, -1), r.lrange(q, -3, -2), r.lrange(q, 5, 100), r.lrange(q, 3, 1)),
            (list("zabcabc"), ["a", "b"], ["b", "c"], []),
        )
        equal((r.lindex(q, 0), r.lindex(q, -1), r.lindex(q, 7)), ("z", "c", None))
        equal(
            (r.lpos(q, "b"), r.lpos(q, "b", rank=-1), r.lpos(q, "b", count=0), r.lpos(q, "n")),
            (2, 5, [2, 5], None),
        )
        equal((r.lrem(q, -1, "a"), r.lrem(q, 0, "b"), r.lrange(q, 0, -1)), (1, 2, list("zacc")))
        equal((r.lpop(q, 2), r.rpop(q, 9)), (["z", "a"], ["c", "c"]))

    with check(f"RESP{protocol}: a reliable worker: BLMOVE to a list of its own, LREM when the work is done"):
        q = queue("list")
        mine = q + ":processing"
        moved = start(lambda: client(protocol).blmove(q, mine, 5, "RIGHT", "LEFT"))
        waiting(1)
        r.lpush(q, "a")
        equal(moved(), "a")
        r.lpush(q, "b")
        equal(r.lmove(q, mine, "RIGHT", "LEFT"), "b")
        equal((r.llen(q), r.lrange(mine, 0, -1)), (0, ["b", "a"]))
        equal(r.lrem(mine, 1, "a"), 1)
        # The worker died with `b`: whoever cleans up puts it back at the end from which it is taken next.
        equal((r.lmove(mine, q, "RIGHT", "RIGHT"), r.rpop(q), r.exists(mine)), ("b", "b", 0))
        r.rpush(q, "one", "two")
        equal((r.rpoplpush(q, q), r.lrange(q, 0, -1)), ("two", ["two", "one"]))
        equal(r.brpoplpush(q, mine, 1), "one")

    with check(f"RESP{protocol}: a pipeline as a transaction: nothing blocks inside, the length is true"):
        q = queue("list")
        with r.pipeline() as pipe:
            pipe.lpush(q, "a", "b").llen(q).brpop(q, 5).rpop(q).blpop(q, 5).llen(q)
            replies = pipe.execute()
        equal([as_list(reply) for reply in replies], [2, 2, [q, "a"], "b", None, 0])


def client_pop(pop, q):
    """One round of the loop, on whatever connection the pool gives."""
    return tuple(pop(q, timeout=5))


def as_list(reply):
    return list(reply) if isinstance(reply, tuple) else reply


def fairness():
    with check("waiters are served in the order in which they came, one element each"):
        q = queue("fair")
        joins = []
        for n in range(5):
            joins.append(start(lambda: client().blpop(q, timeout=5)))
            waiting(n + 1)
        client().rpush(q, *range(5))
        equal([as_list(join()) for join in joins], [[q, str(n)] for n in range(5)])

    with check("a waiter that is gone takes nothing: the next in line is served"):
        q = queue("gone")
        with Raw() as gone, Raw() as other:
            for raw in (gone, other):
                raw.send(b"*3\r\n$5\r\nBLPOP\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(q), q.encode()))
            waiting(2)
            gone.close()
            client().rpush(q, "x")
            equal(other.read(), [q.encode(), b"x"])

    with check("elements of four pushers and four workers: each taken once"):
        q = queue("crowd")

        def drain():
            mine, taken = client(), []
            while True:
                _, body = mine.brpop(q, timeout=5)
                if body == "end":
                    return taken
                taken.append(int(body))

        joins = [start(drain) for _ in range(4)]
        pushes = [
            start(lambda at=at: [client_of_thread().lpush(q, n) for n in range(at, 1000, 4)])
            for at in range(4)
        ]
        for join in pushes:
            join()
        client().lpush(q, *["end"] * 4)
        taken = [n for join in joins for n in join()]
        equal(sorted(taken), list(range(1000)))


_of_thread = threading.local()


def client_of_thread():
    if not hasattr(_of_thread, "client"):
        _of_thread.client = client()
    return _of_thread.client


def more_than_a_list():
    r = client()

    with check("a job that falls due wakes a list worker, never early, as the last in line"):
        q = queue("due")
        taken = start(lambda: (client().blpop(q, timeout=5), now_ms()))
        waiting(1)
        due = int(now_ms()) + 150
        r.execute_command("DELAY.ADD", q, f"@{due}", "later")
        equal(r.llen(q), 0)
        got, when = taken()
        equal(as_list(got), [q, "later"])
        if when < due:
            raise AssertionError(f"{due - when} ms early")

    with check("due-enters left: LPUSH and BRPOP workers get what fell due in its turn"):
        needs("DELAY.CONFIG")
        q = queue("due")
        r.execute_command("DELAY.CONFIG", "SET", q, "due-enters", "left")
        r.lpush(q, "first")
        r.execute_command("DELAY.ADD", q, "30ms", "second")
        until(lambda: r.llen(q) == 2)
        r.lpush(q, "third")
        equal([r.brpop(q, timeout=1)[1] for _ in range(3)], ["first", "second", "third"])
        r.execute_command("DELAY.CONFIG", "RESET", q)

    with check("pushed by a list client, leased by a delayd client: not in the list meanwhile"):
        q = queue("both")
        r.rpush(q, "a", "b")
        [[_, job, body, token, *_]] = r.execute_command("DELAY.RESERVE", "1", "1", q, "LEASE", "1m")
        equal((body, r.lrange(q, 0, -1), r.execute_command("DELAY.LEN", q, "LEASED")), ("a", ["b"], 1))
        equal(r.execute_command("DELAY.NACK", q, job, token, "UNCOUNTED"), 1)
        equal(r.lrange(q, 0, -1), ["a", "b"])

    with check("a queue of future jobs exists, is a list and has length 0; XLEN is LLEN"):
        q = queue("future")
        r.execute_command("DELAY.ADD", q, "1h", "x")
        equal((r.exists(q), r.type(q), r.llen(q), r.lrange(q, 0, -1), r.lpop(q)), (1, "list", 0, [], None))
        r.lpush(q, "now")
        equal((r.llen(q), r.xlen(q)), (1, 1))

    with check("what a queue cannot do is an error that says so, and changes nothing"):
        q = queue("not")
        r.rpush(q, "a", "b", "c")
        for words in (
            ["LSET", q, "0", "x"],
            ["LINSERT", q, "BEFORE", "a", "x"],
            ["LTRIM", q, "0", "0"],
            ["EXPIRE", q, "10"],
            ["SADD", q, "x"],
            ["LPUSH", q],
            ["LPOP", q, "-1"],
            ["BLPOP", q, "soon"],
        ):
            try:
                raise AssertionError(f"{words!r} answered {r.execute_command(*words)!r}")
            except redis.ResponseError as error:
                if not str(error):
                    raise AssertionError(f"{words!r}: no text") from None
        equal(r.lrange(q, 0, -1), ["a", "b", "c"])


def shell():
    with check("redis-cli: push, look, pop; an empty queue prints nothing"):
        q = queue("cli")

        def cli(*args):
            return subprocess.run([*CLI, *args], capture_output=True, text=True, timeout=20).stdout.rstrip(
                "\n"
            )

        equal(
            (cli("LPUSH", q, "a", "b"), cli("LRANGE", q, "0", "-1"), cli("RPOP", q), cli("LLEN", q)),
            ("2", "b\na", "a", "1"),
        )
        equal((cli("BRPOP", q, "1"), cli("BRPOP", q, "0.01"), cli("LPOP", q)), (f"{q}\nb", "", ""))
        equal(cli("--no-raw", "BLPOP", q, "0.01"), "(nil)")

    with check("a worker that is a shell loop"):
        q = queue("loop")
        r = client()
        r.rpush(q, *(f"line {n}" for n in range(20)), "end")
        script = """
            while { read -r queue; read -r body; } < <(redis-cli -h "$1" -p "$2" BLPOP "$3" 5); do
                [ "$body" = end ] && break
                echo "done: $body"
            done"""
        done = subprocess.run(
            ["bash", "-c", script, "worker", HOST, str(PORT), q], capture_output=True, text=True, timeout=20
        )
        equal(done.stdout.splitlines(), [f"done: line {n}" for n in range(20)])

    with check("redis-benchmark -t lpush,rpush,lpop,rpop,lrange, alone and pipelined"):
        client().delete("mylist")
        # `lpush` itself and the list that each lrange needs; then four lengths of lrange.
        for flags, rates in (
            (["-t", "lpush,rpush,lpop,rpop", "-n", "5000"], 4),
            (["-t", "lpush,lpop", "-n", "20000", "-P", "16", "-3"], 2),
            (["-t", "lrange", "-n", "500"], 5),
        ):
            done = subprocess.run(
                ["redis-benchmark", "-h", HOST, "-p", str(PORT), "-q", *flags],
                capture_output=True,
                text=True,
                timeout=60,
            )
            equal((done.returncode, done.stderr), (0, ""))
            equal(done.stdout.count("requests per second"), rates)
        client().delete("mylist")


with check("the list face is there"):
    needs(*LISTS)
    for protocol in (2, 3):
        workers(protocol)
    fairness()
    shell()
    more_than_a_list()
finish()
