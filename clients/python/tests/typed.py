"""What mypy --strict and pyright must understand. Never run."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Optional, TypedDict

from delayd import JSON, Bury, Codec, Delayd, Discard, Job, Retry, Snooze
from delayd.testing import run_inline


class Mail(TypedDict):
    to: str


queue = Delayd("redis://localhost:9248", app="shop", codec=JSON)
spread = Delayd(["redis://n1:9248", "redis://n2:9248"])


@queue.worker("emails", concurrency=8, lease="30s", timeout=timedelta(minutes=5))
def send(body: Mail, job: Job[Mail]) -> None:
    if job.attempt > 3:
        raise Bury(f"no answer from {body['to']}")
    raise Retry(after="5m") if job.body["to"] else Snooze(60)


@queue.worker("letters", processes=2)
def write(body: Mail) -> str:
    raise Discard


@queue.worker("calls", "texts", rotate=True)
async def call(body: Mail) -> None: ...


@queue.every("5m", "poll", overlap="skip", catchup=2)
def poll(body: None) -> None: ...


@queue.cron("0 8 * * 1-5", "reports", tz="Europe/Berlin", body={"kind": "daily"}, attempts=3)
async def report(body: Any, job: Job[Any]) -> None: ...


@queue.on("fail")
def tell(job: Job[Any], error: Optional[BaseException]) -> None: ...


made: Optional[str] = queue.add("emails", {"to": "ada"}, delay="30m", id="mail:7", backoff=["1s", timedelta(minutes=1)])
queue.add("emails", b"bytes", at=datetime(2030, 1, 1, tzinfo=timezone.utc), unique=3600, priority=0)
ids: list[Optional[str]] = queue.add_many("emails", [{"body": {"to": "ada"}, "id": "1"}, {"body": 2, "delay": "1s"}], atomic=True)
state: Optional[str] = queue.cancel("emails", "mail:7", force=True)
moved: bool = queue.reschedule("emails", "mail:7", delay="1h", only_later=True)
job: Optional[dict[str, Any]] = queue.get("emails", "mail:7")
stats: Optional[dict[str, Any]] = queue.stats("emails")
gone: int = queue.purge("emails", "delayed") + queue.redrive("emails", count=10, keep_attempts=True)
# The decorated function is what it was.
text: str = write({"to": "ada"})


def encode(body: Any) -> bytes:
    return repr(body).encode()


codec = Codec(encode, decode=bytes.decode)

with run_inline(queue) as ran:
    queue.add("emails", {"to": "ada"})
    outcome: Optional[str] = ran.jobs[0].outcome

worker = queue.start(grace="1s", sync=True)
counted: dict[str, int] = worker.counters
clean: bool = worker.stop(at_once=True)
