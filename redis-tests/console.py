#!/usr/bin/env python3
"""The console in Chromium: what a person sees and does, without a mouse, without a script, in the dark, on a telephone.

    console.py                 all checks; pictures of all pages lie in .cache/console afterwards
    console.py --for-readme    makes the pictures of README.md in docs/images instead
"""

import gzip
import http.client
import os
import re
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "lib"))
from browser import SIZES, THEMES, Browser, Console, Keys  # noqa: E402
from harness import Raw, check, equal, finish, pairs  # noqa: E402

PICTURES = os.path.join(os.environ.get("DELAYD_CACHE", os.path.join(ROOT, ".cache")), "console")
AXE = os.path.join(HERE, "node_modules", "axe-core", "axe.min.js")
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]
# Every page, in the state in which most of it is seen. The first is for whoever is not logged in.
PAGES = {
    "login": "/login?other=1",
    "overview": "/",
    "queues": "/queues?by=ready",
    "ready": "/queue?db=0&name=emails&tab=ready",
    "delayed": "/queue?db=0&name=emails&tab=delayed",
    "columns": "/queue?db=0&name=emails&tab=delayed&columns=template,to,order.id,order.items",
    "leased": "/queue?db=0&name=emails&tab=leased",
    "dead": "/queue?db=0&name=emails&tab=dead",
    "errors": "/queue?db=0&name=emails&tab=dead&by=error",
    "queue-schedules": "/queue?db=0&name=reports&tab=schedules",
    "settings": "/queue?db=0&name=emails&tab=settings",
    "consumers": "/queue?db=0&name=imports&tab=consumers",
    "no-queue": "/queue?db=0&name=nothing",
    "job": "/job?db=0&queue=emails&id=welcome-1",
    "job-leased": "/job?db=0&queue=emails&id=sent-1",
    "job-dead": "/job?db=0&queue=emails&id=bounced-1",
    "no-job": "/job?db=0&queue=emails&id=nobody",
    "schedules": "/schedules",
    "schedule": "/schedule?db=0&queue=reports&id=daily",
    "busy": "/busy",
    "history": "/history?last=6h",
    "history-queue": "/history?db=0&name=emails",
    "clients": "/clients",
    "server": "/server",
    "search": "/search?q=welcome-1",
    "search-text": "/search?db=0&queue=emails&contains=template",
    "wall": "/wall",
}
PAINT_MS, PAINT_MS_MAX = 200, 1000
KIB = 1024


def fetch(server, path, cookie=""):
    """The answer's length as a browser has it that takes gzip, and when it is compressed."""
    connection = http.client.HTTPConnection("127.0.0.1", server.console, timeout=10)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip", "Cookie": cookie})
    answer = connection.getresponse()
    body = answer.read()
    return len(body) if answer.getheader("Content-Encoding") else len(gzip.compress(body)), answer.status


def traffic(raw, scale=1):
    """Queues as a shop has them: mails, payments that fail, imports that nobody takes, reports by schedule."""
    body = '{"template": "welcome", "to": "ann@example.com", "order": {"id": 4711, "total": 129.9, "items": ["lamp", "desk"]}}'
    for n in range(1, 40 * scale):
        raw.call("DELAY.ADD", "emails", f"{20 + n * n % 3400}s", body, "ID", f"welcome-{n}", "ATTEMPTS", "5", "BACKOFF", "1s,5s,30s")
        raw.call("DELAY.ADD", "payments", f"{n * 37 % 3500}s", '{"invoice": %d}' % n, "ID", f"invoice-{n}")
    for n in range(1, 9):
        raw.call("DELAY.ADD", "emails", "0", body, "ID", f"sent-{n}", "PRIORITY", "1")
        raw.call("DELAY.ADD", "emails", "0", body, "ID", f"bounced-{n}", "PRIORITY", "0")
    for n in range(8):
        (job,) = raw.call("DELAY.RESERVE", "NOWAIT", "1", "emails")
        error = "550 mailbox unavailable" if n % 3 else "421 try again later"
        raw.call("DELAY.NACK", "emails", job[1], job[3], "BURY", "ERROR", error)
    raw.call("DELAY.RESERVE", "NOWAIT", "1", "emails", "COUNT", "3", "LEASE", "10m")
    for n in range(34):
        raw.call("DELAY.ADD", "imports", "0", f"row {n}")
    raw.call("DELAY.ADD", "a-queue-with-quite-a-long-name:of:several:parts:europe-west", "2h", "x")
    raw.call("DELAY.CONFIG", "SET", "emails", "rate", "50", "max-leased", "20")
    raw.call("DELAY.PAUSE", "imports", "OUT", "FOR", "15m")
    raw.call("DELAY.SCHEDULE", "SET", "reports", "daily", "yesterday", "CRON", "0 8 * * *", "TZ", "Europe/Berlin")
    raw.call("DELAY.SCHEDULE", "SET", "reports", "often", "now", "EVERY", "5m")
    raw.call("DELAY.SCHEDULE", "SET", "cleanup", "hourly", "old", "CRON", "30 * * * *")
    raw.call("DELAY.SCHEDULE", "PAUSE", "cleanup", "hourly")


