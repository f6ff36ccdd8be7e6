"""Durations and instants, as the server reads them."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from typing import Optional, Union

Duration = Union[str, int, float, timedelta]
"""``"1h30m"``, a timedelta, or a number of seconds."""
Instant = Union[str, datetime]
"""A datetime with a zone, or text such as ``"2030-01-31T08:00:00+01:00"``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_TERMS = re.compile(r"(?:\d+(?:ms|[smhdw]))+|\d+")
_TERM = re.compile(r"(\d+)(ms|[smhdw])?")


def duration(value: Duration) -> str:
    """Rounds up to a millisecond, so that nothing is early. The server checks text."""
    if isinstance(value, str):
        return value
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= number < math.inf:
        raise ValueError(f"a duration is not negative and not infinite: {value!r}")
    return f"{math.ceil(round(number * 1000, 3))}ms"


def seconds(value: Duration) -> float:
    """What the worker measures by its own clock: leases, time limits, the grace."""
    text = duration(value)
    if not _TERMS.fullmatch(text):
        raise ValueError(f"not a duration such as '30s' or '1h30m': {value!r}")
    return sum(int(number) * _SECONDS[unit or "ms"] for number, unit in _TERM.findall(text))


def when(delay: Optional[Duration], at: Optional[Instant]) -> str:
    """The `when` of a command: now unless told otherwise."""
    if delay is not None and at is not None:
        raise ValueError("name either delay or at")
    if delay is not None:
        return duration(delay)
    if at is None:
        return "0"
    if isinstance(at, str):
        return at
    if at.tzinfo is None:
        raise ValueError(f"a datetime needs a zone, such as timezone.utc: {at!r}")
    return f"@{-((_EPOCH - at) // timedelta(milliseconds=1))}"
