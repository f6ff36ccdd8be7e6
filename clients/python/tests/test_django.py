"""The backend for `django.tasks`: in the shape of Django's own tests of its backends, and a project with its worker."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import datetime, timezone

import pytest

pytest.importorskip("django.tasks", reason="Django 6 is not installed")
from django.conf import settings  # noqa: E402
from support import HERE, Server, until  # noqa: E402

BACKEND = "delayd.django.DelaydBackend"
if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["delayd.django"], USE_TZ=True, TASKS={"default": {"BACKEND": BACKEND, "QUEUES": []}},
        CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    )
    import django

    django.setup()

import django_tasks as tasks  # noqa: E402
from django.core.management import CommandError, call_command  # noqa: E402
from django.tasks import TaskResultStatus, default_task_backend, task_backends  # noqa: E402
from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist, TaskResultMismatch  # noqa: E402
from django.tasks.signals import task_enqueued, task_finished, task_started  # noqa: E402
from django.test import override_settings  # noqa: E402

from delayd.django import DelaydBackend  # noqa: E402


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def configured(server, queues=(), **options):
    tasks_settings = {"BACKEND": BACKEND, "QUEUES": list(queues), "OPTIONS": {"url": server.url, **options}}
    return override_settings(TASKS={"default": tasks_settings})


@pytest.fixture
def plain(server):
    """The backend without results."""
    server.call("FLUSHALL")
    with configured(server):
        yield server


@pytest.fixture
def kept(server):
    """The backend with results in a cache, three attempts, and a worker in this process."""
    server.call("FLUSHALL")
    server.call("DELAY.CONFIG", "SET", "default", "backoff", "1ms")
    with configured(server, results="default", attempts=3):
        backend = task_backends["default"]
        from delayd import Delayd
        from delayd.django.worker import run_task

        delayd = Delayd(server.url)

        @delayd.worker("default", "other", concurrency=2)
        def run(body, job):
            run_task(body, job, "worker")

        running = delayd.start()
        yield backend
        running.stop()
        delayd.close()


def finished(result):
    def ended():
        result.refresh()
        return result.is_finished

    until(ended)
    return result


def job(server, result, queue="default"):
    reply = server.call("DELAY.GET", queue, result.id) or {}
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def test_using_correct_backend(plain):
    assert default_task_backend == task_backends["default"]
    assert isinstance(task_backends["default"], DelaydBackend)
    backend = task_backends["default"]
    assert (backend.supports_defer, backend.supports_async_task, backend.supports_priority) == (True, True, True)
    assert backend.supports_get_result is False
    assert list(backend.check()) == []


@pytest.mark.parametrize("task", [tasks.empty, tasks.empty_async])
@pytest.mark.parametrize("is_async", [False, True])
def test_enqueue_task(plain, task, is_async):
    result = asyncio.run(task.aenqueue(1, two=3)) if is_async else task.enqueue(1, two=3)
    assert result.status == TaskResultStatus.READY
    assert result.is_finished is False
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert result.enqueued_at is not None
    with pytest.raises(ValueError, match="Task has not finished yet"):
        result.return_value
    assert result.task == task
    assert (result.args, result.kwargs, result.attempts, result.errors) == ([1], {"two": 3}, 0, [])
    assert job(plain, result)[b"state"] == b"ready"


def test_results_are_asked_for_only_where_they_are_kept(plain):
    result = tasks.empty.enqueue()
    with pytest.raises(NotImplementedError, match="does not support retrieving or refreshing results"):
        default_task_backend.get_result("123")
    with pytest.raises(NotImplementedError, match="does not support retrieving or refreshing results"):
        result.refresh()


def test_run_after_is_the_due_time_rounded_up_to_the_millisecond(plain):
    instant = datetime(2035, 1, 1, 12, 0, 0, 123_456, tzinfo=timezone.utc)
    result = tasks.empty.using(run_after=instant).enqueue()
    assert job(plain, result)[b"state"] == b"delayed"
    assert job(plain, result)[b"due"] == int(instant.timestamp()) * 1000 + 124
    with pytest.raises(InvalidTask, match="aware"):
        tasks.empty.using(run_after=datetime(2035, 1, 1))
    with override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin"):
        local = tasks.empty.using(run_after=datetime(2035, 1, 1, 13)).enqueue()
    assert job(plain, local)[b"due"] == int(datetime(2035, 1, 1, 12, tzinfo=timezone.utc).timestamp()) * 1000


@pytest.mark.parametrize("priority, ours", [(100, 0), (1, 4), (0, 5), (-1, 5), (-100, 9)])
def test_priority(plain, priority, ours):
    assert job(plain, tasks.empty.using(priority=priority).enqueue())[b"priority"] == ours


def test_priority_never_turns_round(plain):
    from delayd.django.backend import _priority

    ours = [_priority(priority) for priority in range(-100, 101)]
    assert ours == sorted(ours, reverse=True) and set(ours) == set(range(10))


def test_queues_and_prefix(server):
    server.call("FLUSHALL")
    with configured(server, queues=["default", "other"], prefix="shop:"):
        result = tasks.empty.using(queue_name="other").enqueue()
        assert job(server, result, "shop:other")[b"state"] == b"ready"
        with pytest.raises(InvalidTask, match="Queue 'unknown_queue' is not valid for backend"):
            tasks.empty.using(queue_name="unknown_queue")
        with pytest.raises(CommandError, match="queue 'third' is not in QUEUES"):
            call_command("delayd_worker", queues=["third"])


def test_cancel(plain):
    result = tasks.empty.using(run_after=datetime(2035, 1, 1, tzinfo=timezone.utc)).enqueue()
    assert default_task_backend.cancel(result) is True
    assert job(plain, result) == {}
    assert default_task_backend.cancel(result) is False


def test_an_unknown_option_is_an_error(server):
    with configured(server, lease="60s"), pytest.raises(InvalidTaskBackend, match="unknown option 'lease'"):
        task_backends["default"]


def test_the_worker_wants_a_backend_of_delayd():
    dummy = {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}
    with override_settings(TASKS={"default": dummy}), pytest.raises(CommandError, match="DummyBackend, not delayd"):
        call_command("delayd_worker")


@pytest.mark.parametrize("task", [tasks.meaning_of_life, tasks.meaning_of_life_async])
def test_result(kept, task):
    result = finished(task.enqueue())
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.worker_ids == ["worker"]
    assert task.get_result(result.id) == result
    assert asyncio.run(kept.aget_result(result.id)) == result


def test_missing_and_mismatched_results(kept):
    with pytest.raises(TaskResultDoesNotExist):
        kept.get_result("123")
    result = tasks.empty.enqueue()
    with pytest.raises(TaskResultMismatch):
        tasks.meaning_of_life.get_result(result.id)


def test_takes_context(kept):
    result = finished(tasks.attempt_and_id.enqueue())
    assert result.return_value == [1, result.id]


@pytest.mark.parametrize(
    "task, kind, text",
    [
        (tasks.fails, ValueError, "This Task failed due to ValueError"),
        (tasks.exits, SystemExit, "This Task failed due to SystemExit"),
        (tasks.unsupported, TypeError, "Unsupported type"),
    ],
)
def test_a_task_that_fails_is_tried_again_and_then_failed(kept, server, task, kind, text):
    result = finished(task.enqueue())
    assert result.status == TaskResultStatus.FAILED
    with pytest.raises(ValueError, match="Task failed"):
        result.return_value
    assert result.attempts == 3
    assert result.errors[-1].exception_class is kind
    assert text in result.errors[-1].traceback
    until(lambda: job(server, result)[b"state"] == b"dead")


def test_what_steers_a_job_steers_a_task(kept, server):
    lucky, buried, snoozed = tasks.second_time_lucky.enqueue(), tasks.buried.enqueue(), tasks.snoozed.enqueue()
    assert (finished(lucky).return_value, lucky.attempts) == ("done", 2)
    assert (finished(buried).status, buried.attempts) == (TaskResultStatus.FAILED, 1)
    until(lambda: job(server, snoozed)[b"state"] == b"delayed")
    assert job(server, snoozed)[b"attempt"] == 0


def test_signals(kept):
    seen = []
    signals = [(task_enqueued, "enqueued"), (task_started, "started"), (task_finished, "finished")]
    receivers = [lambda sender, task_result, name=name, **_: seen.append((name, sender, task_result.id)) for _, name in signals]
    for (signal_, _), receiver in zip(signals, receivers):
        signal_.connect(receiver)
    try:
        result = finished(tasks.empty.enqueue())
        until(lambda: len(seen) == 3)
    finally:
        for (signal_, _), receiver in zip(signals, receivers):
            signal_.disconnect(receiver)
    assert sorted(seen) == sorted((name, DelaydBackend, result.id) for _, name in signals)


def test_a_project_defers_a_task_and_gets_it_on_time(server, tmp_path):
    server.call("FLUSHALL")
    ledger = tmp_path / "ledger"
    environment = {**os.environ, "DELAYD_URL": server.url, "LEDGER": str(ledger)}
    project = [sys.executable, str(HERE / "django_project.py")]
    worker = subprocess.Popen([*project, "delayd_worker"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout.readline().startswith("delayd_worker ")
        subprocess.run([*project, "later", "3"], env=environment, check=True)
        until(lambda: ledger.exists() and ledger.read_text().endswith("\n"))
        due, ran = map(float, ledger.read_text().split())
        assert 0 <= ran - due < 2
        print(f"late by {(ran - due) * 1000:.1f} ms")
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
