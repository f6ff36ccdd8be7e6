"""Where handlers run: threads, an event loop, or child processes."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Optional

from .job import DONE, GIVEN_BACK, Codec, Job, Outcome, failed, outcome_of
from .routes import Routes, end_fork, execute, prepare, span

if TYPE_CHECKING:
    from .worker import Group

log = logging.getLogger("delayd")

PATIENCE = 0.2
COLLECT = 0.001
#: For each taker: with fewer, those whose queues are empty would be asked more often than those with jobs.
EMPTY_FOR = 0.001


class Places:
    """Counts the free ones. A job that was started is finished once, by `finish`.

    While fewer are free than there are takers, these ask one after the other, in the order of their queues: no more jobs come
    than there are places, and those of the first queues come first.
    """

    cancels = False

    def __init__(self, group: Group, count: int, takers: int) -> None:
        self.group, self.count, self.free, self.takers = group, count, count, takers
        self._lock = threading.Lock()
        #: Where each taker waits for its turn.
        self._doors = [threading.Condition(self._lock) for _ in range(takers)]
        # Takers that will ask; the one that may ask next; the one that asks now. A single one always may.
        self._here = set(range(takers))
        self._next: Optional[int] = None
        self._asking = 0 if takers == 1 else None
        # When each has asked last, as a number; and when in vain.
        self._last, self._numbers = [0] * takers, itertools.count(1)
        self._empty = [0.0] * takers

    @property
    def are_scarce(self) -> bool:
        return self.free < self.takers

    def wait_free(self) -> int:
        """Free places, for a single taker; once all were taken, half of them or what 1 ms gives."""
        with self._lock:
            full = not self.free
            self._doors[0].wait_for(lambda: self.free, PATIENCE)
            return self._collect(0, full)

    def _collect(self, taker: int, full: bool) -> int:
        half = max(1, self.count // 2)
        if full and 0 < self.free < half:
            self._doors[taker].wait_for(lambda: self.free >= half, COLLECT)
        return self.free

    @contextmanager
    def turn(self, taker: int) -> Iterator[int]:
        """Free places for the only taker that asks now; none if it is not its turn yet."""
        free = 0
        with self._lock:
            full = not self.free
            self._here.add(taker)
            self._choose()
            mine = self._doors[taker].wait_for(lambda: self._next == taker, PATIENCE)
            if mine:
                self._next, self._asking, self._last[taker] = None, taker, next(self._numbers)
                free = self._collect(taker, full)
        try:
            yield free
        finally:
            # It is still here: if it has found jobs, it comes before those of later queues again.
            if mine:
                with self._lock:
                    self._asking = None
                    self._choose()

    def _choose(self) -> None:
        """Lets the next one ask, if none does."""
        may = self.free and self._asking is None and self._here
        self._next = min(self._here, key=self._rank) if may else None
        if self._next is not None:
            self._doors[self._next].notify()

    def _rank(self, taker: int) -> tuple[bool, int, int]:
        was_empty = time.monotonic() < self._empty[taker] + EMPTY_FOR * self.takers
        return was_empty, self._last[taker] if self.group.rotate else 0, taker

    def note(self, taker: int, found: bool) -> None:
        """Whether there were jobs: queues without any are not asked again at once while others have some."""
        self._empty[taker] = 0.0 if found else time.monotonic()

    def leave(self, taker: int) -> None:
        """It waits, or cannot ask: the next one may."""
        with self._lock:
            if self.takers > 1:
                self._here.discard(taker)
                self._choose()

    def claim(self, number: int) -> int:
        """How many of so many jobs have a place."""
        with self._lock:
            claimed = min(number, self.free)
            self.free -= claimed
            full = not self.free
            self._choose()
        if full and self.takers > 1:
            # Others may be waiting for jobs.
            self.group.runner.wake()
        return claimed

    def release(self, number: int = 1) -> None:
        with self._lock:
            self.free += number
            if self._asking is None:
                self._choose()
            else:
                self._doors[self._asking].notify()

    def start(self, jobs: Sequence[Job[Any]]) -> None:
        """Runs jobs that have claimed their places."""
        raise NotImplementedError

    def finish(self, job: Job[Any], outcome: Outcome) -> None:
        self.group.runner.finish(job, outcome)
        self.release()

    def cancel(self, job: Job[Any], why: str) -> None:
        """Ends a running handler where it can be ended."""

    def close(self) -> None:
        """Ends what runs handlers."""


class Threads(Places):
    def __init__(self, group: Group, count: int, takers: int) -> None:
        super().__init__(group, count, takers)
        self._jobs: SimpleQueue[Optional[Job[Any]]] = SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, args=(number,), daemon=True) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def start(self, jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            self._jobs.put(job)

    def _serve(self, number: int) -> None:
        while (job := self._jobs.get()) is not None:
            outcome = self._execute(number, job) if self.group.runner.begin(job) else GIVEN_BACK
            self.finish(job, outcome)

    def _execute(self, number: int, job: Job[Any]) -> Outcome:
        return execute(self.group.routes, self.group.codec, self.group.runner.traced, job)

    def close(self) -> None:
        for _ in range(self.count):
            self._jobs.put(None)


class Loop(Places):
    """One event loop on a thread of its own. Functions that are not coroutines run in its threads."""

    cancels = True

    def __init__(self, group: Group, count: int, takers: int) -> None:
        super().__init__(group, count, takers)
        self._tasks: dict[Job[Any], asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._closed = False
        threading.Thread(target=self._run, name="delayd-loop", daemon=True).start()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._loop.run_forever()
            except BaseException as error:  # sys.exit() in a task that a handler has begun ends the loop.
                log.error("a task beside the handlers raised %s", type(error).__name__)

    def start(self, jobs: Sequence[Job[Any]]) -> None:
        self._loop.call_soon_threadsafe(self._create, jobs)

    def _create(self, jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            self._tasks[job] = self._loop.create_task(self._serve(job))

    async def _serve(self, job: Job[Any]) -> None:
        outcome = GIVEN_BACK
        try:
            if self.group.runner.begin(job):
                outcome = await self._execute(job)
        finally:
            self._tasks.pop(job, None)
            self.finish(job, outcome)

    async def _execute(self, job: Job[Any]) -> Outcome:
        group, process = self.group, os.getpid()
        handler = prepare(group.routes, group.codec, job)
        if isinstance(handler, Outcome):
            return handler
        timer = self._loop.call_later(group.timeout, self._end, job, "timeout") if group.timeout else None
        try:
            with span(group.runner.traced, job):
                result = handler(job) if handler.is_async else await asyncio.to_thread(handler, job)
                if inspect.isawaitable(result):
                    await result
        except asyncio.CancelledError as error:
            if job._cancelled:
                return failed("timeout") if job._cancelled == "timeout" else GIVEN_BACK
            return outcome_of(error)
        except BaseException as error:
            end_fork(process, error)
            job._error = error
            return outcome_of(error)
        finally:
            if timer:
                timer.cancel()
        end_fork(process)
        # It may have caught the cancellation.
        return failed("timeout") if job._cancelled == "timeout" else DONE

    def _end(self, job: Job[Any], why: str) -> None:
        task = self._tasks.get(job)
        if task is not None:
            job._cancelled = why
            task.cancel()

    def cancel(self, job: Job[Any], why: str) -> None:
        self._loop.call_soon_threadsafe(self._end, job, why)

    def close(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)


def _child(pipe: Any, routes: Routes, codec: Codec, traced: bool) -> None:
    """A child works off one job after the other until its parent is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Programs that a handler starts would ignore what is ignored here.
        signal.signal(number, lambda *_: None)
    pipe.send("up")
    while True:
        try:
            pieces = pipe.recv()
        except EOFError:
            return
        job: Job[Any] = Job(pieces, 0.0, 0.0)
        pipe.send(tuple(execute(routes, codec, traced, job)))


