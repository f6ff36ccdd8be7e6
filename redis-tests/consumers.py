#!/usr/bin/env python3
"""The consumers in README.md and docs/clients.md work as they stand there: each is taken out, run, and given jobs.

    consumers.py python|node|shell|rust|php|ruby|go|java

The workers of README.md, which use the libraries in clients/, do three jobs where `make clients-test` has installed those. The whole ones
of docs/clients.md do them too, one of which fails once and is given back, and one of which takes longer than its lease.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
from harness import HOST, PORT, Raw, Skip, check, equal, finish, pairs, queue, until  # noqa: E402
from pages import blocks, consumer  # noqa: E402

CACHE = os.environ.get("DELAYD_CACHE", os.path.join(HERE, "..", ".cache"))
RUST = os.environ.get("DELAYD_RUST_TESTS", os.path.join(CACHE, "redis-tests-rust", "debug"))
NODE = os.path.join(CACHE, "venv-node", "bin", "node")
# Debian's packages of Go libraries are found here, without modules and without a network.
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""}
# Of the whole ones: leases this long, and work that takes longer.
LEASE, WORK_S = "3s", 4


class Language:
    """How a block of this language is run, and how its work is made to fail once and to take long."""

    def __init__(self, block, command, file, interval, work, trouble, environment=()):
        self.block, self.command, self.file = block, command, file
        # What it extends its lease by, twenty seconds apart there and one here.
        self.interval = interval
        # The lines that do the work, and what is put in their place.
        self.work, self.trouble = work, trouble.replace("WORK_S", str(WORK_S))
        self.environment = dict(environment)


LANGUAGES = {
    "python": Language(
        "python", [os.path.join(CACHE, "venv", "bin", "python")], "consumer.py",
        ("done.wait(20)", "done.wait(1)"),
        "    print(body.decode())\n",
        "    print(body.decode())\n    time.sleep(WORK_S if body == b'three' else 0)\n"
        "    if body == b'two' and not work.__dict__.setdefault('failed', False):\n"
        "        work.failed = True\n        raise ValueError('once')\n",
    ),
    "node": Language(
        "js", [NODE if os.path.exists(NODE) else "node"], "consumer.mjs",
        ("20_000", "1_000"),
        "  console.log(body);\n",
        "  console.log(body);\n  await sleep(body === 'three' ? WORK_S * 1000 : 0);\n"
        "  if (body === 'two' && !work.failed) {\n    work.failed = true;\n    throw new Error('once');\n  }\n",
    ),
    "shell": Language(
        "sh", ["bash"], "consumer.sh",
        ("sleep 20", "sleep 1"),
        'work() { echo "$1"; }',
        'work() { echo "$1"; [ "$1" != three ] || sleep WORK_S; '
        '[ "$1" != two ] || [ -e "$0.failed" ] || { touch "$0.failed"; return 1; }; }',
    ),
    "php": Language(
        "php", ["php"], "consumer.php",
        ("pcntl_alarm(20)", "pcntl_alarm(1)"),
        '    echo "$body\\n";\n}',
        '    static $failed = false;\n    echo "$body\\n";\n'
        "    for ($end = microtime(true) + WORK_S; $body === 'three' && microtime(true) < $end; usleep(10000));\n"
        "    if ($body === 'two' && !$failed) {\n        $failed = true;\n        throw new Exception('once');\n    }\n}",
    ),
    "ruby": Language(
        "ruby", ["ruby", "-e", "$stdout.sync = true; load ARGV.shift"], "consumer.rb",
        ("sleep 20", "sleep 1"),
        "  puts body\nend",
        '  puts body\n  $stdout.flush\n  sleep WORK_S if body == "three"\n'
        '  raise "once" if body == "two" && !$failed && ($failed = true)\nend',
    ),
    "go": Language(
        "go", ["go", "run"], "consumer.go",
        ("20 * time.Second", "time.Second"),
        '\tfmt.Printf("%s\\n", body)\n\treturn nil\n}',
        '\tfmt.Printf("%s\\n", body)\n\tif string(body) == "three" {\n\t\ttime.Sleep(WORK_S * time.Second)\n\t}\n'
        '\tif string(body) == "two" && !failed {\n\t\tfailed = true\n\t\treturn fmt.Errorf("once")\n\t}\n'
        "\treturn nil\n}\n\nvar failed bool",
        GO,
    ),
    # Jedis is in no Debian package: DELAYD_JEDIS is a class path with it and what it needs.
    "java": Language(
        "java", ["java", "-cp", os.environ.get("DELAYD_JEDIS", "")], "Consumer.java",
        ("20, 20, TimeUnit.SECONDS", "1, 1, TimeUnit.SECONDS"),
        "        System.out.println(new String(body, UTF_8));\n    }",
        "        System.out.println(new String(body, UTF_8));\n"
        '        Thread.sleep(new String(body, UTF_8).equals("three") ? WORK_S * 1000 : 0);\n'
        '        if (new String(body, UTF_8).equals("two") && !failed) {\n            failed = true;\n'
        '            throw new Exception("once");\n        }\n    }\n\n    static boolean failed = false;',
    ),
}


def replaced(text, old, new):
    """A block that no longer has what is put in another's place would be run unchanged: that is a mistake."""
    if old not in text:
        raise AssertionError(f"the block has no {old!r}")
    return text.replace(old, new)


