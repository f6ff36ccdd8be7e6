#!/usr/bin/env python3
"""The handshakes of client libraries that are not installed here, replayed byte for byte.

Each row is one connection as that library opens it with its default options and a name: the words of
every command in the case in which the library sends them, and what it requires of the reply. `anything`
marks what the library tolerates, errors included; everything else ends its connection attempt. Rows
with `{password}` run against a server of their own that asks for one.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import (  # noqa: E402
    PORT,
    Closed,
    Server,
    check,
    encode,
    equal,
    finish,
    needs,
)
from replay import (  # noqa: E402
    Wire,
    anything,
    bulk,
    error,
    holds,
    integer,
    items,
    mapping,
    need,
    number,
    ok,
    pong,
    setting,
    text,
)

PASSWORD = "s3cret"
# StackExchange.Redis ends its handshake with 16 random bytes, these with all that could go wrong.
TRACER = b"\x00\r\n$-1\r\n*\xff\xfe+\"' \x80"


def hello(protocol):
    """HELLO's reply: a map or its flat form, with the keys and kinds that some client reads."""

    def rule(reply):
        need(reply.kind == {2: "*", 3: "%"}[protocol], f"HELLO {protocol}", reply)
        found = mapping(reply)
        equal(list(found), ["server", "version", "proto", "id", "mode", "role", "modules"])
        equal(number(found["proto"]), protocol)  # Jedis: without it there is no connection
        for name in ("proto", "id"):
            need(found[name].kind == ":", "an integer", found[name])
        for name in ("server", "version", "mode", "role"):
            need(found[name].kind == "$", "a bulk string", found[name])
        equal((text(found["mode"]), text(found["role"])), ("standalone", "master"))
        items(found["modules"])

    return rule


def role_master(reply):
    equal(text(items(reply)[0]), "master")


def subscribed(kind, channel):
    """The confirmation of one channel, an array in RESP2, a push in RESP3."""

    def rule(reply):
        need(reply.kind == kind, "a confirmation", reply)
        equal(
            [reply.value[0].value, reply.value[1].value, number(reply.value[2])],
            [b"subscribe", channel.encode(), 1],
        )

    return rule


def pong_of_a_subscriber(reply):
    """In RESP2 a subscribed connection gets an array; in RESP3 everybody gets the status."""
    equal([item.value for item in items(reply)], [b"pong", b""])


def version_at_least(least):
    """Frameworks compare `redis_version` and refuse to start below theirs."""

    def rule(reply):
        found = text(reply).split("redis_version:")[1].split("\r\n")[0]
        need(tuple(map(int, found.split("."))) >= least, f"at least {least}", found)

    return rule


# Jedis and Lettuce fall back to RESP2 on exactly this, and give up on any other error.
no_such_protocol = error("NOPROTO")
no_such_command = error("ERR", "unknown command")
# An answer of OK would promise notifications that never come.
no_notifications = error("ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP.")
NO_NOTIFICATIONS = error("ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.")
no_cluster = error("ERR This instance has cluster support disabled")

# StackExchange.Redis asks without waiting for the answer: an error leaves it without a tie-breaker, as nil does.
no_strings = error("ERR", "delayd has only queues")

