#!/usr/bin/env python3
"""Fifteen tasks of a person on call, in Chromium: each begins on the console's overview, and is done by clicks and typing alone.

The last lines are a table of what each took. Typing into a field takes the click on the field.
"""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "lib"))
from browser import Browser, Console, Keys  # noqa: E402
from harness import Cluster, Raw, check, equal, finish, free_port, pairs, until  # noqa: E402

CLICKS_MAX, SECONDS_MAX = 4, 5
BANK, CARD = "503 from bank 17 after %d ms", "card '%d' was refused"
# What the console makes one of.
BANK_ERROR, CARD_ERROR = "# from bank # after # ms", "card '#' was refused"
taken = []


class Person:
    """Hands and eyes; the hands are counted."""

    def __init__(self, browser):
        self.browser, self.clicks, self.typed = browser, 0, 0

    def click(self, words, inside=""):
        self.browser.click(words, inside)
        self.clicks += 1

    def type(self, label, text):
        """Into the field of this name, and Enter."""
        find = (
            "return [...document.querySelectorAll('input')].find((each) => each.checkVisibility()"
            " && (each.ariaLabel ?? each.closest('label')?.innerText ?? '').startsWith(arguments[0]))"
        )
        field = self.browser.wait(lambda: self.browser.run(find, label))
        field.click()
        field.send_keys(text, Keys.ENTER)
        self.clicks += 1
        self.typed += 1

    def sees(self, *words, inside="main"):
        """Waits until all of these words are there."""
        self.browser.wait(lambda: all(word in self.browser.one(inside).text for word in words), SECONDS_MAX)

    def row(self, key, table=""):
        """The selector of a row of a table."""
        self.browser.wait(lambda: self.browser.all(f'{table} tr[data-key="{key}"]'))
        return f'{table} tr[data-key="{key}"]'

    def cells(self, key, table=""):
        """A row's cells by the titles of their columns."""
        row = self.row(key, table)
        return self.browser.wait(lambda: {each.get_attribute("data-label"): each.text for each in self.browser.all(f"{row} td")})

    def is_told(self, words):
        self.browser.wait(lambda: words in self.browser.message())


def task(words, browser):
    """Everything in the function belongs to one task, which is done at once."""

    def perform(does):
        with check(words):
            browser.go("/")
            browser.wait(lambda: browser.all("#figures"))
            person, began = Person(browser), time.monotonic()
            does(person)
            seconds = time.monotonic() - began
            taken.append((words, person.clicks, person.typed, seconds))
            equal((person.clicks <= CLICKS_MAX, seconds <= SECONDS_MAX), (True, True))

    return perform


def fail(raw, queue, count, error):
    """Ready jobs of a queue die, each of the error with a number of its own."""
    for n in range(count):
        for name, job, _, lease, *_ in raw.call("DELAY.RESERVE", "NOWAIT", "1", queue):
            raw.call("DELAY.NACK", name, job, lease, "BURY", "ERROR", error % (n + 100))


def shop(raw):
    """A shop at night: a bank that failed, a queue that nobody serves, a worker that has had its photo for long."""
    for n in range(1000):
        raw.call("DELAY.ADD", "payments", "0", '{"invoice": %d, "customer": {"name": "Customer %d"}}' % (n, n), "ID", f"invoice-{n}")
    fail(raw, "payments", 700, BANK)
    fail(raw, "payments", 300, CARD)
    raw.call("DELAY.ADD", "shop:orders", "40m", '{"order": 4711, "items": ["lamp", "desk"]}', "ID", "order:4711")
    raw.call("DELAY.ADD", "shop:orders", "50m", '{"order": 4712}', "ID", "order:4712")
    raw.call("DELAY.ADD", "shop", "1h", "another's", "ID", "orders:9")
    for n in range(300):
        campaign = "spring" if n % 6 == 0 else "autumn"
        raw.call("DELAY.ADD", "emails", f"{600 + n}s", '{"campaign": "%s"}' % campaign, "ID", f"mail-{n}")
    raw.call("DELAY.SCHEDULE", "SET", "reports", "daily", "yesterday", "CRON", "0 8 * * *", "TZ", "Europe/Berlin")
    for n in range(34):
        raw.call("DELAY.ADD", "imports", "0", f"row {n}")
    raw.call("DELAY.ADD", "thumbnails", "0", "x", "ID", "photo-6")
    raw.call("DELAY.ADD", "thumbnails", "0", "x", "ID", "photo-7")


def begin_work(raw):
    """A worker that has done one photo, and has the next."""
    raw.call("CLIENT", "SETNAME", "resizer-1")
    for _ in range(2):
        ((queue, job, _, lease, *_),) = raw.call("DELAY.RESERVE", "NOWAIT", "1", "thumbnails", "LEASE", "10m")
        if job == b"photo-6":
            raw.call("DELAY.ACK", queue, job, lease)


def count(raw, queue, *states):
    return [pairs(raw.call("DELAY.STATS", queue))[state] for state in states]


