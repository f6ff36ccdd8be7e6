"""The blocks of the written pages that a reader pastes: their language, their text, the line they begin on."""

import os
import re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks(page):
    """The fenced blocks of a page in order, as (language, text, line)."""
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
    return [(each[1], each[2], text.count("\n", 0, each.start(2)) + 1) for each in found]


def consumer(page, language):
    """The block of this language that takes jobs, without end."""
    found = [text for each, text, _ in blocks(page) if each == language and is_consumer(text)]
    if len(found) != 1:
        raise AssertionError(f"{page} has {len(found)} consumers in {language}")
    return found[0]


def is_consumer(text):
    return "DELAY.RESERVE" in text and "DELAY.ACK" in text
