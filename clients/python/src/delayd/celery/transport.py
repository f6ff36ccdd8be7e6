"""The kombu transport: queues are delayd's, fanout is PUBLISH and SUBSCRIBE, connections are those of kombu's Redis transport."""

from collections import deque
from datetime import datetime, timedelta, timezone
from functools import cached_property
from importlib.metadata import version
from queue import Empty
from time import monotonic, time
from typing import Any

from kombu.log import get_logger
from kombu.transport import redis, virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads
from redis.backoff import NoBackoff
from redis.exceptions import MasterDownError, ReadOnlyError, RedisError
from redis.retry import Retry

from .leases import REQUEUE, Lease, Leases
from .worker import cancel_revoked, is_stopping, running_tasks

logger = get_logger(__name__)

#: The most messages that one RESERVE takes for a consumer without a prefetch count.
BATCH_MAX = 100
#: A binding whose queue expires is kept for at least this long, and a binding of any other queue for ten years.
BINDING_MS_MIN = 3_600_000
BINDING_FOREVER = "3650d"
#: How long settling and extending wait for a reply at most, since nothing else notices a server that went without a word.
TELL_TIMEOUT_S = 5
JOB_ID_BYTES_MAX = 512

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class QoS(virtual.QoS):
    """Which messages are not acknowledged yet: the server's leases, and the prefetch count."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.leases.ack(delivery_tag)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Deliver a message again, or bury it among the dead letters, from where it can be redriven."""
        self.channel.leases.nack([delivery_tag], REQUEUE if requeue else ("BURY", "ERROR", "rejected"))
        super().ack(delivery_tag)

    def restore_unacked(self) -> "list[Any]":
        """Give back what this process has not begun, so that none of it waits for the end of its lease.

        After a lost connection a worker goes on with its tasks, which keep their leases. One that stops has broken them off.
        """
        running, leases = running_tasks(), self.channel.leases
        begun = {tag for tag, lease in leases.held().items() if bytes_to_str(lease.job) in running}
        leases.nack([tag for tag in leases.held() if tag not in begun])
        if is_stopping():
            leases.nack(begun, REQUEUE)
        self._delivered.clear()
        return []


