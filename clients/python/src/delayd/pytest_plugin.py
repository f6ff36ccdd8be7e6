"""Fixtures for pytest: a server for the whole run, emptied before each test that asks for it."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import pytest

from .server import Server


@pytest.fixture(scope="session")
def delayd_options() -> Dict[str, Any]:
    """Options of the server, as `delayd.Server` takes them; a conftest.py overrides it."""
    return {}


@pytest.fixture(scope="session")
def _delayd_of_session(delayd_options: Dict[str, Any]) -> Iterator[Server]:
    with Server(**delayd_options) as server:
        yield server


@pytest.fixture
def delayd_server(_delayd_of_session: Server) -> Server:
    """A running `delayd.Server` without jobs. With pytest-xdist each worker has one of its own."""
    _delayd_of_session.empty()
    return _delayd_of_session


@pytest.fixture
def delayd_client(delayd_server: Server) -> Iterator[Any]:
    """A client of redis-py, connected to `delayd_server`; the test is skipped where redis-py is not installed."""
    redis = pytest.importorskip("redis", reason="redis-py is not installed")
    with redis.Redis.from_url(delayd_server.url) as client:
        yield client
