#!/usr/bin/env python3
"""deploy/haproxy.cfg in front of three nodes: a client that knows one address goes on while leaders end and hand over."""

import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
import redis  # noqa: E402
from redis.backoff import NoBackoff  # noqa: E402
from redis.retry import Retry  # noqa: E402
from harness import BINARY, Cluster, Raw, Skip, check, equal, finish, free_port, until  # noqa: E402

CONFIG = os.path.join(HERE, "..", "deploy", "haproxy.cfg")
# Elections take about half a second, and HAProxy notices within 0.2 s.
PATIENCE_S = 5


class Proxy:
    def __init__(self, cluster, metrics, log):
        self.port = free_port()
        places = {"DELAYD_BIND": f"127.0.0.1:{self.port}"}
        for node in range(3):
            places[f"DELAYD_N{node + 1}"] = f"127.0.0.1:{cluster.port(node)}"
            places[f"DELAYD_METRICS{node + 1}"] = str(metrics[node])
        self.child = subprocess.Popen(
            ["haproxy", "-db", "-f", CONFIG], env=dict(os.environ, **places), stdout=log, stderr=log,
        )

    def stop(self):
        self.child.kill()
        self.child.wait()


class Producer:
    """Adds one job after the other with ids, each until it is answered."""

    def __init__(self, port):
        self.port, self.client, self.added, self.longest, self.last = port, None, 0, 0, time.monotonic()

    def add(self, count):
        for _ in range(count):
            start = time.monotonic()
            while not self.try_add():
                assert time.monotonic() < start + PATIENCE_S, f"no add was answered in {PATIENCE_S} s"
                time.sleep(0.01)
            now = time.monotonic()
            self.longest, self.last, self.added = max(self.longest, now - self.last), now, self.added + 1

    def try_add(self):
        try:
            if not self.client:
                self.client = redis.Redis(port=self.port, socket_timeout=1, retry=Retry(NoBackoff(), 0))
            self.client.execute_command("DELAY.ADD", "q", "1h", "x", "ID", f"job:{self.added}", "NX")
            return True
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError):
            self.client = None
            return False


def hand_over(cluster, leader):
    with Raw("127.0.0.1", cluster.port(leader)) as raw:
        raw.call("FAILOVER")
    until(lambda: cluster.leader() != leader, 10)


def run():
    if not BINARY:
        raise Skip("needs servers of its own, and only a running one is given")
    metrics = [free_port() for _ in range(3)]
    with tempfile.TemporaryFile() as log, Cluster(each=lambda node: ["--metrics-port", str(metrics[node])]) as cluster:
        proxy = Proxy(cluster, metrics, log)
        producer = Producer(proxy.port)
        try:
            producer.add(20)
            for how in (signal.SIGKILL, None, signal.SIGTERM, None, signal.SIGKILL, None):
                leader, producer.longest = cluster.leader(), 0
                if how:
                    cluster.stop(leader, how)
                else:
                    hand_over(cluster, leader)
                producer.add(20)
                print(f"  {how.name if how else 'FAILOVER'}: no add answered for {producer.longest:.2f} s")
                if how:
                    cluster.start(leader)
                    cluster.wait_for(leader)
            with Raw("127.0.0.1", cluster.port(cluster.leader())) as raw:
                equal(raw.call("DELAY.LEN", "q"), producer.added)
        finally:
            proxy.stop()


with check("behind HAProxy a client with one address finds whoever leads, and nothing is lost"):
    run()
finish()
