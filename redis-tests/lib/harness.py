"""What the Python programs share: one line per check, a raw RESP connection, a server of one's own.

A program prints `ok - name`, `not ok - name: why` or `skip - name: why`, one line per check, and ends
with status 1 if any check failed. The runner counts these lines, whatever the language. Standard
library only.
"""

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HOST = os.environ.get("DELAYD_HOST", "127.0.0.1")
PORT = int(os.environ.get("DELAYD_PORT", "9248"))
BINARY = os.environ.get("DELAYD_BIN")

_failed = 0
_names = itertools.count(1)


class Skip(Exception):
    """Raised inside a check that cannot run here."""


@contextlib.contextmanager
def check(name):
    """Everything in the block belongs to one check."""
    global _failed
    started = time.monotonic()
    try:
        yield
    except Skip as why:
        print(f"skip - {name}: {why}", flush=True)
    except Exception as error:
        _failed += 1
        frames = traceback.extract_tb(error.__traceback__)
        where = next((f for f in frames if f.filename != __file__), frames[-1])
        text = f"{type(error).__name__} {error}".replace("\n", " | ")[:600]
        place = f"{os.path.basename(where.filename)}:{where.lineno} `{where.line}`"
        print(f"not ok - {name}: {text} at {place}", flush=True)
    else:
        print(f"ok - {name} ({(time.monotonic() - started) * 1000:.0f} ms)", flush=True)


def finish():
    """Leaves the program with a status that says whether every check held."""
    sys.exit(1 if _failed else 0)


def equal(got, want):
    """Compares, and shows both sides when they differ."""
    if got != want:
        raise AssertionError(f"got {got!r}, expected {want!r}")


def until(condition, seconds=5):
    """Returns what holds of the condition, when it does; says so when it never does."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds}s")
        time.sleep(0.005)
    return holds


def queue(name):
    """A queue name that no other run uses, so that a running server can be tested too."""
    return f"{name}:{os.getpid()}:{next(_names)}"


def now_ms():
    return time.time() * 1000


class ReplyError(Exception):
    """An error reply; `kind` is its class, the first word."""

    @property
    def kind(self):
        return str(self).split(" ", 1)[0]


class Closed(Exception):
    """The server closed the connection."""


def encode(*args):
    """One command as the bytes a client sends."""
    out = [b"*%d\r\n" % len(args)]
    for arg in args:
        arg = arg if isinstance(arg, bytes) else str(arg).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(out)


class Raw:
    """A connection that hides nothing: bytes out, replies in, no retry, no reconnect."""

    def __init__(self, host=HOST, port=PORT, timeout=10.0):
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb", buffering=65536)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        # makefile() holds the descriptor too: both must go for the server to see the end.
        self.input.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def call(self, *args):
        """Sends a command and returns its reply; an error reply is raised."""
        self.send(encode(*args))
        reply = self.read()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def error(self, *args):
        """Sends a command that must be refused and returns the text of the error."""
        self.send(encode(*args))
        reply = self.read()
        if not isinstance(reply, ReplyError):
            raise AssertionError(f"{args!r} answered {reply!r}, expected an error")
        return str(reply)

    def read(self):
        """The next reply; an error reply is returned, not raised."""
        try:
            line = self.input.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\r\n"):
            raise Closed("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return ReplyError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        size = int(rest)
        if kind in b"$=":
            if size < 0:
                return None
            data = self.input.read(size + 2)
            if len(data) < size + 2:
                raise Closed("the server closed the connection inside a reply")
            return data[:-2] if kind == b"$" else data[4:-2]
        if kind in b"*~>":
            return None if size < 0 else [self.read() for _ in range(size)]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(size)}
        raise AssertionError(f"not a reply: {line!r}")

    def expect_end(self):
        """The server must have closed the connection and sent nothing more."""
        try:
            rest = self.input.read(1)
        except ConnectionError:
            rest = b""
        if rest:
            raise AssertionError(f"still open, and sent {rest!r}")


def needs(*commands):
    """Skips the check when the server does not have these commands."""
    with Raw() as raw:
        for name, found in zip(commands, raw.call("COMMAND", "INFO", *commands)):
            if found is None:
                raise Skip(f"this server has no {name}")


def pairs(reply):
    """A map as RESP3 sends it, or a flat array as RESP2 does, as a dict with text keys."""
    items = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {k.decode() if isinstance(k, bytes) else k: v for k, v in items}


def info(connection, *sections):
    """INFO as a dict of text."""
    text = connection.call("INFO", *sections).decode()
    lines = (line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    return {name: value for name, value in lines}


def resident_bytes(pid, field="VmRSS:"):
    """The memory a process on this machine holds, or None when it runs somewhere else."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def peak_bytes(pid):
    """The most that it has held."""
    return resident_bytes(pid, "VmHWM:") or 0


# The ports that this process was given are taken for as long as it lives.
taken = []


def taken_ports(first, count):
    """As many ports from `first` on: listeners of the same ports on another address of the loopback, as the tests in Rust hold
    them. An OSError: one of them is taken."""
    with contextlib.ExitStack() as held:
        for port in range(first, first + count):
            held.enter_context(socket.create_server(("127.0.0.2", port)))
            with socket.socket() as probe:
                # A forked child holds a copy until it calls exec; without this the server could find the port taken.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        return held.pop_all()


