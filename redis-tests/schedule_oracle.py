#!/usr/bin/env python3
"""Instants of random cron patterns against Python's zoneinfo: a walk over local days, written apart from the server's search.

A pattern that is elapsed (second, minute or hour begins with a star) comes at each instant whose local time matches; each other
one at each local time once, in a gap at its end, in a fold the first time. DELAYD_SEED names the seed, an argument how many
patterns each zone gets: 40, 2 s in all.
"""

import calendar
import datetime
import itertools
import os
import random
import sys
import zoneinfo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import Raw, ReplyError, Skip, check, equal, finish, info, needs  # noqa: E402

# The tables of this machine and those of the server may be of different versions. For these zones nothing has changed from
# 2025b to 2026f: of those with rare rules Havana, Casablanca and Vancouver have.
ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "America/New_York", "America/St_Johns",
    "America/Sao_Paulo", "America/Santiago", "America/Asuncion", "America/Nuuk", "America/Scoresbysund", "Atlantic/Azores",
    "Africa/Cairo", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Tokyo", "Asia/Kolkata", "Australia/Lord_Howe",
    "Australia/Sydney", "Pacific/Chatham", "Pacific/Apia", "Pacific/Kiritimati", "Antarctica/Troll",
)
CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 40
SEED = int(os.environ.get("DELAYD_SEED", random.randrange(1 << 32)))
# How far the walk goes, days, and how many local times of a day it looks at.
HORIZON, TIMES_MAX = 800, 1500
DAY, HOUR, SECOND = (datetime.timedelta(**{unit: 1}) for unit in ("days", "hours", "seconds"))
WORDS = "SUN MON TUE WED THU FRI SAT".split()


