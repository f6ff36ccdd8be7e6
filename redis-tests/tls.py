#!/usr/bin/env python3
"""TLS: redis-py, redis-cli and redis-benchmark against servers with certificates, which some want of clients too."""

import contextlib
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from guarded import cli, client, has, holds, refused  # noqa: E402
from harness import BINARY, Server, Skip, check, equal, finish, free_port, queue, until  # noqa: E402

# What a client sees of a server that does not speak its way: an end, or nothing at all.
UNHEARD = (redis.ConnectionError, redis.TimeoutError)


class Certificates:
    """Made anew for this run; names files by what they are for."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="delayd-tls-")
        maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "certificates")
        subprocess.run([maker, self.folder.name], check=True)

    def __getitem__(self, name):
        return os.path.join(self.folder.name, name)

    def trust(self):
        return {"ssl": True, "ssl_ca_certs": self["ca.crt"]}

    def identity(self, name):
        return {"ssl_certfile": self[f"{name}.crt"], "ssl_keyfile": self[f"{name}.key"]}

    @contextlib.contextmanager
    def server(self, *flags):
        """A server with a plain and a TLS port; the latter in `tls_port`."""
        port = free_port()
        with Server(
            "--tls-port",
            str(port),
            "--tls-cert-file",
            self["server.crt"],
            "--tls-key-file",
            self["server.key"],
            "--tls-ca-cert-file",
            self["ca.crt"],
            *flags,
        ) as server:
            server.tls_port = port
            yield server


def ports(files):
    with files.server("--tls-auth-clients", "no") as server:
        port = server.tls_port
        for protocol in (2, 3):
            with check(f"TLS, RESP{protocol}: add, a blocking pop, a pipeline, a large body"):
                over = client(port, protocol=protocol, **files.trust())
                q = queue("tls")
                over.execute_command("DELAY.ADD", q, "50ms", "x", "ID", "a")
                equal(over.execute_command("DELAY.POP", q, "3"), [q.encode(), b"a", b"x"])
                with over.pipeline(transaction=False) as pipe:
                    for n in range(2000):
                        pipe.execute_command("DELAY.ADD", q, "0", f"body {n}")
                    equal(len(pipe.execute()), 2000)
                equal(over.execute_command("DELAY.LEN", q), 2000)
                body = os.urandom(1 << 20)
                over.execute_command("DELAY.ADD", q + ":large", "0", body)
                equal(over.execute_command("DELAY.POP", q + ":large", "1")[2], body)

        with check("a rediss:// URL; the plain port beside it sees the same queues"):
            url = f"rediss://localhost:{port}/3?ssl_ca_certs={files['ca.crt']}"
            with contextlib.closing(redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))) as over:
                q = queue("tls")
                over.execute_command("DELAY.ADD", q, "1h", "x", "ID", "a")
            equal(client(server.port, db=3).execute_command("DELAY.LEN", q), 1)

        with check("a client that does not trust the authority goes away by itself"):
            holds(refused(redis.ConnectionError, port, ssl=True), "certificate verify failed")
            holds(
                refused(redis.ConnectionError, port, ssl=True, ssl_ca_certs=files["other.crt"]),
                "certificate verify failed",
            )

        with check("a plain client on the TLS port, and the other way round: refused, nobody else disturbed"):
            refused(UNHEARD, port, socket_timeout=0.3)
            refused(UNHEARD, server.port, socket_timeout=0.3, **files.trust())
            equal(client(port, **files.trust()).ping(), True)

        with check("a hundred handshakes that never end do not hold up the others"):
            stuck = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            for at, half in enumerate(stuck):
                half.sendall(b"\x16\x03\x01\x02\x00"[: at % 6])
            equal(client(port, **files.trust()).ping(), True)
            for half in stuck:
                half.close()
            equal(client(port, **files.trust()).ping(), True)

        with check("only TLS 1.2 and 1.3"):
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                old.minimum_version = old.maximum_version = version
                with old.wrap_socket(socket.create_connection(("127.0.0.1", port))) as made:
                    made.sendall(b"PING\r\n")
                    equal(made.recv(100), b"+PONG\r\n")

        with check("redis-cli --tls; without the authority it says why"):
            equal(cli("--tls", "--cacert", files["ca.crt"], "-p", port, "PING"), "PONG")
            equal(cli("-u", f"rediss://localhost:{port}", "--cacert", files["ca.crt"], "PING"), "PONG")
            holds(cli("--tls", "-p", port, "PING"), "certificate verify failed")

        with check("redis-benchmark --tls"):
            done = subprocess.run(
                [
                    "redis-benchmark",
                    "--tls",
                    "--cacert",
                    files["ca.crt"],
                    "-p",
                    str(port),
                    "-q",
                    "-n",
                    "5000",
                    "-c",
                    "10",
                    "-P",
                    "16",
                    "DELAY.ADD",
                    queue("tls"),
                    "1h",
                    "x",
                ],
                capture_output=True,
                text=True,
                timeout=60,
            )
            equal((done.returncode, done.stderr), (0, ""))
            holds(done.stdout, "requests per second")

        with check("CLIENT LIST shows a TLS client like any other"):
            over = client(port, client_name="over-tls", **files.trust())
            equal(len([row for row in over.client_list() if row["name"] == "over-tls"]), 1)

    for mode, without in (("yes", False), ("optional", True)):
        with check(f"tls-auth-clients {mode}: with a certificate, without one, with a stranger's"):
            with files.server("--tls-auth-clients", mode) as server:
                port = server.tls_port
                equal(client(port, **files.trust(), **files.identity("client")).ping(), True)
                if without:
                    equal(client(port, **files.trust()).ping(), True)
                else:
                    refused(redis.ConnectionError, port, **files.trust())
                refused(redis.ConnectionError, port, **files.trust(), **files.identity("stranger"))
                arguments = ["--tls", "--cacert", files["ca.crt"], "-p", port]
                mine = ["--cert", files["client.crt"], "--key", files["client.key"]]
                equal(cli(*arguments, *mine, "PING"), "PONG")
                if not without and cli(*arguments, "PING") == "PONG":
                    raise AssertionError("redis-cli was let in without a certificate")
                equal(client(server.port).ping(), True)

    with check("TLS alone: with port 0 nobody listens without it"):
        with files.server("--tls-auth-clients", "no") as server:
            pass
        port = free_port()
        only = [
            "--port",
            "0",
            "--tls-port",
            str(port),
            "--tls-auth-clients",
            "no",
            "--tls-cert-file",
            files["server.crt"],
            "--tls-key-file",
            files["server.key"],
            "--tls-ca-cert-file",
            files["ca.crt"],
        ]
        with tempfile.TemporaryDirectory(prefix="delayd-tls-") as folder:
            options = ["--bind", "127.0.0.1", "--dir", folder, *only]
            process = subprocess.Popen(
                [os.environ["DELAYD_BIN"], *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:

                def up():
                    with contextlib.suppress(redis.ConnectionError):
                        return client(port, **files.trust()).ping()

                until(up, 10)
            finally:
                process.terminate()
                process.wait(10)

    with check("TLS files that are not there or do not fit stop the start, and are named"):
        for flags, named in (
            (["--tls-key-file", files["client.key"]], "key"),
            (["--tls-cert-file", files["none.crt"]], "none.crt"),
            (["--tls-ca-cert-file", files["server.key"]], "server.key"),
        ):
            try:
                with files.server(*flags):
                    raise AssertionError(f"{flags!r} was accepted")
            except RuntimeError as why:
                holds(str(why), named)


PASSWORD = "correct horse"


def tried(folder, *options, stdin="", certificate=None):
    """Starts a server and pastes into a shell what its first line says to try."""
    process = subprocess.Popen(
        [BINARY, "--dir", folder, "--appendonly", "no", *options],
        stderr=subprocess.PIPE, text=True, env=dict(os.environ, NO_COLOR="1"),
    )
    try:
        said = next(line for line in process.stderr if " listens on " in line)
        line = said.split("; try: ")[1].strip().replace("delayd call", f"{BINARY} call", 1)
        for name in ("crt", "key") if certificate else ():
            line = line.replace(f"CLIENT.{name}", f"{certificate}.{name}")
        done = subprocess.run(
            ["sh", "-c", line], input=stdin, capture_output=True, text=True, timeout=20, cwd=folder
        )
        if not re.search(r"^[0-9a-zA-Z]{10,}$", done.stdout.strip().split("\n")[-1]):
            raise AssertionError(f"{line!r} printed {done.stdout!r} {done.stderr!r}")
        return line
    finally:
        process.terminate()
        process.communicate(timeout=10)


def first_lines(files):
    any_port = ["--port", "0", "--bind", "127.0.0.1"]
    over_tls = ["--port", "0", "--bind", "127.0.0.1", "--tls-ca-cert-file", files["ca.crt"]]
    over_tls += ["--tls-cert-file", files["server.crt"], "--tls-key-file", files["server.key"]]
    with tempfile.TemporaryDirectory(prefix="delayd-try here-") as folder:
        with check("what the start line says to try, pasted: a port, another address, a Unix socket"):
            holds(tried(folder, *any_port), " call -p ")
            holds(tried(folder, "--port", "0", "--bind", "127.0.0.2", "127.0.0.3"), "-h 127.0.0.2 -p ")
            socket_path = os.path.join(folder, "delayd.sock")
            holds(tried(folder, "--port", "0", "--unixsocket", socket_path), f"-s '{socket_path}'")
        with check("the start line's redis-cli, pasted: with a password, and as a user"):
            known = {"stdin": PASSWORD + "\n"}
            holds(tried(folder, *any_port, "--requirepass", PASSWORD, **known), "--askpass")
            users = ["--user", "default", "off", "--user", "ada", "on", "~*", "+@all", f">{PASSWORD}"]
            holds(tried(folder, *any_port, *users, **known), "--user ada --askpass")
        with check("the start line's redis-cli, pasted: TLS alone, without and with a client's certificate"):
            port = ["--tls-port", str(free_port())]
            line = tried(folder, *over_tls, *port, "--tls-auth-clients", "no")
            holds(line, f"-p {port[1]} --tls --cacert ")
            holds(tried(folder, *over_tls, *port, certificate=files["client"]), "--cert ", "--key ")


if BINARY and has("tls-port"):
    files = Certificates()
    ports(files)
    first_lines(files)
else:
    with check("TLS"):
        raise Skip("needs a server of its own that has tls-port")
finish()
