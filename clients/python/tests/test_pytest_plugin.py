"""The fixtures, in a run of pytest of their own."""

import importlib.util
import os
import subprocess
import sys

import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("turn", range(4))
def test_empty(delayd_server, delayd_client, turn):
    assert delayd_client.execute_command("DELAY.LEN", "orders") == 0
    delayd_client.execute_command("DELAY.ADD", "orders", "1h", "body")
    with open("servers", "a") as servers:
        servers.write(f"{delayd_server.pid}\\n")

def test_options(delayd_client):
    assert list(delayd_client.config_get("max-delay").values()) in (["2h"], [b"2h"])
"""

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def delayd_options():
    return {"max_delay": "2h"}
"""


def run(folder, *words):
    (folder / "test_it.py").write_text(TESTS)
    (folder / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "delayd.pytest_plugin", "-p", "no:cacheprovider", *words]
    environment = dict(os.environ, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert "5 passed" in done.stdout, done.stdout + done.stderr
    return [int(pid) for pid in (folder / "servers").read_text().split()]


def test_one_server_a_run_and_each_test_finds_it_empty(tmp_path):
    pids = run(tmp_path)
    assert len(pids) == 4 and len(set(pids)) == 1
    assert not os.path.exists(f"/proc/{pids[0]}")


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_one_server_a_worker(tmp_path):
    pids = run(tmp_path, "-p", "xdist", "-n", "2")
    assert len(pids) == 4 and len(set(pids)) == 2
