#!/usr/bin/env python3
"""Exporters, which never ask whether this is Redis: their requests replayed, their own rules of reading applied
to our replies. What one would drop silently, or fail on, is a failed check here.

The requests and rules are those of redis_exporter 1.8x, Telegraf 1.3x and Datadog's redisdb. Datadog's check is
Python over redis-py, so redis-py reads the replies here too.
"""

import math
import os
import re
import sys
import time

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import HOST, PORT, Raw, check, equal, finish  # noqa: E402
from replay import (  # noqa: E402
    Wire,
    client_lines,
    fields,
    integer,
    items,
    mapping,
    need,
    number,
    ok,
    pong,
    some_traffic,
    text,
    values,
    whole_scan,
)


def sections(info):
    """INFO cut at its `# Name` headers, as redis_exporter and Telegraf read it."""
    found, name = {}, None
    for line in info.splitlines():
        if line.startswith("# "):
            name = line[2:]
            need(name not in found, "each section once", name)
            found[name] = {}
        elif line:
            key, colon, value = line.partition(":")
            need(colon and name, "name:value below a header", line)
            found[name][key] = value
    return found


def every_setting(wire):
    return {name: text(value) for name, value in mapping(wire.ask("CONFIG", "GET", "*")).items()}


# What redis_exporter turns into metrics, and dashboards and alert rules are built on.
GAUGES = """
    uptime_in_seconds hz configured_hz connected_clients blocked_clients maxclients tracking_clients
    clients_in_timeout_table used_memory used_memory_rss used_memory_peak used_memory_overhead
    used_memory_startup used_memory_dataset used_memory_lua maxmemory mem_fragmentation_ratio
    mem_clients_normal loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time
    rdb_last_bgsave_time_sec aof_enabled aof_rewrite_in_progress aof_rewrite_scheduled
    aof_last_rewrite_time_sec aof_current_size aof_base_size aof_pending_bio_fsync aof_delayed_fsync
    total_connections_received total_commands_processed instantaneous_ops_per_sec
    total_net_input_bytes total_net_output_bytes instantaneous_input_kbps instantaneous_output_kbps
    rejected_connections expired_keys evicted_keys keyspace_hits keyspace_misses pubsub_channels
    pubsub_patterns latest_fork_usec sync_full sync_partial_ok sync_partial_err connected_slaves
    master_repl_offset second_repl_offset repl_backlog_size repl_backlog_histlen used_cpu_sys
    used_cpu_user used_cpu_sys_children used_cpu_user_children cluster_enabled
    total_error_replies unexpected_error_replies acl_access_denied_auth acl_access_denied_cmd
    acl_access_denied_key acl_access_denied_channel
""".split()


def exporter():
    """redis_exporter over redigo: RESP2, one scrape, in its order."""
    with Raw() as raw, Wire() as wire:
        q = some_traffic(raw)
        with check("redis_exporter: INFO ALL has every gauge, each a number"):
            pong(wire.ask("PING"))
            ok(wire.ask("CLIENT", "SETNAME", "redis_exporter"))
            info = text(wire.ask("INFO", "ALL"))
            known = fields(info)
            need(not set(GAUGES) - set(known), "every gauge", sorted(set(GAUGES) - set(known)))
            for name in GAUGES:
                need(math.isfinite(float(known[name])), "a number", f"{name}:{known[name]}")
            for name in ("rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"):
                equal((name, known[name]), (name, "ok"))
            for name in (
                "redis_version",
                "redis_build_id",
                "redis_mode",
                "os",
                "maxmemory_policy",
                "tcp_port",
                "run_id",
                "process_id",
                "master_replid",
            ):
                need(known[name], "a label", name)
            need(re.fullmatch("[0-9a-f]{40}", known["run_id"]), "40 hex digits", known["run_id"])
            equal(known["role"], "master")

        with check("redis_exporter: the keyspace, command, latency and error lines are read"):
            found = sections(info)
            space = values(found["Keyspace"]["db0"])
            equal(list(space)[:3], ["keys", "expires", "avg_ttl"])
            need(space["keys"] >= 1, "at least one key", space)
            add = values(found["Commandstats"]["cmdstat_delay.add"])
            equal(list(add), ["calls", "usec", "usec_per_call", "rejected_calls", "failed_calls"])
            need(add["calls"] >= 6 and add["failed_calls"] >= 1, "counts", add)
            need(values(found["Errorstats"]["errorstat_ERR"])["count"] >= 3, "errors", found["Errorstats"])
            for section in ("Commandstats", "Errorstats", "Keyspace"):
                for line in found[section].values():
                    values(line)

        with check("redis_exporter: latency percentiles, where there are any"):
            for name, line in found.get("Latencystats", {}).items():
                need(name.startswith("latency_percentiles_usec_"), "a command", name)
                counted = name.replace("latency_percentiles_usec_", "cmdstat_")
                need(counted in found["Commandstats"], "a command that is counted", name)
                equal(list(values(line)), ["p50", "p99", "p99.9"])

        with check("redis_exporter: CONFIG GET * is whole, and what is read from it is a number"):
            config = every_setting(wire)
            for name in ("databases", "maxclients", "maxmemory"):
                need(config[name].isdecimal(), "a plain number", (name, config[name]))
            limits = config["client-output-buffer-limit"].split(" ")
            equal(len(limits) % 4, 0)
            need(all(word.isdecimal() for at, word in enumerate(limits) if at % 4), "bytes", limits)
            for name in ("requirepass", "masterauth", "tls-key-file-pass"):
                equal(config.get(name, ""), "")

        with check("redis_exporter: LATENCY LATEST and HISTOGRAM"):
            for event in items(wire.ask("LATENCY", "LATEST")):
                name, *numbers = items(event)
                text(name)
                [integer(n) for n in numbers]
            histogram = mapping(wire.ask("LATENCY", "HISTOGRAM"))
            for name, reply in histogram.items():
                calls, buckets = mapping(reply).values()
                steps = [number(n) for n in items(buckets)]
                need(steps[::2] == sorted(set(steps[::2])), "growing limits", steps)
                need(steps[1::2] == sorted(steps[1::2]), "cumulative counts", steps)
                equal((name, steps[-1]), (name, number(calls)))

        with check("redis_exporter: SLOWLOG, and no COMMANDLOG"):
            integer(wire.ask("SLOWLOG", "LEN"))
            items(wire.ask("SLOWLOG", "GET", "1"))
            equal([reply.value for reply in items(wire.ask("COMMAND", "INFO", "COMMANDLOG"))], [None])

        with check("redis_exporter: --check-keys finds the queue and its length"):
            ok(wire.ask("SELECT", "0"))
            equal(whole_scan(wire, "MATCH", q + "*", "COUNT", "1000"), [q])
            equal(text(wire.ask("TYPE", q)), "list")
            need(number(wire.ask("MEMORY", "USAGE", q)) > 0, "bytes", q)
            equal(number(wire.ask("LLEN", q)), 5)

        with check("redis_exporter: --export-client-list, INFO MODULES"):
            rows = client_lines(wire.ask("CLIENT", "LIST"))
            need(any(row["name"] == "redis_exporter" for row in rows), "itself", rows)
            for row in rows:
                [
                    int(row[name])
                    for name in "age idle db sub psub ssub qbuf qbuf-free obl oll omem tot-mem".split()
                ]
                equal(row["user"], "default")
                need(row["resp"] in "23", "a protocol", row["resp"])
            text(wire.ask("INFO", "MODULES"))


