"""redis-py with its own Sentinel: a producer and a worker, which are told where the Sentinels are and nothing else."""

import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MasterDownError
from redis.retry import Retry
from redis.sentinel import Sentinel

addresses = [address.split(":") for address in sys.argv[1].split(",")]
# By itself redis-py 8 tries a Sentinel that is gone again for seconds before it asks the next one, and a leader that is gone at
# the address that it had.
at_once = {"retry": Retry(NoBackoff(), 0), "socket_connect_timeout": 0.3}


def connect():
    """For one thread: whoever finds a leader moves the Sentinel that knew it to the front of the list, and two that do so at once
    leave one there twice and another not at all, until only one is left."""
    sentinel = Sentinel([(host, int(port)) for host, port in addresses], sentinel_kwargs={**at_once, "socket_timeout": 0.3})
    return sentinel.master_for("delayd", **at_once, socket_timeout=1.5)


def say(text):
    sys.stdout.write(f"{text}\n")  # at once: two threads do
    sys.stdout.flush()


def call(queue, *words):
    while True:
        try:
            return queue.execute_command(*words)
        except (redis.ConnectionError, redis.TimeoutError, MasterDownError) as error:
            say(error)
            time.sleep(0.02)


def produce():
    queue, number = connect(), 0
    while True:
        number += 1
        call(queue, "DELAY.ADD", "q", "0", "x", "ID", f"job:{number}", "NX")
        say(f"added {number}")


def work():
    queue = connect()
    while True:
        for _, job, _, token, *_ in call(queue, "DELAY.RESERVE", 1, 1, "q", "LEASE", "5s") or []:
            number = job.decode().split(":")[1]
            say(f"taken {number}")
            call(queue, "DELAY.ACK", "q", job, token)
            say(f"done {number}")


for loop in (produce, work):
    threading.Thread(target=loop, daemon=True).start()
sys.stdin.read()
