"""`python -m delayd`: the delayd program."""

from __future__ import annotations

import sys

from ._program import NotFound, find_delayd, run

if __name__ == "__main__":
    try:
        program = find_delayd()
    except NotFound as error:
        sys.exit(f"delayd: {error}")
    run(program, sys.argv[1:])
