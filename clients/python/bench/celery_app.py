"""The Celery application of the programs in this folder. BROKER is its broker, MARKS a file to which each task adds a byte."""

import os

from celery import Celery

app = Celery("bench", broker=os.environ["BROKER"])
app.conf.update(
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options=eval(os.environ.get("TRANSPORT_OPTIONS", "{}")),
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "4")),
)
marks = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@app.task
def empty():
    os.write(marks, b".")


@app.task
def named(n):
    os.write(marks, b"%d\n" % n)
