#!/usr/bin/env python3
"""redis-cli: every mode a person at a terminal or a script would use."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import HOST, PORT, Raw, Server, check, encode, equal, finish, free_ports, needs, queue  # noqa: E402

CLI = ["redis-cli", "-h", HOST, "-p", str(PORT)]


def cli(*args, stdin="", timeout=20, status=0):
    """Runs redis-cli to its end and returns what it printed, without the last newline."""
    done = subprocess.run(
        [*CLI, *args], input=stdin, capture_output=True, text=True, timeout=timeout
    )
    equal(done.returncode, status)
    return (done.stdout + done.stderr).rstrip("\n")


def holds(text, *needles):
    for needle in needles:
        if needle not in text:
            raise AssertionError(f"{needle!r} is not in {text!r}")


class Terminal:
    """redis-cli at a terminal of its own: what a person types, what a person sees."""

    def __init__(self, *args, prompt=r"> "):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Before it starts: a terminal without columns is asked for the place of its cursor, and never answers.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
            os.environ.update(TERM="xterm", HOME="/nonexistent")
            os.execvp("redis-cli", [*CLI, *args])
        self.until(prompt)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern, seconds=5):
        """Reads until the pattern was seen, and returns the text without colours and cursor moves."""
        deadline, seen = time.monotonic() + seconds, b""
        while True:
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode("utf-8", "replace"))
            if re.search(pattern, plain, re.S):
                return plain
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} did not appear in {plain[-400:]!r}")
            try:
                seen += os.read(self.fd, 65536)
            except OSError:
                raise AssertionError(f"redis-cli ended after {plain[-400:]!r}") from None


with check("one command on the command line"):
    q = queue("cli")
    equal(cli("PING"), "PONG")
    equal(cli("DELAY.ADD", q, "1h", "hello", "ID", "a"), "a")
    equal(cli("DELAY.LEN", q, "DELAYED"), "1")
    equal(cli("DELAY.CANCEL", q, "a"), "delayed")

with check("an error reply is shown as one; the exit code is 0, with -e it is not"):
    holds(
        cli("DELAY.ADD", queue("cli")),
        "ERR wrong number of arguments for 'delay.add' command; usage: DELAY.ADD queue when body [ID id]",
    )
    holds(cli("DELAY.CANCLE", queue("cli"), "a"), "did you mean DELAY.CANCEL?")
    done = subprocess.run([*CLI, "-e", "DELAY.ADD", "q"], capture_output=True, text=True, timeout=20)
    equal(done.returncode, 1)

with check("commands on standard input"):
    q = queue("cli")
    out = cli(stdin=f"DELAY.ADD {q} 0 first ID 1\nDELAY.POP {q} 1\nDELAY.POP {q} NOWAIT\n")
    equal(out.split("\n"), ["1", q, "1", "first", ""][: len(out.split("\n"))])
    holds(out, "first")

with check("the last argument from standard input, binary body"):
    q = queue("cli")
    done = subprocess.run(
        [*CLI, "-x", "DELAY.ADD", q, "0"], input=b"a\r\n\x00\xff", capture_output=True, timeout=20
    )
    equal(done.returncode, 0)
    with Raw() as raw:
        equal(raw.call("DELAY.POP", q, "1")[2], b"a\r\n\x00\xff")

with check("-3: a map is a map"):
    q = queue("cli")
    out = cli("-3", stdin=f"DELAY.ADD {q} 1h x ID a\nDELAY.GET {q} a\n")
    holds(out, "state", "delayed")
    holds(cli("-3", "--no-raw", "DELAY.GET", q, "a"), '1# "id" => "a"')

with check("-n selects a database, -u takes a URL"):
    q = queue("cli")
    equal(cli("-n", "3", "DELAY.ADD", q, "1h", "x", "ID", "a"), "a")
    equal(cli("EXISTS", q), "0")
    done = subprocess.run(
        ["redis-cli", "-u", f"redis://{HOST}:{PORT}/3", "EXISTS", q],
        capture_output=True, text=True, timeout=20,
    )
    equal(done.stdout.strip(), "1")

with check("help for a command"), Terminal() as terminal:
    terminal.type("help delay.add\r")
    holds(terminal.until(r"since:.*group:.*> "), "DELAY.ADD queue when body", "summary:")

with check("DELAY.HELP names every command, and the options of one"):
    told = cli("DELAY.HELP").split("\n")
    with Raw() as raw:
        names = [name.decode() for name in raw.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "delay.*")]
    containers = {name.split("|")[0] for name in names if "|" in name}
    for name in set(names) - containers:
        if not name.endswith("|help"):
            equal(len([line for line in told if (line + " ").startswith(name.upper().replace("|", " ") + " ")]), 1)
    holds(cli("-3", "DELAY.HELP", "add"), "DELAY.ADD queue when body", "    ID id: 1 to 512 bytes", "    NX: ")

with check("help for the group lists every command"), Terminal() as terminal:
    terminal.type("help @delay\r")
    text = terminal.until(r"DELAY\.STATS.*> ")
    holds(text, *(f"DELAY.{c}" for c in "ADD POP RESERVE ACK NACK EXTEND CANCEL SCAN".split()))

with check("help for every command and subcommand: how to call it, what it does, its group"):
    with Raw() as raw:
        names = sorted(name.decode().replace("|", " ") for name in raw.call("COMMAND", "LIST"))
    told = cli(stdin="".join(f"help {name}\n" for name in names))
    told = re.sub(r"\x1b\[[0-9;]*m", "", told)
    for name in names:
        found = re.search(rf"^  {re.escape(name.upper())} .*\n  summary: \S.*\n  since: \S+\n  group: \S+$", told, re.M)
        if not found:
            raise AssertionError(f"no help for {name!r}")

with check("TAB completes a dotted command"), Terminal() as terminal:
    terminal.type("delay.resch\t")
    terminal.until(r"(?i)delay\.reschedule")

with check("hints show the arguments that are left"), Terminal() as terminal:
    terminal.type("DELAY.ADD orders ")
    terminal.until(r"orders +when body")
    terminal.type("30s ")
    terminal.until(r"30s +body")

with check("a session: MULTI, a queued command, EXEC, SELECT in the prompt"), Terminal() as terminal:
    q = queue("cli")
    terminal.type("MULTI\r")
    terminal.until(r"OK.*\(TX\)> ")
    terminal.type(f"DELAY.ADD {q} 1h x ID a\r")
    terminal.until(r"QUEUED.*\(TX\)> ")
    terminal.type("EXEC\r")
    terminal.until(r'1\) "a".*> ')
    terminal.type("SELECT 2\r")
    terminal.until(r"\[2\]> ")

with check("--stat"), Terminal("--stat", "-i", "1", prompt="keys") as terminal:
    terminal.until(r"(\d+ +\S+ +\d+ +\d+ +\d+ \(\+\d+\).*){2}")

with check("--latency"):
    out = subprocess.run(
        ["timeout", "-s", "INT", "1", *CLI, "--latency", "--raw"],
        capture_output=True, text=True, timeout=20,
    ).stdout + subprocess.run(
        ["timeout", "1.5", *CLI, "--csv", "--latency", "-i", "1"],
        capture_output=True, text=True, timeout=20,
    ).stdout
    samples = [int(n) for n in re.findall(r"[ ,](\d+)\s*$", out, re.M)]
    if not samples or max(samples) < 10:
        raise AssertionError(f"expected samples, got {out!r}")

with check("--scan --pattern finds queues, delayed ones too"):
    q = queue("scan")
    with Raw() as raw:
        raw.call("DELAY.ADD", q + ":delayed", "1h", "x")
        raw.call("DELAY.ADD", q + ":ready", "0", "x")
    found = cli("--scan", "--pattern", q + ":*").split("\n")
    equal(sorted(found), [q + ":delayed", q + ":ready"])

with check("--bigkeys"):
    q = queue("big")
    with Raw() as raw:
        for n in range(500):
            raw.call("DELAY.ADD", q, "0", n)
    out = cli("--bigkeys", timeout=60)
    holds(out, "Sampled", "lists with")
    if not re.search(r"Biggest\s+list found .* has \d+ items", out):
        raise AssertionError(f"no biggest list in {out!r}")

with check("--memkeys"):
    holds(cli("--memkeys", timeout=60), "Sampled")

with check("--pipe with 5,000 raw commands"):
    q = queue("pipe")
    data = b"".join(encode("DELAY.ADD", q, "1h", f"body {n}", "ID", n) for n in range(5000))
    done = subprocess.run([*CLI, "--pipe"], input=data, capture_output=True, timeout=60)
    equal(done.returncode, 0)
    holds(done.stdout.decode(), "errors: 0, replies: 5000")
    equal(cli("DELAY.LEN", q), "5000")

with check("--pipe counts errors and goes on"):
    q = queue("pipe")
    data = b"".join(encode("DELAY.ADD", q, "1h", "x", "ID", n % 50) for n in range(100))
    done = subprocess.run([*CLI, "--pipe"], input=data, capture_output=True, timeout=60)
    holds(done.stdout.decode(), "errors: 50, replies: 100")

with check("INFO, CLIENT LIST and CONFIG GET read well"):
    holds(cli("INFO", "server"), "delayd_version:", "redis_version:7.2.4")
    holds(cli("CLIENT", "LIST"), "cmd=client|list")
    holds(cli("CONFIG", "GET", "max-delay"), "max-delay")

for flags in ([], ["-3"]):
    with check(f"SUBSCRIBE and PSUBSCRIBE, RESP{'3' if flags else '2'}: confirmations and messages are shown as they come"):
        needs("SUBSCRIBE", "PSUBSCRIBE", "PUBLISH")
        q = queue("news")
        with Terminal(*flags) as terminal:
            terminal.type(f"SUBSCRIBE {q}:a {q}:b\r")
            terminal.until(rf'"{q}:b".*\(integer\) 2')
            equal(cli("PUBLISH", q + ":a", "hello"), "1")
            terminal.until(rf'"message".*"{q}:a".*"hello"')
        with Terminal(*flags) as terminal:
            terminal.type(f"PSUBSCRIBE {q}:*\r")
            terminal.until(r'"psubscribe".*\(integer\) 1')
            equal(cli("PUBLISH", q + ":a", "hello"), "1")
            terminal.until(rf'"pmessage".*"{q}:\*".*"{q}:a".*"hello"')

with check("MONITOR shows a command"):
    needs("MONITOR")
    q = queue("monitor")
    with Terminal() as terminal:
        terminal.type("MONITOR\r")
        terminal.until(r"OK")
        cli("DELAY.ADD", q, "1h", "x")
        terminal.until(rf'"DELAY.ADD" "{q}" "1h" "x"')

with check("-c follows MOVED; --cluster check and info see all partitions, and reshard is refused"):
    with Server("--cluster-partitions", "4", port=free_ports(4)) as server:
        at_first = lambda *args, **how: cli("-p", str(server.port), *args, **how)
        for n in range(16):
            equal(at_first("-c", "DELAY.ADD", f"q{n}", "1h", "x", "ID", "a"), "a")
        holds(at_first("DELAY.LEN", "q2"), "MOVED ")
        place = f"127.0.0.1:{server.port}"
        for how in ("check", "info"):
            text = at_first("--cluster", how, place)
            holds(text, "[OK] 16 keys in 4 masters.", *(f"127.0.0.1:{server.port + k}" for k in range(4)))
        holds(at_first("--cluster", "check", place), "[OK] All 16384 slots covered.")
        with Raw("127.0.0.1", server.port) as raw:
            target = raw.call("CLUSTER", "MYID").decode()
        moved = at_first("--cluster", "reshard", place, "--cluster-from", "all", "--cluster-to", target, "--cluster-slots", "5", "--cluster-yes", status=1)
        holds(moved, "slots are fixed")
        joined = at_first("--cluster", "add-node", f"127.0.0.1:{PORT}", place, status=1)
        if "[OK] New node added correctly" in joined:
            raise AssertionError(joined)

finish()
