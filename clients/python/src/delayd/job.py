"""A job in a worker's hand, the errors that steer it, and what is told to the server afterwards."""

from __future__ import annotations

import json
import traceback
from datetime import datetime, timezone
from typing import Any, Callable, Generic, NamedTuple, Optional, TypeVar, Union

from .connection import pairs
from .times import Duration, duration, seconds

Body = TypeVar("Body")

ERROR_BYTES_MAX = 1024
_FRAMES_SHOWN = 4


def _checked(value: Duration) -> str:
    seconds(value)
    return duration(value)


class Retry(Exception):
    """The job failed: again after this time, or after its backoff. The attempt counts."""

    def __init__(self, after: Optional[Duration] = None, reason: str = "") -> None:
        super().__init__(reason or "retry")
        self.after = None if after is None else _checked(after)


class Snooze(Exception):
    """Not now: again after this time. The attempt does not count."""

    def __init__(self, after: Duration) -> None:
        super().__init__("snoozed")
        self.after = _checked(after)


class Bury(Exception):
    """The job cannot succeed: it is dead at once, with this reason, until it is redriven."""


class Discard(Exception):
    """The job is not needed any more: it ends as if it had succeeded."""


class Codec(NamedTuple):
    """How a body that is not bytes is sent, and what a handler is given."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _to_json(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def _from_json(body: bytes) -> Any:
    return json.loads(body) if body else None


def _as_it_is(body: Any) -> Any:
    return body


JSON = Codec(_to_json, _from_json)
RAW = Codec(_as_it_is, _as_it_is)


class Outcome(NamedTuple):
    """The counter it goes to, the words of NACK (none: it is an ACK), and the text for the log."""

    kind: str
    words: Optional[tuple[bytes, ...]] = None
    error: str = ""


DONE = Outcome("done")
GIVEN_BACK = Outcome("given_back", (b"UNCOUNTED",))


class Job(Generic[Body]):
    """What a handler is given beside the body."""

    # The worker's own fields have an underscore: deadlines are of its monotonic clock.
    __slots__ = (
        "queue", "id", "raw", "body", "token", "attempt", "due_ms", "lost", "group", "_group", "_meta",
        "_id", "_queue", "_lease", "_until", "_extend_at", "_started", "_places", "_teller", "_again", "_cancelled", "_error",
    )  # fmt: skip

    body: Body

    def __init__(self, reply: Any, lease: float, sent: float, places: Any = None, teller: Any = None) -> None:
        self._queue, self._id, self.raw, self.token, self.attempt, self.due_ms = reply[:6]
        self._group, self._meta = reply[7:9]
        self.group: Optional[str] = self._group and self._group.decode("utf-8", "surrogateescape")
        self.queue: str = self._queue.decode("utf-8", "surrogateescape")
        self.id: str = self._id.decode("utf-8", "surrogateescape")
        self.lost = False
        self._lease, self._until, self._extend_at = lease, sent + lease, sent + lease / 3
        self._started = 0.0
        self._places, self._teller = places, teller
        self._again = False
        self._cancelled: Optional[str] = None
        self._error: Optional[BaseException] = None

    def __repr__(self) -> str:
        return f"<Job {self.queue} {self.id}, attempt {self.attempt}>"

    @property
    def due(self) -> datetime:
        return datetime.fromtimestamp(self.due_ms / 1000, timezone.utc)

    @property
    def meta(self) -> dict[str, Union[str, bytes]]:
        """The job's headers: text, or bytes if a value is not UTF-8."""
        return meta_of(self._meta)

    def _pieces(self) -> tuple[Any, ...]:
        return self._queue, self._id, self.raw, self.token, self.attempt, self.due_ms, 0, self._group, self._meta


def meta_of(reply: Any) -> dict[str, Union[str, bytes]]:
    return {name: _text_or_bytes(value) for name, value in pairs(reply).items()}


def _text_or_bytes(value: bytes) -> Union[str, bytes]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _told(kind: str, text: str, *before: bytes, after: Optional[str] = None) -> Outcome:
    cut = text.encode("utf-8", "replace")[:ERROR_BYTES_MAX].decode("utf-8", "ignore").encode()
    in_ = (b"IN", after.encode()) if after else ()
    return Outcome(kind, (*before, b"ERROR", cut, *in_), text.split("\n", 1)[0])


def failed(text: str) -> Outcome:
    return _told("failed", text)


def undecodable(error: Exception) -> Outcome:
    return _told("buried", f"the body cannot be decoded: {type(error).__name__}: {_text_of(error)}", b"BURY")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as another:
        return f"(its text raised {type(another).__name__})"


def outcome_of(error: BaseException) -> Outcome:
    """What a handler's error means for its job."""
    if isinstance(error, Discard):
        return DONE
    if isinstance(error, Snooze):
        return Outcome("snoozed", (b"UNCOUNTED", b"IN", error.after.encode()))
    if isinstance(error, Bury):
        return _told("buried", _text_of(error) or "buried", b"BURY")
    if isinstance(error, Retry):
        return _told("retried", _text_of(error), after=error.after)
    frames = list(traceback.walk_tb(error.__traceback__))[1:][-_FRAMES_SHOWN:]
    trace = [f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}" for frame, line in reversed(frames)]
    return failed("\n".join([f"{type(error).__name__}: {_text_of(error)}", *trace]))
