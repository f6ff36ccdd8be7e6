"""A server with a console, and Chromium as a person there has it: pages, keys, colours, sizes."""

import http.client
import os
import shutil
import tempfile

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from harness import Raw, Server, free_port, until

SIZES = {"wide": (1280, 800), "middle": (768, 1024), "narrow": (360, 640)}
THEMES = ("light", "dark")


class Console(Server):
    """A server with a console."""

    def __init__(self, *flags):
        self.console = free_port()
        super().__init__("--console-port", str(self.console), *flags)
        self.url = f"http://127.0.0.1:{self.console}"
        until(self.listens)

    def listens(self):
        try:
            return http.client.HTTPConnection("127.0.0.1", self.console, timeout=5).connect() is None
        except OSError:
            return False

    def raw(self):
        return Raw("127.0.0.1", self.port)

    def entrance(self):
        """Where the link leads that a server without a password puts into its folder."""
        with open(os.path.join(self.home.name, "console-link")) as file:
            return file.read().strip().removeprefix(self.url)


class Browser:
    """A browser with a profile of its own, that goes with it."""

    def __init__(self, url, script=True):
        self.url, self.profile = url, tempfile.TemporaryDirectory(prefix="delayd-chromium-", ignore_cleanup_errors=True)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in (
            "headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run", "disable-background-networking",
            "disable-component-update", "disable-extensions", f"user-data-dir={self.profile.name}", "window-size=1280,900",
        ):
            options.add_argument("--" + word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        if not script:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"), env=dict(os.environ, HOME=self.profile.name))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(20)
        self.look("wide", "light")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        self.profile.cleanup()

    def look(self, size, theme):
        """What the page is shown at; nothing moves, so that colours are what they come to."""
        self.screen(*SIZES[size], theme)

    def screen(self, width, height, theme):
        """As look, at any size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})

    def go(self, path):
        """Loads a page as a first visitor would, nothing of it kept; the status of the answer."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        self.driver.get(self.url + path)
        return self.run("return performance.getEntriesByType('navigation')[0].responseStatus")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition, seconds=10):
        """Returns what the condition comes to, once it is something. What it looks at may be replaced meanwhile."""
        gone = (NoSuchElementException, StaleElementReferenceException)

        def holds(_):
            try:
                return condition()
            except WebDriverException as error:
                # Chromium's own words for an element that is stale, where the driver does not translate them.
                if "does not belong to the document" in str(error.msg):
                    return False
                raise

        return WebDriverWait(self.driver, seconds, 0.02, ignored_exceptions=gone).until(holds)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def button(self, words, inside=""):
        """What is pressed, by its words."""
        find = (
            "return ['button', 'summary', 'a'].flatMap((kind) => [...document.querySelectorAll(`${arguments[0]} ${kind}`)])"
            ".find((each) => each.checkVisibility({ visibilityProperty: true }) && each.innerText.trim() === arguments[1])"
        )
        return self.wait(lambda: self.run(find, inside, words))

    def click(self, words, inside=""):
        """Presses a button by its words."""
        self.wait(lambda: self.button(words, inside).click() is None)

    def press(self, *keys):
        """Keys for whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def path(self):
        return self.driver.current_url.removeprefix(self.url)

    def text(self):
        return self.one("body").text

    def message(self):
        return self.run("return document.querySelector('#message')?.textContent.trim()")

    def figure(self, label):
        """The large number below a word."""
        return self.run(
            "return [...document.querySelectorAll('.figure')].find((each) => each.querySelector('.label').textContent === arguments[0])"
            "?.querySelector('strong').textContent",
            label,
        )

    def errors(self):
        """What was written into the console since it was last asked, warnings of rules included."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(self.driver.get_screenshot_as_png())


__all__ = ["Browser", "Console", "Keys", "SIZES", "THEMES"]