def stats(raw, queue):
    return pairs(raw.call("DELAY.STATS", queue))


def state(raw, queue, job):
    found = raw.call("DELAY.GET", queue, job)
    return found and pairs(found)["state"].decode()


def violations(browser):
    """What axe finds, in words."""
    found = browser.driver.execute_async_script(
        "const done = arguments[1];"
        "axe.run(document, { runOnly: arguments[0], resultTypes: ['violations'] }).then((found) => done(found.violations), done)",
        RULES,
    )
    return [
        f"{each['id']}: {node['target']} {node['failureSummary'].splitlines()[-1].strip()}" for each in found for node in each["nodes"]
    ]


def go(browser, name):
    """To a page; how long until something was seen."""
    path = PAGES[name]
    if name == "login":
        browser.driver.delete_all_cookies()
    equal(browser.go(path), 200)
    browser.wait(lambda: name == "login" or browser.path() == path)
    return browser.wait(lambda: browser.run("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"))


def look_at(browser, name, axe):
    """A page in all sizes and colours; how long until something was seen."""
    browser.look("wide", "light")
    paint = go(browser, name)
    if paint > PAINT_MS_MAX:
        # Another program may take the processor once; a page that is slow is slow again.
        paint = go(browser, name)
    browser.run(axe)
    found = []
    for size in SIZES:
        for theme in THEMES:
            browser.look(size, theme)
            wide, seen = browser.run("const is = document.scrollingElement; return [is.scrollWidth, is.clientWidth]")
            if wide > seen:
                found.append(f"{size}: {wide} px wide, {seen} px seen")
            if size != "middle":
                found += [f"{size}, {theme}: {each}" for each in violations(browser)]
            browser.picture(os.path.join(PICTURES, f"{name}-{size}-{theme}.png"))
    equal(found + browser.errors(), [])
    if paint > PAINT_MS_MAX:
        raise AssertionError(f"something was seen after {paint:.0f} ms")
    return paint


def pages(server, browser):
    os.makedirs(PICTURES, exist_ok=True)
    with open(AXE) as file:
        axe = file.read()
    paints = {}
    for name in PAGES:
        with check(f"{name}: nothing that axe finds, no wider than the screen, no error, seen soon"):
            if name == "overview":
                browser.go(server.entrance())
                browser.wait(lambda: browser.path() == "/")
            paints[name] = look_at(browser, name, axe)
    seen = {name: round(paint) for name, paint in paints.items() if paint}
    late = [name for name, paint in seen.items() if paint > PAINT_MS]
    print(f"first paint, ms: {seen}; over {PAINT_MS}: {late or 'none'}", flush=True)


def sizes(server, browser):
    with check("script, style and the first page are small"):
        cookie = "; ".join(f"{each['name']}={each['value']}" for each in browser.driver.get_cookies())
        browser.go("/")
        paths = sorted(set(re.findall(r'"(/assets/[^"]+)"', browser.driver.page_source)))
        figures = {re.sub(r"-\w+(?=\.)", "", path): fetch(server, path) for path in paths} | {"html": fetch(server, "/", cookie)}
        equal({status for _, status in figures.values()}, {200})
        figures = {name: size for name, (size, _) in figures.items()}
        print(f"gz bytes: {figures}, together {sum(figures.values())}", flush=True)
        equal([name for name, size in figures.items() if name.endswith(("js", "css")) and size > 8 * KIB], [])
        equal(sum(figures.values()) <= 32 * KIB, True)