# Starting a process collects the statuses of those that have ended, and one that two threads read at a time is lost.
_starting = threading.Lock()


class Processes(Threads):
    """Each thread has a child process that runs its handlers, and can be killed."""

    cancels = True

    def __init__(self, group: Group, count: int, takers: int) -> None:
        # Not a fork of this process: it has threads, and a fork would share the pipes of the other children.
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self._children: list[Any] = [None] * count
        self._up: set[int] = set()
        self._busy: dict[Job[Any], int] = {}
        super().__init__(group, count, takers)

    def _start_child(self) -> Any:
        ours, theirs = self._context.Pipe()
        arguments = (theirs, self.group.routes, self.group.codec, self.group.runner.traced)
        process = self._context.Process(target=_child, args=arguments, name="delayd-child")
        with _starting:
            process.start()
        theirs.close()
        return process, ours

    def _serve(self, number: int) -> None:
        try:
            self._children[number] = self._start_child()
            super()._serve(number)
        except Exception as error:
            self.group.runner.fail(error)
        finally:
            if self._children[number]:
                self._children[number][0].kill()
                with _starting:
                    self._children[number][0].join()

    def _execute(self, number: int, job: Job[Any]) -> Outcome:
        process, pipe = self._children[number]
        self._busy[job] = number
        try:
            if number not in self._up:
                # Importing the program is no part of a handler's time.
                pipe.recv()
                self._up.add(number)
            pipe.send(job._pieces())
            if not pipe.poll(self.group.timeout):
                job._cancelled = "timeout"
                process.kill()
            return Outcome(*pipe.recv())
        except (EOFError, OSError):
            return self._replace(number, job)
        finally:
            del self._busy[job]

    def _replace(self, number: int, job: Job[Any]) -> Outcome:
        process, pipe = self._children[number]
        self._up.discard(number)
        pipe.close()
        with _starting:
            process.join()
        if not self.group.runner.stopping:
            self._children[number] = self._start_child()
        if job._cancelled:
            return failed("timeout") if job._cancelled == "timeout" else GIVEN_BACK
        code = process.exitcode
        return failed(f"killed by signal {-code}" if code < 0 else f"exited with status {code}")

    def cancel(self, job: Job[Any], why: str) -> None:
        number = self._busy.get(job)
        if number is not None:
            job._cancelled = why
            self._children[number][0].kill()

    def close(self) -> None:
        super().close()
        for job in list(self._busy):
            self.cancel(job, "stopped")
        # Each thread ends its child, one that was just starting, too. A child that is left would be waited for at exit.
        for thread in self._threads:
            thread.join()
