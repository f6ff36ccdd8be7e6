#!/usr/bin/env python3
"""The console behind nginx, HAProxy and Apache in their plainest settings: without a password or the token nobody gets in.

A proxy on the same machine comes from its loopback, as a browser there does; nginx speaks HTTP/1.0 to what is behind it,
puts its own name into Host and sends no forwarding header unless it is told to.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
from harness import BINARY, Raw, Server, Skip, check, equal, finish, free_port, until  # noqa: E402

TOO_OLD = 505


class Console(Server):
    """A server with a console."""

    def __init__(self, *flags):
        self.console = free_port()
        super().__init__("--console-port", str(self.console), "--appendonly", "no", *flags)
        until(lambda: listens(self.console))

    def token(self):
        with open(os.path.join(self.home.name, "console-link")) as file:
            return file.read().strip().split("token=")[1]


def listens(port):
    try:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect() is None
    except OSError:
        return False


class Proxy:
    """A proxy in the foreground with a configuration of its own."""

    def __init__(self, command, text, folder, port):
        self.port = port
        path = os.path.join(folder, "proxy.conf")
        with open(path, "w") as file:
            file.write(text)
        self.log = open(os.path.join(folder, "proxy.log"), "ab")
        self.child = subprocess.Popen([*command, path], stdout=self.log, stderr=self.log)

    def __enter__(self):
        try:
            until(lambda: self.child.poll() is not None or listens(self.port), 10)
            if self.child.poll() is not None:
                with open(self.log.name) as log:
                    raise RuntimeError(f"the proxy ended: {log.read()[-600:]}")
        except Exception:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()


def nginx(folder, port, console, lines):
    temp = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = f"""daemon off; master_process off; error_log stderr; pid {folder}/pid;
events {{}}
http {{ access_log off; {temp}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{console}; {lines} }} }} }}
"""
    return Proxy(["nginx", "-p", folder, "-c"], text, folder, port)


def haproxy(folder, port, console, lines):
    text = f"""defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen console
  bind 127.0.0.1:{port}
  {lines}
  server console 127.0.0.1:{console}
"""
    return Proxy(["haproxy", "-db", "-f"], text, folder, port)


def apache(folder, port, console, lines):
    modules = "".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"
        for name in ("mpm_event", "authz_core", "proxy", "proxy_http", "env", "setenvif", "headers")
    )
    text = f"""{modules}ServerName proxy.example
