"""Checks with a line each, and their sum."""

import contextlib
import time


class Checks:
    """`with checks("what must hold"):` prints whether it held, and goes on."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    @contextlib.contextmanager
    def __call__(self, what):
        began = time.monotonic()
        notes = []
        try:
            yield notes
        except Exception as error:  # noqa: BLE001 - whatever it is, the next check goes on
            self.failed += 1
            print(f"not ok - {what}: {error or repr(error)}", flush=True)
        else:
            self.passed += 1
            print(f"ok - {what} ({', '.join([*notes, f'{time.monotonic() - began:.1f} s'])})", flush=True)

    def skip(self, what):
        self.skipped += 1
        print(f"skip - {what}", flush=True)

    def of(self, child):
        """Shows and counts the lines of a program that checks, too."""
        with child:
            for line in child.stdout:
                print(line, end="", flush=True)
                self.passed += line.startswith("ok - ")
                self.failed += line.startswith("not ok - ")
                self.skipped += line.startswith("skip - ")
        if child.returncode:
            self.failed += 1
            print(f"not ok - {child.args[0]} ended with status {child.returncode}", flush=True)

    def end(self):
        """Prints the sum; returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0
