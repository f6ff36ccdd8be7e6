"""What the programs that make packages share: the version, the time, and what a binary is for."""

import gzip
import io
import os
import re
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = Path(os.environ.get("DIST_DIR", ROOT / "target/dist"))

# e_machine of an ELF file, as the kernel names it; and what others call it.
MACHINES = {62: "x86_64", 183: "aarch64"}
NPM = {"x86_64": "x64", "aarch64": "arm64"}
OCI = {"x86_64": "amd64", "aarch64": "arm64"}


def version():
    """The one in Cargo.toml, which all packages take."""
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def epoch():
    """The time that all files bear, so that the same source makes the same packages: that of the last commit."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    last = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return int(last.stdout) if last.returncode == 0 else int((ROOT / "CHANGELOG.md").stat().st_mtime)


def machine(binary):
    """The machine that a program runs on."""
    with open(binary, "rb") as file:
        head = file.read(20)
    if head[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{binary} is no 64-bit program for Linux")
    number = struct.unpack_from("<H", head, 18)[0]
    if number not in MACHINES:
        sys.exit(f"{binary} is for a machine that nothing is packed for: e_machine {number} instead of {' or '.join(map(str, MACHINES))}")
    return MACHINES[number]


def is_static(binary):
    """Whether it needs no loader, and so runs with any C library and with none."""
    with open(binary, "rb") as file:
        head = file.read(64)
        offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        segments = file.read(size * count)
    interpreter = 3
    return all(struct.unpack_from("<I", segments, at)[0] != interpreter for at in range(0, len(segments), size))


def tar(entries):
    """A tar file of (name, mode, content, owner), sorted; a folder has no content and a name that ends with a slash."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode, content, owner in sorted(entries):
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            entry.mode, entry.size, entry.mtime, entry.uid, entry.gid = mode, len(content), epoch(), owner, owner
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def gz(content):
    """Compressed without a time."""
    return gzip.compress(content, 9, mtime=0)
