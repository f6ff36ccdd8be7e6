"""Waits for jobs of queues that one command may name, as many as there are free places."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Optional

import redis

from .connection import ELSEWHERE, Backoff, Word, kind
from .job import Job
from .places import Places
from .servers import Route, slot_of

if TYPE_CHECKING:
    from .worker import Runner, Teller

WAIT_MAX = 5.0
COUNT_MAX = 10_000


class Taker(threading.Thread):
    def __init__(self, runner: Runner, places: Places, rank: int, queues: list[str], teller: Teller) -> None:
        super().__init__(name="delayd-taker", daemon=True)
        self.runner, self.places, self.rank, self.queues, self.teller = runner, places, rank, queues, teller
        self.group = places.group
        # After a longer wait a short lease would be over when the job arrives. A wait of 0 would have no end.
        self.wait = max(0.001, min(WAIT_MAX, self.group.lease / 3))
        self.line = Route(runner.servers, slot_of(queues[0]), self.wait + 5)
        self.stopped = threading.Event()
        self.waiting: Optional[int] = None
        self._turn = 0

    def is_unwanted(self) -> bool:
        """Whether it waits for jobs that could not be started."""
        return self.waiting is not None and (self.runner.stopping or not self.places.free)

    def run(self) -> None:
        backoff = Backoff()
        while not self.stopped.is_set():
            try:
                jobs = self._take()
                backoff.reset()
                if jobs:
                    self.places.start(jobs)
            except Exception as error:
                self.waiting = None
                self.places.leave(self.rank)
                if self.runner.is_over("taking", error):
                    break
                if not isinstance(error, redis.ResponseError) or kind(error) in ELSEWHERE:
                    self.line.close()
                self.stopped.wait(backoff.next())
        self.line.close()

    def _take(self) -> list[Job[Any]]:
        places, alone = self.places, self.places.takers == 1
        free = places.wait_free() if alone else 1
        if not free or self.teller.is_full():
            places.leave(self.rank)
            self.stopped.wait(0.01 if free else 0)
            return []
        self.line.open()
        if alone:
            return self._reserve(free, self.wait)
        if places.are_scarce:
            with places.turn(self.rank) as free:
                jobs = self._reserve(free, None) if free else []
            if jobs or not free:
                return jobs
        places.leave(self.rank)
        # Each waits for its share. Jobs for which there is no place in the end are given back.
        return self._reserve(max(1, places.free // places.takers), self.wait)

    def _reserve(self, count: int, wait: Optional[float]) -> list[Job[Any]]:
        group, queues = self.group, self.queues
        if group.rotate:
            queues = queues[self._turn :] + queues[: self._turn]
            self._turn = (self._turn + 1) % len(queues)
        words: list[Word] = ["DELAY.RESERVE", "NOWAIT" if wait is None else f"{wait:.3f}", len(queues), *queues]
        words += ["COUNT", min(count, COUNT_MAX), "LEASE", f"{round(group.lease * 1000)}ms", "META"]
        sent = time.monotonic()
        self.waiting = None if wait is None else self.line.id
        if self.stopped.is_set() or self.is_unwanted():
            self.waiting = None
            return []
        reply = self.line.call(*words)
        self.waiting = None
        jobs = [Job[Any](each, group.lease, sent, self.places, self.teller) for each in reply or ()]
        self.places.note(self.rank, bool(jobs))
        placed = self.places.claim(len(jobs)) if jobs else 0
        fresh = [job for number, job in enumerate(jobs) if self.runner.arrive(job, number < placed)]
        if len(fresh) < placed:
            self.places.release(placed - len(fresh))
        return fresh
