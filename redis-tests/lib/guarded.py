"""What the checks of TLS and of users share: clients that try once, and what a refusal is."""

import os
import subprocess

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness import Raw

PASSWORD = "correct horse"


def client(port, **options):
    """A client that tries once, so that a refusal is seen and not waited for."""
    options.setdefault("socket_timeout", 5)
    return redis.Redis(port=port, retry=Retry(NoBackoff(), 0), **options)


def refused(kind, *args, **options):
    """The client that these options make must fail with this error; returns its text."""
    try:
        connection = client(*args, **options)
        connection.ping()
        # With TLS 1.3 the client learns of a refused certificate with the first reply.
        connection.ping()
    except kind as error:
        return str(error)
    raise AssertionError(f"{options!r} was let in")


def denied(connection, *words):
    """The command must be refused for want of permission; returns the text."""
    try:
        reply = connection.execute_command(*words)
    except redis.exceptions.NoPermissionError as error:
        return str(error)
    raise AssertionError(f"{words!r} answered {reply!r}, expected NOPERM")


def cli(*args, **environment):
    done = subprocess.run(
        ["redis-cli", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, **environment),
    )
    return (done.stdout + done.stderr).strip()


def holds(text, *needles):
    for needle in needles:
        if needle not in text:
            raise AssertionError(f"{needle!r} is not in {text!r}")


def has(option):
    """Whether this server knows the option: a start with one that it does not know fails."""
    with Raw() as raw:
        return bool(raw.call("CONFIG", "GET", option))