HANDSHAKES = {
    "StackExchange.Redis 2, interactive": [
        ("CLIENT SETNAME host(SE.Redis-v2.8.41)", anything),
        ("CLIENT SETINFO lib-name SE.Redis", anything),
        ("CLIENT SETINFO lib-ver 2.8.41", anything),
        ("CLIENT ID", integer),
        ("CONFIG GET timeout", setting("timeout")),
        ("CONFIG GET slave-read-only", setting("slave-read-only", "yes", "no")),
        ("CONFIG GET databases", setting("databases")),
        ("SENTINEL MASTERS", no_such_command),
        ("INFO replication", holds(role="master")),
        ("INFO server", holds(redis_version=None, redis_mode="standalone", run_id=None)),
        ("CLUSTER NODES", no_cluster),
        ("GET __Booksleeve_TieBreak", no_strings),
        (["ECHO", TRACER], bulk(TRACER)),
    ],
    "StackExchange.Redis 2, subscriptions": [
        ("CLIENT SETNAME host(SE.Redis-v2.8.41)", anything),
        ("CLIENT SETINFO lib-name SE.Redis", anything),
        ("CLIENT SETINFO lib-ver 2.8.41", anything),
        ("CLIENT ID", integer),
        (["ECHO", TRACER], bulk(TRACER)),
        ("SUBSCRIBE __Booksleeve_MasterChanged", subscribed("*", "__Booksleeve_MasterChanged")),
        ("PING", pong_of_a_subscriber),
    ],
    "StackExchange.Redis 3, RESP3, password": [
        ("AUTH {password}", ok),
        ("HELLO 3", hello(3)),
        ("CLIENT SETNAME host(SE.Redis-v3.0.2)", anything),
        ("CLIENT SETINFO lib-name SE.Redis", anything),
        ("CLIENT SETINFO lib-ver 3.0.2", anything),
        ("CLIENT ID", integer),
        ("CONFIG GET timeout", setting("timeout")),
        ("CONFIG GET replica-read-only", setting("replica-read-only", "yes", "no")),
        ("CONFIG GET databases", setting("databases")),
        ("SENTINEL MASTERS", no_such_command),
        ("INFO replication", holds(role="master")),
        ("INFO server", holds(redis_version=None, redis_mode="standalone", run_id=None)),
        ("CLUSTER NODES", no_cluster),
        ("GET __Booksleeve_TieBreak", no_strings),
        (["ECHO", TRACER], bulk(TRACER)),
        ("SUBSCRIBE __Booksleeve_MasterChanged", subscribed(">", "__Booksleeve_MasterChanged")),
        ("PING", pong),
    ],
    "Lettuce 6": [
        ("HELLO 3 SETNAME worker-1", hello(3)),
        ("SELECT 3", ok),
        ("CLIENT SETINFO lib-name Lettuce", anything),
        ("CLIENT SETINFO lib-ver 6.8.1.RELEASE/e3bf1a2", anything),
        ("PING", pong),
    ],
    "Lettuce 7, password": [
        ("HELLO 3 AUTH default {password} SETNAME worker-1", hello(3)),
        ("SELECT 3", ok),
        ("CLIENT SETINFO lib-name Lettuce", anything),
        ("CLIENT SETINFO lib-ver 7.2.0.RELEASE/0a1b2c3", anything),
        ("CLIENT MAINT_NOTIFICATIONS on moving-endpoint-type internal-ip", NO_NOTIFICATIONS),
        ("PING", pong),
    ],
    "Lettuce, RESP2": [
        ("PING", pong),
        ("SELECT 3", ok),
        ("CLIENT SETNAME worker-1", anything),
        ("CLIENT SETINFO lib-name Lettuce", anything),
        ("CLIENT SETINFO lib-ver 6.8.1.RELEASE/e3bf1a2", anything),
    ],
    "Jedis, class Jedis, password": [
        ("AUTH {password}", ok),
        ("CLIENT SETNAME worker-1", anything),
        ("CLIENT SETINFO LIB-NAME jedis", anything),
        ("CLIENT SETINFO LIB-VER 5.2.0", anything),
        ("SELECT 3", ok),
        ("PING", pong),
    ],
    "Jedis, JedisPooled and UnifiedJedis": [
        ("HELLO 3", hello(3)),
        ("CLIENT SETNAME worker-1", anything),
        ("CLIENT SETINFO LIB-NAME jedis", anything),
        ("CLIENT SETINFO LIB-VER 7.0.0", anything),
        ("SELECT 3", ok),
        ("PING", pong),
    ],
    "go-redis 9": [
        ("hello 3 setname worker-1", hello(3)),
        ("select 3", ok),
        ("client setname worker-1", ok),
        ("client maint_notifications on moving-endpoint-type internal-ip", no_notifications),
        ("client setinfo LIB-NAME go-redis(,go1.24.2)", anything),
        ("client setinfo LIB-VER 9.22.0", anything),
        ("ping", pong),
    ],
    "go-redis 9, password": [
        ("hello 3 auth default {password}", hello(3)),
        ("client maint_notifications on moving-endpoint-type none", no_notifications),
        ("client setinfo LIB-NAME go-redis(,go1.24.2)", anything),
        ("client setinfo LIB-VER 9.22.0", anything),
        ("ping", pong),
    ],
    "Redisson 3 and 4": [
        ("SELECT 3", ok),
        ("CLIENT SETNAME worker-1", ok),
        ("PING", pong),
    ],
    "Redisson, RESP3, password": [
        ("AUTH {password}", ok),
        ("HELLO 3", hello(3)),
        ("CLIENT SETNAME worker-1", ok),
        ("PING", pong),
    ],
    "predis 2 and 3": [
        ("HELLO 2 SETNAME predis", hello(2)),
        ("CLIENT SETINFO LIB-NAME predis", anything),
        ("CLIENT SETINFO LIB-VER 3.2.0", anything),
        ("SELECT 0", ok),
        ("PING", pong),
    ],
    "predis 3, RESP3, password": [
        ("HELLO 3 AUTH default {password} SETNAME predis", hello(3)),
        ("CLIENT SETINFO LIB-NAME predis", anything),
        ("CLIENT SETINFO LIB-VER 3.2.0", anything),
        ("PING", pong),
    ],
    "redis-client for Ruby (Sidekiq 7)": [
        ("HELLO 3", hello(3)),
        ("SELECT 3", ok),
        ("CLIENT SETINFO LIB-NAME redis-client(sidekiq_v7.3.9)", anything),
        ("CLIENT SETINFO LIB-VER 0.26.1", anything),
        ("CLIENT SETNAME Sidekiq", ok),
        ("ROLE", role_master),
        ("INFO", version_at_least((7, 0, 0))),
    ],
    "redis-client for Ruby, password": [
        ("HELLO 3 AUTH default {password}", hello(3)),
        ("CLIENT SETINFO LIB-NAME redis-client", anything),
        ("CLIENT SETINFO LIB-VER 0.26.1", anything),
    ],
    "phpredis, password": [
        ("AUTH {password}", ok),
        ("SELECT 3", ok),
        ("PING", pong),
    ],
    "ioredis 5": [
        ("select 3", ok),
        ("client setname worker-1", anything),
        ("client SETINFO LIB-VER 5.8.2", anything),
        ("client SETINFO LIB-NAME ioredis", anything),
        ("info", holds(loading="0", role="master")),
    ],
    "node-redis 4": [
        ("SELECT 3", ok),
        ("CLIENT SETNAME worker-1", ok),
        ("CLIENT SETINFO LIB-NAME node-redis", anything),
        ("CLIENT SETINFO LIB-VER 4.7.1", anything),
        ("PING", pong),
    ],
    "fred 10": [
        ("PING", pong),
        ("CLIENT ID", integer),
        ("INFO server", holds(redis_version=None)),
    ],
    "memtier_benchmark --protocol resp3 --select-db 3": [
        ("HELLO 3", hello(3)),
        ("SELECT 3", ok),
    ],
    "memtier_benchmark --authenticate": [
        ("AUTH {password}", ok),
    ],
    "RQ, which compares versions": [
        ("CLIENT SETINFO LIB-NAME redis-py", anything),
        ("CLIENT SETINFO LIB-VER 6.4.0", anything),
        ("INFO server", version_at_least((6, 2, 0))),
    ],
    "BullMQ, which compares versions": [
        ("info", version_at_least((5, 0, 0))),
        ("info", holds(maxmemory_policy="noeviction")),
    ],
}

