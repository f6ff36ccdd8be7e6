"""Takes jobs, extends their leases, tells what became of them. `clients/RULES.md` has the numbered rules."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional, Union

import redis

from .connection import ELSEWHERE, Backoff, Word, is_final, kind, refusal
from .job import GIVEN_BACK, Codec, Job, Outcome, failed
from .places import Loop, Places, Processes, Threads
from .routes import Routes
from .servers import Route, Servers, slot_of
from .taker import Taker

log = logging.getLogger("delayd")

TELL_TIMEOUT = 5.0
UNBLOCK_EVERY = 0.05
TELLING_AFTER_GRACE = 1.0
PAIRS_MAX = 1000
COLLECT = 0.001
COUNTERS = ("started", "done", "failed", "retried", "snoozed", "buried", "given_back", "lost")
SIGNALS_SEEN_WITHIN = 0.2
STOP = "stop"

Mail = Union[str, Exception, Job[Any]]
Hooks = dict[str, list[Callable[..., Any]]]


class Group:
    """Queues that are served together, with places of their own and a connection that waits; of several slots, one for each."""

    def __init__(self, queues: list[str], routes: Routes, codec: Codec, options: dict[str, Any]) -> None:
        self.queues, self.routes, self.codec = queues, routes, codec
        self.processes: int = options["processes"]
        self.concurrency: int = self.processes or options["concurrency"]
        self.lease: float = options["lease"]
        self.timeout: Optional[float] = options["timeout"]
        self.rotate: bool = options["rotate"]
        self.cancel_lost: bool = options["cancel_lost"]
        self.runner: Runner

    def places(self, takers: int) -> Places:
        if self.processes:
            return Processes(self, self.concurrency, takers)
        if any(handler.is_async for handler in self.routes.all()):
            return Loop(self, self.concurrency, takers)
        return Threads(self, self.concurrency, takers)


class Teller(threading.Thread):
    """The only thread that uses the telling connection of a partition: outcomes, extensions, CLIENT UNBLOCK."""

    def __init__(self, runner: Runner, slot: int) -> None:
        super().__init__(name="delayd-teller", daemon=True)
        self.runner = runner
        lease = min(group.lease for group in runner.groups)
        self.period = lease / 6
        self.line = Route(runner.servers, slot, min(TELL_TIMEOUT, max(0.5, lease / 3)))
        self.inbox: SimpleQueue[Optional[tuple[Job[Any], Outcome]]] = SimpleQueue()
        self.untold: deque[tuple[Job[Any], Outcome]] = deque()
        self.closing: Optional[float] = None
        self._backoff = Backoff()
        self._tick = self._retry_at = self._unblock_at = 0.0
        self._busy = False

    def is_full(self) -> bool:
        return self.left() > PAIRS_MAX

    def run(self) -> None:
        try:
            while not self._is_over():
                self._collect()
                now = time.monotonic()
                extended = self._due_for_extension(now) if now >= self._tick else []
                unblocked = self._waiting_takers(now)
                if now >= self._retry_at and (self.untold or extended or unblocked):
                    self._speak(now, extended, unblocked)
        except Exception as error:
            log.exception("the telling thread ended")
            self.runner.fail(error)
        self.line.close()

    def left(self) -> int:
        return len(self.untold) + self.inbox.qsize()

    def _is_over(self) -> bool:
        if self.closing is None:
            return False
        # In this order: what a taker gives back is in the inbox by the time it has ended.
        taking = any(taker.is_alive() for taker in self.runner.takers)
        return time.monotonic() > self.closing or not (taking or self.left())

    def _collect(self) -> None:
        now = time.monotonic()
        until = min(self._tick, max(self._retry_at, now) if self.untold else self._tick)
        if self.runner.stopping or self._unwanted():
            until = min(until, now + UNBLOCK_EVERY)
        try:
            item = self.inbox.get(timeout=max(0.0, until - now)) if until > now else self.inbox.get_nowait()
            if self._busy and self.closing is None:
                time.sleep(COLLECT)
            while True:
                if item:
                    self.untold.append(item)
                item = self.inbox.get_nowait()
        except Empty:
            self._busy = len(self.untold) > 1

    def _due_for_extension(self, now: float) -> list[Job[Any]]:
        self._tick = now + self.period
        due: list[Job[Any]] = []
        for job in [job for job in list(self.runner.running.values()) if job._teller is self]:
            if now >= job._until:
                self.runner.lose(job, "its lease is over by this worker's clock")
            elif job._extend_at <= self._tick:
                due.append(job)
            group = job._places.group
            if group.timeout and not job._places.cancels and not job._cancelled and now > job._started + group.timeout > group.timeout:
                job._cancelled = "timeout"
                log.warning("%r runs longer than its timeout of %gs; a thread cannot be cancelled", job, group.timeout)
        return due

    def _unwanted(self) -> list[Taker]:
        """Takers whose waiting should end: places are full, or the worker stops."""
        return [taker for taker in self.runner.takers if taker.teller is self and taker.is_unwanted()]

    def _waiting_takers(self, now: float) -> list[Taker]:
        unwanted = self._unwanted() if now >= self._unblock_at else []
        if unwanted:
            self._unblock_at = now + UNBLOCK_EVERY
        return unwanted

    def _speak(self, now: float, extended: list[Job[Any]], unblocked: list[Taker]) -> None:
        """One pipeline. What has been answered is taken off the list; the rest is said again."""
        batch = [self.untold.popleft() for _ in range(min(len(self.untold), PAIRS_MAX))]
        batch = [told for told in batch if not self._is_too_late(now, *told)]
        steps = self._acks(batch) + [self._nack(told) for told in batch if told[1].words is not None]
        steps += [self._extension(job, now) for job in extended]
        steps += [(["CLIENT", "UNBLOCK", taker.waiting or 0], [], lambda reply: None) for taker in unblocked]
        unanswered = deque(steps)
        again: list[tuple[Job[Any], Outcome]] = []
        try:
            self.line.open()
            self.line.send(words for words, _, _ in steps)
            while unanswered:
                _, told, done = unanswered[0]
                reply = self.line.read()
                unanswered.popleft()
                if not isinstance(reply, redis.ResponseError):
                    done(reply)
                elif is_final(reply):
                    again += self._refused(told, reply)
                else:
                    again += told
                    if kind(reply) in ELSEWHERE:
                        raise redis.ConnectionError(str(reply))
                    self._pause(reply)
            if not again:
                self._backoff.reset()
        except (redis.RedisError, OSError) as error:
            self.line.close()
            for _, told, _ in unanswered:
                for job, _ in told:
                    job._again = True
                again += told
            self._pause(error)
        self.untold.extendleft(reversed(again))

    def _refused(self, told: list[tuple[Job[Any], Outcome]], reply: redis.ResponseError) -> list[tuple[Job[Any], Outcome]]:
        """What to say instead of words that the server does not take, such as a time that is too far away."""
        if kind(reply) in ("NOPERM", "NOAUTH"):
            self.runner.fail(reply)
        elif len(told) == 1 and told[0][1].kind in ("retried", "snoozed", "buried"):
            log.error("%r fails instead: %s", told[0][0], reply)
            return [(told[0][0], failed(f"{told[0][1].kind}, which the server refuses: {reply}"))]
        log.error("not told: %s", reply)
        return []

    def _pause(self, error: Exception) -> None:
        self.runner.is_over("telling", error)
        self._retry_at = time.monotonic() + self._backoff.next()

    def _is_too_late(self, now: float, job: Job[Any], outcome: Outcome) -> bool:
        # Later the token does nothing any more.
        late = now > job._until + job._lease
        if late:
            self.runner.count("lost")
            log.warning("%r: %s could not be told in time", job, outcome.kind)
        return late

    def _acks(self, batch: list[tuple[Job[Any], Outcome]]) -> list[Any]:
        by_queue: dict[tuple[bytes, bool], list[tuple[Job[Any], Outcome]]] = {}
        for told in batch:
            if told[1].words is None:
                by_queue.setdefault((told[0]._queue, told[0]._again), []).append(told)
        return [self._ack(queue, told) for (queue, _), told in by_queue.items()]

    def _ack(self, queue: bytes, told: list[tuple[Job[Any], Outcome]]) -> Any:
        words: list[Word] = [b"DELAY.ACK", queue]
        for job, _ in told:
            words += (job._id, job.token)

        def done(count: int) -> None:
            lacking = len(told) - count
            self.runner.count("done", len(told) if told[0][0]._again else count)
            if lacking and not told[0][0]._again:
                self.runner.count("lost", lacking)
                names = ", ".join(job.id for job, _ in told[:5])
                log.warning("%d of %d leases were lost before ACK in %s: %s", lacking, len(told), told[0][0].queue, names)

        return words, told, done

    def _nack(self, told: tuple[Job[Any], Outcome]) -> Any:
        job, outcome = told

        def done(count: int) -> None:
            if count or job._again:
                self.runner.count(outcome.kind)
            else:
                self.runner.count("lost")
                log.warning("%r: its lease was lost before NACK (%s)", job, outcome.kind)

        return [b"DELAY.NACK", job._queue, job._id, job.token, *(outcome.words or ())], [told], done

    def _extension(self, job: Job[Any], now: float) -> Any:
        def done(reply: Any) -> None:
            if reply is not None:
                job._until, job._extend_at = now + job._lease, now + job._lease / 3
            else:
                self.runner.lose(job, "the server has ended its lease")

        return [b"DELAY.EXTEND", job._queue, job._id, job.token, f"{round(job._lease * 1000)}ms"], [], done


class Runner:
    """Everything that runs for one Delayd, from the first connection to the last word."""

    def __init__(self, servers: Servers, groups: list[Group], hooks: Hooks, grace: float, traced: bool = False) -> None:
        self.servers, self.groups, self.hooks, self.grace, self.traced = servers, groups, hooks, grace, traced
        self.running: dict[int, Job[Any]] = {}
        self.ending: dict[int, Job[Any]] = {}
        self.counters: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.mailbox: SimpleQueue[Mail] = SimpleQueue()
        self.stopping = False
        self.places: list[Places] = []
        self.takers: list[Taker] = []
        #: One for each partition, once they are known.
        self.tellers = [Teller(self, slot_of(groups[0].queues[0]))]
        self._by_partition: dict[int, Teller] = {}
        self._counting = threading.Lock()
        self._said: dict[str, float] = {}

    def stop(self) -> None:
        """The first call ends taking, the second one the grace. For signal handlers, too."""
        self.mailbox.put(STOP)

    def fail(self, error: Exception) -> None:
        self.mailbox.put(refusal(error) if isinstance(error, redis.ResponseError) else error)

    def supervise(self, prepare: Callable[[Callable[[str], Route]], None]) -> bool:
        """Runs until it is stopped; whether everything was told. Raises what made it stop by itself."""
        end, clean = self._prepare(prepare), True
        if end is None:
            try:
                self._start()
                end = self._attend(math.inf)
                clean = self._shut_down()
            finally:
                for places in self.places:
                    places.close()
        if isinstance(end, Exception):
            raise end
        return clean

    def _prepare(self, prepare: Callable[[Callable[[str], Route]], None]) -> Optional[Mail]:
        """What must be known or said before the first job, once the server can be reached."""
        backoff = Backoff()
        while True:
            try:
                self._meet()
                prepare(lambda queue: self._teller_of(queue).line)
                return None
            except Exception as error:
                for teller in self.tellers:
                    teller.line.close()
                self.is_over("starting", error)
            if (mail := self._attend(time.monotonic() + backoff.next())) is not None:
                return mail

    def _meet(self) -> None:
        """The first connection says what partitions there are: a teller for each that has a queue of ours."""
        self.tellers[0].line.open()
        for slot in [slot_of(queue) for group in self.groups for queue in group.queues]:
            partition = self.servers.partition(slot)
            if partition not in self._by_partition:
                if self._by_partition:
                    self.tellers.append(Teller(self, slot))
                self._by_partition[partition] = self.tellers[-1]

    def _teller_of(self, queue: str) -> Teller:
        return self._by_partition[self.servers.partition(slot_of(queue))]

    def _start(self) -> None:
        for teller in self.tellers:
            teller.start()
        for group in self.groups:
            group.runner = self
            slots = self.servers.by_slot(group.queues)
            self.places.append(group.places(len(slots)))
            for rank, queues in enumerate(slots):
                self.takers.append(Taker(self, self.places[-1], rank, queues, self._teller_of(queues[0])))
        for taker in self.takers:
            taker.start()

    def _attend(self, until: float) -> Optional[Mail]:
        """Calls the hooks of lost jobs, until told to stop or until this time."""
        while (now := time.monotonic()) < until:
            try:
                # Not without an end: a signal just before the wait would be handled after it.
                mail = self.mailbox.get(timeout=min(until - now, SIGNALS_SEEN_WITHIN))
            except Empty:
                continue
            if not isinstance(mail, Job):
                return mail
            self._call_hooks("lost", mail)
        return None

    def _shut_down(self) -> bool:
        self.stopping = True
        for taker in self.takers:
            taker.stopped.set()
        self.wake()
        in_order = self._wait_idle(self.grace)
        if not in_order:
            for job in list(self.running.values()):
                job._places.cancel(job, "stopped")
            self._wait_idle(TELLING_AFTER_GRACE / 2, deaf=True)
        left = list(self.running.values())
        for job in left:
            log.warning("%r is still running: its lease ends in %.0fs", job, job._until - time.monotonic())
        closing = time.monotonic() + TELLING_AFTER_GRACE / 2
        for teller in self.tellers:
            teller.closing = closing
        self.wake()
        for teller in self.tellers:
            teller.join(max(0.0, closing + TELLING_AFTER_GRACE / 2 - time.monotonic()))
        taking, untold = any(taker.is_alive() for taker in self.takers), sum(teller.left() for teller in self.tellers)
        if untold:
            log.warning("%d outcomes could not be told", untold)
        return not (left or taking or untold)

    def _wait_idle(self, patience: float, deaf: bool = False) -> bool:
        until = time.monotonic() + patience
        while self.running or self.ending or any(taker.is_alive() for taker in self.takers):
            if time.monotonic() > until:
                return False
            if self._attend(time.monotonic() + 0.005) is STOP and not deaf:
                return False
        return True

    def wake(self) -> None:
        """The tellers look again at what is to be done."""
        for teller in self.tellers:
            teller.inbox.put(None)

    def arrive(self, job: Job[Any], has_place: bool) -> bool:
        """Whether it may be started; else it is given back at once."""
        fresh = has_place and not self.stopping and time.monotonic() < job._until
        if fresh:
            self.running[id(job)] = job
        else:
            job._teller.inbox.put((job, GIVEN_BACK))
        return fresh

    def begin(self, job: Job[Any]) -> bool:
        if self.stopping or job.lost:
            return False
        job._started = time.monotonic()
        self.count("started")
        if self.hooks["start"]:
            self._call_hooks("start", job)
        return True

    def finish(self, job: Job[Any], outcome: Outcome) -> None:
        """Tells the outcome, unless the lease was lost meanwhile."""
        # It is in one of the two until it is in the inbox: a worker that stops waits for both.
        self.ending[id(job)] = job
        if self.running.pop(id(job), None) is not None:
            if outcome.kind in ("failed", "buried"):
                log.warning("%r %s: %s", job, outcome.kind, outcome.error)
                self._call_hooks("fail", job, job._error)
            elif outcome.kind == "done" and self.hooks["done"]:
                self._call_hooks("done", job)
            job._teller.inbox.put((job, outcome))
        del self.ending[id(job)]

    def lose(self, job: Job[Any], why: str) -> None:
        if self.running.pop(id(job), None) is None:
            return
        job.lost = True
        self.count("lost")
        log.warning("%r is lost: %s", job, why)
        if job._places.group.cancel_lost:
            job._places.cancel(job, "lost")
        self.mailbox.put(job)

    def count(self, name: str, number: int = 1) -> None:
        with self._counting:
            self.counters[name] += number

    def is_over(self, doing: str, error: Exception) -> bool:
        """Whether an error ends the worker. One that does not is logged once in ten seconds."""
        if is_final(error):
            self.fail(error)
            return True
        now = time.monotonic()
        if now > self._said.get(doing, 0.0) + 10:
            self._said[doing] = now
            log.warning("%s: %s; trying again", doing, error)
        return False

    def _call_hooks(self, name: str, *arguments: Any) -> None:
        for hook in self.hooks[name]:
            try:
                hook(*arguments)
            except BaseException:
                log.exception("a hook on %s failed", name)
