"""Replies as they stood on the wire, and what a program that reads them may require of them.

A client library tells a status from a bulk string and a map from a flat array, so a replayed request
needs the kind of the reply and not only its value. A rule is a function that takes a reply and raises
`AssertionError` when that client would not have been content.
"""

import math
import re
from typing import NamedTuple

from harness import Closed, Raw, encode, queue

KINDS = {
    "+": "status",
    "-": "error",
    ":": "integer",
    "$": "bulk string",
    "*": "array",
    "_": "null",
    "%": "map",
    "~": "set",
    ">": "push",
    "=": "verbatim string",
    ",": "double",
    "#": "boolean",
}


class Reply(NamedTuple):
    """`kind` is the first byte; strings are bytes, aggregates hold replies, a map holds pairs."""

    kind: str
    value: object

    def __repr__(self):
        text = f"{KINDS[self.kind]} {self.value!r}"
        return text if len(text) < 300 else text[:300] + " …"


class Wire(Raw):
    """A connection whose replies keep their kinds."""

    def read(self):
        try:
            line = self.input.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\r\n"):
            raise Closed("the server closed the connection")
        kind, rest = chr(line[0]), line[1:-2]
        if kind not in KINDS:
            raise AssertionError(f"not a reply: {line!r}")
        if kind in "+-,":
            return Reply(kind, rest)
        if kind == ":":
            return Reply(kind, int(rest))
        if kind == "_":
            return Reply(kind, None)
        if kind == "#":
            return Reply(kind, rest == b"t")
        size = int(rest)
        if size < 0:
            return Reply(kind, None)
        if kind in "$=":
            data = self.input.read(size + 2)
            if len(data) < size + 2:
                raise Closed("the server closed the connection inside a reply")
            return Reply(kind, data[:-2])
        if kind == "%":
            return Reply(kind, [(self.read(), self.read()) for _ in range(size)])
        return Reply(kind, [self.read() for _ in range(size)])

    def ask(self, *words):
        """Sends one command and returns its reply, an error too."""
        self.send(encode(*words))
        return self.read()


def need(condition, what, reply):
    if not condition:
        raise AssertionError(f"expected {what}, got {reply!r}")


def text(reply):
    """What every client takes for a string: status, bulk or verbatim, without the latter's type."""
    need(reply.kind in "+$=" and reply.value is not None, "a string", reply)
    return (reply.value[4:] if reply.kind == "=" else reply.value).decode("utf-8", "replace")


def number(reply):
    """An integer, or a string that spells one."""
    return reply.value if reply.kind == ":" else int(text(reply))


def items(reply):
    need(reply.kind in "*~>" and reply.value is not None, "an array", reply)
    return reply.value


def mapping(reply):
    """A map, or the flat array that stands for one in RESP2, as a dict with text keys."""
    if reply.kind == "%":
        return {text(key): value for key, value in reply.value}
    flat = items(reply)
    need(len(flat) % 2 == 0, "names and values in turn", reply)
    return {text(key): value for key, value in zip(flat[::2], flat[1::2])}


def fields(info):
    """The `name:value` lines of INFO; a name that comes twice or a line that is neither is refused."""
    found = {}
    for line in info.split("\r\n"):
        if not line or line.startswith("# "):
            continue
        name, colon, value = line.partition(":")
        if not colon or not name or name in found:
            raise AssertionError(f"a line of INFO that no parser reads: {line!r}")
        found[name] = value
    return found


def some_traffic(raw):
    """Commands, errors, a queue with jobs in two states: something to see in every section."""
    q = queue("exported")
    for n in range(5):
        raw.call("DELAY.ADD", q, "0", f"ready {n}")
    raw.call("DELAY.ADD", q, "1h", "delayed")
    raw.error("DELAY.ADD", q)
    raw.error("DELAY.ADD", q, "soon", "x")
    raw.error("NOSUCHCOMMAND")
    return q


def values(line):
    """`a=1,b=2.5` as numbers. Grafana and Telegraf index behind each `=` without looking."""
    parts = [part.split("=") for part in line.split(",")]
    need(all(len(part) == 2 for part in parts), "name=number,…", line)
    found = {name: float(value) for name, value in parts}
    need(all(map(math.isfinite, found.values())), "finite numbers", line)
    return found


def client_lines(reply):
    """CLIENT LIST as redis_exporter reads it: one `=` in every word, or the line is dropped."""
    rows = []
    for line in text(reply).split("\n")[:-1]:
        need(re.match(r"id=\d+ addr=\S+", line), "id and addr first", line)
        words = [word.split("=") for word in line.split(" ")]
        need(all(len(word) == 2 for word in words), "name=value in every word", line)
        rows.append(dict(words))
    return rows


def whole_scan(wire, *words):
    found, cursor = [], "0"
    while True:
        cursor, keys = items(wire.ask("SCAN", cursor, *words))
        found += [text(key) for key in items(keys)]
        cursor = text(cursor)
        if cursor == "0":
            return found


# Rules. A step that may fail names `anything`: the client goes on whatever the answer is.


def anything(reply):
    """Some reply: the client does not look."""


def ok(reply):
    need(reply == Reply("+", b"OK"), "+OK", reply)


def pong(reply):
    need(reply == Reply("+", b"PONG"), "+PONG", reply)


def integer(reply):
    need(reply.kind == ":", "an integer", reply)


def nothing(reply):
    need(reply.value is None, "null", reply)


def error(prefix, *parts):
    """An error that begins so and holds these parts: the text is what the client looks at."""

    def rule(reply):
        need(reply.kind == "-", f"an error {prefix!r}", reply)
        words = reply.value.decode()
        need(
            words.startswith(prefix) and all(part in words for part in parts),
            f"an error {prefix!r} with {parts!r}",
            reply,
        )

    return rule


def bulk(data):
    """Exactly these bytes as a bulk string, not as a status."""

    def rule(reply):
        need(reply == Reply("$", data), f"the bulk string {data!r}", reply)

    return rule


def holds(**wanted):
    """INFO text in which these fields stand; a value of None only has to be there."""

    def rule(reply):
        found = fields(text(reply))
        for name, value in wanted.items():
            need(name in found and value in (None, found[name]), f"{name}:{value}", found.get(name))

    return rule


def setting(name, *values):
    """One name and its value: what CONFIG GET of one option must answer."""

    def rule(reply):
        found = mapping(reply)
        need(list(found) == [name], f"{name} alone", reply)
        need(
            text(found[name]) in values if values else text(found[name]).isdecimal(),
            " or ".join(values) or "a number",
            found[name],
        )

    return rule
