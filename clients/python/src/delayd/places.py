"""Where handlers run: threads, an event loop, or child processes."""

from __future__ import annotations

import asyncio
import inspect
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Optional

from .job import DONE, GIVEN_BACK, Codec, Job, Outcome, failed, outcome_of, undecodable

if TYPE_CHECKING:
    from .worker import Group

log = logging.getLogger("delayd")

PATIENCE = 0.2
COLLECT = 0.001


class Handler:
    """A function, and whether it takes the job beside the body."""

    def __init__(self, function: Callable[..., Any]) -> None:
        call = type(function).__call__
        if any(is_one(each) for is_one in (inspect.isgeneratorfunction, inspect.isasyncgenfunction) for each in (function, call)):
            raise TypeError(f"{function!r} is a generator: nothing of it would run")
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        try:
            taken = [p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        except ValueError:  # Some builtins do not tell.
            taken = []
        self._takes_job = sum(p.default is p.empty for p in taken) >= 2 or any(p.name == "job" for p in taken[1:])

    def __call__(self, job: Job[Any]) -> Any:
        return self.function(job.body, job) if self._takes_job else self.function(job.body)


class Routes:
    """Which handler a job is for: that of the schedule of this program's which its id names, else that of its queue."""

    def __init__(self, app: str) -> None:
        self.app = app
        self.by_queue: dict[str, Handler] = {}
        self.by_schedule: dict[tuple[str, str], Handler] = {}

    def find(self, job: Job[Any]) -> Optional[Handler]:
        name, _, at = job.id.rpartition("@")
        if name.startswith(f"{self.app}:") and at.isdecimal():
            return self.by_schedule.get((job.queue, name))
        return self.by_queue.get(job.queue)

    def all(self) -> list[Handler]:
        return [*self.by_queue.values(), *self.by_schedule.values()]


def prepare(routes: Routes, codec: Codec, job: Job[Any]) -> Any:
    """The handler, with the body decoded; or the outcome when it comes to neither."""
    handler = routes.find(job)
    if handler is None:
        return failed(f"this program has no function for {job.id}")
    try:
        job.body = codec.decode(job.raw)
    except Exception as error:
        return undecodable(error)
    return handler


def span(traced: bool, job: Job[Any]) -> Any:
    if not traced:
        return nullcontext()
    # By name: it is not installed everywhere, nor where types are checked.
    trace: Any = import_module("opentelemetry.trace")
    context = import_module("opentelemetry.propagate").extract({name: value for name, value in job.meta.items() if isinstance(value, str)})
    late = time.time() * 1000 - job.due_ms
    values = {"delayd.queue": job.queue, "delayd.id": job.id, "delayd.attempt": job.attempt, "delayd.lateness_ms": late}
    return trace.get_tracer("delayd").start_as_current_span("delayd.job", context, attributes=values)


def execute(routes: Routes, codec: Codec, traced: bool, job: Job[Any]) -> Outcome:
    handler, process = prepare(routes, codec, job), os.getpid()
    if isinstance(handler, Outcome):
        return handler
    try:
        with span(traced, job):
            result = handler(job)
            if inspect.isawaitable(result):
                # In a child process, or behind a decorator that does not say so.
                asyncio.run(_whole(result))
    except BaseException as error:
        _end_fork(process, error)
        job._error = error
        return outcome_of(error)
    _end_fork(process)
    return DONE


async def _whole(result: Any) -> None:
    await result


def _end_fork(process: int, error: Optional[BaseException] = None) -> None:
    """Ends the child of a handler that forked: it would go on as a second worker with this one's connections."""
    if os.getpid() == process:
        return
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code if isinstance(code, int) else int(code is not None))


class Places:
    """Counts the free ones. A job that was started is finished once, by `finish`."""

    cancels = False

    def __init__(self, group: Group, count: int) -> None:
        self.group, self.count, self.free = group, count, count
        self._changed = threading.Condition()

    def wait_free(self) -> int:
        """Free places; once all were taken, half of them or what 1 ms gives."""
        with self._changed:
            if not self.free:
                self._changed.wait_for(lambda: self.free, PATIENCE)
                half = max(1, self.count // 2)
                if 0 < self.free < half:
                    self._changed.wait_for(lambda: self.free >= half, COLLECT)
            return self.free

    def start(self, jobs: Sequence[Job[Any]]) -> None:
        with self._changed:
            self.free -= len(jobs)
        self._begin(jobs)

    def finish(self, job: Job[Any], outcome: Outcome) -> None:
        self.group.runner.finish(job, outcome)
        with self._changed:
            self.free += 1
            self._changed.notify()

    def _begin(self, jobs: Sequence[Job[Any]]) -> None:
        raise NotImplementedError

    def cancel(self, job: Job[Any], why: str) -> None:
        """Ends a running handler where it can be ended."""

    def close(self) -> None:
        """Ends what runs handlers."""


class Threads(Places):
    def __init__(self, group: Group, count: int) -> None:
        super().__init__(group, count)
        self._jobs: SimpleQueue[Optional[Job[Any]]] = SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, args=(number,), daemon=True) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _begin(self, jobs: Sequence[Job[Any]]) -> None:
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

    def __init__(self, group: Group, count: int) -> None:
        super().__init__(group, count)
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

    def _begin(self, jobs: Sequence[Job[Any]]) -> None:
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
            _end_fork(process, error)
            job._error = error
            return outcome_of(error)
        finally:
            if timer:
                timer.cancel()
        _end_fork(process)
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

    def __init__(self, group: Group, count: int) -> None:
        # Not a fork of this process: it has threads, and a fork would share the pipes of the other children.
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self._children: list[Any] = [None] * count
        self._up: set[int] = set()
        self._busy: dict[Job[Any], int] = {}
        super().__init__(group, count)

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
