"""Servers for tests: they are ready, apart from each other, and leave nothing behind."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from delayd.server import NotStarted, Server

PATIENCE_S = 60

# What a shell starts in the background ignores SIGINT, and so does whatever that starts in turn: here it has to count. It may
# come right before the program waits, and is seen because it writes to what is waited for.
STARTER = """
import os, signal
from delayd.server import Server
signal.signal(signal.SIGINT, signal.default_int_handler)
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)
server = Server(appendonly=True)
print(server.pid, flush=True)
os.read(woken, 1)
"""


def ended(pid):
    """Waits for the end of a process that is no child of this one."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], PATIENCE_S)[0])
    finally:
        os.close(pidfd)


def gone(path):
    deadline = time.monotonic() + PATIENCE_S
    while os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not os.path.exists(path)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files and folders go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_server_takes_jobs_when_it_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Server() as server:
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("DELAY.ADD", "orders", "0", "body", "ID", "order:7")
            assert client.execute_command("DELAY.LEN", "orders") == 1
        assert str(server.port) in server.log()
    assert ended(server.pid)
    assert not any(tmp_path.iterdir()), "a server in memory writes nothing"
    assert "listens" in server.log(), "the log is readable after the end"


def test_twenty_servers_at_once_have_twenty_ports():
    began = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        servers = list(pool.map(lambda _: Server(), range(20)))
    took = time.monotonic() - began
    print(f"20 servers in {took:.2f} s")
    try:
        assert len({server.port for server in servers}) == 20
        for server in servers:
            server.empty()
    finally:
        for server in servers:
            server.stop()
    assert all(ended(server.pid) for server in servers)


def test_a_journal_goes_with_its_server(temporary):
    with Server(appendonly=True):
        (folder,) = temporary.iterdir()
        assert os.listdir(folder) == ["journal"]
    assert not any(temporary.iterdir())


def test_a_folder_that_is_given_stays(tmp_path):
    for count in (0, 1, 2):
        with Server(appendonly=True, dir=tmp_path) as server, redis.Redis.from_url(server.url) as client:
            assert client.execute_command("DELAY.LEN", "orders") == count
            client.execute_command("DELAY.ADD", "orders", "1h", "body")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_server_ends_with_its_owner_however_that_ends(end, tmp_path):
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    owner = subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    with owner:
        pid = int(owner.stdout.readline())
        (folder,) = tmp_path.iterdir()
        owner.send_signal(end)
        assert ended(pid) and gone(folder)


def test_a_server_is_not_its_owners_childs():
    script = """
import os, sys
from delayd.server import Server
server = Server()
child = os.fork()
if child:
    os.waitpid(child, 0)
    server.empty()
    print("answers")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "answers\n", done.stderr


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(NotStarted, match="unknown option 'max-memory'; did you mean 'maxmemory'"):
        Server(max_memory="1gb")
    with Server() as first, pytest.raises(NotStarted, match="(?i)in use"):
        Server(port=first.port)


def test_a_file_that_is_no_program_says_why(tmp_path, temporary, monkeypatch):
    program = tmp_path / "delayd"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    monkeypatch.setenv("DELAYD_BINARY", str(program))
    with pytest.raises(NotStarted, match="cannot be run"):
        Server(appendonly=True)
    assert gone(next(temporary.glob("delayd-*"), tmp_path / "none"))


def test_a_server_that_is_forgotten_is_stopped_without_a_warning():
    script = """
from delayd.server import Server
print(Server(appendonly=True).pid)
server = Server(appendonly=True)
print(server.pid)
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stderr == ""
    assert all(ended(int(pid)) for pid in done.stdout.split())


def test_options_are_those_of_the_program():
    with Server(requirepass="a b:c", max_lease="1m", bind=["127.0.0.1"], replica_serve_stale_data=False) as server:
        with redis.Redis.from_url(server.url) as client:
            told = client.execute_command("CONFIG", "GET", "max-lease", "replica-serve-stale-data")
            told = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2]))
            assert sorted(map(str, told.values())) == ["b'1m'", "b'no'"]
            client.execute_command("DELAY.ADD", "orders", "1h", "body")
            server.empty()
            assert client.execute_command("DELAY.LEN", "orders") == 0


def test_a_server_is_emptied_of_schedules_too():
    with Server() as server, redis.Redis.from_url(server.url) as client:
        client.execute_command("DELAY.SCHEDULE", "SET", "bank", "poll", "", "EVERY", "5m")
        assert "poll" in str(client.execute_command("DELAY.SCHEDULE", "LIST", "bank"))
        server.empty()
        assert "poll" not in str(client.execute_command("DELAY.SCHEDULE", "LIST", "bank"))