def updates(raw, browser):
    script = (
        "return performance.getEntriesByType('resource').filter((each) => each.initiatorType === 'fetch'"
        " && each.responseStatus === 226).map((each) => each.transferSize)"
    )

    def busy():
        for n in range(20):
            raw.call("DELAY.ADD", "updates", f"{n * 100}ms", '{"order": {"id": %d, "total": 129.9}}' % n)
        raw.call("BRPOP", "updates", "0.1")
        return len(browser.run(script)) > 5

    with check("a live update has at most 4 KB, after the first one of a page, which has all of it"):
        sizes = {}
        for path in ("/", "/queue?db=0&name=updates&tab=ready", "/queue?db=0&name=updates&tab=delayed"):
            browser.go(path)
            browser.wait(busy, 20)
            sizes[path] = max(browser.run(script))
        print(f"bytes of the largest live update, headers included: {sizes}", flush=True)
        equal([path for path, size in sizes.items() if size > 4 * KIB], [])


def arrival(raw, browser):
    with check("the first job of README.md is seen waiting, then ready, without a reload"):
        browser.go("/queue?db=0&name=arrivals&tab=ready")
        browser.run("window.here = 'still'")
        raw.call("DELAY.ADD", "arrivals", "5s", "hello")
        browser.wait(lambda: browser.figure("delayed") == "1" and browser.figure("ready") == "0")
        began = time.monotonic()
        browser.wait(lambda: browser.figure("ready") == "1" and browser.figure("delayed") == "0")
        browser.wait(lambda: "hello" in browser.text())
        equal(browser.run("return window.here"), "still")
        equal(time.monotonic() - began < 8, True)


def by_mouse(raw, browser):
    with check("a queue is paused and resumed by its button, and the page stays"):
        browser.go("/queue?db=0&name=payments")
        browser.run("window.here = 'still'")
        browser.click("Pause", "#bar")
        browser.button("Resume", "#bar")
        equal(stats(raw, "payments")["paused"], b"all")
        browser.click("Resume", "#bar")
        browser.button("Pause", "#bar")
        equal((stats(raw, "payments")["paused"], browser.run("return window.here")), (b"no", "still"))

    with check("a job is run now"):
        browser.go("/job?db=0&queue=emails&id=welcome-30")
        browser.click("Run now")
        browser.wait(lambda: "The job is due now." in browser.message())
        equal(state(raw, "emails", "welcome-30"), "ready")
        browser.wait(lambda: "ready" in browser.one("#job .badge").text)

    with check("selected dead letters are redriven, the others stay"):
        browser.go("/queue?db=0&name=emails&tab=dead")
        equal(browser.button("Redrive selected").is_enabled(), False)
        for job in ("bounced-2", "bounced-5"):
            browser.one(f'tr[data-key="{job}"] input').click()
        browser.wait(lambda: browser.button("Redrive selected").is_enabled())
        browser.click("Redrive selected")
        browser.wait(lambda: "2 jobs were redriven" in browser.message())
        equal([state(raw, "emails", f"bounced-{n}") for n in (1, 2, 5)], ["dead", "ready", "ready"])
        browser.wait(lambda: not browser.all('tr[data-key="bounced-2"]'))

    with check("a queue is purged once its name is typed, and not before"):
        raw.call("DELAY.ADD", "old.stuff", "1h", "x")
        browser.go("/queue?db=0&name=old.stuff")
        browser.click("More…")
        browser.click("Purge…")
        field = browser.wait(lambda: browser.one("[data-confirm][open] input[name=typed]"))
        browser.wait(lambda: browser.run("return !!document.activeElement.closest('[data-confirm][open]')"))
        field.send_keys("oldXstuff", Keys.ENTER)
        equal(browser.run("return arguments[0].validity.valid", field), False)
        equal(stats(raw, "old.stuff")["delayed"], 1)
        field.clear()
        field.send_keys("old.stuff", Keys.ENTER)
        browser.wait(lambda: "1 job was removed" in browser.message())
        equal(stats(raw, "old.stuff")["delayed"], 0)


