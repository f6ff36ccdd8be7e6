#!/usr/bin/env python3
"""Runs what kombu's and Celery's own integration suites hold for a broker, from their source distributions, on delayd.

    DELAYD_BIN=… suites.py FOLDER kombu            kombu's tests of its Redis transport, with delayd:// for redis://
    DELAYD_BIN=… suites.py FOLDER celery REDIS     Celery's tests of tasks, workers, remote control, beat and canvas; REDIS is
                                                   the URL of a Redis for results, which is emptied

FOLDER is for the distributions and their copies. This Python needs celery[redis], delayd, pytest, pytest-timeout, pytest-subtests,
pytest-celery and pydantic. KOMBU and CELERY have what cannot pass, by pytest's names and with the reason; the lists only get shorter. What
fails beside it ends this with status 1.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from support import Server

#: Of kombu. Each looks into Redis itself, at keys and scripts that the transport for delayd does not have.
KOMBU = {
    "test_RedisQueueExpiration and not kept_while": "reads PTTL of lists, sets and scripts of bindings: messages and bindings have lifetimes of their own here",
    "test_RedisRestoreVisible": "reads the hash `unacked`: the server leases, and nothing is restored",
    "test_RedisRestoreBindingLookupFailure": "reads the hash `unacked`",
    "test_RedisRestoreAtShutdown": "reads the hash `unacked`; that messages are given back is in test_celery.py",
    "test_RedisSentinelFanoutCompat": "runs kombu's own Sentinel transport on this server, which keeps bindings in sets",
}
#: Of Celery.
CELERY = {
    "test_Inspect and test_scheduled": "expects an ETA in the worker's memory: here it waits in the server",
    "test_trace_log_arguments": "fails with Redis as the broker, too: it looks at logs of a process that is not its own",
    "test_revoked_by_headers_complex_canvas": "fails with Redis as the broker, too, when no second run is granted: it has 20 s",
    "test_chord_header_id_duplicated_on_rabbitmq_msg_duplication": "expected to fail with Redis, which it knows by the URL's scheme",
    "flag_allow_error_cb_on_chord_header": "two of these three were seen to fail with Redis as the broker, too; the third was not run there",
}
CELERY_FILES = ["test_tasks", "test_worker", "test_inspect", "test_group_chains", "test_canvas"]


def main():
    folder, suite = Path(sys.argv[1]).resolve(), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    source = fetch(folder, suite)
    with Server() as server:
        if suite == "kombu":
            return kombu(folder, source, server)
        return celery(source, server, sys.argv[3])


def kombu(folder, source, server):
    tests = folder / "kombu-tests"
    shutil.rmtree(tests, ignore_errors=True)
    shutil.copytree(source / "t", tests / "t")
    (tests / "pytest.ini").write_text("[pytest]\npython_classes = test_*\nmarkers =\n  env: a broker\n  flaky: may be run again\n")
    for path in tests.glob("t/integration/test_redis*.py"):
        path.write_text(re.sub(r"\bredis(s?)://", r"delayd\1://", path.read_text()))
    environment = {"REDIS_HOST": "127.0.0.1", "REDIS_6379_TCP": str(server.port)}
    files = ["t/integration/test_redis.py", "t/integration/test_redis_brpop_qos.py"]
    return pytest(tests, files, KOMBU, environment)


def celery(source, server, results):
    environment = {"TEST_BROKER": f"delayd://127.0.0.1:{server.port}/0", "TEST_BACKEND": results, "C_FORCE_ROOT": "1"}
    host, _, port = results.split("://")[1].split("/")[0].partition(":")
    environment.update(REDIS_HOST=host, REDIS_PORT=port or "6379")
    return pytest(source, [f"t/integration/{name}.py" for name in CELERY_FILES], CELERY, environment)


def pytest(folder, files, cannot, environment):
    words = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--timeout=120", "-p", "no:rerunfailures", "-p", "no:cacheprovider"]
    chosen = " and ".join(f"not ({name})" for name in cannot)
    for name, why in cannot.items():
        print(f"cannot pass: {name}: {why}", flush=True)
    return subprocess.run([*words, "-k", chosen, *files], cwd=folder, env={**os.environ, **environment}).returncode


def fetch(folder, name):
    """The source distribution of the version that is installed here."""
    from importlib.metadata import version

    source = folder / f"{name}-{version(name)}"
    if not source.exists():
        wanted = f"{name}=={version(name)}"
        words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), wanted]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        with tarfile.open(f"{source}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return source


if __name__ == "__main__":
    sys.exit(main())
