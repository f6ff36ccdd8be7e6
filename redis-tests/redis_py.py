#!/usr/bin/env python3
"""redis-py, old and new, in RESP2 and RESP3.

    redis_py.py default|2|3
"""

import asyncio
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import redis  # noqa: E402
import redis.asyncio  # noqa: E402
from harness import (  # noqa: E402
    HOST, PORT, Server, check, equal, finish, needs, now_ms, pairs, queue, until,
)
from redis.backoff import ConstantBackoff, NoBackoff  # noqa: E402
from redis.retry import Retry  # noqa: E402

WANTED = sys.argv[1] if len(sys.argv) > 1 else "default"
OPTIONS = {} if WANTED == "default" else {"protocol": int(WANTED)}
print(f"redis-py {redis.__version__}, protocol {WANTED}")


def client(**more):
    return redis.Redis(**{"host": HOST, "port": PORT, **OPTIONS, **more})


def fails_with(kind, text, call):
    """The call must raise this kind of error, and its text must say so."""
    try:
        reply = call()
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"{text!r} is not in {str(error)!r}") from None
        return
    raise AssertionError(f"answered {reply!r}, expected {kind.__name__}")


r = client()

with check("connect with the defaults"):
    equal(r.ping(), True)
    equal(r.echo("a\r\nb"), b"a\r\nb")
    equal(r.execute_command("CLIENT", "GETNAME") in (None, b""), True)
    assert r.client_id() > 0
    info = r.info()
    equal(info["redis_version"], "7.2.4")
    assert info["delayd_version"] and info["connected_clients"] >= 1
    if WANTED != "default":
        mine = [c for c in r.client_list() if int(c["id"]) == r.client_id()]
        equal(mine[0]["resp"], WANTED)

with check("a name, a database, a URL"):
    named = client(client_name="worker-1", db=3, health_check_interval=1)
    assert named.client_getname() in ("worker-1", b"worker-1")
    q = queue("py")
    equal(named.execute_command("DELAY.ADD", q, "1h", "x", "ID", "a"), b"a")
    equal(r.exists(q), 0)
    url = redis.Redis.from_url(f"redis://{HOST}:{PORT}/3")
    equal(url.exists(q), 1)
    fails_with(redis.ResponseError, "DB index is out of range", lambda: client(db=99).ping())

with check("add: the id comes back, a taken id is an error of class EXISTS, NX answers nil"):
    q = queue("py")
    made = r.execute_command("DELAY.ADD", q, "1h", b"\x00\xff")
    assert isinstance(made, bytes) and made
    equal(r.execute_command("DELAY.ADD", q, "30s", "x", "ID", "a"), b"a")
    fails_with(
        redis.ResponseError, "EXISTS", lambda: r.execute_command("DELAY.ADD", q, "1h", "y", "ID", "a")
    )
    equal(r.execute_command("DELAY.ADD", q, "1h", "y", "ID", "a", "NX"), None)
    equal(r.execute_command("DELAY.ADD", q, "1h", "y", "ID", "a", "REPLACE"), b"a")
    job = pairs(r.execute_command("DELAY.GET", q, "a"))
    equal((job["state"], job["body"]), (b"delayed", b"y"))
    equal(r.execute_command("DELAY.CANCEL", q, "a"), b"delayed")
    equal(r.execute_command("DELAY.GET", q, "a"), None)

with check("a blocking pop gets the job when it is due, never early"):
    q = queue("py")
    due = int(now_ms()) + 150
    r.execute_command("DELAY.ADD", q, f"@{due}", "x", "ID", "a")
    equal(r.execute_command("DELAY.POP", q, "5"), [q.encode(), b"a", b"x"])
    late = now_ms() - due
    if not 0 <= late < 500:
        raise AssertionError(f"{late:.1f} ms late")

with check("a blocking pop with nothing to take answers nil at its timeout"):
    started = time.monotonic()
    equal(r.execute_command("DELAY.POP", queue("py"), queue("py"), "0.2"), None)
    assert 0.2 <= time.monotonic() - started < 1