def here(text, q):
    """The block for this server and a queue of its own."""
    text = replaced(replaced(text, "emails", q), "9248", str(PORT)).replace("127.0.0.1", HOST)
    text = text.replace("redis-cli -p", f"redis-cli -h {HOST} -p")
    return text.replace("redis.Redis(port", f"redis.Redis(host='{HOST}', port")


def troubled(text, language):
    """A whole consumer whose work fails once, and takes longer than its lease once."""
    text = replaced(replaced(text, *language.interval), "60s", LEASE)
    return replaced(text, language.work, language.trouble)


def does_three_jobs(command, q, nacked, environment, encode=str):
    """Runs a consumer of `q`, adds three jobs, and returns when it has done them and waits again."""
    with Raw() as raw:
        stats = lambda: pairs(raw.call("DELAY.STATS", q))
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=dict(os.environ, PYTHONUNBUFFERED="1", **environment), start_new_session=True,
        )
        try:
            for body in ("one", "two", "three"):
                raw.call("DELAY.ADD", q, "100ms", encode(body), "BACKOFF", "100ms")
            until(lambda: stats()["acked"] == 3 and stats()["waiters"] == 1, 60)
            told = stats()
            equal((told["nacked"], told["timeouts"]), (nacked, 0))
            problem = None
        except Exception as error:
            problem = error
        os.killpg(child.pid, signal.SIGKILL)
        printed = child.communicate()[0]
        if problem:
            raise AssertionError(f"{problem}; it printed {printed[-400:]!r}") from problem
        # Threads that print at once may put two words on a line: Python writes the end of the line apart.
        equal([word for word in ("one", "two", "three") if word not in printed], [])


def run(language, text, q, nacked):
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".consumer-") as home:
        path = os.path.join(home, language.file)
        with open(path, "w") as file:
            file.write(here(text, q))
        does_three_jobs([*language.command, path], q, nacked, language.environment)


# Where `make clients-test` installs the libraries: the program that runs a worker, and the folder that it is run in.
LIBRARIES = {
    "python": ([os.path.join(CACHE, "clients-python", "venv", "bin", "python")], None),
    "node": ([NODE if os.path.exists(NODE) else "node"], os.path.join(CACHE, "clients-node")),
}


def library(name, language):
    command, modules = LIBRARIES[name]
    home = next((each for each in sorted(glob.glob(os.path.join(modules, "*", "node_modules", "delayd")))), None) if modules else command[0]
    if not home or not os.path.exists(home):
        raise Skip("the library is not installed: make clients-test")
    text = next(text for block, text, _ in blocks("README.md") if block == language.block)
    q = queue("library")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.dirname(home)) if modules else None, prefix=".worker-") as folder:
        path = os.path.join(folder, language.file)
        with open(path, "w") as file:
            file.write(here(text, q))
        does_three_jobs([*command, path], q, 0, language.environment, encode=json.dumps)


def rust():
    with check("rust: docs/clients.md shows the program that is built and run here"):
        with open(os.path.join(HERE, "rust", "src", "bin", "consumer.rs")) as file:
            equal(consumer("docs/clients.md", "rust"), file.read())
        with Raw() as raw:
            if raw.call("EXISTS", "emails"):
                raise Skip("the server has a queue named emails already")
        does_three_jobs([os.path.join(RUST, "consumer"), f"redis://{HOST}:{PORT}/"], "emails", 0, {})


def schedules():
    with check("python: docs/clients.md shows the function that cases/recurring.py runs"):
        shown = next(text for _, text, _ in blocks("docs/clients.md") if "\ndef sync(" in text)
        with open(os.path.join(HERE, "cases", "recurring.py")) as file:
            run_here = file.read()
        function = lambda text: text[text.index("\ndef sync("):].split("\n\n\n")[0]
        equal(function(shown), function(run_here))


def main(name):
    if name == "rust":
        return rust()
    if name == "python":
        schedules()
    language = LANGUAGES[name]
    if name in LIBRARIES:
        with check(f"{name}: the worker of README.md, with the library"):
            library(name, language)
    with check(f"{name}: docs/clients.md, with work that fails and work that outlasts its lease"):
        run(language, troubled(consumer("docs/clients.md", language.block), language), queue("whole"), 1)


main(sys.argv[1])
finish()
