#!/usr/bin/env python3
"""Dashboards, autoscalers and probes, which never ask whether this is Redis: their requests replayed, their own
rules of reading applied to our replies. They are those of Grafana's Redis data source 2, RedisInsight 2, KEDA 2,
redis-cli 8, the health checks of Kubernetes charts and of Envoy.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import Raw, check, equal, finish, needs, queue  # noqa: E402
from replay import (  # noqa: E402
    Reply,
    Wire,
    client_lines,
    error,
    fields,
    holds,
    integer,
    items,
    mapping,
    need,
    number,
    ok,
    pong,
    setting,
    some_traffic,
    text,
    values,
    whole_scan,
)


def same_kind(rows, but=()):
    """Grafana types a column by its first row and fails when a later one is of another kind."""
    kinds = [
        {name: re.fullmatch(r"[+-]?\d+", value) is not None for name, value in row.items() if name not in but}
        for row in rows
    ]
    for kind in kinds[1:]:
        equal(kind, kinds[0])


def grafana():
    """Grafana's Redis data source over radix: RESP2."""
    with Raw() as raw, Wire() as wire:
        q = some_traffic(raw)
        with check("Grafana: the health of the data source, INFO of each section"):
            pong(wire.ask("PING"))
            for section in (
                "server",
                "clients",
                "memory",
                "stats",
                "replication",
                "cpu",
                "keyspace",
                "everything",
            ):
                fields(text(wire.ask("INFO", section)))
            for section in ("commandstats", "errorstats"):
                lines = fields(text(wire.ask("INFO", section)))
                need(lines, section, lines)
                [values(line) for line in lines.values()]
        with check("Grafana: CLIENT LIST has the same columns, of the same kinds, in every row"):
            with Wire() as other:
                ok(other.ask("CLIENT", "SETNAME", "panel"))
                rows = client_lines(wire.ask("CLIENT", "LIST"))
            need(len(rows) >= 3, "three clients", rows)
            for row in rows:
                equal(list(row), list(rows[0]))
            same_kind(rows, but=("name", "lib-name", "lib-ver"))
        with check("Grafana: SLOWLOG GET: number, time, duration, and the words as the fourth"):
            for entry in items(wire.ask("SLOWLOG", "GET", "5")):
                serial, when, took, words, address, name = items(entry)
                [integer(n) for n in (serial, when, took)]
                [text(word) for word in items(words)]
                need(re.fullmatch(r".+:\d+", text(address)), "an address", address)
                text(name)
        with check("Grafana: TMSCAN: keys, their memory, their type; TTL; no cluster"):
            cursor, keys = items(wire.ask("SCAN", "0", "MATCH", q, "COUNT", "10000"))
            equal([text(key) for key in items(keys)], [q])
            integer(wire.ask("MEMORY", "USAGE", q, "SAMPLES", "5"))
            equal((text(wire.ask("TYPE", q)), number(wire.ask("TTL", q))), ("list", -1))
            error("ERR This instance has cluster support disabled")(wire.ask("CLUSTER", "INFO"))


