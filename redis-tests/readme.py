#!/usr/bin/env python3
"""Every block of README.md, and of the pages that grew out of it, runs when it is pasted.

    sh       pasted into a shell, and delayd call into a terminal. One that goes on (a server, a consumer that waits) goes on while the next are pasted.
    redis    pasted into redis-cli.
    text     what the shell block before it shows, that which waits first.
    others   programs: consumers.py and frameworks.py run them.

A page has a server of its own: the one that its blocks start, or else one that is there. Ports, the folder of the data and what
only root may do are replaced; nothing else is.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
from harness import BINARY, Raw, ReplyError, Server, Skip, check, equal, finish, free_port, info, until  # noqa: E402
from pages import blocks, is_consumer  # noqa: E402

PAGES = ("README.md", "docs/clients.md", "docs/durability.md", "docs/operating.md", "docs/schedules.md")
# What a block calls and the page's reader has: this build, a machine that is not changed.
TOOLS = {
    "cargo": 'case "$*" in run) exec {binary} --port {port} ;; "run -- demo") exec {lib}/on_terminal {binary} demo ;; *) exit 1 ;; esac',
    "delayd": 'case "$1" in check | dump | demo) exec {binary} "$@" ;; esac; '
              '[ "$1" != call ] || {{ shift; exec {lib}/on_terminal {binary} call -p {port} "$@"; }}; '
              'exec {binary} --port {port} "$@"',
    "sudo": 'exec "$@"',
    "apt-get": 'exec {apt} --simulate "$@"',
    "redis-cli": 'exec {cli} --no-raw "$@"',
}
STARTS = re.compile(r"^(cargo run$|delayd(?! check| dump| demo| call))", re.M)
PROGRAMS = {"python", "js", "go", "java", "php", "ruby", "rust"}


class Page:
    """A reader's machine: a folder, a server, and the terminals in which blocks were pasted."""

    def __init__(self, home):
        self.home, self.port, self.metrics = home, free_port(), free_port()
        self.terminals, self.shown = [], ""
        tools = os.path.join(home, "bin")
        os.mkdir(tools)
        real = {"lib": os.path.join(HERE, "lib"), "apt": shutil.which("apt-get") or "true", "cli": shutil.which("redis-cli")}
        for name, text in TOOLS.items():
            path = os.path.join(tools, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\n" + text.format(binary=BINARY, port=self.port, **real) + "\n")
            os.chmod(path, 0o755)
        self.environment = dict(os.environ, PATH=tools + os.pathsep + os.environ["PATH"])

    def here(self, text):
        text = text.replace("9248", str(self.port)).replace("9249", str(self.metrics))
        return text.replace("/var/lib/delayd", self.home)

    def start(self, command, text=None):
        return subprocess.Popen(
            command, cwd=self.home, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE if text else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )

    def answers(self):
        try:
            with Raw("127.0.0.1", self.port) as raw:
                return raw.call("PING") == "PONG"
        except OSError:
            return False
        except ReplyError as refused:
            if not str(refused).startswith("LOADING"):
                raise
            return False

    def waits(self):
        """Whether a consumer waits in a terminal."""
        with Raw("127.0.0.1", self.port) as raw:
            return info(raw, "clients")["blocked_clients"] != "0"

    def shell(self, text):
        child = self.start(["bash", "-e", "-o", "pipefail", "-c", self.here(text)])
        goes_on = self.answers if STARTS.search(text) else self.waits if " DELAY.POP " in text else lambda: False
        until(lambda: child.poll() is not None or goes_on(), 30)
        if child.poll() is None:
            self.terminals.append(child)
        elif STARTS.search(text):
            raise AssertionError(f"the server ended: {child.communicate()[0][-400:]}")
        else:
            self.shown = self.fine(child)

    def redis(self, text):
        child = self.start([os.path.join(self.home, "bin", "redis-cli"), "-p", str(self.port)], text)
        replies = child.communicate(self.here(text), timeout=30)[0]
        if re.search(r"^\(error\)|Could not connect", replies, re.M):
            raise AssertionError(replies)

    def text(self, text):
        if self.terminals and not self.is_server(self.terminals[-1]):
            child = self.terminals.pop()
            until(lambda: child.poll() is not None, 30)
            self.shown = self.fine(child)
        # How late a job came differs each time.
        masked = lambda shown: re.sub(r"[\d.]+ ms", "N ms", shown)
        equal(masked(self.shown), masked(text))

    def is_server(self, child):
        return STARTS.search(child.args[-1]) is not None

    def fine(self, child):
        shown = child.communicate()[0]
        if child.returncode or "(error)" in shown:
            raise AssertionError(f"status {child.returncode}: {shown[-400:]}")
        return shown

    def end(self):
        for child in self.terminals:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        waiting = [child.args[-1] for child in self.terminals if not self.is_server(child)]
        equal(waiting, [])


def paste(name):
    with tempfile.TemporaryDirectory(prefix="delayd-page-") as home:
        page = Page(home)
        found = blocks(name)
        own = any(language == "sh" and STARTS.search(text) for language, text, _ in found)
        with Server(port=page.port) if not own else open(os.devnull):
            try:
                for language, text, line in found:
                    if language in PROGRAMS or is_consumer(text):
                        continue
                    with check(f"{name}:{line} {text.splitlines()[0]}"):
                        if language not in ("sh", "redis", "text"):
                            raise AssertionError(f"nobody knows how a block of {language or 'no language'} is pasted")
                        getattr(page, "shell" if language == "sh" else language)(text)
            finally:
                with check(f"{name}: nothing waits at its end"):
                    page.end()


for each in PAGES:
    if not BINARY:
        with check(each):
            raise Skip("needs a server of its own, and only a running one is given")
    else:
        paste(each)
finish()