def at(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def item(rng, low, high, end):
    """One item and the values it names; a star is not among them."""
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    step = rng.randint(1, max(2, high // 2))
    return rng.choice((
        (str(first), {first}),
        (str(first), {first}),
        (f"{first}-{last}", set(range(first, last + 1))),
        (f"{first}-{last}/{step}", set(range(first, last + 1, step))),
        (f"{first}/{step}", set(range(first, end + 1, step))),
    ))


def field(rng, low, high, end, stars):
    if rng.random() < stars:
        step = rng.choice((1, 1, 2, 5, 7, 11)[: 3 if high < 11 else 6])
        return "*" if step == 1 else f"*/{step}", set(range(low, end + 1, step))
    texts, values = zip(*(item(rng, low, high, end) for _ in range(rng.choice((1, 1, 1, 2, 3)))))
    return ",".join(texts), set().union(*values)


def is_workday(year, month, day):
    return calendar.weekday(year, month, day) < 5


def month_days(rng):
    """Day-of-month, and which days of a month of a year it names; None if it says nothing."""
    day = rng.randint(1, 31)
    length = lambda year, month: calendar.monthrange(year, month)[1]
    workdays = lambda year, month: [d for d in range(1, length(year, month) + 1) if is_workday(year, month, d)]
    kind = rng.randrange(16)
    if kind == 0:
        return "L", lambda y, m: {length(y, m)}
    if kind == 1:
        return "LW", lambda y, m: {workdays(y, m)[-1]}
    if kind == 2:
        nearest = lambda y, m: min(workdays(y, m), key=lambda d: abs(d - day))
        return f"{day}W", lambda y, m: {nearest(y, m)} if day <= length(y, m) else set()
    if kind < 6:
        text, values = field(rng, 1, 31, 31, 0.2)
        return text, None if text == "*" else lambda y, m: values
    return rng.choice("*?"), None


def week_days(rng):
    """Day-of-week, likewise."""
    day, nth = rng.randint(0, 6), rng.randint(1, 5)
    name = rng.choice((str(day), WORDS[day], WORDS[day].lower()))
    those = lambda y, m: [d for d in range(1, calendar.monthrange(y, m)[1] + 1) if (calendar.weekday(y, m, d) + 1) % 7 == day]
    kind = rng.randrange(16)
    if kind == 0:
        return rng.choice((f"{name}L", f"{name}#L")), lambda y, m: set(those(y, m)[-1:])
    if kind == 1:
        return f"{name}#{nth}", lambda y, m: set(those(y, m)[nth - 1:nth])
    if kind < 5:
        text, values = field(rng, 0, 6, 6, 0.1)
        named = lambda y, m, d: (calendar.weekday(y, m, d) + 1) % 7 in values
        return text, None if text == "*" else lambda y, m: {d for d in range(1, calendar.monthrange(y, m)[1] + 1) if named(y, m, d)}
    return "*", None


class Pattern:
    def __init__(self, rng):
        # Hours at which clocks are set, mostly.
        high = 3 if rng.random() < 0.6 else 23
        self.second = field(rng, 0, 59, 59, 0.2) if rng.random() < 0.2 else ("0", {0})
        self.minute, self.hour = field(rng, 0, 59, 59, 0.2), field(rng, 0, high, 23, 0.3)
        self.month = field(rng, 1, 12, 12, 0.0) if rng.random() < 0.15 else ("*", set(range(1, 13)))
        (day, self.by_day), (weekday, self.by_weekday) = month_days(rng), week_days(rng)
        self.both = rng.random() < 0.2
        fields = [self.minute[0], self.hour[0], day, self.month[0], ("+" if self.both else "") + weekday]
        if self.second[0] != "0":
            fields.insert(0, self.second[0])
        self.text = " ".join(fields)
        self.elapsed = any(each[0].startswith("*") for each in (self.second, self.minute, self.hour))
        times = itertools.product(sorted(self.hour[1]), sorted(self.minute[1]), sorted(self.second[1]))
        self.times = [datetime.time(*each) for each in itertools.islice(times, TIMES_MAX + 1)]

    def on(self, date):
        if date.month not in self.month[1]:
            return False
        day, weekday = (
            None if by is None else date.day in by(date.year, date.month) for by in (self.by_day, self.by_weekday)
        )
        if day is None or weekday is None:
            return (day is None or day) and (weekday is None or weekday)
        return day and weekday if self.both else day or weekday


def shown(zone, utc):
    return utc.astimezone(zone).replace(tzinfo=None)


def instants_of(zone, local, elapsed):
    """The instants that a local time stands for."""
    both = [local.replace(tzinfo=zone, fold=fold).astimezone(datetime.timezone.utc) for fold in (0, 1)]
    real = [utc for utc in both if shown(zone, utc) == local]
    if elapsed:
        return real
    return [min(real)] if real else [end_of_gap(zone, *sorted(both))]


def end_of_gap(zone, before, after):
    """When the clocks were set, between an instant before and one not before: in halves."""
    offset = before.astimezone(zone).utcoffset()
    while after - before > SECOND:
        middle = before + (after - before) // SECOND // 2 * SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def walk(pattern, zone, start, count):
    """The first instants from `start` on, and how far was looked."""
    found, date = set(), shown(zone, start).date() - DAY
    end = date + HORIZON * DAY
    earliest = shown(zone, start) - 26 * HOUR
    while date < end:
        if len(found) >= count and date > shown(zone, sorted(found)[count - 1]).date() + DAY:
            break
        for time in pattern.times if pattern.on(date) else ():
            local = datetime.datetime.combine(date, time)
            if local > earliest:
                found.update(utc for utc in instants_of(zone, local, pattern.elapsed) if utc >= start)
        date += DAY
    return sorted(found)[:count], date


def changes(zone, first, last):
    """The days from one year to another in which clocks are set."""
    utc = datetime.datetime(first, 1, 1, tzinfo=datetime.timezone.utc)
    while utc.year <= last:
        if utc.astimezone(zone).utcoffset() != (utc + DAY).astimezone(zone).utcoffset():
            yield utc
        utc += DAY


def explain(raw, pattern, name, start, count):
    words = ("CRON", pattern.text, "TZ", name, "FROM", start.strftime("%Y-%m-%dT%H:%M:%SZ"), "COUNT", count)
    try:
        return [(ms, local.decode()) for ms, local in raw.call("DELAY.SCHEDULE", "EXPLAIN", *words)]
    except ReplyError as error:
        if str(error).endswith("never occurs"):
            return []
        raise


def compare(raw, pattern, name, start):
    zone, count = zoneinfo.ZoneInfo(name), 3
    wanted, end = walk(pattern, zone, start, count)
    got = explain(raw, pattern, name, start, count)
    if len(wanted) < count:
        # What lies behind the days that were walked over is not known.
        got = [each for each in got if shown(zone, at(each[0] // 1000)).date() < end - DAY]
        wanted = [each for each in wanted if shown(zone, each).date() < end - DAY]
    wanted = [(int(utc.timestamp()) * 1000, utc.astimezone(zone).isoformat()) for utc in wanted]
    if got != wanted:
        raise AssertionError(f"{pattern.text!r} TZ {name} FROM {start.isoformat()}: got {got}, expected {wanted}")


def draw_start(rng, days):
    if days and rng.random() < 0.85:
        return rng.choice(days) + rng.randint(-30 * 3600, 30 * 3600) * SECOND
    return at(rng.randint(946_684_800, 2_114_380_800))


def compare_all(raw, name):
    rng = random.Random(f"{SEED} {name}")
    days = list(changes(zoneinfo.ZoneInfo(name), 2000, 2036))
    for _ in range(CASES):
        pattern = Pattern(rng)
        while len(pattern.times) > TIMES_MAX:
            pattern = Pattern(rng)
        compare(raw, pattern, name, draw_start(rng, days))


def main():
    print(f"DELAYD_SEED={SEED}", flush=True)
    with Raw() as raw:
        for name in ZONES:
            with check(f"{name}: {CASES} patterns"):
                needs("DELAY.SCHEDULE")
                if name not in zoneinfo.available_timezones():
                    raise Skip("this machine has no such zone: install tzdata")
                compare_all(raw, name)
        with check("the server says which tables it has"):
            needs("DELAY.SCHEDULE")
            equal("tzdata_version" in info(raw), True)
    finish()


if __name__ == "__main__":
    main()
