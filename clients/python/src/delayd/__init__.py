"""Workers and producers for delayd, a delay queue server.

    from delayd import Delayd

    queue = Delayd("redis://localhost:9248")

    @queue.worker("emails", concurrency=8)
    def send(body):
        ...

    queue.run()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from ._program import find_delayd
    from .client import Background, Delayd
    from .connection import Exists, Full, Paused, Refused
    from .job import JSON, RAW, Bury, Codec, Discard, Job, Retry, Snooze
    from .server import NotStarted, Server

# Each is imported when it is first asked for: starting a server needs no redis-py.
_HOMES = {
    "client": ("Background", "Delayd"),
    "connection": ("Exists", "Full", "Paused", "Refused"),
    "job": ("Bury", "Codec", "Discard", "JSON", "Job", "RAW", "Retry", "Snooze"),
    "server": ("NotStarted", "Server"),
    "_program": ("find_delayd",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "JSON", "RAW", "Background", "Bury", "Codec", "Delayd", "Discard", "Exists", "Full", "Job", "NotStarted", "Paused",
    "Refused", "Retry", "Server", "Snooze", "__version__", "find_delayd",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'delayd' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
