"""One connection of redis-py without its retries: the worker decides what is sent again."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry as RedisRetry

from ._version import __version__

CONNECT_TIMEOUT = 5.0
DEFAULT_URL = "redis://localhost:9248"
# redis-py takes these words off the text and puts a class in their place.
_KINDS = {
    "BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "OutOfMemoryError": "OOM", "MasterDownError": "MASTERDOWN",
    "NoPermissionError": "NOPERM", "AuthenticationError": "NOAUTH", "AuthorizationError": "NOAUTH", "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED", "ClusterDownError": "CLUSTERDOWN", "AuthenticationWrongNumberOfArgsError": "NOAUTH",
}  # fmt: skip
# Another node leads, or none does for now.
ELSEWHERE = {"READONLY", "MASTERDOWN", "MOVED", "CLUSTERDOWN"}
RETRIED = ELSEWHERE | {"LOADING", "MISCONF", "OOM", "TRYAGAIN", "BUSY", "UNBLOCKED"}

Word = Union[bytes, str, int]


class Refused(redis.ResponseError):
    """The server refused a command; the text says why."""


class Exists(Refused):
    """The id is taken."""


class Full(Refused):
    """The queue holds as many jobs as its max-jobs allows."""


class Paused(Refused):
    """The queue takes no jobs."""


def kind(error: Exception) -> str:
    """The class of an error reply."""
    # redis-py puts "Command # 1 (...) of pipeline caused error: " before the text.
    return _KINDS.get(type(error).__name__) or str(error).rpartition(" caused error: ")[2].split(" ", 1)[0]


def refusal(error: redis.ResponseError) -> redis.ResponseError:
    """The same error by our name, where it has one."""
    return {"EXISTS": Exists, "FULL": Full, "PAUSED": Paused}.get(kind(error), Refused)(str(error))


def is_final(error: Exception) -> bool:
    """Whether trying again cannot help."""
    if isinstance(error, redis.ResponseError):
        return kind(error) not in RETRIED
    return kind(error) == "NOAUTH" or not isinstance(error, (redis.RedisError, OSError))


def pool_for(target: Union[str, redis.Redis, None], **options: Any) -> redis.ConnectionPool:
    """Connections to a URL, or of the kind that a client has (TLS, Unix socket, Sentinel)."""
    options.update(decode_responses=False, retry=RedisRetry(NoBackoff(), 0), retry_on_timeout=False, health_check_interval=0)
    if isinstance(target, redis.Redis):
        pool: Any = target.connection_pool
        return redis.ConnectionPool(pool.connection_class, **{**pool.connection_kwargs, **options})
    url = target or os.environ.get("DELAYD_URL") or DEFAULT_URL
    for ours, theirs in (("delayd://", "redis://"), ("delayds://", "rediss://")):
        if url.startswith(ours):
            url = theirs + url[len(ours) :]
            options.setdefault("port", 9248)
    return redis.ConnectionPool.from_url(url, **options)


def pack(commands: Iterable[Sequence[Word]]) -> bytes:
    out: list[bytes] = []
    for words in commands:
        out.append(b"*%d\r\n" % len(words))
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
            out.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(out)


def pairs(reply: Any) -> dict[str, Any]:
    """A map as RESP2 or RESP3 shows it."""
    items = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {key.decode("utf-8", "surrogateescape"): value for key, value in items}


class Line:
    """Sends and reads; whatever goes wrong closes it."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._connection: Any = None
        self.id: Optional[int] = None
        # What CLUSTER SLOTS answered: a list, if queues belong to partitions.
        self.slots: Any = None

    def connect(self, pool: redis.ConnectionPool) -> None:
        connect = min(CONNECT_TIMEOUT, self._timeout)
        kwargs = {"socket_connect_timeout": connect, **pool.connection_kwargs, "socket_timeout": self._timeout}
        connection = self._connection = pool.connection_class(**kwargs)
        try:
            connection.connect()
            said: list[list[Word]] = [
                ["CLIENT", "SETNAME", f"worker:{socket.gethostname()}:{os.getpid()}"],
                ["CLIENT", "SETINFO", "lib-name", "delayd-py"],
                ["CLIENT", "SETINFO", "lib-ver", __version__],
                ["CLUSTER", "SLOTS"],
                ["CLIENT", "ID"],
            ]
            self.send(said)
            *_, self.slots, id = [self.read() for _ in said]
            self.id = id if isinstance(id, int) else None
        except BaseException:
            self.close()
            raise

    def send(self, commands: Iterable[Sequence[Word]]) -> None:
        self._connection.send_packed_command([pack(commands)], check_health=False)

    def read(self) -> Any:
        """A reply; one that is an error is returned, not raised."""
        try:
            return self._connection.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error

    def close(self) -> None:
        connection, self._connection, self.id = self._connection, None, None
        if connection is not None:
            connection.disconnect()


class Backoff:
    """Full jitter below 0.1 s, doubled up to 10 s."""

    def __init__(self) -> None:
        self._tries = 0

    def next(self) -> float:
        self._tries += 1
        return random.uniform(0, min(10.0, 0.05 * 2 ** min(self._tries, 10)))

    def reset(self) -> None:
        self._tries = 0
