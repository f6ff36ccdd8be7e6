import os
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends

from delayd import Job

from ...backend import DelaydBackend
from ...worker import run_task


class Command(BaseCommand):
    help = "Runs tasks of a delayd backend until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="its name in TASKS [%(default)s]")
        parser.add_argument("--queue", action="append", dest="queues", help="a queue to serve; may be given again [all in QUEUES]")
        parser.add_argument("--concurrency", type=int, default=1, help="tasks at a time, each in a thread [%(default)s]")
        parser.add_argument("--lease", default="60s", help="after which a dead worker's tasks come again [%(default)s]")
        parser.add_argument("--grace", default="25s", help="for running tasks after SIGTERM [%(default)s]")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, DelaydBackend):
            raise CommandError(f"backend {options['backend']!r} is {type(backend).__name__}, not delayd.django.DelaydBackend")
        queues = options["queues"] or sorted(backend.queues) or [DEFAULT_TASK_QUEUE_NAME]
        strange = [queue for queue in queues if backend.queues and queue not in backend.queues]
        if strange:
            raise CommandError(f"queue {strange[0]!r} is not in QUEUES of backend {options['backend']!r}: {sorted(backend.queues)}")
        worker_id = f"{socket.gethostname()}:{os.getpid()}"
        delayd, names = backend.delayd, [backend.queue(queue) for queue in queues]

        @delayd.worker(*names, concurrency=options["concurrency"], lease=options["lease"])
        def task(body: "dict[str, Any]", job: "Job[Any]") -> None:
            run_task(body, job, worker_id)

        self.stdout.write(f"delayd_worker {worker_id}: {', '.join(names)}")
        delayd.run(grace=options["grace"])
