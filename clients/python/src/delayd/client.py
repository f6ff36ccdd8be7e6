"""Delayd: adds jobs, declares what handles them, runs that."""

from __future__ import annotations

import logging
import multiprocessing
import re
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, TypeVar, Union

import redis

from .connection import ELSEWHERE, Backoff, Refused, Word, kind, pairs, refusal
from .job import JSON, Codec, meta_of
from .routes import Handler, Routes
from .servers import Client, One, Route, Servers
from .times import Duration, Instant, duration, seconds, when
from .words import AddOptions, NewJob, ScheduleOptions, add_words, of_group, schedule_words
from .worker import Group, Runner

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger("delayd")

F = TypeVar("F", bound=Callable[..., Any])
Event = Literal["start", "done", "fail", "lost"]

LEAST_SERVER = (0, 1, 0)
ADD_TRIES = 4
PIPELINE_MAX = 1000


class Delayd:
    """Queues on a server. `url` is `redis://host:port`, `delayd://host`, or a `redis.Redis`, for example of a Sentinel; of a
    cluster or of a server with partitions any node's, or a list of several."""

    def __init__(
        self, url: Union[One, Sequence[One]] = None, *, app: str = "delayd", codec: Codec = JSON, trace: bool = False
    ) -> None:
        self._servers = Servers(url)
        self.app, self.codec, self.trace = app, codec, trace
        self._workers: list[tuple[list[str], Routes, dict[str, Any]]] = []
        self._schedules: dict[tuple[str, str], tuple[Handler, list[Word]]] = {}
        self._hooks: dict[str, list[Callable[..., Any]]] = {"start": [], "done": [], "fail": [], "lost": []}
        self._inline: Any = None

    # Producing.

    def add(self, queue: str, body: Any = None, **options: Unpack[AddOptions]) -> Optional[str]:
        """Adds a job and returns its id; None if `nx` was asked for and the id is taken."""
        given = self._traced({**options})
        id, beside = given.get("id"), (given.get("group"), given.get("meta"))
        words = add_words(queue, self._encode(body), given)
        if self._inline:
            return str(self._inline.take(queue, id, words[3], *beside))
        tries, backoff = 1 if id is None else ADD_TRIES, Backoff()
        again: list[Word] = []
        while True:
            try:
                added = self.call(*words, *again)
                return id if added is None and again else added and str(_text(added))
            except (redis.ConnectionError, redis.TimeoutError):
                tries -= 1
                if not tries:
                    raise
            # The first one may have arrived: then the id is taken, by this job.
            again = [] if any(options.get(name) for name in ("nx", "replace", "latest")) else ["NX"]
            time.sleep(backoff.next())

    def add_many(self, queue: str, jobs: Iterable[NewJob], *, atomic: bool = False) -> list[Optional[str]]:
        """Adds jobs, each a mapping with `body` and the options of `add`: in pipelines of 1,000, or in one transaction.

        The first refusal is raised once all are sent; an atomic one only keeps other clients from seeing half of them.
        """
        given = [self._traced(dict(job)) for job in jobs]
        named = [tuple(options.get(name) for name in ("id", "group", "meta")) for options in given]
        commands = [add_words(queue, self._encode(options.pop("body", None)), options) for options in given]
        if self._inline:
            return [self._inline.take(queue, id, words[3], *beside) for (id, *beside), words in zip(named, commands)]
        replies: list[Any] = []
        size = len(commands) if atomic else PIPELINE_MAX
        for start in range(0, len(commands), size or 1):
            replies += self._pipeline(queue, commands[start : start + size], atomic)
        for error in replies:
            if isinstance(error, redis.ResponseError):
                raise refusal(error)
        return [_text(reply) for reply in replies]

    def _pipeline(self, queue: str, commands: list[list[Word]], atomic: bool) -> list[Any]:
        replies: list[Any] = [None] * len(commands)
        left = list(range(len(commands)))

        def send(client: Client) -> None:
            pipeline = client.pipeline(transaction=atomic)
            for number in left:
                pipeline.execute_command(*commands[number])
            for number, reply in zip(left[:], pipeline.execute(raise_on_error=False)):
                replies[number] = reply
            # What a server without the queue refused was not done.
            left[:] = [number for number in left if isinstance(replies[number], Exception) and kind(replies[number]) in ELSEWHERE]
            if left:
                raise replies[left[0]]

        try:
            self._servers.run(queue, send)
        except redis.ResponseError:
            if atomic or not left:
                raise
        return replies

    def cancel(self, queue: str, id: str, *, force: bool = False) -> Optional[str]:
        """The state in which the job was: delayed, ready, dead (it is removed), leased (only with force); or None."""
        state: Optional[str] = _text(self.call("DELAY.CANCEL", queue, id, *(["FORCE"] if force else [])))
        return state

    def reschedule(
        self, queue: str, id: str, *, delay: Optional[Duration] = None, at: Optional[Instant] = None,
        only_later: bool = False, only_earlier: bool = False,
    ) -> bool:  # fmt: skip
        """Moves a delayed or ready job; without a time it is due now."""
        extra: list[Word] = ["GT"] if only_later else ["LT"] if only_earlier else []
        return bool(self.call("DELAY.RESCHEDULE", queue, id, when(delay, at), *extra))

    def get(self, queue: str, id: str) -> Optional[dict[str, Any]]:
        """All of a job, as DELAY.GET names it, with the body decoded; or None."""
        reply = self.call("DELAY.GET", queue, id)
        if reply is None:
            return None
        found = pairs(reply)
        shown = {name: _text(value) for name, value in found.items()}
        try:
            shown["body"] = self.codec.decode(found["body"])
        except ValueError:
            shown["body"] = found["body"]
        if "meta" in found:
            shown["meta"] = meta_of(found["meta"])
        if "errors" in found:
            shown["errors"] = [{name: _text(value) for name, value in pairs(error).items()} for error in found["errors"]]
        return shown

    def stats(self, queue: str, *, group: Union[str, bytes, None] = None) -> Optional[dict[str, Any]]:
        """The numbers of a queue or of a group, as DELAY.STATS names them; or None if the server knows nothing of it."""
        reply = self.call("DELAY.STATS", queue, *of_group(group))
        return None if reply is None else {name: _text(value) for name, value in pairs(reply).items()}

    def purge(self, queue: str, *states: str, group: Union[str, bytes, None] = None) -> int:
        """Removes all jobs, or those of a group, in these states (delayed, ready, dead if none is named) and returns how many."""
        return int(self.call("DELAY.PURGE", queue, *states, *of_group(group)))

    def redrive(
        self, queue: str, *, count: Optional[int] = None, delay: Optional[Duration] = None, keep_attempts: bool = False,
        ids: Optional[Sequence[str]] = None, group: Union[str, bytes, None] = None,
    ) -> int:  # fmt: skip
        """Tries dead jobs again: all of them, the `count` oldest (of a group), or those named."""
        words: list[Word] = ["DELAY.REDRIVE", queue]
        words += [] if count is None else ["COUNT", count]
        words += [] if delay is None else ["IN", duration(delay)]
        words += ["KEEP-ATTEMPTS"] if keep_attempts else []
        words += [] if ids is None else ["IDS", len(ids), *ids]
        return int(self.call(*words, *of_group(group)))

    def call(self, *words: Word) -> Any:
        """Any command; error replies are raised as Refused, or Exists, Full, Paused. One without a queue goes to one partition."""
        # Where another word names the queue, the reply says where it belongs.
        queue = words[2 if words[0] in ("DELAY.SCHEDULE", "DELAY.CONFIG") else 1] if len(words) > 2 else words[-1]
        try:
            return self._servers.run(queue, lambda client: client.execute_command(*words))
        except redis.ResponseError as error:
            raise refusal(error) from error

    def close(self) -> None:
        self._servers.close()

    def _traced(self, options: dict[str, Any]) -> dict[str, Any]:
        """With the trace context of the caller, for the handler's span."""
        if self.trace:
            carrier: dict[str, str] = {}
            import_module("opentelemetry.propagate").inject(carrier)
            options["meta"] = {**carrier, **(options.get("meta") or {})}
        return options

    def _encode(self, body: Any) -> bytes:
        return bytes(body) if isinstance(body, (bytes, bytearray, memoryview)) else self.codec.encode(body)

    # Declaring.

    def worker(
        self, *queues: str, concurrency: int = 1, processes: int = 0, lease: Duration = "60s",
        timeout: Optional[Duration] = None, rotate: bool = False, cancel_lost: bool = True,
    ) -> Callable[[F], F]:  # fmt: skip
        """The function handles jobs of these queues: `def f(body)` or `def f(body, job)`, or the same with `async def`."""
        if not queues or concurrency < 1 or processes < 0:
            raise ValueError("a worker needs a queue, concurrency of at least 1, and processes of at least 0")
        taken = {queue for others, _, _ in self._workers for queue in others} & set(queues)
        if taken:
            raise ValueError(f"queue {taken.pop()!r} has a worker already")
        options = _group(concurrency, processes, lease, timeout, rotate, cancel_lost)

        def declare(function: F) -> F:
            routes = Routes(self.app)
            routes.by_queue = dict.fromkeys(queues, Handler(function))
            self._workers.append((list(queues), routes, options))
            return function

        return declare

    def every(self, interval: Duration, queue: str, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Runs the function each `interval`."""
        return self._schedule(queue, ["EVERY", duration(interval)], {**options})

    def cron(self, pattern: str, queue: str, *, tz: str = "UTC", **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Runs the function by a cron pattern, such as `"0 8 * * 1-5"`, in a time zone."""
        return self._schedule(queue, ["CRON", pattern, "TZ", tz], {**options})

    def _schedule(self, queue: str, rule: list[Word], options: dict[str, Any]) -> Callable[[F], F]:
        named, body = options.pop("name", None), options.pop("body", None)
        content = b"" if body is None else self._encode(body)
        words = [content, *rule, *schedule_words(options)]

        def declare(function: F) -> F:
            name = f"{self.app}:{named or function.__name__}"
            if (queue, name) in self._schedules:
                raise ValueError(f"schedule {name!r} is declared already in {queue!r}")
            self._schedules[queue, name] = Handler(function), words
            return function

        return declare

    def on(self, event: Event) -> Callable[[F], F]:
        """The function is called with a job that has started, is done, fails (and with the error), or is lost."""

        def declare(function: F) -> F:
            self._hooks[event].append(function)
            return function

        return declare

    # Running.

    def run(self, *, grace: Duration = "25s", sync: bool = False) -> None:
        """Works until SIGTERM or SIGINT, then ends in order. Exits with status 1 if not everything could be told."""
        # A child process imports the program again, and this call with it.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            return
        runner = self._runner(grace)
        main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
        before = {number: signal.signal(number, lambda *_: runner.stop()) for number in numbers}
        try:
            clean = runner.supervise(lambda line: self._prepare(line, sync))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if not clean:
            raise SystemExit(1)

    def start(self, *, grace: Duration = "25s", sync: bool = False) -> Background:
        """Works on threads of its own, until `stop`."""
        return Background(self._runner(grace), lambda line: self._prepare(line, sync))

    def _runner(self, grace: Duration) -> Runner:
        workers = [(queues, Routes(self.app), options) for queues, _, options in self._workers]
        for (_, routes, _), (_, declared, _) in zip(workers, self._workers):
            routes.by_queue.update(declared.by_queue)
        for (queue, name), (handler, _) in self._schedules.items():
            found = next((routes for queues, routes, _ in workers if queue in queues), None)
            if found is None:
                workers.append(([queue], Routes(self.app), _group()))
                found = workers[-1][1]
            found.by_schedule[queue, name] = handler
        if not workers:
            raise ValueError("nothing is declared: decorate a function with worker, every or cron")
        groups = [Group(queues, routes, self.codec, options) for queues, routes, options in workers]
        return Runner(self._servers, groups, self._hooks, seconds(grace), self.trace)

    def _prepare(self, line: Callable[[str], Route], sync: bool) -> None:
        queues = dict.fromkeys([queue for queues, _, _ in self._workers for queue in queues] + [queue for queue, _ in self._schedules])
        info = line(next(iter(queues))).call("INFO", "server").decode()
        version = re.search(r"^delayd_version:(\d+)\.(\d+)\.(\d+)", info, re.M)
        if not version:
            raise Refused("ERR this is not a delayd server: INFO server shows no delayd_version")
        if tuple(map(int, version.groups())) < LEAST_SERVER:
            raise Refused(f"ERR delayd {'.'.join(map(str, LEAST_SERVER))} or later is needed, this is {'.'.join(version.groups())}")
        for (queue, name), (_, words) in self._schedules.items():
            line(queue).call("DELAY.SCHEDULE", "SET", queue, name, *words)
        for queue in queues if sync else ():
            self._remove_undeclared(line(queue), queue)

    def _remove_undeclared(self, line: Route, queue: str) -> None:
        after: list[Word] = []
        while rows := line.call("DELAY.SCHEDULE", "LIST", queue, *after):
            after = ["AFTER", rows[-1][0]]
            for name in (row[0].decode("utf-8", "surrogateescape") for row in rows):
                if name.startswith(f"{self.app}:") and (queue, name) not in self._schedules:
                    line.call("DELAY.SCHEDULE", "DEL", queue, name)
                    log.warning("schedule %s of %s is not declared any more: removed", name, queue)


class Background:
    """A worker on threads of its own."""

    def __init__(self, runner: Runner, prepare: Callable[[Callable[[str], Route]], None]) -> None:
        self.runner = runner
        self._clean = False
        self._error: Optional[Exception] = None
        self._thread = threading.Thread(target=self._run, args=(prepare,), name="delayd", daemon=True)
        self._thread.start()

    @property
    def counters(self) -> dict[str, int]:
        return dict(self.runner.counters)

    def stop(self, *, at_once: bool = False) -> bool:
        """Ends in order; whether everything was told. Raises what made it stop before."""
        for _ in range(2 if at_once else 1):
            self.runner.stop()
        self._thread.join()
        if self._error:
            raise self._error
        return self._clean

    def _run(self, prepare: Callable[[Callable[[str], Route]], None]) -> None:
        try:
            self._clean = self.runner.supervise(prepare)
        except Exception as error:
            log.error("the worker has stopped: %s", error)
            self._error = error


def _group(
    concurrency: int = 1, processes: int = 0, lease: Duration = "60s", timeout: Optional[Duration] = None,
    rotate: bool = False, cancel_lost: bool = True,
) -> dict[str, Any]:  # fmt: skip
    return {
        "concurrency": concurrency, "processes": processes, "lease": seconds(lease), "rotate": rotate,
        "timeout": None if timeout is None else seconds(timeout), "cancel_lost": cancel_lost,
    }  # fmt: skip


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