def by_keys(raw, browser):
    with check("by keys alone: search, go, rows, select, open, run"):
        browser.go("/")
        focused = lambda: browser.driver.switch_to.active_element.get_attribute("name")
        browser.press("/")
        browser.wait(lambda: focused() == "q")
        browser.press("?", Keys.ESCAPE)
        browser.wait(lambda: focused() != "q")
        browser.press("?")
        browser.wait(lambda: browser.all("dialog[open]"))
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: not browser.all("dialog[open]"))
        browser.press("g", "q")
        browser.wait(lambda: browser.path() == "/queues")
        at = lambda: browser.run("return document.querySelector('tr.at')?.dataset.key")
        names = [row.get_attribute("data-key") for row in browser.all("tbody[data-rows] tr")]
        browser.press("j", "j", "j", "k")
        browser.wait(lambda: at() == names[1])
        browser.press("x")
        browser.wait(lambda: browser.run("return document.querySelector('tr.at input').checked"))
        browser.press("x")
        browser.press("k", Keys.ENTER)
        browser.wait(lambda: browser.path().startswith("/queue?"))
        equal(f"name={names[0]}" in browser.path(), True)
        browser.go("/job?db=0&queue=emails&id=welcome-31")
        browser.press("r")
        browser.wait(lambda: "The job is due now." in browser.message())
        equal(state(raw, "emails", "welcome-31"), "ready")

    with check("a dialog holds the focus, and Escape leaves things as they were"):
        browser.go("/queue?db=0&name=payments")
        browser.button("More…").send_keys(Keys.ENTER)
        browser.button("Purge…").send_keys(Keys.ENTER)
        browser.wait(lambda: browser.all("[data-confirm][open]"))
        inside = lambda: browser.run("return !!document.activeElement.closest('[data-confirm][open]')")
        for _ in range(6):
            browser.press(Keys.TAB)
            browser.wait(inside)
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: not browser.all("[data-confirm][open]"))
        equal(browser.driver.switch_to.active_element.text, "Purge…")


def colours(browser):
    with check("the colours are the system's, until others are chosen"):
        shade = lambda: sum(map(int, re.findall(r"\d+", browser.run("return getComputedStyle(document.body).backgroundColor"))[:3]))
        chosen = lambda: browser.run("return document.documentElement.dataset.theme ?? ''")
        browser.look("wide", "dark")
        browser.go("/queues")
        equal((shade() < 150, chosen()), (True, ""))
        browser.one("[data-theme-form] button").click()
        browser.wait(lambda: chosen() == "light")
        equal(shade() > 600, True)
        browser.look("wide", "light")
        browser.one("[data-theme-form] button").click()
        browser.wait(lambda: chosen() == "dark")
        equal(shade() < 150, True)
        browser.go("/")
        equal((shade() < 150, chosen()), (True, "dark"))
        browser.one("[data-theme-form] button").click()
        browser.wait(lambda: chosen() == "" and shade() > 600)


def without_script(server, raw):
    with Browser(server.url, script=False) as browser:
        with check("without a script every page can be read"):
            browser.driver.get(server.url + server.entrance())
            browser.wait(lambda: browser.path() == "/")
            for name in PAGES.keys() - {"login"}:
                browser.driver.get(server.url + PAGES[name])
                equal((browser.one("html").get_attribute("class"), bool(browser.one("h1").get_attribute("textContent"))), ("", True))
                equal([each.text for each in browser.all("[data-copy], [data-pause]") if each.is_displayed()], [])

        with check("without a script a queue is paused, a job run, a queue purged"):
            browser.driver.get(server.url + "/queue?db=0&name=reports")
            browser.click("Pause", "#bar")
            browser.click("Resume", "#bar")
            browser.button("Pause", "#bar")
            equal(stats(raw, "reports")["paused"], b"no")
            browser.driver.get(server.url + "/job?db=0&queue=emails&id=welcome-32")
            browser.click("Run now")
            browser.wait(lambda: "The job is due now." in browser.text())
            equal(state(raw, "emails", "welcome-32"), "ready")
            raw.call("DELAY.ADD", "older", "1h", "x")
            browser.driver.get(server.url + "/queue?db=0&name=older")
            browser.click("More…")
            browser.click("Purge…")
            browser.one("details[open] input[name=typed]").send_keys("older")
            browser.click("Purge")
            browser.wait(lambda: "1 job was removed" in browser.text())
            equal(stats(raw, "older")["delayed"], 0)


