"""Which handler a job is for, and what running it comes to."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Callable, Optional

from .job import DONE, Codec, Job, Outcome, failed, outcome_of, undecodable


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
        end_fork(process, error)
        job._error = error
        return outcome_of(error)
    end_fork(process)
    return DONE


async def _whole(result: Any) -> None:
    await result


def end_fork(process: int, error: Optional[BaseException] = None) -> None:
    """Ends the child of a handler that forked: it would go on as a second worker with this one's connections."""
    if os.getpid() == process:
        return
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code if isinstance(code, int) else int(code is not None))
