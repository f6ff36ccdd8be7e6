"""The programs in docs/clients.md and README.md run as they are written, but for the server's address and the times."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from support import HERE, Server, end, output, until

PAGES = {"docs/clients.md": HERE.parents[2] / "docs" / "clients.md", "README.md": HERE.parent / "README.md"}


def programs(page):
    text = PAGES[page].read_text()
    found = re.findall(r"^( *)```python\n(.*?)^ *```$", text, re.S | re.M)
    return [re.sub(f"^{indent}", "", block, flags=re.M) for indent, block in found if "from delayd import" in block]


@pytest.mark.parametrize("page", PAGES)
def test_what_is_written_runs(page, tmp_path):
    workers = [block for block in programs(page) if ".run()" in block]
    producers = [block for block in programs(page) if ".run()" not in block]
    assert workers and len(producers) == 1
    with Server() as server:
        running = []
        for number, block in enumerate(workers):
            program = tmp_path / f"shop{number}.py"
            program.write_text(block.replace("9248", str(server.port)).replace('every("5m"', 'every("100ms"'))
            log = (tmp_path / f"log{number}").open("wb+")
            running.append(subprocess.Popen([sys.executable, "-u", program], stdout=log, stderr=log))
            running[-1].log = log
        for block in producers:
            exec(compile(block.replace("9248", str(server.port)), page, "exec"), {})
            kept = server.call("DELAY.GET", "emails", "mail:7")
            assert (kept is None) == ("cancel" in block)
        server.call("DELAY.ADD", "emails", "0", '{"to": "ada"}')
        until(lambda: server.stats("emails").get("acked") == 1)
        if len(workers) > 1:
            until(lambda: "every five minutes" in output(running[1]))
            server.call("DELAY.SCHEDULE", "RUN", "reports", "shop:report")
            until(lambda: "each weekday" in output(running[1]))
        for process in running:
            assert end(process) == 0, output(process)
        assert "ada" in output(running[0])
