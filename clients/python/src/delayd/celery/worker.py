"""What the transport knows of Celery: which tasks run here, and that a revoked task need not wait in the server."""

import sys
from typing import Any

from kombu.log import get_logger
from kombu.serialization import loads as deserialize
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

logger = get_logger(__name__)


def running_tasks() -> "set[str]":
    """The tasks that this process, if it is a worker, has begun and not ended."""
    state, celery = sys.modules.get("celery.worker.state"), sys.modules.get("celery")
    # Earlier ones never learn the end of a task that outlived their connection.
    if state is None or celery is None or celery.VERSION < (5, 6):
        return set()
    return {request.id for request in tuple(state.active_requests)}


def is_stopping() -> bool:
    state = sys.modules.get("celery.worker.state")
    return state is not None and any(flag is not None and flag is not False for flag in (state.should_stop, state.should_terminate))


def cancel_revoked(channel: Any, message: "dict[str, Any]") -> None:
    """Remove the tasks that a `revoke` for all workers names from the queues in which they still wait."""
    try:
        body = channel.decode_body(message["body"], message["properties"].get("body_encoding"))
        command = deserialize(body, message["content-type"], message["content-encoding"], accept={"application/json"})
        if command["method"] != "revoke" or any(command.get(word) for word in ("destination", "pattern", "matcher")):
            return
        tasks = command["arguments"]["task_id"]
    except Exception as error:  # a remote control command of another kind is not ours to judge
        logger.debug("delayd: not a command to revoke: %r", error)
        return
    for task in [tasks] if isinstance(tasks, str) else tasks:
        _cancel(channel, task)


def _cancel(channel: Any, task: str) -> None:
    ask = channel._asking.execute_command
    for row in ask("DELAY.FIND", task):
        queue = bytes_to_str(_field(row, "queue"))
        if not queue.startswith(channel.global_keyprefix):
            continue
        job = ask("DELAY.GET", queue, task)
        if ask("DELAY.CANCEL", queue, task) in (b"delayed", b"ready", "delayed", "ready"):
            _store_revoked(channel, task, _field(job, "body"))


def _store_revoked(channel: Any, task: str, body: Any) -> None:
    """As the worker would have, so that nothing waits for the result of a task that will never run."""
    celery = sys.modules.get("celery")
    if celery is None or body is None:
        return
    try:
        message = loads(bytes_to_str(body))
        headers = message["headers"]
        content = channel.decode_body(message["body"], message["properties"].get("body_encoding"))
        _, _, embed = deserialize(content, message["content-type"], message["content-encoding"], accept={"application/json"})
        context = celery.app.task.Context({**headers, "chord": embed.get("chord")})
        celery.current_app.backend.mark_as_revoked(task, "revoked", context, not headers.get("ignore_result"))
    except Exception as error:
        logger.warning("delayd: task %s was cancelled, but its result could not be stored: %r", task, error)


def _field(job: Any, name: str) -> Any:
    """A field of DELAY.GET, which is a map in RESP3 and a flat array in RESP2."""
    pairs = job.items() if isinstance(job, dict) else zip(job[::2], job[1::2]) if job else ()
    return next((value for key, value in pairs if bytes_to_str(key) == name), None)