with check("reserve, extend, acknowledge"):
    q = queue("py")
    r.execute_command("DELAY.ADD", q, "0", "x", "ID", "a")
    (job,) = r.execute_command("DELAY.RESERVE", "1", "1", q, "LEASE", "5s")
    name, job_id, body, token, attempt, due, end = job[:7]
    equal((name, job_id, body, attempt), (q.encode(), b"a", b"x", 1))
    assert isinstance(token, bytes) and token.isdigit() and isinstance(due, int)
    assert 4000 < end - now_ms() <= 5001
    later = r.execute_command("DELAY.EXTEND", q, "a", token, "1m")
    assert 59_000 < later - now_ms() <= 60_001
    equal(r.execute_command("DELAY.CANCEL", q, "a"), b"leased")
    equal(r.execute_command("DELAY.ACK", q, "a", token), 1)
    equal(r.execute_command("DELAY.ACK", q, "a", token), 0)
    equal(r.execute_command("DELAY.EXTEND", q, "a", token, "1m"), None)
    equal(r.execute_command("DELAY.LEN", q), 0)

with check("several jobs at once, several queues in the order of the arguments"):
    one, two = queue("py"), queue("py")
    for n in range(3):
        r.execute_command("DELAY.ADD", two, "0", n)
    r.execute_command("DELAY.ADD", one, "0", "first")
    jobs = r.execute_command("DELAY.RESERVE", "1", "2", one, two, "COUNT", "10", "NOACK")
    equal([job[2] for job in jobs][0], b"first")
    taken = [job[2] for job in jobs]
    if len(taken) == 1:
        taken += [j[2] for j in r.execute_command("DELAY.RESERVE", "1", "1", two, "COUNT", "10", "NOACK")]
    equal(taken, [b"first", b"0", b"1", b"2"])
    equal(r.execute_command("DELAY.RESERVE", "NOWAIT", "2", one, two), None)

with check("nack: again after a time, then dead with its reason"):
    q = queue("py")
    r.execute_command("DELAY.ADD", q, "0", "x", "ID", "a", "ATTEMPTS", "2", "BACKOFF", "50ms")
    (job,) = r.execute_command("DELAY.RESERVE", "1", "1", q)
    started = time.monotonic()
    equal(r.execute_command("DELAY.NACK", q, "a", job[3], "IN", "100ms", "ERROR", "no route"), 1)
    (job,) = r.execute_command("DELAY.RESERVE", "2", "1", q)
    assert time.monotonic() - started >= 0.1
    equal(job[4], 2)
    equal(r.execute_command("DELAY.NACK", q, "a", job[3], "ERROR", "no route"), 1)
    dead = pairs(r.execute_command("DELAY.GET", q, "a"))
    equal((dead["state"], dead["reason"], dead["error"]), (b"dead", b"attempts", b"no route"))
    equal(r.execute_command("DELAY.LEN", q, "DEAD"), 1)

with check("redrive: a dead job is ready again"):
    needs("DELAY.REDRIVE")
    q = queue("py")
    r.execute_command("DELAY.ADD", q, "0", "x", "ID", "a")
    (job,) = r.execute_command("DELAY.RESERVE", "1", "1", q)
    equal(r.execute_command("DELAY.NACK", q, "a", job[3], "BURY"), 1)
    equal(r.execute_command("DELAY.REDRIVE", q), 1)
    equal(r.execute_command("DELAY.POP", q, "1")[1], b"a")

