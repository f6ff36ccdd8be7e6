"""Finds the delayd program, wherever an installer put it."""

from __future__ import annotations

import glob
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from typing import Iterator, List, NoReturn, Optional

__all__ = ["NotFound", "find_delayd", "run", "without_program"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_MACHINES = ("x86_64", "aarch64")


class NotFound(FileNotFoundError):
    """No delayd program is installed; the text says what to do and where it was looked for."""


def find_delayd() -> str:
    """Return the path of the delayd program.

    `DELAYD_BINARY` names one. Without it, the program that came with this package is looked for in each place where an
    installer puts programs, and then in the folders of `PATH`, where another version may be.
    """
    named = os.environ.get("DELAYD_BINARY")
    if named:
        return _named(named)
    looked = []
    for path in _candidates():
        flaw = _flaw(path)
        if flaw is None:
            return path
        looked.append(f"  {path}: {flaw}")
    raise NotFound("\n".join([without_program() + " These places were searched:", *looked]))


def without_program() -> str:
    """What to do where this package came without the program, in one sentence."""
    if sys.platform == "linux" and platform.machine() in _MACHINES:
        return (
            "This installation of delayd has no program: install it again with pip 20.2 or later"
            " (pip install --force-reinstall delayd), or name a program in DELAYD_BINARY."
        )
    return (
        f"The delayd server runs on Linux (x86_64, aarch64), not on {platform.system()} ({platform.machine()}): start it in Docker"
        " (docker run --rm -p 127.0.0.1:9248:9248 delayd), or name a program in DELAYD_BINARY."
    )


def run(program: str, arguments: List[str]) -> NoReturn:
    """Become the program, so that it gets every signal and its exit status is this one's."""
    if os.name == "posix":
        os.execv(program, [program, *arguments])
    sys.exit(subprocess.call([program, *arguments]))


def _named(named: str) -> str:
    path = shutil.which(named)
    if path is None:
        raise NotFound(f"DELAYD_BINARY is '{named}', which is missing or is not executable.")
    # Other scripts are welcome, but this one would start itself for ever.
    if b"delayd._none" in _head(path):
        raise NotFound(f"DELAYD_BINARY is '{named}', the script of a package that came without the program.")
    return path


def _candidates() -> Iterator[str]:
    seen = set()
    for folder in _folders():
        path = os.path.join(folder, "delayd")
        if path not in seen:
            seen.add(path)
            yield path


def _folders() -> Iterator[str]:
    yield sysconfig.get_path("scripts")
    above = os.path.dirname(_PACKAGE)
    # pip install --target
    yield os.path.join(above, "bin")
    # pip install --prefix, uv run --with: PREFIX/lib/pythonX.Y/site-packages/delayd
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(above)))
    yield os.path.join(prefix, "bin")
    yield sysconfig.get_path("scripts", f"{os.name}_user")
    # A wheel that was unpacked by hand.
    yield from glob.glob(os.path.join(glob.escape(above), "delayd-*.data", "scripts"))
    yield from os.get_exec_path()


def _flaw(path: str) -> Optional[str]:
    if not os.path.isfile(path):
        return "missing"
    if not os.access(path, os.X_OK):
        return f"not executable (chmod +x {path})"
    # The script of a wheel without the program, or of npm, which hands on no descriptors.
    if _head(path).startswith(b"#!"):
        return "a script, not the program"
    return None


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1024)
    except OSError:
        return b""
