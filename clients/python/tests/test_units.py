"""What needs no server, and what producers say to one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from support import HERE, Server, end, output, until

from delayd import RAW, Bury, Delayd, Discard, Exists, Full, Job, Paused, Refused, Retry, Snooze
from delayd.job import ERROR_BYTES_MAX, outcome_of
from delayd.testing import run_inline
from delayd.times import duration, seconds, when


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture
def queue(server):
    server.call("FLUSHALL")
    queue = Delayd(server.url)
    yield queue
    queue.close()


@pytest.mark.parametrize("value, text, number", [
    ("1h30m", "1h30m", 5400), ("500", "500", 0.5), (1.5, "1500ms", 1.5), (0.3, "300ms", 0.3), (0.0001, "1ms", 0.001),
    (timedelta(days=2), "172800000ms", 172800), (timedelta(microseconds=1), "1ms", 0.001), (0, "0ms", 0),
])  # fmt: skip
def test_durations(value, text, number):
    assert duration(value) == text
    assert seconds(value) == pytest.approx(number)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_no_durations(value):
    with pytest.raises(ValueError):
        duration(value)


@pytest.mark.parametrize("text", ["", "soon", "1 h", "1y", "h1"])
def test_no_text_of_a_duration(text):
    with pytest.raises(ValueError):
        seconds(text)


def test_instants():
    assert when(None, None) == "0"
    assert when(None, datetime(2030, 1, 31, 8, tzinfo=timezone(timedelta(hours=1)))) == "@1896073200000"
    assert when(None, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc)) == "@1", "never early"
    with pytest.raises(ValueError, match="zone"):
        when(None, datetime(2030, 1, 31))
    with pytest.raises(ValueError, match="either"):
        when("1s", "@1")


def test_an_error_names_type_message_and_frames_and_is_cut_between_characters():
    def broken():
        raise KeyError("ä" * 2000)

    try:
        broken()
    except KeyError as error:
        outcome = outcome_of(error)
    text = outcome.words[1].decode()
    assert text.startswith("KeyError: ") and len(outcome.words[1]) in (ERROR_BYTES_MAX, ERROR_BYTES_MAX - 1)
    try:
        json.loads("{")
    except ValueError as error:
        assert "in raw_decode" in outcome_of(error).words[1].decode()


def test_all_options_of_add_reach_the_server(server, queue):
    id = queue.add(
        "a", {"to": "ada"}, delay="1h", id="mail:7", priority=2, attempts=7, backoff=["1s", timedelta(minutes=1)], lease=90, ttl="2d",
        unique="1w",
    )  # fmt: skip
    job = queue.get("a", "mail:7")
    wanted = {
        "id": "mail:7", "state": "delayed", "body": {"to": "ada"}, "priority": 2, "max-attempts": 7, "lease-ms": 90_000,
        "ttl-ms": 172_800_000, "unique-ms": 604_800_000,
    }  # fmt: skip
    assert id == "mail:7" and {name: job[name] for name in wanted} == wanted and job["backoff"].startswith("1s,1m")
    assert queue.add("a", 1, id="mail:7", nx=True) is None
    assert queue.add("a", b"\xff", id="mail:7", replace=True) == "mail:7" and queue.get("a", "mail:7")["body"] == b"\xff"
    assert queue.get("a", "none") is None and queue.stats("none") is None
    assert queue.add("latest", 1, id="doc:7", delay="2s", latest=True, max_delay="30s") == "doc:7"
    first = queue.get("latest", "doc:7")
    assert queue.add("latest", 2, id="doc:7", delay=30, latest=True, max_delay=timedelta(seconds=30)) == "doc:7"
    later = queue.get("latest", "doc:7")
    assert later["body"] == 2 and later["added"] == first["added"] and later["due"] == first["added"] + 30_000
    made = queue.add("a", 2, at="2030-01-31T08:00:00+01:00")
    assert queue.get("a", made)["due"] == 1896073200000
    with pytest.raises(TypeError, match="prio"):
        queue.add("a", 1, prio=3)


def test_refusals_have_types(server, queue):
    queue.add("a", 1, id="1", delay="1h")
    with pytest.raises(Exists):
        queue.add("a", 1, id="1")
    server.call("DELAY.CONFIG", "SET", "a", "max-jobs", 1)
    with pytest.raises(Full):
        queue.add("a", 1)
    server.call("DELAY.PAUSE", "a", "IN")
    with pytest.raises(Paused):
        queue.add("a", 1)
    with pytest.raises(Refused, match="soon"):
        queue.add("b", 1, delay="soon")


def test_moving_cancelling_and_reviving(queue):
    queue.add("a", 1, id="1", delay="1h")
    assert not queue.reschedule("a", "1", delay="1m", only_later=True)
    assert queue.reschedule("a", "1", delay="2h", only_later=True)
    assert queue.reschedule("a", "1") and queue.stats("a")["ready"] == 1
    assert queue.cancel("a", "1") == "ready" and queue.cancel("a", "1") is None
    assert queue.add_many("a", [{"body": n, "id": str(n), "attempts": 1} for n in range(2500)]) == [str(n) for n in range(2500)]
    with pytest.raises(Exists, match="^EXISTS job '1'"):
        queue.add_many("a", [{"body": 1, "id": "1"}, {"body": 1, "id": "x"}])
    assert queue.cancel("a", "x") == "ready"
    for _, id, _, token, *_ in queue.call("DELAY.RESERVE", "NOWAIT", 1, "a", "COUNT", 10):
        queue.call("DELAY.NACK", "a", id, token, "BURY")
    assert queue.redrive("a", ids=["0", "1", "none"]) == 2
    assert queue.redrive("a", count=3, delay="1h") == 3 and queue.redrive("a") == 5
    assert queue.purge("a", "delayed") == 3
    assert queue.purge("a") == 2497


def test_many_at_once(server, queue):
    """A transaction: a consumer that waits sees all of it or none."""
    seen = []

    def wait():
        seen.append(Delayd(server.url).call("DELAY.RESERVE", "10", 1, "a", "COUNT", 100))

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: server.stats("a").get("waiters"))
    assert len(queue.add_many("a", ({"body": n} for n in range(100)), atomic=True)) == 100
    waiting.join()
    assert len(seen[0]) == 100
    assert queue.add_many("a", [], atomic=True) == []


def test_declaring_twice_or_wrongly_is_an_error():
    queue = Delayd()
    queue.worker("a")(print)
    with pytest.raises(ValueError, match="'a'"):
        queue.worker("a", "b")(print)
    with pytest.raises(ValueError):
        queue.worker()
    queue.every("1s", "s", name="f")(print)
    with pytest.raises(ValueError, match="f"):
        queue.every("2s", "s", name="f")(print)
    with pytest.raises(TypeError, match="overlapp"):
        queue.every("2s", "s", overlapp="skip")
    with pytest.raises(ValueError, match="nothing is declared"):
        Delayd().run()


def test_a_schedule_that_is_wrong_stops_the_start_with_the_servers_text(server):
    queue = Delayd(server.url)
    queue.cron("61 * * * *", "a", name="f")(print)
    with pytest.raises(Refused, match="61"):
        queue.run()


def test_inline():
    queue = Delayd("redis://127.0.0.1:1")
    seen = []

    @queue.worker("a")
    def plain(body, job):
        seen.append((body, job.id))
        if body == "fail":
            raise ValueError("no")
        if body == "later":
            raise Retry("5m")

    @queue.worker("b")
    async def asynchronous(body):
        seen.append(body)

    with run_inline(queue) as ran:
        assert queue.add("a", {"n": 1}, id="1", delay="3d") == "1"
        with pytest.raises(ValueError, match="no"):
            queue.add("a", "fail")
        queue.add("a", "later")
        queue.add_many("b", [{"body": [1, 2]}])
        queue.add("none", 1)
        with pytest.raises(TypeError):
            queue.add("a", object())
    assert seen[0] == ({"n": 1}, "1") and seen[-1] == [1, 2]
    assert [job.outcome for job in ran.jobs] == ["done", "failed", "retried", "done", None]


def test_hooks_and_counters(server, queue):
    heard, done = [], threading.Event()

    @queue.worker("hooks", concurrency=1)
    def work(body, job: Job):
        if body == "bad":
            raise ValueError("bad body")

    for event in ("start", "done", "fail"):
        queue.on(event)(lambda job, *error, event=event: heard.append((event, job.id, *map(str, error))))

    @queue.on("done")
    def broken(job):
        done.set()
        raise RuntimeError("a hook's fault changes nothing")

    queue.add("hooks", "bad", id="1", attempts=1)
    queue.add("hooks", "good", id="2")
    worker = queue.start()
    assert done.wait(20)
    until(lambda: server.stats("hooks")["acked"] == 1)
    assert worker.stop()
    assert heard == [("start", "1"), ("fail", "1", "bad body"), ("start", "2"), ("done", "2")]
    assert worker.counters["done"] == worker.counters["failed"] == 1


def test_raw_bodies_and_functions_of_both_kinds_in_one_queue(server):
    queue, seen = Delayd(server.url, codec=RAW), []

    @queue.worker("raw")
    async def asynchronous(body):
        seen.append(body)

    @queue.every("1h", "raw")
    def plain(body, job):
        seen.append(job.id.split("@")[0])

    worker = queue.start()
    until(lambda: server.call("DELAY.SCHEDULE", "LIST", "raw"))
    queue.add("raw", b"\x00\xff")
    server.call("DELAY.SCHEDULE", "RUN", "raw", "delayd:plain")
    until(lambda: len(seen) == 2)
    assert worker.stop() and sorted(seen, key=str) == [b"\x00\xff", "delayd:plain"]


PROGRAM = """
import sys
from delayd import Delayd
queue = Delayd(sys.argv[1] if len(sys.argv) > 1 and "redis" in sys.argv[1] else None)