def telegraf():
    """Telegraf over go-redis 9: INFO ALL in RESP3, and its configured commands."""
    with Raw() as raw, Wire() as wire:
        q = some_traffic(raw)
        mapping(wire.ask("hello", "3"))
        with check("Telegraf: INFO ALL in RESP3 is verbatim; headers and special lines are read"):
            reply = wire.ask("info", "ALL")
            equal((reply.kind, reply.value[:4]), ("=", b"txt:"))
            found = sections(text(reply))
            for section in (
                "Server",
                "Clients",
                "Memory",
                "Persistence",
                "Stats",
                "Replication",
                "CPU",
                "Commandstats",
                "Errorstats",
                "Keyspace",
            ):
                need(section in found, "a section", section)
            for line in found["Keyspace"].values():
                values(line)
            for line in found["Errorstats"].values():
                values(line)
            for line in found["Commandstats"].values():
                need({"calls", "usec", "usec_per_call"} <= set(values(line)), "counts", line)
        with check("Telegraf: a command of one's own is read as a number"):
            equal(number(wire.ask("llen", q)), 5)
            equal(number(wire.ask("delay.len", q)), 6)
            equal(number(wire.ask("delay.len", q, "delayed")), 1)


def datadog():
    """Datadog's redisdb check: redis-py with its default protocol reads the replies."""
    client = redis.Redis(host=HOST, port=PORT, socket_timeout=5)
    with Raw() as raw:
        q = some_traffic(raw)
    with check("Datadog: INFO; the shares of keys can be computed"):
        info = client.info()
        need(info["total_commands_processed"] > 0, "a count", info)
        equal(info["role"], "master")
        databases = [name for name in info if re.match(r"db\d+", name)]
        need("db0" in databases, "db0", databases)
        for name in databases:
            # It divides by the number of keys.
            need(info[name]["keys"] > 0 and info[name]["expires"] >= 0, "keys", info[name])
        need("master_link_status" not in info, "no link of a replica", info.get("master_link_status"))
    with check("Datadog: CONFIG GET maxclients and slowlog-max-len, CLIENT LIST"):
        need(int(client.config_get("maxclients")["maxclients"]) > 0, "a number", "maxclients")
        need(int(client.config_get("slowlog-max-len")["slowlog-max-len"]) > 0, "a number", "slowlog-max-len")
        need(all("name" in row for row in client.client_list()), "names", "CLIENT LIST")
    with check("Datadog: SLOWLOG GET has start, duration and command of each entry"):
        before = client.config_get("slowlog-log-slower-than")["slowlog-log-slower-than"]
        client.config_set("slowlog-log-slower-than", 0)
        try:
            client.execute_command("DELAY.LEN", q)
            entries = client.slowlog_get(128)
        finally:
            client.config_set("slowlog-log-slower-than", before)
        need(entries, "entries", entries)
        for entry in entries:
            need(abs(entry["start_time"] - time.time()) < 3600, "unix seconds", entry)
            need(entry["duration"] >= 0 and entry["command"].split(), "a command", entry)
        need(any(e["command"].split() == [b"DELAY.LEN", q.encode()] for e in entries), "DELAY.LEN", entries)
    with check("Datadog: lengths of the configured keys, alone and by pattern"):
        need("db0" in client.info("keyspace"), "db0", "INFO keyspace")
        equal([key.decode() for key in client.scan_iter(match=q + "*")], [q])
        equal((client.type(q), client.llen(q)), (b"list", 5))
    with check("Datadog: INFO COMMANDSTATS"):
        for name, stats in client.info("commandstats").items():
            need(
                name.startswith("cmdstat_") and stats["calls"] >= 0 and stats["usec_per_call"] >= 0,
                "counts",
                name,
            )


exporter()
telegraf()
datadog()
finish()
