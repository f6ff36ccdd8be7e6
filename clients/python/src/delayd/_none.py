"""The command `delayd` of the wheel that holds no program."""

from __future__ import annotations

import sys

from ._program import NotFound, find_delayd, run, without_program


def main() -> int:
    """Run a program that is installed otherwise, or say in one sentence how to get one."""
    try:
        program = find_delayd()
    except NotFound:
        print(f"delayd: {without_program()}", file=sys.stderr)
        return 1
    run(program, sys.argv[1:])