def free_ports(count):
    """The first of as many that follow each other, which nobody else is given while this process lives, also while nothing
    listens there: below those that connections are given."""
    while True:
        first = random.randrange(10000, 32000 - count)
        with contextlib.suppress(OSError):
            taken.append(taken_ports(first, count))
            return first


def free_port():
    return free_ports(1)


class Server:
    """A server of one's own on a free loopback port, its files in a directory that goes with it."""

    def __init__(self, *flags, port=None, binary=BINARY):
        if not binary:
            raise Skip("needs a server of its own, and only a running one is given")
        self.binary, self.flags = binary, flags
        self.port = port or free_port()
        self.home = tempfile.TemporaryDirectory(prefix="delayd-test-")
        self.log = os.path.join(self.home.name, "log")
        self.process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.home.cleanup()

    def start(self):
        """Starts the server and returns when it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.home.name]
        options += ["--journal-segment-size", "1mb", "--loglevel", "notice", *self.flags]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}\n{self.tail()}")
            try:
                with Raw("127.0.0.1", self.port, timeout=5) as connection:
                    connection.send(encode("PING"))
                    reply = str(connection.read())
                if reply.startswith("LOADING") and time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
                # One that wants a password first is up, too.
                if reply != "PONG" and not reply.startswith("NOAUTH"):
                    raise AssertionError(f"PING answered {reply}")
                return
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"nobody listens on {self.port}\n{self.tail()}") from None
                time.sleep(0.01)

    def stop(self, how=signal.SIGTERM):
        """Ends the server and waits until it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def alive(self):
        return self.process.poll() is None

    def tail(self, lines=20):
        """The end of the server's log."""
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])


class Cluster:
    """Three nodes on free loopback ports, which answer as Sentinels, too, their files in a directory that goes with them."""

    def __init__(self, *flags, each=lambda node: [], partitions=1, at=0):
        """`flags` are for all nodes, and `each` has more for one of them. With several `partitions` a node has as many ports
        of each kind, and `at` is the one that is asked here."""
        self.home = tempfile.TemporaryDirectory(prefix="delayd-test-")
        self.ports = [[free_ports(partitions) for _ in ("clients", "peers", "sentinel")] for _ in range(3)]
        self.flags, self.each, self.processes = flags, each, [None] * 3
        self.partitions, self.at = partitions, at
        for node in range(3):
            os.mkdir(os.path.join(self.home.name, f"n{node + 1}"))
            self.start(node)
        for node in range(3):
            self.wait_for(node)

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        for node in range(3):
            self.stop(node, signal.SIGKILL)
        if failed and failed is not Skip:
            for node in range(3):
                with open(os.path.join(self.home.name, f"n{node + 1}.log"), errors="replace") as log:
                    print(f"--- the end of n{node + 1}'s log:", *log.read().splitlines()[-30:], sep="\n", flush=True)
        self.home.cleanup()

    def port(self, node, partition=None):
        return self.ports[node][0] + (self.at if partition is None else partition)

    def sentinels(self):
        return ",".join(f"127.0.0.1:{ports[2]}" for ports in self.ports)

    def clients(self):
        return ",".join(f"127.0.0.1:{ports[0]}" for ports in self.ports)

    def moved(self):
        """How often the nodes have sent a client on."""
        count = 0
        for port in (self.port(node, partition) for node in range(3) for partition in range(self.partitions)):
            with Raw("127.0.0.1", port, timeout=5) as raw:
                line = info(raw, "errorstats").get("errorstat_MOVED", "count=0")
                count += int(line.split("=")[1])
        return count

    def start(self, node):
        """Begins a node; `wait_for` waits until it is one of them."""
        name, (port, peers, sentinel) = f"n{node + 1}", self.ports[node]
        nodes = ",".join(f"n{other + 1}=127.0.0.1:{ports[1]}" for other, ports in enumerate(self.ports))
        options = {
            "--port": port, "--bind": "127.0.0.1", "--dir": os.path.join(self.home.name, name), "--loglevel": "notice",
            "--cluster-node": name, "--cluster-nodes": nodes, "--cluster-port": peers,
            "--cluster-partitions": self.partitions, **({"--sentinel-port": sentinel} if self.partitions == 1 else {}),
        }
        command = [BINARY, *(str(word) for pair in options.items() for word in pair), *self.flags, *self.each(node)]
        with open(os.path.join(self.home.name, name + ".log"), "ab") as log:
            self.processes[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, node, how=signal.SIGTERM):
        if self.processes[node].poll() is None:
            self.processes[node].send_signal(how)
            self.processes[node].wait(20)

    def role(self, node, partition=None):
        """What a node says that it is, and whether it has heard of its leader; None of one that does not answer."""
        try:
            with Raw("127.0.0.1", self.port(node, partition), timeout=1) as raw:
                found = info(raw, "replication")
        except OSError:
            return None
        except (Closed, ReplyError):
            return None
        return found["role"], found.get("master_link_status")

    def leader(self):
        """Which node leads, once one does."""
        found = []
        until(lambda: found or [found.append(n) for n in range(3) if self.role(n) == ("master", None)], 20)
        return found[0]

    def wait_for(self, node):
        """Waits until each partition of a node leads, or follows one that does."""
        for partition in range(self.partitions):
            until(lambda at=partition: self.role(node, at) in (("master", None), ("slave", "up")), 20)

    def leaders(self):
        """Which node leads each partition; None where none does."""
        leads = lambda node, partition: self.role(node, partition) == ("master", None)
        return [next((n for n in range(3) if leads(n, partition)), None) for partition in range(self.partitions)]
