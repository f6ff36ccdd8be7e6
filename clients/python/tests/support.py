"""A server of one's own, patience, and what handlers write down."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import redis

HERE = Path(__file__).resolve().parent
BINARY = os.environ.get("DELAYD_BIN", str(HERE.parents[2] / "target" / "debug" / "delayd"))
PATIENCE_S = 20.0
# Servers start in threads while pytest names each test in the environment. A child that is given none shares the array
# of this process until it is executed, and setenv may free that array meanwhile: "Bad address", once in some thousand.
ENVIRONMENT = dict(os.environ)


def until(condition, seconds=PATIENCE_S, pause=0.005):
    """Returns what the condition comes to, once it is something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds} s: {condition}")
        time.sleep(pause)
    return found


class Server:
    """delayd on a port of its own, or on one for each of several partitions; with a journal it can be killed and started again on
    the same port."""

    def __init__(self, journal=False, partitions=1, port=0, **options):
        self.dir = tempfile.mkdtemp(prefix="delayd-py-test-")
        self.partitions = partitions
        self.options = {"appendonly": "yes" if journal else "no", "journal-segment-size": f"{partitions}mb", **options}
        if partitions > 1:
            self.options["cluster-partitions"] = partitions
        self.port = port
        self.start()

    def start(self):
        log = Path(self.dir, "log")
        log.write_text("")
        options = {**self.options, "port": self.port, "dir": self.dir}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [BINARY, *words], stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=ENVIRONMENT,
            )
        def listens():
            assert self.process.poll() is None, log.read_text()
            return re.search(r"listens on .*?:(\d+)", log.read_text())
        atexit.register(self.process.kill)
        self.port = int(until(listens)[1])
        until(self._answers)

    def _answers(self):
        try:
            if self.partitions > 1:
                self.redis = redis.RedisCluster(host="127.0.0.1", port=self.port, socket_timeout=10, protocol=2)
            else:
                self.redis = redis.Redis(port=self.port, socket_timeout=10, protocol=2)
            # An answer to a question about a queue: its partition has loaded.
            return [self.stats(queue) for queue in "abcdefgh"]
        except redis.RedisError:
            return False

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def call(self, *words):
        return self.redis.execute_command(*words)

    def stats(self, queue):
        reply = self.call("DELAY.STATS", queue)
        return {k.decode(): v for k, v in zip(reply[::2], reply[1::2])} if reply else {}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.redis.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Ledger:
    """A file to which handlers append, from any thread or process: one short line a write, so that none is torn."""

    def __init__(self, path):
        self.path = str(path)
        open(self.path, "a").close()

    def write(self, *row):
        line = (json.dumps(row) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def rows(self):
        with open(self.path, "rb") as file:
            return [json.loads(line) for line in file.read().split(b"\n")[:-1]]


class Proxy:
    """Between a client and a server: cuts after so many bytes, stalls one way, or delays. `up` is towards the server."""

    def __init__(self, port, cut=None, delay_s=0.0):
        self.target, self.cut, self.delay_s = port, cut, delay_s
        self.bytes = {"up": 0, "down": 0}
        self.stalled = {"up": threading.Event(), "down": threading.Event()}
        self.cuts = 0
        self._lock = threading.Lock()
        self._open = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way, source, sink in (("up", client, server), ("down", server, client)):
                threading.Thread(target=self._pump, args=(way, source, sink), daemon=True).start()

    def _pump(self, way, source, sink):
        try:
            while data := source.recv(65536):
                while self.stalled[way].is_set():
                    time.sleep(0.01)
                if self.delay_s:
                    time.sleep(self.delay_s)
                allowed = self._allow(way, len(data))
                if allowed:
                    sink.sendall(data[:allowed])
                if allowed < len(data):
                    break
        except OSError:
            pass
        self._close(source, sink)

    def _allow(self, way, size):
        """How many of these bytes pass. The cut happens once, and then closes this connection."""
        with self._lock:
            before = self.bytes[way]
            self.bytes[way] += size
            if self.cut and self.cut[0] == way and before <= self.cut[1] < before + size and not self.cuts:
                self.cuts += 1
                return self.cut[1] - before
            return size

    def _close(self, *sockets):
        with self._lock:
            self._open -= set(sockets)
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def cut_all(self):
        self._close(*list(self._open))

    def close(self):
        # Closing alone would let the thread in accept() take one more.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()


def worker_process(program, *arguments, **environment):
    """A worker that is a process of its own, and can be sent signals. Its errors go to a file."""
    log = tempfile.TemporaryFile()
    process = subprocess.Popen(
        [sys.executable, str(HERE / program), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        env={**os.environ, **environment},
    )
    process.log = log
    # Also of a test that failed.
    atexit.register(process.kill)
    return process


def output(process):
    process.log.seek(0)
    return process.log.read().decode(errors="replace")


def end(process, number=signal.SIGTERM, seconds=60):
    """Sends a signal; a worker that does not end shows where its threads are."""
    process.send_signal(number)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        process.kill()
        raise AssertionError(f"did not end within {seconds} s of signal {number}: {output(process)}") from None
