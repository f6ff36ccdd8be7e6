"""Adds tasks as jobs. A task that fails is tried again as its queue's backoff says, and at last is a dead letter."""

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Optional

from django.core.cache import caches
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import InvalidTaskBackend, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string

from delayd import Delayd

if TYPE_CHECKING:
    from delayd.words import AddOptions

ATTEMPTS = 20
RESULTS_TIMEOUT_S = 86_400
OPTIONS = {"url", "prefix", "attempts", "results", "results_timeout"}
TIMES = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")


class DelaydBackend(BaseTaskBackend):
    """Options: `url`; `prefix` of the queues' names; `attempts`; `results`, the cache that keeps results, and `results_timeout`."""

    supports_defer = True
    supports_async_task = True
    supports_priority = True

    def __init__(self, alias: str, params: "dict[str, Any]") -> None:
        super().__init__(alias, params)
        unknown = set(self.options) - OPTIONS
        if unknown:
            raise InvalidTaskBackend(f"unknown option {unknown.pop()!r} of {alias!r}: there are {', '.join(sorted(OPTIONS))}")
        self.attempts = int(self.options.get("attempts", ATTEMPTS))
        self.supports_get_result = "results" in self.options

    @property
    def delayd(self) -> Delayd:
        return _connect(self.options.get("url"))

    def queue(self, name: str) -> str:
        """What a queue of tasks is called in the server."""
        return f"{self.options.get('prefix', '')}{name}"

    def enqueue(self, task: Task, args: "list[Any]", kwargs: "dict[str, Any]") -> TaskResult:
        self.validate_task(task)
        result = _result(task, get_random_string(32), args, kwargs, self.alias, enqueued_at=timezone.now())
        # Stored first: a worker may be done with it before this line's successor.
        self.store(result)
        options: "AddOptions" = {"id": result.id, "attempts": self.attempts, "priority": _priority(task.priority)}
        if task.run_after is not None:
            options["at"] = _aware(task.run_after)
        self.delayd.add(self.queue(task.queue_name), to_body(result, self.attempts), **options)
        task_enqueued.send(type(self), task_result=result)
        return result

    def cancel(self, result: TaskResult) -> bool:
        """Whether the task was still waiting, and now never runs."""
        cancelled = self.delayd.cancel(self.queue(result.task.queue_name), result.id) in ("delayed", "ready", "dead")
        if cancelled and self.supports_get_result:
            caches[self.options["results"]].delete(_key(result.id))
        return cancelled

    def get_result(self, result_id: str) -> TaskResult:
        if not self.supports_get_result:
            return super().get_result(result_id)
        stored = caches[self.options["results"]].get(_key(result_id))
        if stored is None:
            raise TaskResultDoesNotExist(result_id)
        return from_stored(stored)

    def store(self, result: TaskResult) -> None:
        if self.supports_get_result:
            timeout = self.options.get("results_timeout", RESULTS_TIMEOUT_S)
            caches[self.options["results"]].set(_key(result.id), _to_stored(result), timeout)


def to_body(result: TaskResult, attempts: int) -> "dict[str, Any]":
    """What a worker needs, as JSON that can be read in the console."""
    task = result.task
    return {
        "task": task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "id": result.id,
        "backend": result.backend,
        "queue": task.queue_name,
        "priority": task.priority,
        "run_after": task.run_after and task.run_after.isoformat(),
        "enqueued_at": result.enqueued_at and result.enqueued_at.isoformat(),
        "attempts": attempts,
    }


def from_body(body: "dict[str, Any]") -> TaskResult:
    task = import_string(body["task"])
    if not isinstance(task, Task):
        raise TypeError(f"{body['task']!r} is not a task")
    task = task.using(
        priority=body["priority"], queue_name=body["queue"], backend=body["backend"], run_after=_instant(body["run_after"])
    )
    return _result(task, body["id"], body["args"], body["kwargs"], body["backend"], enqueued_at=_instant(body["enqueued_at"]))


def from_stored(stored: "dict[str, Any]") -> TaskResult:
    result = from_body(stored["body"])
    errors = [TaskError(exception_class_path=path, traceback=text) for path, text in stored["errors"]]
    values = {"errors": errors, "status": TaskResultStatus(stored["status"]), "worker_ids": stored["workers"]}
    update(result, **values, _return_value=stored["value"], **{name: _instant(stored[name]) for name in TIMES})
    return result


def update(result: TaskResult, **values: Any) -> None:
    """Results are frozen for their users, and changed by backends."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _to_stored(result: TaskResult) -> "dict[str, Any]":
    stored = {name: value and value.isoformat() for name, value in ((name, getattr(result, name)) for name in TIMES)}
    return {
        **stored,
        "body": to_body(result, 0),
        "status": str(result.status),
        "value": result._return_value,
        "errors": [(error.exception_class_path, error.traceback) for error in result.errors],
        "workers": list(result.worker_ids),
    }


def _result(task: Task, id: str, args: Any, kwargs: Any, backend: str, **values: Any) -> TaskResult:
    times = {**dict.fromkeys(TIMES), **values}
    return TaskResult(
        task=task, id=id, status=TaskResultStatus.READY, args=args, kwargs=kwargs, backend=backend, errors=[], worker_ids=[],
        **times,
    )  # fmt: skip


def _priority(priority: int) -> int:
    """100 is delayd's 0, which comes first; 0 is its default, 5; -100 is 9."""
    return ((100 - priority) * 9 + 100) // 200


def _aware(instant: datetime) -> datetime:
    return instant if timezone.is_aware(instant) else timezone.make_aware(instant)


def _instant(text: Optional[str]) -> Optional[datetime]:
    return datetime.fromisoformat(text) if text else None


def _key(result_id: str) -> str:
    return f"delayd:result:{result_id}"


@lru_cache(maxsize=None)
def _connect(url: Optional[str]) -> Delayd:
    """One pool of connections a process: Django makes a backend for each thread."""
    return Delayd(url)
