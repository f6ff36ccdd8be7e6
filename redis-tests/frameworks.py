#!/usr/bin/env python3
"""Job frameworks on a server that has queues and no sets, hashes or scripts: where kombu and Celery work, and
with what words the others stop. docs/clients.md says the same in prose.
"""

import os
import re
import subprocess
import sys
import warnings

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import HOST, PORT, check, equal, finish, needs, queue  # noqa: E402

warnings.simplefilter("ignore")
from celery import Celery  # noqa: E402
from kombu import Connection, Consumer, Exchange, Producer, Queue  # noqa: E402
import rq  # noqa: E402

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "clients.md")
URL = f"redis://{HOST}:{PORT}/0"
# Routes straight to the queue that the routing key names; every other exchange keeps its bindings in a set.
ANONYMOUS = Exchange("", type="direct")


def plain(name):
    """A kombu queue that needs a list and nothing else: no binding, and gone once it is handed out."""
    return Queue(name, ANONYMOUS, routing_key=name, no_declare=True, no_ack=True)


def consume(name, count):
    """What kombu's own consumer gets from a queue."""
    got = []
    with Connection(URL) as connection:
        with Consumer(
            connection, [plain(name)], callbacks=[lambda body, message: got.append(body)], auto_declare=False
        ):
            while len(got) < count:
                connection.drain_events(timeout=5)
    return got


def application(name):
    app = Celery("shop", broker=URL)
    app.conf.update(
        task_queues=[plain(name)],
        task_default_queue=name,
        task_default_exchange="",
        task_default_routing_key=name,
        task_ignore_result=True,
        task_publish_retry=False,
    )
    return app


def stops(kind, text, work):
    """The framework must stop at once, with the server's error in what it says."""
    try:
        work()
    except Exception as error:
        said = repr(error) + repr(error.__cause__)
        if not isinstance(error, kind) or text not in said:
            raise AssertionError(f"expected {kind.__name__} with {text!r}, got {said[:300]}") from None
        return
    raise AssertionError("it did not stop")


def works():
    with check("kombu: the anonymous exchange and no_ack: published and consumed in order"):
        name = queue("kombu")
        with Connection(URL) as connection:
            producer = Producer(connection.channel(), exchange=ANONYMOUS, auto_declare=False)
            for n in range(20):
                producer.publish({"n": n}, routing_key=name)
        equal(redis.Redis(port=PORT, host=HOST).llen(name), 20)
        equal(consume(name, 20), [{"n": n} for n in range(20)])

    with check("Celery: an application sends tasks to such a queue, and kombu takes them"):
        name = queue("celery")
        application(name).send_task("tasks.add", args=[1, 2])
        [body] = consume(name, 1)
        equal(body[:2], [[1, 2], {}])

    with check("a kombu message that is scheduled with DELAY.ADD arrives when it is due"):
        name = queue("kombu")
        client = redis.Redis(port=PORT, host=HOST)
        application(name).send_task("tasks.add", args=[3, 4])
        message = client.rpop(name)
        client.execute_command("DELAY.ADD", name, "50ms", message)
        equal(consume(name, 1)[0][0], [3, 4])


    with check("the program in docs/clients.md, as it stands there"):
        with open(DOCS) as docs:
            programs = re.findall(r"^```python\n(.*?)^```", docs.read(), re.S | re.M)
        [program] = [program for program in programs if "kombu" in program]
        program = program.replace("127.0.0.1:9248", f"{HOST}:{PORT}").replace('"orders"', f'"{queue("docs")}"', 1)
        name = re.search(r'Queue\("([^"]+)"', program)[1]
        program = program.replace('routing_key="orders"', f'routing_key="{name}"')
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=20
        )
        equal((done.stdout, done.stderr), ("{'order': 7}\n", ""))


def stop():
    with check("kombu's SimpleQueue, which binds an exchange: `unknown command 'SADD'`"):

        def use():
            with Connection(URL) as connection:
                connection.SimpleQueue(queue("simple")).put({"a": 1})

        stops(redis.ResponseError, "unknown command 'SADD'", use)

    with check("Celery with its default exchange: `unknown command 'SADD'`"):
        app = Celery("shop", broker=URL)
        app.conf.task_publish_retry = False
        stops(Exception, "unknown command 'SADD'", lambda: app.send_task("tasks.add", args=[1, 2]))

    with check("a Celery worker, which needs a lock before it consumes: `unknown command 'SET'`"):
        app = application(queue("celery"))
        with app.connection_for_read() as connection:
            channel = connection.channel()
            stops(redis.ResponseError, "unknown command 'SET'", lambda: channel.qos.restore_visible(num=10))

    with check("Celery's results: GET is refused; with nil a task would be pending for ever"):
        app = Celery("shop", broker=URL, backend=URL)
        app.conf.result_backend_always_retry = False
        stops(redis.ResponseError, "delayd has only queues", lambda: app.AsyncResult("no-such-task").state)

    with check("Celery sends a task whose result it will want; storing one is refused"):
        name = queue("celery")
        app = application(name)
        app.conf.update(task_ignore_result=False, result_backend=URL)
        task = app.send_task("tasks.add", args=[1, 2])
        equal(redis.Redis(port=PORT, host=HOST).llen(name), 1)
        stops(redis.ResponseError, "delayd has only queues", lambda: app.backend.store_result(task.id, 3, "SUCCESS"))

    with check("Sidekiq's push, a pipeline of SADD and LPUSH, is refused, and the job is in the list"):
        client, name = redis.Redis(port=PORT, host=HOST), queue("queue:default")
        push = client.pipeline(transaction=False).sadd("queues", "default").lpush(name, "{}")
        stops(redis.ResponseError, "unknown command 'SADD'", push.execute)
        equal(client.llen(name), 1)
        whole = client.pipeline(transaction=True).sadd("queues", "default").lpush(name, "{}")
        stops(redis.ResponseError, "unknown command 'SADD'", whole.execute)
        equal(client.llen(name), 1)

    with check("RQ, whose jobs are hashes: `unknown command`"):
        work = rq.Queue(queue("rq"), connection=redis.Redis(port=PORT, host=HOST))
        stops(redis.ResponseError, "unknown command", lambda: work.enqueue(print, 1))

    with check("the first commands of Sidekiq, BullMQ, Dramatiq, Huey's scheduler, Redisson: an error each"):
        client = redis.Redis(port=PORT, host=HOST)
        q = queue("none")
        for words in (
            ["SADD", "queues", "default"],
            ["ZADD", "schedule", "1", "{}"],
            ["HSET", "bull:q:meta", "version", "bullmq:6"],
            ["EVAL", "return 1", "9", *[q] * 9],
            ["EVALSHA", "0" * 40, "1", q],
            ["ZRANGEBYSCORE", "huey.schedule", "0", "1"],
            ["SET", "lock", "1", "NX", "PX", "1000"],
        ):
            stops(redis.ResponseError, "", lambda: client.execute_command(*words))
        equal(client.exists("queues", "schedule", "bull:q:meta", "lock", q), 0)


with check("the list face is there"):
    needs("LPUSH", "BRPOP", "LLEN")
    works()
    stop()
finish()
