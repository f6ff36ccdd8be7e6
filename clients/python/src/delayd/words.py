"""Options of jobs and schedules, as keyword arguments and as the words of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict, Union

from .connection import Word
from .times import Duration, Instant, duration, when

Ladder = Union[str, Sequence[Duration]]
Meta = Mapping[str, Union[str, bytes]]


class JobOptions(TypedDict, total=False):
    priority: int
    attempts: int
    backoff: Ladder
    lease: Duration
    ttl: Duration
    group: Union[str, bytes]
    meta: Meta


class AddOptions(JobOptions, total=False):
    delay: Duration
    at: Instant
    id: str
    nx: bool
    replace: bool
    latest: bool
    max_delay: Duration
    unique: Duration


class NewJob(AddOptions, total=False):
    """A job of `add_many`."""

    body: Any


class ScheduleOptions(JobOptions, total=False):
    name: str
    body: Any
    overlap: Literal["allow", "skip", "replace"]
    catchup: int
    grace: Duration
    spread: Duration
    runs: int


def job_words(options: dict[str, Any]) -> list[Word]:
    """Takes the options that jobs and schedules share out of `options`."""
    words: list[Word] = []
    for name in ("priority", "attempts"):
        words += _word(name, options.pop(name, None))
    ladder = options.pop("backoff", None)
    if ladder is not None:
        words += ["BACKOFF", ladder if isinstance(ladder, str) else ",".join(duration(step) for step in ladder)]
    for name in ("lease", "ttl"):
        words += _duration(name, options.pop(name, None))
    words += _word("group", group_word(options.pop("group", None)))
    return words + meta_words(options.pop("meta", None))


def group_word(group: Optional[Union[str, bytes]]) -> Optional[bytes]:
    """The name of a group; one that was no UTF-8 goes back as it came."""
    if group is None or isinstance(group, bytes):
        return group
    if not isinstance(group, str):
        raise TypeError(f"group is {group!r}; it is text or bytes")
    return group.encode("utf-8", "surrogateescape")


def of_group(group: Optional[Union[str, bytes]]) -> list[Word]:
    return _word("group", group_word(group))


def meta_words(meta: Optional[Meta]) -> list[Word]:
    """`META n name value ...`; names that were no UTF-8 go back as they came."""
    if meta is None:
        return []
    if not isinstance(meta, Mapping) or any(not isinstance(n, str) or not isinstance(v, (str, bytes)) for n, v in meta.items()):
        raise TypeError(f"meta is {meta!r}; it maps text to text or bytes")
    words = [word for name, value in meta.items() for word in (name.encode("utf-8", "surrogateescape"), value)]
    return ["META", len(meta), *words] if words else []


def add_words(queue: str, body: bytes, options: dict[str, Any]) -> list[Word]:
    words: list[Word] = ["DELAY.ADD", queue, when(options.pop("delay", None), options.pop("at", None)), body]
    words += _word("id", options.pop("id", None))
    for name in ("nx", "replace", "latest"):
        words += [name.upper()] if options.pop(name, False) else []
    words += _duration("maxdelay", options.pop("max_delay", None))
    words += job_words(options) + _duration("unique", options.pop("unique", None))
    _none_left("add", options)
    return words


def schedule_words(options: dict[str, Any]) -> list[Word]:
    words = job_words(options)
    for name in ("overlap", "catchup", "runs"):
        words += _word(name, options.pop(name, None))
    for name in ("grace", "spread"):
        words += _duration(name, options.pop(name, None))
    _none_left("a schedule", options)
    return words


def _word(name: str, value: Optional[Word]) -> list[Word]:
    return [] if value is None else [name.upper(), value]


def _duration(name: str, value: Optional[Duration]) -> list[Word]:
    return [] if value is None else [name.upper(), duration(value)]


def _none_left(what: str, options: dict[str, Any]) -> None:
    if options:
        raise TypeError(f"{what} has no option {sorted(options)[0]!r}")
