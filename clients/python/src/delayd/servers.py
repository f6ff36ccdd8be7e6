"""Which server answers for a queue: the one that was given or, of a server with partitions, the leader of the queue's."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional, TypeVar, Union

import redis
from redis.crc import key_slot

from .connection import ELSEWHERE, Backoff, Line, Word, kind, pool_for

#: For so long a producer sends again what no server has done.
PATIENCE = 5.0
#: How long a node may take to say which nodes lead.
ASK_TIMEOUT = 1.0
#: Within this time an answer is not asked for again.
FRESH = 0.05
HOPS_MAX = 3

One = Union[str, redis.Redis, None]
# redis-py's, whose calls have no types.
Client = Any
T = TypeVar("T")


def slot_of(queue: Word) -> int:
    """The hash slot of a queue: of the part of its name in braces, if there is one."""
    slot: int = key_slot(queue if isinstance(queue, bytes) else str(queue).encode("utf-8", "surrogateescape"))
    return slot


class Unreached(redis.ConnectionError):
    """No connection could be opened, so nothing was done."""


class Servers:
    """Learns from `CLUSTER SLOTS`, which each connection asks when it is opened. Without partitions all slots are in one."""

    def __init__(self, target: Union[One, Sequence[One]]) -> None:
        given: Sequence[One] = [target] if target is None or isinstance(target, (str, redis.Redis)) else target
        # Connections of a Sentinel's client need its pool, and hold it weakly.
        self._target = given
        self._given: list[Client] = [redis.Redis(connection_pool=pool_for(each)) for each in given]
        # Those of Sentinels and of Unix sockets have no address that another one could take the place of.
        self._can_move = all("host" in client.connection_pool.connection_kwargs for client in self._given)
        self._by_address: dict[tuple[str, int], Client] = {}
        #: The first slots of the partitions, and their nodes, the leader first. Replaced as a whole, as threads read it.
        self._table = ([0], [self._given])
        self._failed: dict[int, float] = {}
        self._asked = 0.0
        self._lock = threading.Lock()
        self._has_slots = self._is_known = False
        #: Whether other nodes are gone to.
        self.is_spread = False

    def partition(self, slot: int) -> int:
        return bisect_right(self._table[0], slot) - 1

    def client(self, slot: int) -> Client:
        starts, nodes = self._table
        return nodes[bisect_right(starts, slot) - 1][0]

    def by_slot(self, queues: Iterable[str]) -> list[list[str]]:
        """Queues that one command may name, in their order."""
        found: dict[int, list[str]] = {}
        for queue in queues:
            found.setdefault(slot_of(queue) if self._has_slots else 0, []).append(queue)
        return list(found.values())

    def learn(self, slots: Any, asked: Client) -> None:
        """Takes what CLUSTER SLOTS answered."""
        self._is_known = True
        self._has_slots = isinstance(slots, list) and bool(slots)
        if not self._can_move or not self._has_slots:
            return
        rows = sorted(slots, key=lambda row: int(row[0]))
        nodes = [[self._node(node, asked) for node in row[2:]] for row in rows]
        self._table, self.is_spread = ([row[0] for row in rows], nodes), True

    def _node(self, node: Any, asked: Client) -> Client:
        pool: Any = asked.connection_pool
        address = ((node[0] or b"").decode() or pool.connection_kwargs["host"], node[1])
        if address not in self._by_address:
            options = {**pool.connection_kwargs, "host": address[0], "port": address[1]}
            # Several threads may come here, and all must be given the same.
            client = redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **options))
            self._by_address.setdefault(address, client)
        return self._by_address[address]

    def seek(self, lost: Client) -> None:
        """Asks the other nodes which of them lead, after this one has failed or does not lead any more."""
        with self._lock:
            now = time.monotonic()
            self._failed[id(lost)] = now
            self._given.sort(key=self._last_failure)
            if not self.is_spread or now < self._asked + FRESH:
                return
            every = {id(client): client for nodes in (*self._table[1], self._given) for client in nodes}
            for client in sorted(every.values(), key=self._last_failure):
                line = Line(ASK_TIMEOUT)
                try:
                    line.connect(client.connection_pool)
                    self.learn(line.slots, client)
                    self._asked = time.monotonic()
                    return
                except (redis.RedisError, OSError):
                    self._failed[id(client)] = time.monotonic()
                finally:
                    line.close()

    def _last_failure(self, client: Client) -> float:
        return self._failed.get(id(client), 0.0)

    def run(self, queue: Word, do: Callable[[Client], T]) -> T:
        """Does something at the server for a queue; again for a time, if that one has not done it."""
        slot, until, backoff = slot_of(queue), time.monotonic() + PATIENCE, Backoff()
        while True:
            client = self._client_for(slot)
            try:
                if self.is_spread:
                    _reach(client)
                return do(client)
            except (redis.RedisError, OSError) as error:
                if not isinstance(error, redis.ResponseError):
                    # The next call goes to the next leader, also if this one must not be sent again.
                    self.seek(client)
                if not self._is_undone(error) or time.monotonic() > until:
                    raise
                # The queue of the command was looked for in the wrong place.
                slot = _slot_moved(error, slot)
            if self.client(slot) is client:
                self.seek(client)
            if self.client(slot) is client:
                time.sleep(backoff.next())

    def _client_for(self, slot: int) -> Client:
        """Asks once whether there are partitions."""
        if not self._is_known and self._can_move:
            client = self._given[0]
            try:
                self.learn(client.execute_command("CLUSTER", "SLOTS"), client)
            except redis.ResponseError:
                self._is_known = True
            except (redis.RedisError, OSError):
                self.seek(client)
                raise
        return self.client(slot)

    def _is_undone(self, error: Exception) -> bool:
        return self.is_spread and (isinstance(error, Unreached) or kind(error) in (*ELSEWHERE, "TRYAGAIN"))

    def close(self) -> None:
        for client in (*self._given, *self._by_address.values()):
            client.connection_pool.disconnect()


def _slot_moved(error: Exception, slot: int) -> int:
    """That which `MOVED 4247 10.0.0.1:9248` names."""
    named = re.search(r"(\d+) \S+$", str(error)) if kind(error) == "MOVED" else None
    return int(named[1]) if named else slot


def _reach(client: Client) -> None:
    """A connection first: an error while it is opened leaves no doubt that nothing was sent."""
    pool = client.connection_pool
    try:
        pool.release(pool.get_connection() if redis.VERSION >= (5, 3) else pool.get_connection("_"))
    except redis.AuthenticationError:
        raise
    except (redis.RedisError, OSError) as error:
        raise Unreached(str(error)) from error


class Route(Line):
    """A connection to the server for a slot; after a loss, to the one that leads then."""

    def __init__(self, servers: Servers, slot: int, timeout: float) -> None:
        super().__init__(timeout)
        self._servers, self._slot = servers, slot
        self._last: Optional[Client] = None

    def open(self) -> None:
        if self._connection is not None:
            return
        if self._last is not None:
            self._servers.seek(self._last)
        for _ in range(HOPS_MAX):
            client = self._last = self._servers.client(self._slot)
            self.connect(client.connection_pool)
            self._servers.learn(self.slots, client)
            if self._servers.client(self._slot) is client:
                return
            self.close()
        raise redis.ConnectionError("the nodes disagree about the leader")

    def call(self, *words: Word) -> Any:
        self.open()
        self.send([words])
        reply = self.read()
        if isinstance(reply, Exception):
            raise reply
        return reply