# What decides whether a client tries RESP2 next, or tells its user that the server is too old.
FALLBACKS = {
    "a protocol that does not exist: Jedis and Lettuce fall back on NOPROTO": [
        ("HELLO 4", no_such_protocol),
        ("PING", pong),
    ],
    "an unknown command: Jedis, Lettuce and redis-client look for `ERR unknown command`": [
        ("HELLO3 3", no_such_command),
        ("PING", pong),
    ],
    "a database that does not exist ends a handshake, not the connection": [
        ("SELECT 9999", error("ERR DB index is out of range")),
        ("PING", pong),
    ],
    "a client with a password, a server without one": [
        ("AUTH whatever", error("ERR AUTH <password> called without any password configured")),
        ("PING", pong),
    ],
    "a server with a password: each way to come without it or with a wrong one": [
        ("PING", error("NOAUTH Authentication required.")),
        ("HELLO 3", error("NOAUTH HELLO must be called with the client already authenticated")),
        ("HELLO 3 AUTH default wrong", error("WRONGPASS")),
        ("AUTH wrong", error("WRONGPASS")),
        ("AUTH default wrong", error("WRONGPASS")),
        ("AUTH nobody {password}", error("WRONGPASS")),
        ("CLIENT SETINFO LIB-NAME jedis", error("NOAUTH")),
        ("HELLO 3 AUTH default {password}", hello(3)),
        ("PING", pong),
    ],
}


def command(words):
    words = words.split(" ") if isinstance(words, str) else words
    return [PASSWORD if word == "{password}" else word for word in words]


def replay(port, steps, step_by_step=False):
    """Sends the steps as one pipeline, or each after the reply to the one before; applies the rules."""
    with Wire(port=port) as wire:
        requests = [command(words) for words, _ in steps]
        if not step_by_step:
            wire.send(b"".join(encode(*request) for request in requests))
        for request, (_, rule) in zip(requests, steps):
            if step_by_step:
                wire.send(encode(*request))
            try:
                rule(wire.read())
            except (AssertionError, Closed) as why:
                raise AssertionError(f"{request!r}: {why}") from None


def main():
    locked = None
    for name, steps in {**HANDSHAKES, **FALLBACKS}.items():
        with check(name):
            port = PORT
            if any("{password}" in str(words) for words, _ in steps):
                locked = locked or Server("--requirepass", PASSWORD)
                port = locked.port
            if any(command(words)[0] == "SUBSCRIBE" for words, _ in steps):
                needs("SUBSCRIBE")
            replay(port, steps)
            replay(port, steps, step_by_step=True)
    if locked:
        locked.stop()
        locked.home.cleanup()


main()
finish()