for transaction in (True, False):
    with check(f"pipeline(transaction={transaction})"):
        q = queue("py")
        pipe = r.pipeline(transaction=transaction)
        for n in range(100):
            pipe.execute_command("DELAY.ADD", q, "0", n, "ID", n)
        pipe.execute_command("DELAY.LEN", q, "READY")
        replies = pipe.execute()
        equal(replies[:2] + replies[-1:], [b"0", b"1", 100])
        for _ in range(100):
            pipe.execute_command("DELAY.POP", q, "1")
        equal([int(reply[2]) for reply in pipe.execute()], list(range(100)))

    with check(f"an error inside pipeline(transaction={transaction}) spoils only its own command"):
        q = queue("py")
        pipe = r.pipeline(transaction=transaction)
        pipe.execute_command("DELAY.ADD", q, "0", "x", "ID", "a")
        pipe.execute_command("DELAY.ADD", q, "0", "x", "ID", "a")
        pipe.execute_command("DELAY.LEN", q)
        first, second, third = pipe.execute(raise_on_error=False)
        equal((first, third), (b"a", 1))
        assert isinstance(second, redis.ResponseError) and "EXISTS" in str(second)

with check("nothing blocks inside a transaction"):
    started = time.monotonic()
    pipe = r.pipeline(transaction=True)
    pipe.execute_command("DELAY.POP", queue("py"), "5")
    equal(pipe.execute(), [None])
    assert time.monotonic() - started < 1

with check("WATCH: a job that falls due in between stops the transaction"):
    needs("WATCH")
    q = queue("py")
    r.execute_command("DELAY.ADD", q, "1s", "x")
    with client().pipeline() as pipe:
        pipe.watch(q)
        equal(pipe.execute_command("DELAY.LEN", q, "READY"), 0)
        while r.execute_command("DELAY.LEN", q, "READY") == 0:
            time.sleep(0.05)
        pipe.multi()
        pipe.ping()
        fails_with(redis.WatchError, "", pipe.execute)

with check("decode_responses gives text"):
    q, text = queue("py"), client(decode_responses=True)
    equal(text.execute_command("DELAY.ADD", q, "0", "grüße", "ID", "é"), "é")
    equal(text.execute_command("DELAY.POP", q, "1"), [q, "é", "grüße"])

with check("maps: flat in RESP2, a dict in RESP3"):
    q = queue("py")
    r.execute_command("DELAY.ADD", q, "1h", "x", "ID", "a")
    if WANTED != "default":
        kind = dict if WANTED == "3" else list
        equal(type(r.execute_command("DELAY.GET", q, "a")), kind)
        equal(type(r.execute_command("DELAY.STATS", q)), kind)
    equal(pairs(r.execute_command("DELAY.STATS", q))["delayed"], 1)

with check("the list face through the client's own methods"):
    needs("LPUSH", "RPUSH", "LRANGE", "LINDEX", "BLPOP", "BRPOP", "LMOVE")
    q = queue("py")
    equal(r.rpush(q, "a", "b"), 2)
    equal(r.lpush(q, "c"), 3)
    equal(r.lrange(q, 0, -1), [b"c", b"a", b"b"])
    equal((r.llen(q), r.lindex(q, 0), r.type(q)), (3, b"c", b"list"))
    equal(list(r.blpop([q], 1)), [q.encode(), b"c"])
    equal(list(r.brpop([q], 1)), [q.encode(), b"b"])
    other = queue("py")
    equal(r.lmove(q, other), b"a")
    equal(r.execute_command("DELAY.POP", other, "1")[2], b"a")
    equal(r.blpop([q], 1), None)

with check("keys: scan_iter finds it, ttl is -1, delete removes it"):
    q = queue("py")
    r.execute_command("DELAY.ADD", q, "1h", "x")
    equal(list(r.scan_iter(match=q + "*")), [q.encode()])
    equal((r.exists(q), r.ttl(q), r.llen(q)), (1, -1, 0))
    equal(r.delete(q), 1)
    equal(r.exists(q), 0)

with check("refusals name what is wrong and keep the connection"):
    q, me = queue("py"), r.client_id()
    fails_with(redis.ResponseError, "SOON", lambda: r.execute_command("DELAY.ADD", q, "1h", "x", "SOON"))
    fails_with(redis.ResponseError, "-5s", lambda: r.execute_command("DELAY.ADD", q, "-5s", "x"))
    fails_with(redis.ResponseError, "@", lambda: r.execute_command("DELAY.ADD", q, "1790000000000", "x"))
    fails_with(
        redis.ResponseError, "wrong number of arguments for 'delay.add' command",
        lambda: r.execute_command("DELAY.ADD", q),
    )
    equal((r.exists(q), r.client_id()), (0, me))

