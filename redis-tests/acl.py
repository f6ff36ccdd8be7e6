#!/usr/bin/env python3
"""Passwords and users: redis-py and redis-cli against a server whose users are in a file as Redis writes it."""

import contextlib
import hashlib
import os
import re
import sys
import tempfile

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from guarded import PASSWORD, cli, client, denied, has, holds, refused  # noqa: E402
from harness import BINARY, Raw, Server, Skip, check, equal, finish  # noqa: E402

SHA256 = hashlib.sha256(PASSWORD.encode()).hexdigest()


def users():
    with tempfile.TemporaryDirectory(prefix="delayd-acl-") as folder:
        path = os.path.join(folder, "users.acl")
        with open(path, "w") as file:
            # As Redis 7.2 writes it with ACL SAVE: a hash instead of a password, every default spelled out.
            file.write(
                "user default on #" + SHA256 + " sanitize-payload ~* &* +@all\n"
                "user idle off nopass sanitize-payload resetchannels -@all\n"
                "user reader on nopass sanitize-payload %R~orders:* resetchannels -@all +@read\n"
            )
        with Server("--aclfile", path) as server:
            with_users(server, path)


def with_users(server, path):
    port = server.port
    admin = client(port, password=PASSWORD)

    with check("no password, a wrong one, an unknown user, a user that is off: refused with one text"):
        for protocol in (2, 3):
            holds(refused(redis.AuthenticationError, port, protocol=protocol), "uthenticat")
        texts = {
            refused(redis.AuthenticationError, port, password="wrong-secret"),
            refused(redis.AuthenticationError, port, username="nobody", password=PASSWORD),
            refused(redis.AuthenticationError, port, username="idle", password="x"),
        }
        equal(texts, {"invalid username-password pair or user is disabled."})

    for protocol in (2, 3):
        with check(f"the right password, RESP{protocol}: an option, a URL, with the name of the user"):
            equal(client(port, password=PASSWORD, protocol=protocol).ping(), True)
            url = f"redis://default:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}?protocol={protocol}"
            with contextlib.closing(redis.Redis.from_url(url)) as named:
                equal(named.acl_whoami() in ("default", b"default"), True)

    with check("redis-cli: -a, --user --pass, a URL, REDISCLI_AUTH; a wrong password is told"):
        quiet = ["-p", port, "--no-auth-warning"]
        equal(cli(*quiet, "-a", PASSWORD, "PING"), "PONG")
        equal(cli(*quiet, "--user", "default", "--pass", PASSWORD, "PING"), "PONG")
        equal(
            cli(
                "--no-auth-warning",
                "-u",
                f"redis://default:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}",
                "PING",
            ),
            "PONG",
        )
        equal(cli("-p", port, "PING", REDISCLI_AUTH=PASSWORD), "PONG")
        holds(cli(*quiet, "-a", "wrong-secret", "PING"), "WRONGPASS", "NOAUTH")

    with check("+@delay -@admin ~orders:*: its own queues, nothing else"):
        admin.execute_command("ACL", "SETUSER", "orders", "on", ">worker", "~orders:*", "+@delay", "-@admin")
        admin.execute_command("DELAY.ADD", "mail:1", "0", "x")
        mine = client(port, username="orders", password="worker")
        mine.execute_command("DELAY.ADD", "orders:1", "0", "x", "ID", "a")
        equal(mine.execute_command("DELAY.POP", "orders:1", "1")[1], b"a")
        for words in (
            ["CONFIG", "GET", "*"],
            ["FLUSHALL"],
            ["ACL", "LIST"],
            ["SHUTDOWN"],
            ["DEL", "orders:1"],
        ):
            holds(denied(mine, *words), "orders", words[0].lower())
        equal(admin.execute_command("DELAY.LEN", "mail:1"), 1)

    with check("a queue that is not one's own: the same text whether it exists or not"):
        mine = client(port, username="orders", password="worker")
        texts = {
            denied(mine, *words)
            for name in ("mail:1", "mail:none")
            for words in (
                ["DELAY.ADD", name, "0", "x"],
                ["DELAY.LEN", name],
                ["DELAY.POP", name, "NOWAIT"],
                ["DELAY.POP", "orders:1", name, "0.01"],
                ["DELAY.RESERVE", "NOWAIT", "2", "orders:1", name],
            )
        }
        equal(len(texts), 1)
        equal([t for t in texts if "mail" in t], [])

    with check("a producer that only adds, a consumer that only takes"):
        admin.execute_command(
            "ACL", "SETUSER", "producer", "on", ">p", "%W~orders:*", "+delay.add", "+delay.cancel"
        )
        admin.execute_command(
            "ACL",
            "SETUSER",
            "consumer",
            "on",
            ">c",
            "~orders:*",
            "+delay.reserve",
            "+delay.ack",
            "+delay.nack",
            "+delay.extend",
        )
        producer = client(port, username="producer", password="p")
        consumer = client(port, username="consumer", password="c")
        producer.execute_command("DELAY.ADD", "orders:2", "0", "x", "ID", "a")
        denied(producer, "DELAY.RESERVE", "NOWAIT", "1", "orders:2")
        denied(producer, "DELAY.PEEK", "orders:2")
        denied(consumer, "DELAY.ADD", "orders:2", "0", "x")
        [[name, job, body, token, *_]] = consumer.execute_command("DELAY.RESERVE", "1", "1", "orders:2")
        equal(consumer.execute_command("DELAY.ACK", name, job, token), 1)
        denied(consumer, "DELAY.STATS", "orders:2")

    with check("%R~: a reader of Redis's file looks, and takes nothing"):
        admin.execute_command("DELAY.ADD", "orders:3", "0", "x")
        reader = client(port, username="reader", password="anything")
        equal(reader.execute_command("DELAY.LEN", "orders:3"), 1)
        denied(reader, "DELAY.POP", "orders:3", "NOWAIT")
        denied(reader, "DELAY.DEL", "orders:3", "a")
        denied(reader, "DELAY.LEN", "mail:1")
        equal(admin.execute_command("DELAY.LEN", "orders:3"), 1)

    with check("a refused command spoils its transaction"):
        admin.execute_command("ACL", "SETUSER", "orders", "+@transaction")
        mine = client(port, username="orders", password="worker")
        with mine.pipeline(transaction=True) as pipe:
            pipe.execute_command("DELAY.ADD", "orders:4", "0", "x")
            pipe.execute_command("DELAY.ADD", "mail:1", "0", "x")
            try:
                raise AssertionError(f"EXEC answered {pipe.execute()!r}")
            except redis.exceptions.NoPermissionError as error:
                holds(str(error), "Command # 2", "permission")
        equal(admin.exists("orders:4"), 0)

    with check("channels: only those that the user was given"):
        needs_here(port, "SUBSCRIBE", "PUBLISH")
        admin.execute_command(
            "ACL", "SETUSER", "listener", "on", ">l", "resetchannels", "&news:*", "+@pubsub"
        )
        listener = client(port, username="listener", password="l")
        equal(listener.publish("news:1", "x"), 0)
        holds(denied(listener, "PUBLISH", "other", "x"), "channel")

    with check("ACL LOG tells who was refused what, and never a password"):
        entries = admin.acl_log(count=128)
        flat = repr(entries) + repr(admin.acl_list())
        for secret in ("wrong-secret", PASSWORD, ">worker"):
            if secret in flat:
                raise AssertionError(f"{secret!r} shows")
        reasons = {str(value) for entry in entries for value in entry.values()}
        for reason in ("auth", "key", "command"):
            if reason not in reasons and f"b'{reason}'" not in reasons:
                raise AssertionError(f"no entry for {reason!r} in {sorted(reasons)!r}")

    with check("the log of the server tells of the wrong password without the password"):
        with open(server.log) as log:
            said = log.read()
        for secret in ("wrong-secret", PASSWORD):
            if secret in said:
                raise AssertionError("a password is in the log")

    with check("ACL DELUSER closes the connections of the user"):
        admin.execute_command("ACL", "SETUSER", "leaving", "on", ">l", "~*", "+@all")
        with Raw("127.0.0.1", port) as raw:
            equal(raw.call("AUTH", "leaving", "l"), "OK")
            equal(admin.execute_command("ACL", "DELUSER", "leaving"), 1)
            raw.expect_end()

    with check("ACL SAVE, a restart: the users are there; the file holds hashes"):
        admin.execute_command("ACL", "SAVE")
        with open(path) as file:
            saved = file.read()
        holds(saved, "user orders on ", "user producer on ")
        if not re.search(r"#[0-9a-f]{64}", saved) or ">worker" in saved:
            raise AssertionError(f"no hashes in {saved!r}")
        before = sorted(admin.acl_list())
        server.stop()
        server.start()
        admin = client(port, password=PASSWORD)
        equal(sorted(admin.acl_list()), before)
        equal(client(port, username="orders", password="worker").execute_command("DELAY.LEN", "orders:3"), 1)

    with check("requirepass: set, asked for, taken away while the server runs"):
        with Server() as own:
            open_ = client(own.port)
            open_.config_set("requirepass", "one")
            refused(redis.AuthenticationError, own.port)
            locked = client(own.port, password="one")
            equal(locked.ping(), True)
            equal(client(own.port, username="default", password="one").ping(), True)
            locked.config_set("requirepass", "")
            equal(client(own.port).ping(), True)


def needs_here(port, *commands):
    """`needs` of a server that asks for a password."""
    with Raw("127.0.0.1", port) as raw:
        raw.call("AUTH", PASSWORD)
        if None in raw.call("COMMAND", "INFO", *commands):
            raise Skip(f"this server has no {' or no '.join(commands)}")


if BINARY and has("aclfile"):
    users()
else:
    with check("users"):
        raise Skip("needs a server of its own that has aclfile")
finish()
