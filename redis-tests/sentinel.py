#!/usr/bin/env python3
"""Debian's redis-sentinel watches delayd as a master: three of them find each other, agree that it is up,
notice a restart and an outage. There are no replicas, so there is nobody to fail over to, and they say so.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import redis
from redis.sentinel import Sentinel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import (  # noqa: E402
    Raw,
    ReplyError,
    Server,
    Skip,
    check,
    equal,
    finish,
    free_port,
    info,
    needs,
    pairs,
    until,
)

DOWN_AFTER_MS = 1000
HELLO = "__sentinel__:hello"
# What Redis's manual gives the user of a Sentinel, and nothing more.
PERMISSIONS = """allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info
    +client|setname +client|kill +script|kill""".replace("\n", "")


def program(home):
    """redis-sentinel, or the program that Debian's package of that name links to."""
    found = shutil.which("redis-sentinel")
    if found:
        return found
    target = shutil.which("redis-check-rdb") or shutil.which("redis-server")
    if not target:
        raise Skip("there is no redis-sentinel")
    link = os.path.join(home, "redis-sentinel")
    os.symlink(target, link)
    return link


class Watcher:
    """One Sentinel, set to look every 100 ms instead of every 1 to 10 s."""

    def __init__(self, exe, home, number, master, *lines):
        self.port = free_port()
        self.home = os.path.join(home, str(number))
        os.mkdir(self.home)
        settings = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.home}",
            f"sentinel monitor delayd 127.0.0.1 {master} 2",
            f"sentinel down-after-milliseconds delayd {DOWN_AFTER_MS}",
            "sentinel failover-timeout delayd 1000",
            *lines,
        ]
        path = os.path.join(self.home, "sentinel.conf")
        with open(path, "w") as file:
            file.write("\n".join(settings) + "\n")
        self.log = os.path.join(self.home, "log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([exe, path], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self.answers, 10)
        self.call(
            "SENTINEL",
            "DEBUG",
            "INFO-PERIOD",
            "100",
            "PING-PERIOD",
            "100",
            "ASK-PERIOD",
            "100",
            "PUBLISH-PERIOD",
            "100",
        )

    def answers(self):
        try:
            return self.call("PING") == "PONG"
        except ConnectionRefusedError:
            return False

    def call(self, *words):
        with Raw("127.0.0.1", self.port) as raw:
            return raw.call(*words)

    def master(self):
        """What this Sentinel knows of the master, as text."""
        return {k: v.decode() for k, v in pairs(self.call("SENTINEL", "MASTER", "delayd")).items()}

    def address(self):
        return [w.decode() for w in self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "delayd")]

    def events(self):
        with open(self.log) as log:
            return log.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


