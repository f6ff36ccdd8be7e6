"""A Django project in one file: `python django_project.py delayd_worker`, or `python django_project.py later SECONDS`."""

import os
import sys
import time
from datetime import timedelta

import django
from django.conf import settings
from django.tasks import task
from django.utils import timezone

settings.configure(
    INSTALLED_APPS=["delayd.django"],
    USE_TZ=True,
    TASKS={"default": {"BACKEND": "delayd.django.DelaydBackend", "OPTIONS": {"url": os.environ["DELAYD_URL"]}}},
)
sys.modules["django_project"] = sys.modules[__name__]
django.setup()


@task
def note(due):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(f"{due} {time.time()}\n")


note.func.__module__ = "django_project"

if __name__ == "__main__" and sys.argv[1] == "later":
    due = timezone.now() + timedelta(seconds=float(sys.argv[2]))
    note.using(run_after=due).enqueue(due.timestamp())
elif __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