with check("a connection that was killed is replaced by the client"):
    victim = client(retry=Retry(NoBackoff(), 3), retry_on_error=[redis.ConnectionError])
    before = victim.client_id()
    r.client_kill_filter(_id=before)
    equal(victim.ping(), True)
    assert victim.client_id() != before

with check("a waiter that was killed takes no job with it"):
    q, victim = queue("py"), client(retry=Retry(NoBackoff(), 0))
    failed, ident = [], victim.client_id()

    def wait():
        try:
            victim.execute_command("DELAY.POP", q, "4")
        except redis.ConnectionError:
            failed.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: pairs(r.execute_command("DELAY.STATS", q) or []).get("waiters") == 1)
    r.client_kill_filter(_id=ident)
    thread.join()
    equal(failed, [True])
    r.execute_command("DELAY.ADD", q, "0", "x", "ID", "a")
    equal(r.execute_command("DELAY.POP", q, "NOWAIT")[1], b"a")

with check("CLIENT UNBLOCK ends a wait with nil"):
    q, sleeper, got = queue("py"), client(), []
    ident = sleeper.client_id()
    thread = threading.Thread(target=lambda: got.append(sleeper.execute_command("DELAY.POP", q, "4")))
    thread.start()
    until(lambda: r.client_unblock(ident))
    thread.join()
    equal(got, [None])

with check("socket_timeout above the wait: nil in time; below it: the client gives up, no job is lost"):
    q = queue("py")
    patient = client(socket_timeout=2)
    equal(patient.execute_command("DELAY.POP", q, "0.3"), None)
    hasty = client(socket_timeout=0.3, retry=Retry(NoBackoff(), 0))
    fails_with(redis.TimeoutError, "", lambda: hasty.execute_command("DELAY.POP", q, "5"))
    equal(hasty.ping(), True)
    r.execute_command("DELAY.ADD", q, "0", "x", "ID", "a")
    equal(r.execute_command("DELAY.POP", q, "1")[1], b"a")

with check("the client comes back after a restart of the server"):
    with Server() as server:
        mine = client(host="127.0.0.1", port=server.port, retry=Retry(ConstantBackoff(0.05), 100),
                      retry_on_error=[redis.ConnectionError])
        equal(mine.ping(), True)
        server.stop()
        fails_with(redis.ConnectionError, "", redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0)).ping)
        server.start()
        equal(mine.ping(), True)
        mine.execute_command("DELAY.ADD", "q", "100ms", "x", "ID", "a")
        equal(mine.execute_command("DELAY.POP", "q", "2")[1], b"a")

with check("publish and subscribe"):
    needs("SUBSCRIBE", "PUBLISH")
    channel = queue("py")
    pubsub = r.pubsub()
    pubsub.subscribe(channel)
    equal(pubsub.get_message(timeout=2)["type"], "subscribe")
    equal(r.publish(channel, "hello"), 1)
    equal(pubsub.get_message(timeout=2)["data"], b"hello")
    pubsub.close()

with check("asyncio: twenty waiters, twenty jobs, each taken once"):

    async def herd():
        q = queue("py")
        a = redis.asyncio.Redis(host=HOST, port=PORT, **OPTIONS)
        waiters = [asyncio.create_task(a.execute_command("DELAY.POP", q, "4")) for _ in range(20)]
        due = int(now_ms()) + 200
        for n in range(20):
            await a.execute_command("DELAY.ADD", q, f"@{due}", n)
        got = await asyncio.gather(*waiters)
        assert now_ms() >= due
        equal(sorted(int(reply[2]) for reply in got), list(range(20)))
        await (a.aclose() if hasattr(a, "aclose") else a.close())

    asyncio.run(herd())

finish()