class Watch:
    """Three Sentinels around one server."""

    def __init__(self, master, *lines):
        self.folder = tempfile.TemporaryDirectory(prefix="delayd-sentinel-")
        exe = program(self.folder.name)
        self.all = [Watcher(exe, self.folder.name, n, master.port, *lines) for n in range(3)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sentinel in self.all:
            sentinel.stop()
        self.folder.cleanup()

    def agree(self, **wanted):
        """Waits until every Sentinel says this of the master."""
        wanted = {name.replace("_", "-"): value for name, value in wanted.items()}

        def said():
            return [{name: s.master().get(name) for name in wanted} for s in self.all]

        try:
            until(lambda: all(state == wanted for state in said()), 10)
        except AssertionError:
            raise AssertionError(f"expected {wanted!r} of each, got {said()!r}") from None

    def saw(self, event):
        until(lambda: all(event in s.events() for s in self.all), 10)


def run_id(server):
    with Raw("127.0.0.1", server.port) as raw:
        return info(raw, "server")["run_id"]


def watched(server, watch):
    with check("three Sentinels find each other through the channel, and the master is up"):
        watch.agree(
            num_other_sentinels="2",
            flags="master",
            role_reported="master",
            num_slaves="0",
            runid=run_id(server),
        )
        for sentinel in watch.all:
            equal(sentinel.call("SENTINEL", "CKQUORUM", "delayd").split(" ")[0], "OK")

    with check("SENTINEL GET-MASTER-ADDR-BY-NAME; redis-py finds the master and works with it"):
        for sentinel in watch.all:
            equal(sentinel.address(), ["127.0.0.1", str(server.port)])
        found = Sentinel([("127.0.0.1", s.port) for s in watch.all], socket_timeout=5)
        equal(found.discover_master("delayd"), ("127.0.0.1", server.port))
        client = found.master_for("delayd", redis_class=redis.Redis, socket_timeout=5)
        client.execute_command("DELAY.ADD", "q", "0", "x", "ID", "a")
        equal(client.execute_command("DELAY.POP", "q", "1")[1], b"a")

    with check("delayd shows them: two named connections each, three subscribers"):
        with Raw("127.0.0.1", server.port) as raw:
            lines = raw.call("CLIENT", "LIST").decode().splitlines()
            for kind in ("cmd", "pubsub"):
                named = [line for line in lines if re.search(rf" name=sentinel-[0-9a-f]{{8}}-{kind} ", line)]
                equal(len(named), 3)
            equal(raw.call("PUBSUB", "NUMSUB", HELLO), [HELLO.encode(), 3])
            equal(len(raw.call("CLIENT", "LIST", "TYPE", "pubsub").decode().splitlines()), 3)

    with check("a restart within the patience of a Sentinel: a new run id, and nothing else happens"):
        before = run_id(server)
        server.stop()
        server.start()
        if run_id(server) == before:
            raise AssertionError("the run id did not change")
        watch.saw("+reboot master delayd")
        watch.agree(num_other_sentinels="2", flags="master", runid=run_id(server))

    with check("an outage: they agree that it is down, have nobody to promote, and take it back"):
        server.stop(signal.SIGKILL)
        watch.saw("+odown master delayd")
        until(lambda: any("-failover-abort-no-good-slave" in s.events() for s in watch.all), 15)
        for sentinel in watch.all:
            equal(sentinel.address(), ["127.0.0.1", str(server.port)])
        server.start()
        watch.agree(flags="master", runid=run_id(server), num_other_sentinels="2", config_epoch="0")
        with Raw("127.0.0.1", watch.all[0].port) as raw:
            equal(raw.error("SENTINEL", "FAILOVER", "delayd").split(" ")[0], "NOGOODSLAVE")

    with check("the commands of a promotion are allowed inside MULTI and leave a master a master"):
        with Raw("127.0.0.1", server.port) as raw:
            raw.call("MULTI")
            for words in (
                "SLAVEOF NO ONE",
                "CONFIG REWRITE",
                "CLIENT KILL TYPE normal",
                "CLIENT KILL TYPE pubsub",
            ):
                equal(raw.call(*words.split()), "QUEUED")
            try:
                equal(len(raw.call("EXEC")), 4)
            except ReplyError as why:
                raise AssertionError(f"EXEC: {why}") from None
        with Raw("127.0.0.1", server.port) as raw:
            equal(raw.call("ROLE")[0], b"master")
        watch.agree(flags="master", num_other_sentinels="2")


with check("redis-sentinel is there, and delayd has publish and subscribe"):
    needs("PUBLISH", "SUBSCRIBE", "PUBSUB")
    with tempfile.TemporaryDirectory() as folder:
        program(folder)
    with Server() as master, Watch(master) as watch:
        watched(master, watch)

with check("a user with no more than Redis's manual gives a Sentinel"):
    needs("ACL|SETUSER", "SUBSCRIBE")
    with tempfile.TemporaryDirectory(prefix="delayd-acl-") as folder:
        path = os.path.join(folder, "users.acl")
        with open(path, "w") as file:
            file.write(f"user default on >admin ~* &* +@all\nuser sentinel on >s3cret {PERMISSIONS}\n")
        login = ("sentinel auth-user delayd sentinel", "sentinel auth-pass delayd s3cret")
        with Server("--aclfile", path) as master, Watch(master, *login) as watch:
            watch.agree(num_other_sentinels="2", flags="master", role_reported="master")

finish()
