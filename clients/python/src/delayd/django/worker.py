"""Runs tasks: what `manage.py delayd_worker` does with a job."""

import logging
from traceback import format_exception
from typing import Any

from django.db import close_old_connections
from django.tasks import task_backends
from django.tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
from django.tasks.signals import task_finished, task_started
from django.utils import timezone
from django.utils.json import normalize_json

from delayd import Bury, Discard, Job, Retry, Snooze

from .backend import DelaydBackend, from_body, update

logger = logging.getLogger("django.tasks")


def run_task(body: "dict[str, Any]", job: "Job[Any]", worker_id: str) -> None:
    """Returns when the task succeeded. Any error is the job's failure; `delayd.Retry` and the like mean what they say."""
    result = from_body(body)
    backend = task_backends[result.backend]
    if not isinstance(backend, DelaydBackend):
        raise TypeError(f"backend {result.backend!r} of task {result.id} is not delayd's")
    _begin(backend, result, job.attempt, worker_id)
    close_old_connections()
    try:
        value = normalize_json(_call(result))
    except Snooze:
        update(result, status=TaskResultStatus.READY)
        backend.store(result)
        raise
    except Discard:
        value = None
    except BaseException as error:
        _fail(backend, result, error, isinstance(error, Bury) or 0 < body["attempts"] <= job.attempt)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise RuntimeError(f"the task raised {type(error).__name__}: {error}") from error
        raise
    finally:
        close_old_connections()
    update(result, finished_at=timezone.now(), status=TaskResultStatus.SUCCESSFUL, _return_value=value)
    backend.store(result)
    task_finished.send(type(backend), task_result=result)


def _begin(backend: DelaydBackend, result: TaskResult, attempt: int, worker_id: str) -> None:
    now = timezone.now()
    # Earlier attempts may have been of workers that died, so they have no name.
    update(result, status=TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
    result.worker_ids.extend([""] * (attempt - 1) + [worker_id])
    backend.store(result)
    task_started.send(type(backend), task_result=result)


def _call(result: TaskResult) -> Any:
    task = result.task
    context = (TaskContext(task_result=result),) if task.takes_context else ()
    return task.call(*context, *result.args, **result.kwargs)


def _fail(backend: DelaydBackend, result: TaskResult, error: BaseException, final: bool) -> None:
    kind = type(error)
    text = TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback="".join(format_exception(error))
    )
    update(result, errors=[*result.errors, text], status=TaskResultStatus.READY)
    if final:
        update(result, finished_at=timezone.now(), status=TaskResultStatus.FAILED)
    backend.store(result)
    if final:
        task_finished.send(type(backend), task_result=result)
    elif not isinstance(error, Retry):
        logger.warning("Task id=%s path=%s failed, and is tried again: %r", result.id, result.task.module_path, error)
