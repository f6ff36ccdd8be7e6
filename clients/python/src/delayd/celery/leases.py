"""What a channel has reserved: extended while it is held, and settled in batches, by one thread."""

import threading
from collections import deque
from time import monotonic, sleep
from typing import Any, Callable, Iterable, NamedTuple

from kombu.log import get_logger
from redis.exceptions import ConnectionError, MasterDownError, ReadOnlyError, RedisError, TimeoutError

logger = get_logger(__name__)

#: The most messages that one command acknowledges.
ACKS_MAX = 1000
#: How long an acknowledgement waits for others to share its command.
GATHER_S = 0.002
#: The pause after an error of the connection.
RETRY_S = 0.5

#: Words of NACK for what was not begun: back to its old place at once, as if it had not been delivered.
GIVE_BACK = ("UNCOUNTED",)
#: For what was begun: at once again, and it counts as redelivered.
REQUEUE = ("IN", "0")


class Lease(NamedTuple):
    queue: str
    job: bytes
    token: bytes


class Leases:
    """The messages of one channel that are not settled yet.

    What is settled is sent by the thread, and again after a lost connection for as long as the lease runs: a token
    stays good for ACK until the next delivery, and does nothing after it.
    """

    def __init__(self, connect: Callable[[], Any], lease_ms: int) -> None:
        self._connect = connect
        self._lease_ms = lease_ms
        self.forget()

    def forget(self) -> None:
        """Drop everything unsaid: a forked process holds none of its parent's leases."""
        self._client: Any = None
        self._held: "dict[str, Lease]" = {}
        self._lost: "set[str]" = set()
        self._settled: "deque[tuple[float, Lease, tuple[str, ...]]]" = deque()
        self._sending = threading.Lock()
        self._wake = threading.Event()
        self._extend_at = 0.0
        self._thread: "threading.Thread | None" = None
        self._closed = False

    def add(self, tag: str, lease: Lease) -> None:
        """Keep a lease that the server has just given, until `ack` or `nack`."""
        self._held[tag] = lease
        if self._thread is None:
            self._start()

    def ack(self, tag: str) -> None:
        self._settle([tag], ())

    def nack(self, tags: "Iterable[str]", words: "tuple[str, ...]" = GIVE_BACK) -> None:
        """Return messages to the server; when this returns they can be reserved again, unless the connection is down."""
        self._settle(tags, words)
        self._try_flush()

    def held(self) -> "dict[str, Lease]":
        return dict(self._held)

    def flush(self) -> None:
        """Send what is settled."""
        if not self._settled:
            return
        with self._sending:
            batch = [self._settled.popleft() for _ in range(len(self._settled))]
            try:
                self._send(batch)
            except (ConnectionError, TimeoutError):
                self._again(batch)
                raise

    def close(self) -> None:
        """Send what is settled. The thread ends when nothing is held any more."""
        self._closed = True
        self._try_flush()
        self._wake.set()

    def _settle(self, tags: "Iterable[str]", words: "tuple[str, ...]") -> None:
        for tag in tags:
            self._lost.discard(tag)
            lease = self._held.pop(tag, None)
            if lease is not None:
                self._settled.append((monotonic(), lease, words))
        if not self._wake.is_set():
            self._wake.set()

    def _try_flush(self) -> None:
        try:
            self.flush()
        except RedisError as error:
            logger.warning("delayd: messages could not be settled yet: %s", error)

    def _start(self) -> None:
        self._client = self._connect()
        self._extend_at = monotonic() + self._lease_ms / 3000
        self._thread = threading.Thread(target=self._run, name="delayd-leases", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        warned = False
        while self._held or self._settled or not self._closed:
            if self._wake.wait(max(0.0, self._extend_at - monotonic())):
                self._wake.clear()
                sleep(GATHER_S)
            try:
                self.flush()
                if monotonic() >= self._extend_at:
                    self._extend()
                warned = False
            except RedisError as error:
                if not warned:
                    logger.warning("delayd: leases could not be extended, trying again: %s", error)
                warned = True
                sleep(RETRY_S)
                self._wake.set()
        self._thread = None

    def _send(self, batch: "list[tuple[float, Lease, tuple[str, ...]]]") -> None:
        commands = list(_commands(batch))
        with self._client.pipeline(transaction=False) as pipe:
            for words, _ in commands:
                pipe.execute_command(*words)
            replies = pipe.execute(raise_on_error=False)
        for (words, part), reply in zip(commands, replies):
            if isinstance(reply, Exception):
                if not isinstance(reply, (ConnectionError, ReadOnlyError, MasterDownError)) and "MISCONF" not in str(reply):
                    logger.error("delayd: %s %s failed: %s", words[0], words[1], reply)
                    continue
                self._again(part)
                raise ConnectionError(str(reply))
            if reply < len(part):
                logger.info("delayd: %s %s: %d leases had ended", words[0], words[1], len(part) - reply)

    def _again(self, batch: "list[tuple[float, Lease, tuple[str, ...]]]") -> None:
        oldest = monotonic() - self._lease_ms / 1000
        self._settled.extendleft(each for each in reversed(batch) if each[0] > oldest)

    def _extend(self) -> None:
        held = [(tag, lease) for tag, lease in self.held().items() if tag not in self._lost]
        with self._client.pipeline(transaction=False) as pipe:
            for _, lease in held:
                pipe.execute_command("DELAY.EXTEND", *lease, self._lease_ms)
            replies = pipe.execute(raise_on_error=False) if held else []
        for (tag, lease), reply in zip(held, replies):
            if isinstance(reply, Exception):
                raise reply
            if reply is None and tag in self._held:
                self._lost.add(tag)
                logger.warning("delayd: the lease of %r in %s was lost, so it may run again", lease.job, lease.queue)
        self._extend_at = monotonic() + self._lease_ms / 3000


def _commands(
    batch: "list[tuple[float, Lease, tuple[str, ...]]]",
) -> "Iterable[tuple[list[Any], list[tuple[float, Lease, tuple[str, ...]]]]]":
    """The commands that settle a batch, each with its part of it: ACKs of a queue go together."""
    queues: "dict[str, list[tuple[float, Lease, tuple[str, ...]]]]" = {}
    for each in batch:
        _, lease, words = each
        if words:
            yield ["DELAY.NACK", *lease, *words], [each]
        else:
            queues.setdefault(lease.queue, []).append(each)
    for queue, acks in queues.items():
        for at in range(0, len(acks), ACKS_MAX):
            part = acks[at : at + ACKS_MAX]
            yield ["DELAY.ACK", queue, *(word for _, lease, _ in part for word in lease[1:])], part
