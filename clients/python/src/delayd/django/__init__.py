"""`django.tasks` on delayd: `run_after` to the millisecond, priorities, and a worker, `manage.py delayd_worker`.

    INSTALLED_APPS = [..., "delayd.django"]
    TASKS = {"default": {"BACKEND": "delayd.django.DelaydBackend", "OPTIONS": {"url": "delayd://localhost:9248"}}}
"""

from typing import Any

__all__ = ["DelaydBackend"]


def __getattr__(name: str) -> Any:
    # Django imports this module while it sets up, when the backend cannot be imported yet.
    if name == "DelaydBackend":
        from .backend import DelaydBackend

        return DelaydBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
