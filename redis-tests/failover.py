#!/usr/bin/env python3
"""A client's own support of Sentinels or of Redis Cluster, unmodified, against three nodes: a producer and a worker go on
while leaders are killed, stopped, asked to hand over and made to stand still, and no job is lost that was acknowledged.

    failover.py redis_py|node_redis|ioredis|redis_rs|redis_rb|phpredis|go_redis|jedis
    failover.py --cluster redis_py|redis_py_async|node_redis|ioredis|redis_rs|phpredis|valkey_glide
    failover.py --spread  (one of these): four partitions on each node, which elect a leader each

The programs in failover/ are given the Sentinels' addresses, those in cluster_mode/ the nodes'. They add jobs with ids, take
and acknowledge them, and say `added 7`, `taken 7` and `done 7` when they were answered; they end when their input does. Those
in cluster_mode/ begin with what they can do, each with `checked add right` or an error, and then wait for a line: it is shown
with how often they were sent to another node for it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
from harness import BINARY, Closed, Cluster, Raw, ReplyError, Skip, check, equal, finish, until  # noqa: E402

CACHE = os.environ.get("DELAYD_CACHE", os.path.join(HERE, "..", ".cache"))
RUST = os.environ.get("DELAYD_RUST_TESTS", os.path.join(CACHE, "redis-tests-rust", "debug"))
NODE = os.path.join(CACHE, "venv-node", "bin", "node")
node = [NODE if os.path.exists(NODE) else "node"]


def go(path, home):
    """Built beside the go.mod of DELAYD_GO_REDIS, a folder: it says where go-redis comes from."""
    for name in os.listdir(os.environ["DELAYD_GO_REDIS"]):
        if name in ("go.mod", "go.sum"):
            shutil.copy(os.path.join(os.environ["DELAYD_GO_REDIS"], name), home)
    shutil.copy(f"{path}.go", os.path.join(home, "main.go"))
    subprocess.run(["go", "build", "-o", "failover", "."], cwd=home, check=True)
    return [os.path.join(home, "failover")]


# The command that runs a program; what it has to be built in is a folder that goes with the test.
CLIENTS = {
    "redis_py": lambda path, home: [os.path.join(CACHE, "venv", "bin", "python"), f"{path}.py"],
    "node_redis": lambda path, home: [*node, f"{path}.mjs"],
    "ioredis": lambda path, home: [*node, f"{path}.mjs"],
    "redis_rs": lambda path, home: [os.path.join(RUST, "failover")],
    "redis_rb": lambda path, home: ["ruby", f"{path}.rb"],
    "phpredis": lambda path, home: ["php", f"{path}.php"],
    "go_redis": go,
    # DELAYD_JEDIS is a class path with Jedis and what it needs.
    "jedis": lambda path, home: ["java", "-cp", os.environ.get("DELAYD_JEDIS", ""), f"{path}.java"],
}
CLUSTER_CLIENTS = {
    **{name: CLIENTS[name] for name in ("redis_py", "node_redis", "ioredis", "phpredis")},
    "redis_py_async": lambda path, home: [*CLIENTS["redis_py"](path.removesuffix("_async"), home), "async"],
    "redis_rs": lambda path, home: [os.path.join(RUST, "cluster_mode")],
    # DELAYD_GLIDE is a Python with valkey-glide, 80 MB.
    "valkey_glide": lambda path, home: [os.environ.get("DELAYD_GLIDE", ""), f"{path}.py"],
}
# They stay with a node that is silent and has connections: redis-rs reads what it says of itself, and what the first of its
# Sentinels says, without a time limit; glide looks once a minute whether it leads.
WAIT_FOR_THE_SILENT = ("redis_rs", "valkey_glide")
# Each client has so long to be answered again; nodes need about half a second to elect another leader.
PATIENCE_S = 10


class Program:
    """The client's program, and what it was answered."""

    def __init__(self, command, cluster):
        self.added, self.done, self.taken, self.others = set(), set(), None, []
        self.cluster, self.checked, self.moved = cluster, {}, 0
        # When an add was answered last, and the longest time between two of them.
        self.last, self.longest = time.monotonic(), 0
        # Likewise of jobs that were handed out.
        self.last_taken, self.idle = time.monotonic(), 0
        self.child = subprocess.Popen(
            [command[0], *command[1:2], cluster.clients() if CLUSTER else cluster.sentinels(), *command[2:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=dict(os.environ, PYTHONUNBUFFERED="1"),
        )
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            what, _, number = line.strip().partition(" ")
            if what == "added" and number.isdigit():
                now = time.monotonic()
                self.last, self.longest = now, max(self.longest, now - self.last)
                self.added.add(int(number))
            elif what == "taken" and number.isdigit():
                now = time.monotonic()
                self.last_taken, self.idle = now, max(self.idle, now - self.last_taken)
                self.taken = int(number)
            elif what == "done" and number.isdigit():
                self.done.add(int(number))
            elif what == "checked":
                name, _, found = number.partition(" ")
                before, self.moved = self.moved, self.cluster.moved()
                self.checked[name] = (found, self.moved - before)
                self.child.stdin.write("\n")
                self.child.stdin.flush()
            else:
                self.others.append(line.strip())

    def goes_on(self):
        """Waits until ten more jobs have been added, and ten more done."""
        added, done, start = len(self.added), len(self.done), time.monotonic()
        while len(self.added) < added + 10 or len(self.done) < done + 10:
            now = time.monotonic()
            if self.child.poll() is not None or now > start + PATIENCE_S:
                status, last = self.child.poll(), self.others[-5:]
                raise AssertionError(
                    f"{len(self.added) - added} adds and {len(self.done) - done} jobs done in {now - start:.1f}s;"
                    f" status {status}; it said {last}"
                )
            time.sleep(0.002)

    def stop(self):
        self.child.stdin.close()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.reader.join()


def lost(cluster, program):
    """Jobs that were added, that the worker was not told to be done, and that are nowhere. What it had in hand at the end may
    have been done."""
    left = program.added - program.done - {program.taken}

    def missing():
        """In a list, or nothing while another node becomes leader."""
        with contextlib.suppress(ReplyError, Closed, OSError), Raw("127.0.0.1", cluster.port(cluster.leader())) as raw:
            return [{number for number in left if not raw.call("DELAY.GET", "q", f"job:{number}")}]

    return until(missing, 10)[0]


def begun(command, cluster, needed):
    """The program, once it has looked at what it can do and jobs come and go. An election in between makes it look again: no
    library sends a transaction to another node by itself."""
    while True:
        leaders = cluster.leaders()
        program = Program(command, cluster)
        try:
            program.goes_on()
            wrong = [what for what in needed if program.checked[what][0] != "right"]
            if not wrong or None not in leaders and cluster.leaders() == leaders:
                return program
        except BaseException:
            program.stop()
            raise
        program.stop()


def run(name):
    if not BINARY:
        raise Skip("needs servers of its own, and only a running one is given")
    folder, clients = ("cluster_mode", CLUSTER_CLIENTS) if CLUSTER else ("failover", CLIENTS)
    options = ["--cluster-enabled", "yes"] if CLUSTER else []
    # No hand-over but those from here: what a client can do is looked at once.
    options += ["--cluster-leader-balance", "no"] if SPREAD else []
    partitions = {"partitions": 4, "at": PARTITION} if SPREAD else {}
    with tempfile.TemporaryDirectory(prefix="delayd-test-") as home, Cluster(*options, **partitions) as cluster:
        # Whatever a library does with the others, these have to work. redis-rs has no transactions over a cluster without async.
        needed = ["add", "lease", *(["multi"] if name != "redis_rs" else [])] if CLUSTER else []
        program = begun(clients[name](os.path.join(HERE, folder, name), home), cluster, needed)
        try:
            for what, (found, moved) in program.checked.items():
                print(f"  {name}: {what}: {found}{f', sent on {moved} times' if moved else ''}")
            for what in needed:
                equal((what, program.checked[what][0]), (what, "right"))
            for how in ENDS:
                leader = cluster.leader()
                program.longest = program.idle = 0
                if how == signal.SIGSTOP and name in WAIT_FOR_THE_SILENT:
                    continue
                if how == signal.SIGSTOP:
                    # It vanishes without a word: its connections stay.
                    cluster.processes[leader].send_signal(how)
                elif how:
                    cluster.stop(leader, how)
                else:
                    # Another node may have become leader since.
                    with contextlib.suppress(ReplyError), Raw("127.0.0.1", cluster.port(leader)) as raw:
                        raw.call("FAILOVER")
                    until(lambda: cluster.leader() != leader, 10)
                program.goes_on()
                what = f"{how.name} of the leader" if how else "FAILOVER"
                print(f"  {name}: {what}, no add answered for {program.longest:.2f} s, no job handed out for {program.idle:.2f} s")
                if how == signal.SIGSTOP:
                    cluster.processes[leader].send_signal(signal.SIGCONT)
                    cluster.wait_for(leader)
                elif how:
                    cluster.start(leader)
                    cluster.wait_for(leader)
        finally:
            program.stop()
        equal(lost(cluster, program), set())


SPREAD = sys.argv[1] == "--spread"
CLUSTER = SPREAD or sys.argv[1] == "--cluster"
# That of the queue q, whose slot is 11958, of four.
PARTITION = 11958 // (16384 // 4)
ENDS = [signal.SIGKILL, None, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL, None, signal.SIGKILL, None]
if SPREAD:
    ENDS = ENDS[:4]
NAME = sys.argv[-1]
with check(f"{NAME}: {len(ENDS)} leaders are killed, stopped, asked to hand over or stand still, and nothing that was acknowledged is lost"):
    run(NAME)
finish()
