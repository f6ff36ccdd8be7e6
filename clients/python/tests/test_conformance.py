"""Every scenario of clients/conformance, with threads, asyncio and processes; with threads also on a server of four partitions."""

from __future__ import annotations

import concurrent.futures

import pytest
from scenarios import Run, scenarios

ALL = {f"{mode}: {scenario['name']}": (scenario, mode) for scenario, mode in scenarios()}
ALL |= {f"partitions: {scenario['name']}": (scenario, mode, 4) for scenario, mode in ALL.values() if mode == "threads"}
AT_A_TIME = 6


@pytest.fixture(scope="module")
def runs(request):
    """They wait more than they work, so some run at a time; only those that were asked for."""
    wanted = [item.callspec.params["name"] for item in request.session.items if "name" in getattr(item, "callspec", _None).params]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {name: pool.submit(lambda name=name: Run(*ALL[name]).run()) for name in wanted if name in ALL}


class _None:
    params: dict = {}


@pytest.mark.parametrize("name", ALL)
def test_scenario(runs, name):
    runs[name].result()


def test_all_rules_are_numbers_of_the_rules():
    from scenarios import FOLDER

    text = (FOLDER.parent / "RULES.md").read_text()
    for scenario, *_ in ALL.values():
        assert scenario["rules"] and all(f"\n{number}. " in text for number in scenario["rules"]), scenario["name"]