def of_deaths(browser, raw):
    @task("What needs attention, and how much of it?", browser)
    def _(person):
        found = person.cells("queue-payments", "#troubles")
        equal((found["what"].split()[-1], found["how many"]), ("payments", "1,000 dead"))

    @task("Why did the payments die?", browser)
    def _(person):
        person.click("Dead letters", person.row("queue-payments", "#troubles"))
        person.click("by error")
        rows = person.browser.wait(lambda: person.browser.all("#errors tbody tr"))
        shown = [[cell.text for cell in row.find_elements("css selector", "td")][:3] for row in rows]
        equal(shown, [[BANK_ERROR, "700", "700"], [CARD_ERROR, "300", "300"]])

    @task("Whose payments failed?", browser)
    def _(person):
        person.click("Dead letters", person.row("queue-payments", "#troubles"))
        person.type("JSON keys as columns", "customer.name, invoice")
        found = person.cells("invoice-999")
        equal((found["customer.name"], found["invoice"]), ("Customer 999", "999"))

    @task("Try the 700 of the bank again over ten minutes, no others", browser)
    def _(person):
        person.click("Dead letters", person.row("queue-payments", "#troubles"))
        person.click("by error")
        row = "#errors tbody tr:first-child"
        person.click("over 10 min…", row)
        person.click("over 10 min", row)
        person.is_told("700 jobs")
        equal(count(raw, "payments", "dead"), [300])
        equal(sum(count(raw, "payments", "delayed", "ready")), 700)


def of_work(browser, raw):
    @task("Who has photo-7, and until when?", browser)
    def _(person):
        person.click("Busy")
        found = person.cells("thumbnails/photo-7")
        equal((found["name"], found["lease ends"].startswith("in ")), ("resizer-1", True))

    @task("Who worked on the thumbnails last?", browser)
    def _(person):
        person.click("thumbnails", "#queues")
        person.click("consumers 0")
        person.sees("last job taken", "last acknowledged", "resizer-1")

    @task("Which queue has waited longest, and does anybody serve it?", browser)
    def _(person):
        found = person.cells("queue-imports", "#troubles")
        equal(found["what is wrong"], "No consumer takes its jobs: start a worker.")
        person.click("Consumers", person.row("queue-imports", "#troubles"))
        person.sees("no consumer", "is waiting for jobs of this queue")

    @task("How many deliveries failed in the last hour?", browser)
    def _(person):
        person.click("History")
        person.click("Numbers")
        cells = person.browser.wait(lambda: person.browser.all('#minutes td[data-label="failed"]'))
        equal(sum(int(cell.text.replace(",", "")) for cell in cells), 1000)

    @task("Stop the payments while the bank is down", browser)
    def _(person):
        person.click("payments", "#queues")
        person.click("Pause", "#bar")
        person.browser.button("Resume", "#bar")
        equal(pairs(raw.call("DELAY.STATS", "payments"))["paused"], b"all")


def of_jobs(browser, raw):
    @task("Where is order 4711, and when does it come?", browser)
    def _(person):
        person.type("Search", "4711")
        found = person.cells("shop%3Aorders/order%3A4711")
        equal((found["queue"], found["state"].split()[-1]), ("shop:orders", "delayed"))

    @task("What is in it? It is to run now", browser)
    def _(person):
        person.type("Search", "shop:orders:4711")
        person.click("order:4711")
        person.sees('"lamp"')
        person.click("Run now")
        person.is_told("The job is due now.")
        equal((count(raw, "shop:orders", "ready"), count(raw, "shop", "delayed")), ([1], [1]))

    @task("Cancel the mails of the spring campaign, no others", browser)
    def _(person):
        person.type("Search", "emails:spring")
        person.click("Cancel all found…")
        person.click("Cancel all found", "[data-confirm][open]")
        person.is_told("50")
        equal(count(raw, "emails", "delayed"), [250])

    @task("When does the next report come? One is to be made now", browser)
    def _(person):
        person.click("Schedules", "nav.main")
        equal("in " in person.cells("reports/daily")["next"], True)
        person.click("Run now", person.row("reports/daily"))
        until(lambda: count(raw, "reports", "ready") == [1])


class Nodes(Cluster):
    """Three nodes, each with a console."""

    def __init__(self):
        self.consoles = [free_port() for _ in range(3)]
        super().__init__("--appendonly", "yes", each=lambda node: ["--console-port", str(self.consoles[node])])

    def open(self, browser, node):
        """The node's console, by its link."""
        browser.url = f"http://127.0.0.1:{self.consoles[node]}"
        with open(os.path.join(self.home.name, f"n{node + 1}", "console-link")) as file:
            browser.go(file.read().strip().removeprefix(browser.url))


def of_nodes(browser):
    with Nodes() as nodes:
        leader = nodes.leader()
        follower, lost = (leader + 1) % 3, (leader + 2) % 3
        nodes.open(browser, follower)
        nodes.stop(lost)

        @task("Is the cluster whole, and may jobs be changed here?", browser)
        def _(person):
            person.sees(f"n{follower + 1}, is a follower", f"the console of the leader, n{leader + 1}", inside="#banner")
            person.sees(f"n{lost + 1} is away, no further node may be lost", inside="#trouble")

        nodes.open(browser, leader)
        nodes.stop(follower)

        @task("Nothing is handed out any more: why, and what mends it?", browser)
        def _(person):
            person.sees("No majority: 1 of 3 nodes", "Start the missing nodes: ", inside="#trouble")
            person.click("Nodes", "#trouble")
            person.sees(f"n{lost + 1}", f"n{follower + 1}", inside="#cluster")


def main():
    with Console("--appendonly", "no") as server, server.raw() as raw, Raw("127.0.0.1", server.port) as worker, Browser(server.url) as browser:
        shop(raw)
        begin_work(worker)
        # A queue needs attention once its oldest job has waited for ten seconds.
        time.sleep(10)
        browser.go(server.entrance())
        for tasks in (of_deaths, of_work, of_jobs):
            tasks(browser, raw)
        of_nodes(browser)
    print(f"{'':59} clicks typed seconds; asked: {CLICKS_MAX} clicks, {SECONDS_MAX} s")
    for words, clicks, typed, seconds in taken:
        print(f"{words:59} {clicks:6} {typed:5} {seconds:7.1f}", flush=True)
    with check("all fifteen tasks were done"):
        equal(len(taken), 15)
    finish()


main()