class Channel(redis.Channel):
    QoS = QoS
    keyprefix_queue = "_kombu.binding.%s"

    #: Seconds for which a message is leased; a thread extends leases at a third of it.
    lease = 60
    #: Seconds for which a RESERVE waits.
    brpop_timeout = 1
    #: Deliveries before a message is a dead letter; None leaves it to the queue's setting (20), 0 is without a limit.
    attempts = None
    from_transport_options = (*redis.Channel.from_transport_options, "lease", "attempts")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.leases: Any = None
        self._inbox: "deque[tuple[dict[str, Any], str]]" = deque()
        self._no_ack: "set[str]" = set()
        self._lifetimes: "dict[str, dict[str, int]]" = {}
        self._waiter: "tuple[Any, int] | None" = None  # the socket that reserves, and its CLIENT ID
        super().__init__(*args, **kwargs)
        self.leases = Leases(self._lease_client, int(self.lease * 1000))

    # Publishing.

    def _put(self, queue: str, message: "dict[str, Any]", _publish_batch: Any = None, **kwargs: Any) -> None:
        command = self._add_command(queue, message)
        if _publish_batch is not None:
            _publish_batch.add("execute_command", *command)
        else:
            self._asking.execute_command(*command)

    def _add_command(self, queue: str, message: "dict[str, Any]") -> "list[Any]":
        headers, properties = message.get("headers") or {}, message["properties"]
        command = ["DELAY.ADD", self._key(queue), _due(headers.get("eta")), dumps(message)]
        command += ["PRIORITY", self._get_message_priority(message)]
        task = headers.get("id") if "task" in headers else None
        if task and len(task.encode()) <= JOB_ID_BYTES_MAX:
            # A retry and Task.replace() publish under the id of a task that is still leased: the new one takes over.
            command += ["ID", task, "REPLACE"]
        if self.attempts is not None:
            command += ["ATTEMPTS", self.attempts]
        lifetimes = [*self._lifetimes.get(queue, {}).values(), *filter(None, [properties.get("expiration")])]
        if lifetimes:
            command += ["TTL", max(1, min(map(int, lifetimes)))]
        return command

    def _put_fanout(self, exchange: str, message: "dict[str, Any]", routing_key: str, **kwargs: Any) -> None:
        if exchange.endswith(".pidbox"):
            cancel_revoked(self, message)
        super()._put_fanout(exchange, message, routing_key, **kwargs)

    # Consuming.

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        (self._no_ack.add if no_ack else self._no_ack.discard)(queue)
        consumed = super().basic_consume(queue, no_ack, *args, **kwargs)
        self._stop_reserving()  # so that the next RESERVE names this queue, too
        return consumed

    def _basic_cancel(self, consumer_tag: str) -> Any:
        cancelled = super()._basic_cancel(consumer_tag)
        self._stop_reserving()
        return cancelled

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        try:
            message = self.Message(self._get(queue), channel=self)
        except Empty:
            return None
        if no_ack:
            self.leases.ack(message.delivery_tag)
        else:
            self.qos.append(message, message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: Any = None) -> "dict[str, Any]":
        jobs = self._asking.execute_command("DELAY.RESERVE", "NOWAIT", 1, self._key(queue), *self._lease_words())
        received = [message for message, _ in map(self._received, jobs or []) if message is not None]
        if not received:
            raise Empty()
        return received[0]

    def _brpop_start(self, timeout: Any = None) -> None:
        """Send the RESERVE that waits; its name is that of the Redis transport, which calls it."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        count = 1
        if self.connection.cycle.in_event_loop:
            free = self.qos.can_consume_max_estimate()
            count = BATCH_MAX if free is None else max(1, free)
        connection = self.client.connection
        self._know_waiter(connection)
        seconds = self.brpop_timeout if timeout is None else timeout
        words = ["DELAY.RESERVE", seconds or 0, len(queues), *map(self._key, queues), "COUNT", count]
        self._in_poll, self._brpop_sent_at = connection, monotonic()
        connection.send_command(*words, *self._lease_words())

    def _brpop_read(self, **options: Any) -> bool:
        for message, queue in self._read_reserved(**options):
            if message is not None:
                self._inbox.append((message, queue))
        if not self._inbox:
            raise Empty()
        self._queue_cycle.rotate(self._inbox[-1][1])
        while self._inbox:
            message, queue = self._inbox.popleft()
            if queue in self._no_ack:
                self.leases.ack(message["properties"]["delivery_tag"])
            self.connection._deliver(message, queue)
        return True

    def _read_reserved(self, **options: Any) -> "list[tuple[dict[str, Any] | None, str]]":
        try:
            jobs = self.client.parse_response(self.client.connection, "DELAY.RESERVE", **options)
        except self.connection_errors:
            self.client.connection.disconnect()
            raise
        finally:
            self._in_poll = None
            self._flush_reauth()
        return [self._received(job) for job in jobs or []]

    def _received(self, job: "list[Any]") -> "tuple[dict[str, Any] | None, str]":
        """The message of a reserved job, under a tag of its own, or None if there is none in it."""
        key, name, body, token, attempt = job[:5]
        queue = bytes_to_str(key)
        tag = f"{bytes_to_str(token)}@{queue}"
        self.leases.add(tag, Lease(queue, name, token))
        try:
            message = loads(bytes_to_str(body))
            properties = message["properties"]
            properties["delivery_info"]["redelivered"] = int(attempt) > 1
            properties["delivery_tag"] = tag
        except (ValueError, KeyError, TypeError) as error:
            logger.error("delayd: job %r of %s is no message of kombu (%r), so it is buried", name, queue, error)
            self.leases.nack([tag], ("BURY", "ERROR", f"no message of kombu: {error!r}"))
            return None, queue
        return message, queue[len(self.global_keyprefix) :]

    def _stop_reserving(self) -> None:
        """End the RESERVE that waits, and give back what it was handed meanwhile."""
        if not self._in_poll:
            return
        try:
            if self._waiter is not None:
                self._asking.execute_command("CLIENT", "UNBLOCK", self._waiter[1])
            messages = [message for message, _ in self._read_reserved() if message is not None]
        except RedisError as error:
            logger.info("delayd: a waiting RESERVE could not be ended: %s", error)
            return
        self.leases.nack([message["properties"]["delivery_tag"] for message in messages])

    def _know_waiter(self, connection: Any) -> None:
        if self._waiter is None or self._waiter[0] is not connection._sock:
            connection.send_command("CLIENT", "ID")
            self._waiter = (connection._sock, int(connection.read_response()))

    def _lease_words(self) -> "tuple[str, int]":
        return ("LEASE", int(self.lease * 1000))

    def _flush_reauth(self) -> None:
        flush = getattr(self, "_flush_brpop_reauth", None)  # kombu has it since 5.7
        if flush is not None:
            flush()

    # Queues and bindings. A binding is a delayed job that nothing ever takes, its id the three words of the binding; one of
    # a queue that expires is gone when its time has come.

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        super()._new_queue(queue, **kwargs)
        arguments = kwargs.get("arguments") or {}
        self._lifetimes[queue] = {name: int(arguments[name]) for name in ("x-expires", "x-message-ttl") if arguments.get(name)}

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **kwargs)

    def _size(self, queue: str) -> int:
        self.leases.flush()
        with self._asking.pipeline(transaction=False) as pipe:
            for state in ("READY", "DELAYED"):
                pipe.execute_command("DELAY.LEN", self._key(queue), state)
            return sum(pipe.execute())

    def _purge(self, queue: str) -> int:
        return self._asking.execute_command("DELAY.PURGE", self._key(queue), "READY", "DELAYED")

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return bool(self._asking.execute_command("DELAY.LEN", self._key(queue))) or self._size(queue) > 0

    def _delete(self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any) -> None:
        self.auto_delete_queues.discard(queue)
        binding = self._binding(routing_key, pattern, queue)
        self._asking.execute_command("DELAY.DEL", self._table_key(exchange), binding)
        self._asking.delete(queue)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if self.typeof(exchange).type == "fanout":
            self._fanout_queues[queue] = (exchange, routing_key.replace("#", "*"))
            return
        add = ["DELAY.ADD", self._table_key(exchange)]
        binding = ["", "ID", self._binding(routing_key, pattern, queue)]
        expires = self._lifetimes.get(queue, {}).get("x-expires")
        if expires is not None:
            self._asking.execute_command(*add, max(2 * expires, BINDING_MS_MIN), *binding, "REPLACE", "TTL", 1)
        else:
            self._asking.execute_command(*add, BINDING_FOREVER, *binding, "NX")

    def get_table(self, exchange: str) -> "list[tuple[str, ...]]":
        rows, cursor = {}, b"0"
        while True:
            cursor, page = self._asking.execute_command("DELAY.SCAN", self._table_key(exchange), cursor, "COUNT", 1000)
            rows.update((bytes_to_str(row[0]), None) for row in page)
            if bytes_to_str(cursor) == "0":
                return [tuple(row.split(self.sep)) for row in rows]

    def _refresh_bindings(self, queues: "list[str]") -> None:
        for queue in queues:
            for exchange, routing_key, arguments in self.state.queue_bindings(queue):
                self._queue_bind(exchange, *self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments))

    def sweep_bindings(self, limit: int = 100) -> int:
        return 0  # the server does

    def _binding(self, routing_key: str, pattern: str, queue: str) -> str:
        return self.sep.join((routing_key or "", pattern or "", queue or ""))

    def _table_key(self, exchange: str) -> str:
        return self._key(self.keyprefix_queue % (exchange,))

    def _key(self, queue: str) -> str:
        return self.global_keyprefix + queue

    # Connections.

    @property
    def supports_batch_publish(self) -> bool:
        return not self.retry_on_timeout

    def _connparams(self, asynchronous: bool = False) -> "dict[str, Any]":
        """Without redis-py's own retries: kombu and Celery try again, elsewhere and at once."""
        return {**super()._connparams(asynchronous=asynchronous), "retry": Retry(NoBackoff(), 0)}

    @cached_property
    def _asking(self) -> Any:
        """The client of everything that does not wait, safe for all threads."""
        return self._create_client()

    def _lease_client(self) -> Any:
        pool = self._get_pool()
        pool.connection_kwargs["socket_timeout"] = min(TELL_TIMEOUT_S, self.lease / 3)
        return self.Client(connection_pool=pool)

    def _disconnect_pools(self) -> None:
        self.__dict__.pop("_asking", None)
        super()._disconnect_pools()

    def _after_fork(self) -> None:
        super()._after_fork()
        self.leases.forget()

    def close(self) -> None:
        if not self.closed:
            self._stop_reserving()
            self._inbox.clear()
            super().close()
            self.leases.close()


