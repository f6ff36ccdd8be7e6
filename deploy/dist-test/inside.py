"""Works with the built files in /dist as users do, in a bare Debian without a network. deploy/dist-test/run calls it.

    inside.py VERSION static|dynamic
"""

import fcntl
import glob
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))
import packing  # noqa: E402
import registry  # noqa: E402
from checks import Checks  # noqa: E402

VERSION, KIND = sys.argv[1:]
# From the command to the job on the screen; the job itself is due after 2 s. On a quiet machine it is there within 10 s, which
# the lines below show; with builds beside it, npx took 10.4 s.
DEMO_S = 30
PATIENCE_S = 60
TOOLS = "/opt/tools/bin"
PORT = 9248
MACHINE = os.uname().machine
NPM = f"@delayd/linux-{packing.NPM[MACHINE]}"

check = Checks()
os.environ.update(
    PATH=f"{os.environ['PATH']}:{TOOLS}",
    PIP_NO_INDEX="1",
    PIP_FIND_LINKS="/dist /wheels",
    PIP_DISABLE_PIP_VERSION_CHECK="1",
    PIP_ROOT_USER_ACTION="ignore",
    UV_OFFLINE="1",
    UV_NO_INDEX="1",
    UV_FIND_LINKS="/dist,/wheels",
    UV_PYTHON_DOWNLOADS="never",
    PIPX_HOME=os.path.expanduser("~/pipx"),
    npm_config_registry=registry.serve(sorted(Path("/dist").glob("*.tgz"))),
    npm_config_update_notifier="false",
    npm_config_fund="false",
    npm_config_audit="false",
)


def sh(*words, status=0, **more):
    """Runs a command that must end with this status; returns what it wrote."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False, **more
    )
    assert done.returncode == status, f"{' '.join(map(str, words))}: status {done.returncode} instead of {status}: {done.stdout}"
    return done.stdout


def folder():
    return tempfile.mkdtemp(prefix="check-")


def loopback_up():
    with socket.socket() as any_socket:
        name, up = b"lo".ljust(16, b"\0"), 1
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", name, up))


def servers():
    """Processes of the program, whatever started them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/exe", "rb") as exe, open(f"/proc/{pid}/cmdline", "rb") as line:
                if exe.read(4) == b"\x7fELF" and os.path.basename(os.readlink(f"/proc/{pid}/exe").split(" ")[0]) == "delayd":
                    found.append(f"{pid}: {line.read().replace(bytes(1), b' ').decode()}")
        except OSError:
            pass
    return found


def until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def answers():
    try:
        with socket.create_connection(("127.0.0.1", PORT), timeout=PATIENCE_S) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16) == b"+PONG\r\n"
    except OSError:
        return False