def wall(raw, browser):
    with check("on a wall of any width each number fits into its box, whatever it is"):
        browser.go("/wall")
        for width in (1024, 1440, 1920, 2560, 3840):
            browser.screen(width, width * 9 // 16, "dark")
            for value, length in (("0.6 ms", "middle"), ("38,794", "middle"), ("2,038,794", "long"), ("12,038,794,111", "longest")):
                cut = browser.run(
                    "return [...document.querySelectorAll('.fit')].filter((fit) => {"
                    "  const [number, box] = [fit.querySelector('strong'), fit.querySelector('.figure')];"
                    "  [number.textContent, fit.className] = [arguments[0], 'fit ' + arguments[1]];"
                    "  const range = document.createRange(); range.selectNodeContents(number);"
                    "  return range.getBoundingClientRect().right > box.getBoundingClientRect().right;"
                    "}).length",
                    value,
                    length,
                )
                equal((width, value, cut), (width, value, 0))
        browser.look("wide", "light")

    with check("on a telephone the header leaves the screen to the page"):
        browser.screen(390, 844, "light")
        browser.go("/queue?db=0&name=emails")
        equal(browser.run("return document.querySelector('.top').offsetHeight") <= 104, True)
        browser.look("wide", "light")


def gone():
    with Console("--appendonly", "no") as server, Browser(server.url) as browser:
        with check("the numbers of a server that is gone are grey"):
            browser.go(server.entrance())
            browser.go("/queues")
            is_stale = lambda: browser.run("return document.documentElement.classList.contains('stale')")
            browser.wait(lambda: browser.button("Live") and not is_stale())
            server.stop()
            browser.wait(is_stale)
            equal(browser.run("return getComputedStyle(document.querySelector('#state')).opacity") < "1", True)


def lost():
    with Console("--requirepass", "sesame", "--appendonly", "no") as server, Browser(server.url) as browser, server.raw() as raw:
        raw.call("AUTH", "sesame")
        with check("who logs in comes to the page that was asked for"):
            browser.go("/queues?by=dead")
            browser.wait(lambda: browser.path().startswith("/login?back="))
            equal(browser.driver.switch_to.active_element.get_attribute("name"), "password")
            browser.press("wrong", Keys.ENTER)
            browser.wait(lambda: "The user or the password is wrong." in browser.text())
            browser.press("sesame", Keys.ENTER)
            browser.wait(lambda: browser.path() == "/queues?by=dead")

        with check("a lost session leads to the login by itself"):
            raw.call("CLIENT", "KILL", "USER", "default", "SKIPME", "yes")
            browser.wait(lambda: browser.path().startswith("/login"))
            equal(browser.one("input[name=password]").is_displayed(), True)


def worker(port, done):
    """Takes thumbnails and finishes them until it is told to stop."""
    with Raw("127.0.0.1", port) as raw:
        while not done.is_set():
            for job in raw.call("DELAY.RESERVE", "1", "1", "thumbnails", "COUNT", "5") or []:
                raw.call("DELAY.ACK", job[0], job[1], job[3])


def for_readme(server, raw, browser):
    """Two pictures, of a server that has been at work for a while."""
    folder = os.path.join(ROOT, "docs", "images")
    os.makedirs(folder, exist_ok=True)
    done = threading.Event()
    taking = threading.Thread(target=worker, args=(server.port, done))
    taking.start()
    try:
        for n in range(900):
            raw.call("DELAY.ADD", "thumbnails", f"{200 + n * 37 % 2000}ms", "x")
            time.sleep(0.02 + 0.02 * (n // 150 % 2))
        browser.go(server.entrance())
        browser.wait(lambda: browser.path() == "/")
        for name, path in (("overview", "/"), ("queue", "/queue?db=0&name=emails&tab=delayed&zoom=hour")):
            browser.go(path)
            file = os.path.join(folder, f"console-{name}.png")
            browser.picture(file)
            print(f"{file}: {os.path.getsize(file)} bytes")
            equal(os.path.getsize(file) < 150_000, True)
    finally:
        done.set()
        taking.join()


def main():
    readme = "--for-readme" in sys.argv
    journal = [] if readme else ["--appendonly", "no"]
    with Console(*journal) as server, server.raw() as raw, Browser(server.url) as browser:
        traffic(raw, 8 if readme else 1)
        if readme:
            return for_readme(server, raw, browser)
        pages(server, browser)
        sizes(server, browser)
        for act in (updates, arrival, by_mouse, by_keys):
            act(raw, browser)
        wall(raw, browser)
        colours(browser)
        without_script(server, raw)
        with check("nothing was complained of meanwhile"):
            equal([line for line in browser.errors() if "/search" not in line], [])
    lost()
    gone()
    finish()


main()
