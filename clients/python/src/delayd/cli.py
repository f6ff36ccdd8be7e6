"""`delayd-worker module:queue`: runs what a module declares."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Optional

from ._version import __version__


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="delayd-worker", description="Runs the workers and schedules that a module declares.")
    parser.add_argument("target", metavar="MODULE:QUEUE", help="the module, and the name of its Delayd")
    parser.add_argument("--grace", default="25s", help="how long running jobs get after SIGTERM [25s]")
    parser.add_argument("--sync", action="store_true", help="remove schedules of this app that are not declared any more")
    parser.add_argument("--log-level", default="INFO", help="[INFO]")
    parser.add_argument("--version", action="version", version=f"delayd-worker {__version__}")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # As `python -m` does.
    sys.path.insert(0, os.getcwd())
    from .client import Delayd

    module, _, name = options.target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name or "queue", None)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        parser.error(f"there is no module {module!r} here")
    if not isinstance(found, Delayd):
        parser.error(f"{module} has no Delayd named {name or 'queue'!r}")
    try:
        found.run(grace=options.grace, sync=options.sync)
    except Exception as error:
        logging.getLogger("delayd").error("stopped: %s", error)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