def redis_insight():
    """RedisInsight over ioredis: what it probes, what its browser and its tools ask."""
    with Raw() as raw, Wire() as wire:
        q = some_traffic(raw)
        with check("RedisInsight: neither a cluster nor a Sentinel"):
            ok(wire.ask("select", "0"))
            ok(wire.ask("client", "setname", "redisinsight-common-0a1b2c3d"))
            holds(redis_version=None, role="master")(wire.ask("info"))
            error("ERR This instance has cluster support disabled")(wire.ask("cluster", "info"))
            error("ERR unknown command")(wire.ask("sentinel", "masters"))
        with check("RedisInsight: modules, databases, the full list of commands, clients"):
            for module in items(wire.ask("module", "list")):
                need({"name", "ver"} <= set(mapping(module)), "a name and a version", module)
            equal(
                [reply.value for reply in items(wire.ask("command", "info", "ft.list", "json.get"))],
                [None, None],
            )
            integer(wire.ask("dbsize"))
            setting("databases")(wire.ask("config", "get", "databases"))
            commands = items(wire.ask("command"))
            need(
                {"delay.add", "delay.reserve", "get"} <= {text(items(c)[0]) for c in commands},
                "commands",
                len(commands),
            )
            for command in commands:
                equal(len(items(command)), 10)
            need(client_lines(wire.ask("client", "list")), "clients", "none")
        with check("RedisInsight: the browser: keys with type, TTL and size"):
            equal(whole_scan(wire, "MATCH", q + "*", "COUNT", "10000"), [q])
            equal(whole_scan(wire, "MATCH", q + "*", "COUNT", "10000", "TYPE", "list"), [q])
            equal(whole_scan(wire, "MATCH", q + "*", "COUNT", "10000", "TYPE", "hash"), [])
            equal([text(wire.ask("type", q)), number(wire.ask("ttl", q))], ["list", -1])
            need(number(wire.ask("memory", "usage", q, "SAMPLES", "0")) > 0, "bytes", q)
            equal(number(wire.ask("llen", q)), 5)
        with check("RedisInsight: the elements of a list, the first page and one"):
            needs("LRANGE", "LINDEX")
            equal(
                [text(e) for e in items(wire.ask("lrange", q, "0", "499"))], [f"ready {n}" for n in range(5)]
            )
            equal(text(wire.ask("lindex", q, "1")), "ready 1")
            error("ERR")(wire.ask("lset", q, "0", "x"))
        with check("RedisInsight: the slow log and its settings"):
            for name in ("slowlog-log-slower-than", "slowlog-max-len"):
                need(name in mapping(wire.ask("config", "get", "slowlog*")), name, "CONFIG GET slowlog*")
            items(wire.ask("slowlog", "get", "50"))
            integer(wire.ask("slowlog", "len"))
        with check("RedisInsight: the profiler reads MONITOR's lines"):
            needs("MONITOR")
            with Wire() as monitor:
                ok(monitor.ask("MONITOR"))
                wire.ask("DELAY.LEN", q, "READY")
                line = text(monitor.read())
            need(
                re.fullmatch(r'\d+\.\d{6} \[0 \S+:\d+\] "DELAY\.LEN" "' + q + '" "READY"', line),
                "a line",
                line,
            )
        with check("RedisInsight: publish and subscribe by pattern"):
            needs("PSUBSCRIBE", "PUBLISH")
            with Wire() as subscriber:
                equal(
                    [v.value for v in items(subscriber.ask("psubscribe", q + "*"))],
                    [b"psubscribe", (q + "*").encode(), 1],
                )
                equal(number(wire.ask("publish", q, "hello")), 1)
                equal(
                    [v.value for v in items(subscriber.read())],
                    [b"pmessage", (q + "*").encode(), q.encode(), b"hello"],
                )


LIST_LENGTH = """
		local listName = KEYS[1]
		local listType = redis.call('type', listName).ok
		local cmd = {
			zset = 'zcard',
			set = 'scard',
			list = 'llen',
			hash = 'hlen',
			none = 'llen'
		}

		return redis.call(cmd[listType], listName)
	"""


def keda():
    """KEDA over go-redis 9: how many workers there should be."""
    with Raw() as raw, Wire() as wire:
        q = some_traffic(raw)
        with check("KEDA: redis-streams with streamLength scales on the ready jobs"):
            mapping(wire.ask("hello", "3"))
            pong(wire.ask("ping"))
            equal(number(wire.ask("xlen", q)), 5)
            equal(number(wire.ask("xlen", queue("none"))), 0)
        with check("KEDA: the list scaler's script gets the length"):
            for key, length in ((q, 5), (queue("none"), 0)):
                equal(wire.ask("eval", LIST_LENGTH, "1", key), Reply(":", length))


def probes():
    """Health checks: the answer is compared as text."""
    with Wire() as wire:
        with check("Kubernetes and Envoy: PING is PONG, an absent key does not exist"):
            pong(wire.ask("PING"))
            equal(number(wire.ask("EXISTS", queue("none"))), 0)
        with check("redis-cli 8 --stat: one pair for databases; every field that it prints"):
            setting("databases")(wire.ask("CONFIG", "GET", "databases"))
            holds(
                used_memory=None,
                connected_clients=None,
                blocked_clients=None,
                loading="0",
                total_commands_processed=None,
                total_connections_received=None,
                rdb_bgsave_in_progress=None,
                aof_rewrite_in_progress=None,
            )(wire.ask("INFO"))


grafana()
redis_insight()
keda()
probes()
finish()