Listen 127.0.0.1:{port}
PidFile {folder}/pid
ErrorLog {folder}/error.log
{lines}
ProxyPass / http://127.0.0.1:{console}/
"""
    return Proxy(["apache2", "-X", "-f"], text, folder, port)


# The proxy, what is told to it, the first status of an answer where it gets through or not.
SETTINGS = {
    "nginx as it is: HTTP/1.0, its own Host, no forwarding header": (nginx, "", TOO_OLD),
    "nginx, HTTP/1.0, with forwarding headers": (
        nginx, "proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", TOO_OLD,
    ),
    "nginx, HTTP/1.1, its own Host, no forwarding header": (nginx, 'proxy_http_version 1.1; proxy_set_header Connection "";', 200),
    "nginx, HTTP/1.1, with forwarding headers": (
        nginx, "proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
        " proxy_set_header X-Real-IP $remote_addr;", 200,
    ),
    "HAProxy as it is": (haproxy, "", 200),
    "HAProxy with forwarding headers": (haproxy, "option forwardfor", 200),
    "Apache as it is": (apache, "", 200),
    "Apache, HTTP/1.0": (apache, "SetEnv force-proxy-request-1.0 1\nSetEnv proxy-nokeepalive 1", TOO_OLD),
    "Apache, without forwarding headers": (apache, "ProxyAddHeaders Off\nProxyPreserveHost On", 200),
}
HOSTS = ("127.0.0.1", "localhost")
PROGRAMS = {nginx: "nginx", haproxy: "haproxy", apache: "apache2"}


class Visitor:
    """Somebody on the other side of a proxy."""

    def __init__(self, port, host):
        self.port, self.host = port, host

    def ask(self, method, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()} | {"Host": self.host}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer

    def log_in(self, password, user="default", **headers):
        form = urllib.parse.urlencode({"user": user, "password": password})
        return self.ask("POST", "/login", form, Content_Type="application/x-www-form-urlencoded", **headers)

    def command(self, *words, said=None):
        headers = {"Authorization": said} if said else {}
        return self.ask("POST", "/api/v1/command", json.dumps(words), Content_Type="application/json", **headers)


def keeps_out(visitor, raw, first):
    """Nothing is to be had, whatever is tried without a proof."""
    answers = [visitor.ask("GET", path) for path in ("/login", "/login?token=", "/login?token=x", "/", "/queues")]
    answers += [visitor.ask("GET", "/login", **{name: "127.0.0.1"}) for name in ("X_Forwarded_For", "X_Real_IP", "Forwarded")]
    answers.append(visitor.ask("GET", "/live"))
    wrong = ("Bearer x", "Bearer default:", "Basic ZGVmYXVsdDp4") if visitor.host.startswith(HOSTS[0]) else ()
    if wrong:
        # Each takes its second.
        answers += [visitor.log_in(""), visitor.log_in("x")]
    equal([answer.getheader("Set-Cookie") for answer in answers], [None] * len(answers))
    equal(answers[0].status, first)
    for said in (None, *wrong):
        answer = visitor.command("DELAY.ADD", "q", "0", "x", said=said)
        equal(answer.status, 401 if first == 200 else first)
    equal(visitor.ask("GET", "/api/v1/events?pattern=*").status, 401 if first == 200 else first)
    equal(raw.call("DELAY.LEN", "q"), 0)


def through(setting, console, act):
    """What `act` does with those who come through this proxy, under each name."""
    make, lines, first = SETTINGS[setting]
    if not shutil.which(PROGRAMS[make]):
        raise Skip(f"there is no {PROGRAMS[make]}")
    with tempfile.TemporaryDirectory(prefix="delayd-proxy-") as folder:
        port = free_port()
        with make(folder, port, console.console, lines):
            for host in HOSTS:
                act(Visitor(port, f"{host}:{port}"), first)


def without_password():
    for setting in SETTINGS:
        with check(f"{setting}: without the token nobody gets in"):
            with Console() as console, Raw("127.0.0.1", console.port) as raw:
                through(setting, console, lambda visitor, first: keeps_out(visitor, raw, first))

    with Console() as console:
        with check("the token gets in through a proxy that speaks HTTP/1.1, and through none that does not"):
            def shows(visitor, first):
                answer = visitor.ask("GET", "/login?token=" + console.token())
                equal((answer.status, bool(answer.getheader("Set-Cookie"))), (303, True) if first == 200 else (first, False))
                answer = visitor.command("PING", said="Bearer " + console.token())
                equal(answer.status, first)

            for setting in SETTINGS:
                through(setting, console, shows)


def with_password():
    with Console("--requirepass", "sesame", "--console-trusted-proxies", "127.0.0.1", "--console-insecure", "yes") as console:
        for setting in SETTINGS:
            with check(f"{setting}: the password alone gets in"):
                def shows(visitor, first):
                    equal(visitor.ask("GET", "/login").getheader("Set-Cookie"), None)
                    answer = visitor.log_in("sesame")
                    equal((answer.status, bool(answer.getheader("Set-Cookie"))), (303, True) if first == 200 else (first, False))
                    equal(visitor.command("PING").status, 401 if first == 200 else first)
                    equal(visitor.command("PING", said="Bearer sesame").status, first)

                through(setting, console, shows)

        with check("a proxy that says https has cookies bound to it"):
            def shows(visitor, _):
                equal("; Secure" in visitor.log_in("sesame").getheader("Set-Cookie"), True)

            SETTINGS["https"] = (haproxy, "option forwardfor\n  http-request set-header X-Forwarded-Proto https", 200)
            through("https", console, shows)


if not BINARY:
    with check("the console behind proxies"):
        raise Skip("needs servers of its own, and only a running one is given")
else:
    without_password()
    with_password()
finish()
