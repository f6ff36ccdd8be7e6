"""Where the program is looked for, and what is said where it is not."""

import sys

import pytest

from delayd import _none, _program
from delayd._program import NotFound, find_delayd


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Folders in the order in which they are searched, and a function that puts a file into one."""
    folders = [tmp_path / name for name in "abc"]
    monkeypatch.delenv("DELAYD_BINARY", raising=False)
    monkeypatch.setattr(_program, "_folders", lambda: map(str, folders))

    def put(at, content=b"\x7fELF", mode=0o755):
        folders[at].mkdir(exist_ok=True)
        path = folders[at] / "delayd"
        path.write_bytes(content)
        path.chmod(mode)
        return str(path)

    return put


def test_the_first_program_counts(places):
    last = places(2)
    assert find_delayd() == last
    first = places(0)
    assert find_delayd() == first


def test_a_script_is_not_the_program(places):
    places(0, b"#!/usr/bin/python3\nfrom delayd._none import main\n")
    program = places(1)
    assert find_delayd() == program


def test_every_place_is_named(places):
    script, unpacked = places(0, b"#!/usr/bin/env node\n"), places(1, mode=0o644)
    with pytest.raises(NotFound) as error:
        find_delayd()
    lines = str(error.value).splitlines()
    assert lines[1] == f"  {script}: a script, not the program"
    assert lines[2] == f"  {unpacked}: not executable (chmod +x {unpacked})"
    assert lines[3].endswith("/c/delayd: missing") and len(lines) == 4


def test_a_named_program_counts_first(places, monkeypatch):
    places(0)
    other = places(1, b"#!/bin/sh\n")
    monkeypatch.setenv("DELAYD_BINARY", other)
    assert find_delayd() == other
    monkeypatch.setenv("DELAYD_BINARY", other + "s")
    with pytest.raises(NotFound, match="DELAYD_BINARY is '.*delayds', which is missing"):
        find_delayd()


def test_the_script_without_a_program_never_starts_itself(places, monkeypatch):
    script = places(0, b"#!/usr/bin/python3\nfrom delayd._none import main\n")
    monkeypatch.setenv("DELAYD_BINARY", script)
    with pytest.raises(NotFound, match="came without the program"):
        find_delayd()


@pytest.mark.parametrize(
    "system, machine, words", [("Darwin", "arm64", "docker run"), ("Linux", "x86_64", "pip 20.2"), ("Linux", "riscv64", "docker run")]
)
def test_without_a_program_there_is_one_sentence(places, monkeypatch, capsys, system, machine, words):
    monkeypatch.setattr(sys, "platform", system.lower())
    monkeypatch.setattr(_program.platform, "system", lambda: system)
    monkeypatch.setattr(_program.platform, "machine", lambda: machine)
    assert _none.main() == 1
    said = capsys.readouterr().err
    assert said.startswith("delayd: ") and words in said and "DELAYD_BINARY" in said
    assert said.count("\n") == 1 and said.endswith(".\n")
