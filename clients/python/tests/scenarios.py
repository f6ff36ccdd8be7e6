"""The driver for clients/conformance: knows the format, and no scenario."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import tempfile
import time
from pathlib import Path

from support import HERE, PATIENCE_S, Ledger, Server

from delayd import Bury, Delayd, Discard, Retry, Snooze

FOLDER = Path(os.environ.get("DELAYD_CONFORMANCE", HERE.parents[1] / "conformance"))
MODES = ("threads", "asyncio", "processes")
JOB_FIELDS = {"queue", "id", "body", "text", "delay", "attempts", "backoff", "priority", "lease", "ttl", "group", "meta"}
WORKER_FIELDS = {"queues", "concurrency", "lease", "grace", "timeout", "rotate", "app", "sync", "schedules"}
FIELDS = {"name", "rules", "only", "setup", "jobs", "handlers", "workers", "steps", "expect"}


def scenarios():
    for path in sorted(FOLDER.glob("*.json")):
        for scenario in json.loads(path.read_text()):
            assert set(scenario) <= FIELDS, (scenario["name"], set(scenario) - FIELDS)
            for mode in MODES:
                if not {"python", mode}.isdisjoint(scenario.get("only", ["python"])):
                    yield scenario, mode


# Handlers: of the module, so that they can be sent to a child process.


def choose(behaviours, ledger, name, job):
    """What this start of the job does."""
    begun = sum(row[:2] == ["began", name] for row in ledger.rows())
    ledger.write("began", name, job.body, job.meta, job.group)
    choices = behaviours.get(name) or behaviours["*"]
    return choices[min(begun, len(choices) - 1)]


def name_of(job):
    return job.id.rpartition("@")[0].partition(":")[2] if "@" in job.id else job.id


def instant(action):
    kind, *rest = action
    errors = {"throw": ValueError, "retry": Retry, "snooze": Snooze, "bury": Bury, "discard": Discard}
    if kind == "exit":
        os._exit(rest[0])
    if kind == "kill":
        os.kill(os.getpid(), rest[0])
    raise errors[kind](*rest)


def handle(behaviours, path, body, job):
    ledger, name = Ledger(path), name_of(job)
    try:
        for action in choose(behaviours, ledger, name, job):
            if action[0] in ("wait", "block"):
                time.sleep(action[1] / 1000)
            elif action[0] == "until_lost":
                deadline = time.monotonic() + 10
                while not job.lost:
                    if time.monotonic() > deadline:
                        raise ValueError("not lost")
                    time.sleep(0.01)
            else:
                instant(action)
    finally:
        if job.lost:
            ledger.write("lost", name)
        ledger.write("ended", name)


async def handle_async(behaviours, path, body, job):
    ledger, name = Ledger(path), name_of(job)
    try:
        for action in choose(behaviours, ledger, name, job):
            if action[0] == "wait":
                await asyncio.sleep(action[1] / 1000)
            elif action[0] == "block":
                time.sleep(action[1] / 1000)
            elif action[0] == "until_lost":
                await asyncio.sleep(10)
                raise ValueError("not lost")
            else:
                instant(action)
    finally:
        if job.lost:
            ledger.write("lost", name)
        ledger.write("ended", name)


class Run:
    def __init__(self, scenario, mode, partitions=1):
        self.scenario, self.mode, self.partitions = scenario, mode, partitions
        self.workers, self.exits, self.took = {}, {}, {}
        self.leased_most = {}
        self.lost_counted = []

    def run(self):
        with Server(partitions=self.partitions) as self.server, tempfile.TemporaryDirectory() as folder:
            self.ledger = Ledger(Path(folder, "ledger"))
            try:
                self._run()
            finally:
                for number in list(self.workers):
                    if number not in self.exits:
                        self._stop(number, True)

    def _run(self):
        for words in self.scenario.get("setup", ()):
            self.server.call(*words)
        producer = Delayd(self.server.url)
        for job in self.scenario["jobs"]:
            assert set(job) <= JOB_FIELDS, job
            options = {k: v for k, v in job.items() if k not in ("queue", "body", "text")}
            body = job["text"].encode() if "text" in job else job["body"]
            assert producer.add(job["queue"], body, **options) == job["id"]
        if not any("start" in step for step in self.scenario["steps"]):
            self._start(range(len(self.scenario["workers"])))
        for step in self.scenario["steps"]:
            ((kind, value),) = step.items()
            getattr(self, f"_step_{kind}")(value)
        for number in self.workers:
            if number not in self.exits:
                self._stop(number, False)
        self._look()
        wrong = self._wrong(self.scenario["expect"])
        assert not wrong, f"{wrong}; {self.ledger.rows()}"

    def _start(self, numbers):
        for number in numbers:
            options = dict(self.scenario["workers"][number])
            assert set(options) <= WORKER_FIELDS, options
            self.workers[number] = self._worker(options).start(grace=options.get("grace", "5s"), sync=options.get("sync", False))

    def _worker(self, options):
        queue = Delayd(self.server.url, app=options.get("app", "app"))
        function = handle_async if self.mode == "asyncio" else handle
        handler = lambda name: functools.partial(function, self.scenario["handlers"][name], self.ledger.path)
        places = "processes" if self.mode == "processes" else "concurrency"
        more = {k: options[k] for k in ("timeout", "rotate") if k in options}
        more.update({places: options.get("concurrency", 1)}, lease=options.get("lease", "5s"))
        merged = {}
        for name in options["queues"]:
            merged.update(self.scenario["handlers"][name])
        queue.worker(*options["queues"], **more)(functools.partial(function, merged, self.ledger.path))
        for schedule in options.get("schedules", ()):
            rule = {k: schedule[k] for k in ("overlap", "tz") if k in schedule}
            if "every" in schedule:
                queue.every(schedule["every"], schedule["queue"], name=schedule["function"], **rule)(handler(schedule["queue"]))
            else:
                queue.cron(schedule["cron"], schedule["queue"], name=schedule["function"], **rule)(handler(schedule["queue"]))
        return queue

    def _stop(self, number, at_once):
        began = time.monotonic()
        self.exits[number] = 0 if self.workers[number].stop(at_once=at_once) else 1
        self.took[number] = (time.monotonic() - began) * 1000

    def _step_start(self, numbers):
        self._start(numbers)

    def _step_wait(self, expectation):
        deadline = time.monotonic() + PATIENCE_S
        while wrong := self._wrong(expectation):
            assert time.monotonic() < deadline, f"{wrong}; {self.ledger.rows()}"
            self._look()
            time.sleep(0.01)

    def _step_command(self, words):
        """A word that is a dict means one of a worker's connections; the command goes to its partition."""
        server = self.server.redis
        for at, word in enumerate(words):
            if isinstance(word, dict):
                ((which, number),) = word.items()
                runner = self.workers[number].runner
                line = (runner.takers[0] if which == "worker" else runner.tellers[0]).line
                server, words = line._last, [*words[:at], line.id, *words[at + 1 :]]
        server.execute_command(*words)

    def _step_stop(self, numbers):
        for number in numbers:
            self._stop(number, False)

    def _step_stop_now(self, numbers):
        for number in numbers:
            self._stop(number, True)

    def _step_hold_ms(self, ms):
        deadline = time.monotonic() + ms / 1000
        while time.monotonic() < deadline:
            self._look()
            time.sleep(0.01)

    def _look(self):
        for queue in self.scenario["expect"].get("leased_most", ()):
            self.leased_most[queue] = max(self.leased_most.get(queue, 0), self.server.stats(queue).get("leased", 0))

    def _wrong(self, expectation):
        """What does not hold (yet)."""
        rows = self.ledger.rows()
        for field, value in expectation.items():
            got = getattr(self, f"_see_{field}")(rows, value)
            if field == "leased_most":
                holds = all(got[queue] <= most for queue, most in value.items())
            elif field == "started_least":
                holds = all(got[name] >= least for name, least in value.items())
            elif field == "ended_within_ms":
                holds = all(got[number] <= most for number, most in value.items())
            else:
                holds = got == value
            if not holds:
                return f"{field}: {got} instead of {value}"
        return None

    def _see_stats(self, rows, value):
        return {queue: {name: self.server.stats(queue).get(name) for name in fields} for queue, fields in value.items()}

    def _see_jobs(self, rows, value):
        return {queue: {id: self._job(queue, id, want) for id, want in jobs.items()} for queue, jobs in value.items()}

    def _job(self, queue, id, want):
        reply = self.server.call("DELAY.GET", queue, id)
        if reply is None:
            return None
        found = {k.decode(): v.decode() if isinstance(v, bytes) else v for k, v in zip(reply[::2], reply[1::2])}
        got = {name: found.get(name) for name in want or {"state": 0}}
        if want and "error" in want:
            text, begin = want["error"], str(found.get("error"))
            if text[1:] in begin if text[0] == "~" else begin.startswith(text):
                got["error"] = text
        return got

    def _see_started(self, rows, value):
        return {name: sum(row[:2] == ["began", name] for row in rows) for name in value}

    _see_started_least = _see_started

    def _see_order(self, rows, value):
        return [row[1] for row in rows if row[0] == "began"]

    def _see_most_at_once(self, rows, value):
        running = most = 0
        for row in rows:
            running += {"began": 1, "ended": -1}.get(row[0], 0)
            most = max(most, running)
        return most

    def _see_leased_most(self, rows, value):
        return {queue: self.leased_most.get(queue, 0) for queue in value}

    def _see_lost(self, rows, value):
        if self.mode == "processes":
            # A child that lost its lease is killed: it writes nothing.
            return value if any(worker.counters["lost"] for worker in self.workers.values()) == bool(value) else ["?"]
        return sorted(row[1] for row in rows if row[0] == "lost")

    def _see_counters(self, rows, value):
        return {n: {name: self.workers[int(n)].counters[name] for name in names} for n, names in value.items()}

    def _see_bodies(self, rows, value):
        return {id: next((row[2] for row in rows if row[:2] == ["began", id]), "no body") for id in value}

    def _see_meta(self, rows, value):
        return {id: next((row[3] for row in rows if row[:2] == ["began", id]), "no meta") for id in value}

    def _see_group(self, rows, value):
        return {id: next((row[4] for row in rows if row[:2] == ["began", id]), "never began") for id in value}

    def _see_schedules(self, rows, value):
        return {queue: [row[0].decode() for row in self.server.call("DELAY.SCHEDULE", "LIST", queue)] for queue in value}

    def _see_exit(self, rows, value):
        return {number: self.exits[int(number)] for number in value}

    def _see_ended_within_ms(self, rows, value):
        return {number: self.took[int(number)] for number in value}