class Transport(redis.Transport):
    """``delayd://[user:password@]host[:port][/db]``, or ``delayd+socket://path``."""

    Channel = Channel
    default_port = 9248
    driver_name = "delayd"
    #: A node of a cluster that does not lead any more is left, as one that is gone.
    connection_errors = (*redis.Transport.connection_errors, ReadOnlyError, MasterDownError)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cycle.in_event_loop = False

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self.cycle.in_event_loop = True
        super().register_with_event_loop(connection, loop)

    def driver_version(self) -> str:
        return version("delayd")


class TLSChannel(Channel):
    connection_class = Channel.connection_class_ssl


class TLSTransport(Transport):
    """``delayds://``; certificates by the `ssl_*` words of redis-py, in the URL or in `broker_use_ssl`."""

    Channel = TLSChannel


class SentinelChannel(Channel, redis.SentinelChannel):
    """The nodes of a cluster answer as Sentinels and name the leader."""

    master_name = "delayd"
    #: For the Sentinels themselves. One that is gone must not be waited for.
    sentinel_kwargs = {"socket_timeout": 1.5, "socket_connect_timeout": 1, "retry": Retry(NoBackoff(), 0)}
    connection_class = redis.SentinelChannel.connection_class
    from_transport_options = (*redis.SentinelChannel.from_transport_options, *Channel.from_transport_options)

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        client = self.connection.client
        urls, client.alt = client.alt, [url.replace("delayd-sentinel://", "sentinel://") for url in client.alt]
        try:
            return super()._sentinel_managed_pool(asynchronous)
        finally:
            client.alt = urls


class SentinelTransport(Transport):
    """``delayd-sentinel://node1:9248;delayd-sentinel://node2:9248``"""

    Channel = SentinelChannel


def _due(eta: Any) -> str:
    """The instant of an `eta` header as DELAY.ADD takes it. Rounded up to the millisecond, so that no worker has to wait."""
    if not eta:
        return "0"
    try:
        instant = eta if isinstance(eta, datetime) else datetime.fromisoformat(eta.replace("Z", "+00:00"))
    except ValueError:
        return "0"  # the worker says what is wrong with it
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=timezone.utc)  # as Celery reads it
    due_ms = -((EPOCH - instant) // timedelta(milliseconds=1))
    return f"@{due_ms}" if due_ms > time() * 1000 else "0"
