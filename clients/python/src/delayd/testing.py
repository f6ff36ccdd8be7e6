"""Tests of a program without a server."""

from __future__ import annotations

import itertools
import threading
import time
from types import TracebackType
from typing import Any, NamedTuple, Optional

from .client import Delayd
from .job import Codec, Job, Outcome
from .routes import Routes, execute
from .words import group_word, meta_words

__all__ = ["Ran", "run_inline"]


class Ran(NamedTuple):
    """A job that was added: what its handler came to (`done`, `failed`, `retried`, `snoozed`, `buried`), None without a handler."""

    queue: str
    id: str
    body: Any
    outcome: Optional[str]
    error: Optional[BaseException]


class run_inline:
    """Within the block `add` and `add_many` call the handler at once, whatever the delay.

    An error of a handler comes out of `add`, unless it steers or `raises=False`. `jobs` has all of them in order.
    """

    def __init__(self, queue: Delayd, *, raises: bool = True) -> None:
        self.queue, self.raises = queue, raises
        self.jobs: list[Ran] = []
        self._numbers = itertools.count(1)

    def __enter__(self) -> run_inline:
        self.queue._inline = self
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.queue._inline = None

    def take(self, queue: str, id: Optional[str], raw: Any, group: Any, meta: Any) -> str:
        name = id or f"inline:{next(self._numbers)}"
        meta = [word.encode() if isinstance(word, str) else word for word in meta_words(meta)[2:]]
        pieces = (queue.encode(), name.encode(), raw, b"0", 1, int(time.time() * 1000), 0, group_word(group), meta)
        job: Job[Any] = Job(pieces, 60.0, time.monotonic())
        routes = Routes(self.queue.app)
        for _, declared, _ in self.queue._workers:
            routes.by_queue.update(declared.by_queue)
        outcome = self._run(routes, self.queue.codec, job) if routes.find(job) else None
        self.jobs.append(Ran(queue, name, getattr(job, "body", raw), outcome and outcome.kind, job._error))
        if outcome and outcome.kind == "failed" and job._error and self.raises:
            raise job._error
        return name

    def _run(self, routes: Routes, codec: Codec, job: Job[Any]) -> Outcome:
        found = routes.find(job)
        if found is None or not found.is_async:
            return execute(routes, codec, False, job)
        # On a thread of its own, since the caller may run in an event loop.
        outcomes: list[Outcome] = []
        thread = threading.Thread(target=lambda: outcomes.append(execute(routes, codec, False, job)))
        thread.start()
        thread.join()
        return outcomes[0]
