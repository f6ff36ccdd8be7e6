"""A delayd server for tests and for trying things out: it ends with its owner, however that ends."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import tempfile
import time
import weakref
from types import TracebackType
from typing import IO, Any, Dict, List, Optional, Tuple, Type
from urllib.parse import quote

from ._program import find_delayd

__all__ = ["NotStarted", "Server"]

# A long journal takes its time to load.
_START_S = 60.0
_STOP_S = 15.0


class NotStarted(RuntimeError):
    """The server ended, or was not ready in time; the text has its own words."""


class Server:
    """A server on a free port of the loopback, which answers by the time the constructor returns.

    >>> with Server(maxmemory="64mb") as server:
    ...     client = redis.Redis.from_url(server.url)

    The keywords are delayd's options, with underscores. Jobs are in memory only; with `appendonly=True` the journal is in
    `dir`, or in a folder that goes with the server.
    """

    def __init__(self, **options: Any) -> None:
        options = {"port": 0, "bind": "127.0.0.1", "appendonly": False, **options}
        self._password = str(options.get("requirepass", ""))
        self._remover = None
        if _word(options["appendonly"]) == "yes":
            # The default reserves 64 MB at a time.
            options.setdefault("journal_segment_size", "1mb")
            if "dir" not in options:
                options["dir"] = tempfile.mkdtemp(prefix="delayd-")
                self._remover = _remover(options["dir"])
        # Without a name: it goes with the last process that has it open.
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="delayd-")
        self._said: Optional[str] = None
        self._close_log = weakref.finalize(self, self._log.close)
        try:
            self._process, ready = self._start([find_delayd(), *_command_line(options)])
        except BaseException:
            _hang_up(self._remover, wait=True)
            raise
        # From here on the server alone holds it open.
        _hang_up(self._remover)
        self._end = weakref.finalize(self, _stop, self._process, self._remover)
        try:
            self.port = self._port(ready)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Where clients connect, as redis-py takes it."""
        password = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"redis://{password}127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

    def log(self) -> str:
        """What the server has logged so far."""
        if self._said is not None:
            return self._said
        # The server writes at the position that both have: it must not move.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def empty(self) -> None:
        """Remove all jobs, queues and schedules."""
        words = [["FLUSHALL"]]
        if self._password:
            words.insert(0, ["AUTH", self._password])
        with socket.create_connection(("127.0.0.1", self.port), timeout=_START_S) as connection, connection.makefile("rb") as replies:
            for command in words:
                connection.sendall(_request(command))
                reply = replies.readline()
                if reply != b"+OK\r\n":
                    raise RuntimeError(f"{command[0]} was answered: {reply.decode(errors='replace').strip()}")

    def stop(self) -> None:
        """Stop the server in order and wait for its end; its folder is gone then, unless it was given."""
        self._end()
        if self._said is None:
            self._said = self.log()
            self._close_log()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<delayd.Server pid={self.pid} url={self.url}>"

    def _start(self, words: List[str]) -> Tuple[subprocess.Popen[bytes], int]:
        """The process, and where it writes its port."""
        ready, told = os.pipe()
        inherited = [told]
        try:
            if self._remover is not None and self._remover.stdin is not None:
                inherited.append(self._remover.stdin.fileno())
            # No preexec_fn, which is unsafe beside threads: the server ends when its standard input hangs up, which it does
            # whichever way this process ends. A session of its own keeps Ctrl-C from ending the server before the test.
            process = subprocess.Popen(
                [*words, "--ready-fd", str(told), "--until-stdin-closes", "yes"],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                pass_fds=inherited,
                start_new_session=True,
            )
        except OSError as error:
            os.close(ready)
            raise NotStarted(f"{words[0]} cannot be run: {error}") from error
        finally:
            os.close(told)
        return process, ready

    def _port(self, ready: int) -> int:
        """The port, which the server writes once it answers commands."""
        deadline = time.monotonic() + _START_S
        poll = select.poll()
        poll.register(ready, select.POLLIN)
        said = b""
        try:
            while not said.endswith(b"\n") and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                more = os.read(ready, 64)
                if not more:
                    break
                said += more
        finally:
            os.close(ready)
        if said.endswith(b"\n"):
            return int(said)
        try:
            # It closes before its last words.
            self._process.wait(max(0.0, deadline - time.monotonic()))
            late = False
        except subprocess.TimeoutExpired:
            late = True
        self._end()
        why = f"was not ready within {_START_S:.0f} s" if late else f"ended with status {self._process.returncode}"
        raise NotStarted(f"delayd {why}:\n{self.log()}")


def _command_line(options: Dict[str, Any]) -> List[str]:
    words = []
    for name, value in options.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            words += ["--" + name.replace("_", "-"), _word(each)]
    return words


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _request(words: List[str]) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _remover(folder: str) -> subprocess.Popen[bytes]:
    """Removes the folder once its standard input hangs up: the server alone keeps that open, so the folder goes with the
    server, also when this process is killed."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'cat; rm -rf -- "$1"', "sh", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _hang_up(process: Optional[subprocess.Popen[bytes]], wait: bool = False) -> None:
    if process is not None and process.stdin is not None:
        process.stdin.close()
        if wait:
            process.wait()


def _stop(process: subprocess.Popen[bytes], remover: Optional[subprocess.Popen[bytes]]) -> None:
    # In a forked child, whose child the server is not, this does nothing.
    process.terminate()
    _hang_up(process)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _hang_up(remover, wait=True)