def demo(notes, *command, **more):
    """The job is on the screen in time, and the program ends well."""
    began = time.monotonic()
    child = subprocess.Popen([*command, "demo"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    with child:
        lines, shown_s = [], None
        for line in child.stdout:
            lines.append(line)
            if shown_s is None and line.endswith('"order:7"\n'):
                shown_s = time.monotonic() - began
    assert child.returncode == 0 and shown_s is not None, f"status {child.returncode}: {''.join(lines)}"
    notes.append(f"job on the screen after {shown_s:.1f} s")
    assert shown_s <= DEMO_S, f"the job was on the screen after {shown_s:.1f} s"


def stops(*command, status=0, **more):
    """SIGTERM of what was started reaches the server, which stops in order; the exit status comes through."""
    log = tempfile.TemporaryFile("w+")
    child = subprocess.Popen([*command, "--port", str(PORT), "--appendonly", "no"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)
    try:
        until(lambda: child.poll() is not None or answers(), "no server")
        child.send_signal(signal.SIGTERM)
        found = child.wait(PATIENCE_S)
        until(lambda: not servers(), "the server is left")
    finally:
        for each in servers():
            os.kill(int(each.split(":")[0]), signal.SIGKILL)
    log.seek(0)
    said = log.read()
    assert found == status and "stopped" in said, f"status {found}: {said}"


def statuses(*command, **more):
    """The program's exit status comes through."""
    sh(*command, "check", "/nowhere", status=3, **more)
    assert VERSION in sh(*command, "--version", **more)


def works(what, *command, stopped=0, **more):
    """All of that for one way to start the program."""
    with check(f"{what}: demo") as notes:
        demo(notes, *command, **more)
    with check(f"{what}: version and exit status come through, SIGTERM stops in order"):
        statuses(*command, **more)
        stops(*command, status=stopped, **more)


def environment(*packages):
    path = folder()
    sh("uv", "venv", "--quiet", path)
    sh("uv", "pip", "install", "--quiet", "--python", path, *packages)
    return path


def debian():
    with check("Debian package: install, upgrade, remove, purge"):
        # It looks for traces of delayd in /etc, /usr and /var.
        sh("bash", "/check/test", *glob.glob(f"/dist/*_{packing.OCI[MACHINE]}.deb"), env={**os.environ, "DELAYD_LINKING": KIND})
    with check("Debian package: dpkg -i"):
        sh("dpkg", "-i", *glob.glob(f"/dist/*_{packing.OCI[MACHINE]}.deb"))
    works("Debian package", "/usr/bin/delayd", cwd=folder())
    sh("dpkg", "--purge", "delayd")


def python():
    with check("pip install, then demo") as notes:
        path, began = folder(), time.monotonic()
        sh("python3", "-m", "venv", path)
        sh(f"{path}/bin/pip", "install", "--quiet", "delayd")
        notes.append(f"installed after {time.monotonic() - began:.1f} s")
        demo(notes, f"{path}/bin/delayd")
    works("pip: delayd", f"{path}/bin/delayd")
    works("pip: python -m delayd", f"{path}/bin/python", "-m", "delayd")
    # With empty caches, as the first time.
    works("uvx", "uvx", "delayd")
    works("pipx run", "pipx", "run", "delayd")


def python_modes():
    found = "from delayd._program import find_delayd; print(find_delayd())"
    with check("pip install --target, --prefix, --user; uv run --with; unpacked by hand: the program is found, and is executable"):
        target, prefix, user = folder(), folder(), folder()
        pip = ["pip", "--python", "/usr/bin/python3", "install", "--quiet"]
        sh(*pip, "--target", target, "delayd")
        assert sh("python3", "-c", found, env={**os.environ, "PYTHONPATH": target}) == f"{target}/bin/delayd\n"
        sh(*pip, "--prefix", prefix, "delayd")
        packages = glob.glob(f"{prefix}/**/python3*/*-packages", recursive=True)[0]
        # Debian's Python puts a `local` between.
        assert sh("python3", "-c", found, env={**os.environ, "PYTHONPATH": packages}) == f"{packages.split('/lib/')[0]}/bin/delayd\n"
        home = {**os.environ, "PYTHONUSERBASE": user}
        sh(*pip, "--break-system-packages", "--user", "delayd", env=home)
        assert sh("python3", "-c", found, env=home) == f"{user}/bin/delayd\n"
        assert sh("uv", "run", "--no-project", "--with", "delayd", "python", "-c", found).endswith("/bin/delayd\n")
        unpacked = folder()
        sh("python3", "-m", "zipfile", "-e", glob.glob(f"/dist/*{MACHINE}*.whl")[0], unpacked)
        said = sh("python3", "-m", "delayd", "--version", cwd=unpacked, status=1)
        program = glob.glob(f"{unpacked}/*.data/scripts/delayd")[0]
        assert f"{program}: not executable (chmod +x {program})" in said, said
        os.chmod(program, 0o755)
        assert VERSION in sh("python3", "-m", "delayd", "--version", cwd=unpacked)
    with check("pip chooses the wheel by the platform"):
        linux = [(f"{libc}_{MACHINE}", MACHINE) for libc in ("manylinux2014", "musllinux_1_2")]
        for platform, chosen in [*linux, ("macosx_11_0_arm64", "any"), ("win_amd64", "any")]:
            to = folder()
            sh("pip", "--python", "/usr/bin/python3", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform", platform, "--dest", to, "delayd")
            assert chosen in os.listdir(to)[0], f"{platform}: {os.listdir(to)}"
    with check("the wheel without a program: one sentence, status 1, at once") as notes:
        path = environment(*glob.glob("/dist/*-any.whl"))
        began = time.monotonic()
        said = sh(f"{path}/bin/delayd", status=1, env={"PATH": "/usr/bin:/bin"})
        notes.append(f"{(time.monotonic() - began) * 1000:.0f} ms")
        assert said.startswith("delayd: ") and said.count("\n") == 1 and "DELAYD_BINARY" in said, said
        looked = sh(f"{path}/bin/python", "-m", "delayd", status=1, env={"PATH": "/usr/bin:/bin"})
        assert f"  {path}/bin/delayd: a script, not the program\n" in looked and "  /usr/bin/delayd: missing\n" in looked, looked


TESTS = """
import os, pytest, time

@pytest.mark.parametrize("turn", range(3))
def test_empty(delayd_client, turn):
    assert delayd_client.execute_command("DELAY.LEN", "orders") == 0
    delayd_client.execute_command("DELAY.ADD", "orders", "1h", "body")

@pytest.mark.skipif("WAIT" not in os.environ, reason="is killed")
def test_wait(delayd_server):
    open("ready", "w").close()
    time.sleep(600)
"""

MANY = """
import time
from concurrent.futures import ThreadPoolExecutor
from delayd import Server
began = time.monotonic()
with ThreadPoolExecutor(COUNT) as pool:
    servers = list(pool.map(lambda _: Server(), range(COUNT)))
print(time.monotonic() - began, len({server.port for server in servers}))
"""

OWNER = """
import sys
from delayd import Server
server = Server(appendonly=True)
print("ready", flush=True)
sys.stdin.read()
"""


def leaves_nothing(command, ready, end, **more):
    """Starts an owner, ends it by a signal once it is ready, and waits until neither server nor folder is left."""
    home = folder()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": home, "WAIT": "1"}, **more)
    with child:
        until(lambda: child.poll() is not None or ready(child), "the owner is not ready")
        assert len(servers()) == 1, servers()
        child.send_signal(end)
        child.wait(PATIENCE_S)
    left = lambda: [name for name in os.listdir(home) if name.startswith("delayd")]  # noqa: E731
    until(lambda: not servers() and not left(), f"left: {servers()}, {left()}")


def python_servers():
    path = environment("delayd", "pytest", "redis")
    with check("pytest: fixtures of the installed plugin"):
        project = folder()
        Path(project, "test_it.py").write_text(TESTS)
        assert "3 passed" in sh(f"{path}/bin/pytest", "-q", cwd=project)
    for count, limit_s in ((10, 2), (20, 4)):
        with check(f"{count} servers at once have {count} ports") as notes:
            took_s, ports = sh(f"{path}/bin/python", "-c", MANY.replace("COUNT", str(count))).split()
            notes.append(f"there after {float(took_s):.2f} s, asked: {limit_s} s")
            assert int(ports) == count
            until(lambda: not servers(), "servers are left")
    for end in (signal.SIGTERM, signal.SIGKILL):
        with check(f"a server with a journal goes with its owner: {end.name}"):
            leaves_nothing([f"{path}/bin/python", "-c", OWNER], lambda child: child.stdout.readline(), end)
        with check(f"a server of pytest goes with the run: {end.name}"):
            Path(project, "ready").unlink(missing_ok=True)
            leaves_nothing([f"{path}/bin/pytest", "-q"], lambda _: Path(project, "ready").exists(), end, cwd=project)


def node():
    # npm ends as its shell does, which SIGTERM ends.
    works("npx", "npx", "--yes", "delayd", stopped=-signal.SIGTERM, cwd=folder())
    project = folder()
    with check("npm install --ignore-scripts: the program is executable"):
        sh("npm", "install", "--silent", "--ignore-scripts", "delayd", cwd=project)
        assert VERSION in sh(f"{project}/node_modules/.bin/delayd", "--version")
    works("npm: node_modules/.bin/delayd", f"{project}/node_modules/.bin/delayd")
    for end in (signal.SIGTERM, signal.SIGKILL):
        with check(f"startDelayd: a server with a journal goes with its owner: {end.name}"):
            server = f"{project}/node_modules/delayd/lib/server.js"
            script = f"import {{ startDelayd }} from '{server}'; await startDelayd({{ memory: false }}); console.log('ready'); process.stdin.resume();"
            leaves_nothing(["node", "--input-type=module", "-e", script], lambda child: child.stdout.readline(), end)
    with check("npm install -g"):
        sh("npm", "install", "--silent", "--global", "--prefix", f"{project}/global", "delayd")
        assert VERSION in sh(f"{project}/global/bin/delayd", "--version")
    for words in (["--omit=optional"], ["--os=darwin", "--cpu=arm64"]):
        with check(f"npm install {' '.join(words)}: one sentence says what is missing, and why"):
            other = folder()
            sh("npm", "install", "--silent", *words, "delayd", cwd=other)
            said = sh(f"{other}/node_modules/.bin/delayd", status=1)
            assert said.startswith(f"delayd: {NPM}, which holds the program, is not installed: ") and said.count("\n") == 1, said
            assert "--include=optional" in said and "another platform" in said, said


def image():
    unpacked, root = folder(), folder()
    with check("image: an OCI layout whose sums are right"):
        with tarfile.open(glob.glob("/dist/*oci.tar")[0]) as files:
            files.extractall(unpacked)
        read = lambda descriptor: Path(unpacked, "blobs", *descriptor["digest"].split(":")).read_bytes()  # noqa: E731
        for path in Path(unpacked, "blobs/sha256").iterdir():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        named = json.loads(Path(unpacked, "index.json").read_text())["manifests"][0]
        while "manifests" in (manifest := json.loads(read(named))):
            named = next(each for each in manifest["manifests"] if each["platform"]["architecture"] == packing.OCI[MACHINE])
        settings = json.loads(read(manifest["config"]))
        layer = Path(unpacked, "layer.tar.gz")
        layer.write_bytes(read(manifest["layers"][0]))
        with tarfile.open(layer) as files:
            files.extractall(root, numeric_owner=True)
        os.chmod(root, 0o755)
        assert sorted(os.listdir(root)) == ["data", "delayd", "etc"], os.listdir(root)
    settings = settings["config"]
    env = dict(entry.split("=", 1) for entry in settings["Env"])
    if KIND == "dynamic":
        print("    (the program is not static: it borrows this system's C library in the image)")
        for path in ("lib", "lib64", "usr"):
            os.makedirs(f"{root}/{path}", exist_ok=True)
            sh("mount", "--bind", os.path.realpath(f"/{path}"), f"{root}/{path}")
    user = int(settings["User"].split(":")[0])

    def enter():
        os.chroot(root)
        os.chdir(settings["WorkingDir"])
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    with check("image: demo") as notes:
        demo(notes, *settings["Entrypoint"], preexec_fn=enter, env=env)
    with check("image: its server takes jobs, keeps its file beside options, keeps jobs in /data, is in good health, and stops at SIGTERM"):
        log = tempfile.TemporaryFile("w+")
        started = [*settings["Entrypoint"], "--maxclients", "77"]
        child = subprocess.Popen(started, preexec_fn=enter, env=env, stdout=log, stderr=log)
        until(lambda: child.poll() is not None or answers(), "no server")
        healthy = sh(*settings["Healthcheck"]["Test"][1:], preexec_fn=enter, env=env)
        assert healthy and os.path.isdir(f"{root}/data/journal")
        asked = [*settings["Entrypoint"], "call", "CONFIG", "GET", "maxclients"]
        assert "77" in sh(*asked, preexec_fn=enter, env=env)
        child.terminate()
        log.seek(0)
        assert child.wait(PATIENCE_S) == 0, log.read()
        sh(*settings["Healthcheck"]["Test"][1:], preexec_fn=enter, env=env, status=3)


def archive():
    with check("archive: program, manual pages, completions, unit, licences") as notes:
        top = folder()
        sh("tar", "-xzf", glob.glob(f"/dist/*-{MACHINE}-linux.tar.gz")[0], "-C", top, "--strip-components=1")
        for name in ("man/delayd.1", "completions/delayd.bash", "delayd.service", "delayd.conf", "LICENSE-MIT"):
            assert os.path.isfile(f"{top}/{name}"), name
        demo(notes, f"{top}/delayd")
        assert sh(f"{top}/delayd", "--version") == f"delayd {VERSION}\n"


def main():
    loopback_up()
    with check("SHA256SUMS"):
        sh("sha256sum", "--quiet", "--check", "SHA256SUMS", cwd="/dist")
    for part in (debian, python, python_modes, python_servers, node, image, archive):
        try:
            part()
        except Exception as error:  # noqa: BLE001 - the other parts are tried all the same
            with check(f"all of {part.__name__}"):
                raise RuntimeError("not done, after what failed before") from error
    with check("nothing is left running"):
        assert not servers(), servers()


main()
sys.exit(0)