@queue.worker("p", processes=1)
def work(body):
    open(body, "w").write("done")

queue.run()
"""


def test_a_program_without_a_guard_has_children(server, queue, tmp_path):
    """run() does nothing in a child that imports the program again."""
    program, mark = tmp_path / "program.py", tmp_path / "mark"
    program.write_text(PROGRAM)
    queue.add("p", str(mark))
    log = (tmp_path / "log").open("wb+")
    process = subprocess.Popen([sys.executable, program, server.url], stdout=log, stderr=log)
    process.log = log
    until(mark.exists)
    until(lambda: server.stats("p")["acked"] == 1)
    assert end(process) == 0, output(process)


def test_the_command(server, queue, tmp_path):
    (tmp_path / "shop.py").write_text(
        f"from delayd import Delayd\nshop = Delayd({server.url!r})\n@shop.worker('c')\ndef f(body): open(body, 'w').close()\nx = 1\n"
    )
    command = [str(Path(sys.executable).parent / "delayd-worker")]
    for target, text in (("none:x", "no module 'none'"), ("shop:x", "no Delayd named 'x'"), ("shop", "no Delayd named 'queue'")):
        ran = subprocess.run([*command, target], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 2 and text in ran.stderr, ran.stderr
    queue.add("c", str(tmp_path / "mark"))
    log = (tmp_path / "log").open("wb+")
    process = subprocess.Popen([*command, "shop:shop", "--grace", "5s"], cwd=tmp_path, stdout=log, stderr=log)
    process.log = log
    until((tmp_path / "mark").exists)
    names = server.call("CLIENT", "LIST")
    assert b"name=worker:" in names and b"lib-name=delayd-py" in names
    assert end(process) == 0, output(process)


@pytest.mark.parametrize("tool", [["mypy"], ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"])
def test_types(tool):
    found = Path(sys.executable).parent / tool[0]
    if not found.exists():
        pytest.skip(f"{tool[0]} is not installed")
    ran = subprocess.run([found, *tool[1:]], cwd=HERE.parent, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_steering_errors_are_errors():
    assert [outcome_of(error).kind for error in (Retry(), Snooze(1), Bury("x"), Discard())] == ["retried", "snoozed", "buried", "done"]


@pytest.mark.parametrize("processes", [0, 1])
def test_headers(server, processes):
    server.call("FLUSHALL")
    queue, given = Delayd(server.url), {"tenant": "äcme", "empty": "", "bytes": b"\xff\x00"}
    queue.worker("headers", processes=processes)(refuses_by_header)
    queue.add("headers", 1, id="1", attempts=1, meta=given)
    queue.add_many("headers", [{"body": 1, "id": "2", "attempts": 1, "meta": {}}])
    assert queue.get("headers", "1")["meta"] == given and "meta" not in queue.get("headers", "2")
    worker = queue.start()
    until(lambda: server.stats("headers")["dead"] == 2)
    assert worker.stop()
    errors = [queue.get("headers", id)["error"] for id in "12"]
    assert errors == [repr(given), "{}"]
    queue.every("1h", "headers", name="s", meta=given)(refuses_by_header)
    worker = queue.start()
    until(lambda: server.call("DELAY.SCHEDULE", "LIST", "headers"))
    id = server.call("DELAY.SCHEDULE", "RUN", "headers", "delayd:s").decode()
    until(lambda: server.stats("headers")["dead"] == 3)
    assert worker.stop() and queue.get("headers", id)["error"] == repr(given)
    server.call("DELAY.SCHEDULE", "DEL", "headers", "delayd:s")


@pytest.mark.parametrize("processes", [0, 1])
def test_groups(server, processes):
    queue, name = Delayd(server.url), f"groups{processes}"
    queue.worker(name, processes=processes)(refuses_by_group)
    queue.add(name, 1, id="1", attempts=1, group="äcme")
    queue.add(name, 1, id="2", attempts=1)
    queue.add(name, 1, id="3", attempts=1, group=b"\xff")
    assert queue.get(name, "1")["group"] == "äcme" and "group" not in queue.get(name, "2")
    assert queue.stats(name, group="äcme")["ready"] == 1 and queue.stats(name, group="none") is None
    worker = queue.start()
    until(lambda: server.stats(name)["dead"] == 3)
    assert worker.stop()
    assert [queue.get(name, id)["error"] for id in "123"] == ["'äcme'", "None", "'\\udcff'"]
    assert queue.redrive(name, group="äcme", count=5, delay="1h") == 1
    assert queue.purge(name, "delayed", group="äcme") == 1 and queue.purge(name, group=b"\xff") == 1
    with pytest.raises(TypeError, match="group"):
        queue.add(name, 1, group=7)
    with pytest.raises(Refused, match="group"):
        queue.add(name, 1, group="")
    seen, alone = [], Delayd()
    alone.worker("groups")(lambda body, job: seen.append(job.group))
    with run_inline(alone):
        alone.add("groups", 1, group="acme")
        alone.add("groups", 1)
    assert seen == ["acme", None]


def refuses_by_group(body, job):
    raise Bury(repr(job.group))


def refuses_by_header(body, job):
    raise Bury(repr(job.meta))


def test_headers_that_are_none(queue):
    for meta in ({"a": 1}, {1: "a"}, {"a": None}, "a", [("a", "b")], 5):
        with pytest.raises(TypeError, match="meta"):
            queue.add("headers", 1, meta=meta)
    with pytest.raises(Refused, match="META name has 0 bytes"):
        queue.add("headers", 1, meta={"": "x"})
    # What came as no UTF-8 goes on as it came.
    queue.call("DELAY.ADD", "headers", 0, 1, "ID", "a", "META", 1, b"\xff", "v")
    meta = queue.get("headers", "a")["meta"]
    queue.add("headers", 1, id="b", meta=meta)
    assert queue.get("headers", "b")["meta"] == meta == {"\udcff": "v"}


def test_headers_without_a_server():
    queue, seen = Delayd(), []
    queue.worker("headers")(lambda body, job: seen.append(job.meta))
    with run_inline(queue):
        queue.add("headers", 1, meta={"tenant": "acme", "META": b"\xff"})
        queue.add("headers", "META", id="META", priority=3)
    assert seen == [{"tenant": "acme", "META": b"\xff"}, {}]


def test_spans(server, queue):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    traced = Delayd(server.url, trace=True)
    traced.worker("spans")(lambda body: 1 / body)
    with trace.get_tracer("shop").start_as_current_span("order") as order:
        traced.add("spans", 1, id="caused", meta={"tenant": "acme"})
    assert traced.get("spans", "caused")["meta"]["tenant"] == "acme"
    worker = traced.start()
    traced.add_many("spans", [{"body": 1, "id": "good"}, {"body": 0, "id": "bad", "attempts": 1}])
    until(lambda: len(exporter.get_finished_spans()) == 4)
    assert worker.stop()
    spans = {span.attributes["delayd.id"]: span for span in exporter.get_finished_spans() if span.name != "order"}
    caused = spans["caused"]
    assert caused.context.trace_id == order.context.trace_id and caused.parent.span_id == order.context.span_id
    assert spans["good"].parent is None
    assert {span.name for span in spans.values()} == {"delayd.job"} and spans["good"].attributes["delayd.queue"] == "spans"
    assert spans["good"].attributes["delayd.lateness_ms"] >= 0 and not spans["bad"].status.is_ok
