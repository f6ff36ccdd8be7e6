"""What the cases share: a connection, and lines that say what happens and when."""

import os
import sys
import time

import redis

STARTED = time.monotonic()


def connect(**options):
    """A client for one thread. No socket timeout: the server ends a wait, not the client."""
    return redis.Redis(
        host=os.environ.get("DELAYD_HOST", "127.0.0.1"),
        port=int(os.environ.get("DELAYD_PORT", "9248")),
        decode_responses=True,
        socket_timeout=None,
        **options,
    )


def clock_ms():
    """The wall clock, in which due times are given."""
    return time.time() * 1000


def say(text):
    """One step of the story, with the time since its beginning."""
    print(f"{(time.monotonic() - STARTED) * 1000:6.0f} ms  {text}", flush=True)


def claim(text, true):
    """Something this case promises. A broken promise ends the program."""
    print(f"{'ok' if true else 'not ok'} - {text}", flush=True)
    if not true:
        sys.exit(1)


def fresh(*queues):
    """Removes what an earlier run left behind."""
    connect().delete(*queues)
