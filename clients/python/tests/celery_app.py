"""The Celery application of the tests. BROKER is its broker, LEDGER the file in which its tasks write that they ran."""

import os
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import Reject
from celery_queues import QUEUES
from support import Ledger

import delayd.celery  # noqa: F401 (for a source tree that is not installed)

app = Celery("tests", broker=os.environ["BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"lease": float(os.environ.get("LEASE", "60"))},
    result_backend=os.environ.get("RESULTS"),
    task_default_queue="celery",
    task_queues=QUEUES,
    task_routes={"celery_app.mail": {"queue": "mails"}},
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "4")),
    worker_enable_prefetch_count_reduction=False,
)
ledger = Ledger(os.environ["LEDGER"])


@app.task(bind=True)
def note(self, name):
    ledger.write(name, time.time(), os.getpid())


@app.task(bind=True)
def mail(self, name):
    ledger.write(name, self.request.delivery_info["routing_key"])


@app.task(bind=True, acks_late=True)
def late(self, name, gate=None):
    """Runs until there is a file of this name, when one is given."""
    ledger.write(name, "begins", self.request.delivery_info["redelivered"], os.getpid())
    while gate and not Path(gate).exists():
        time.sleep(0.01)
    ledger.write(name, "ends")


@app.task(bind=True, acks_late=True, max_retries=5)
def stubborn(self, name, tries):
    ledger.write(name, self.request.retries, time.time())
    if self.request.retries < tries:
        raise self.retry(countdown=0.3)


@app.task(acks_late=True)
def rejected(name):
    raise Reject("no", requeue=False)
