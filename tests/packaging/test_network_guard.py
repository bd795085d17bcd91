"""The tests' own promise: nothing leaves this machine unnoticed."""

from __future__ import annotations

import contextlib
import os
import socket
import urllib.request
from pathlib import Path

import pytest


def test_a_connection_elsewhere_is_refused_and_noticed(network_attempts: list[str]) -> None:
    with contextlib.suppress(OSError):
        urllib.request.urlopen("http://example.invalid/", timeout=1)
    assert network_attempts == ["socket.getaddrinfo example.invalid"]
    network_attempts.clear()

    with socket.socket() as connection, pytest.raises(ConnectionRefusedError):
        connection.connect(("192.0.2.1", 80))
    assert network_attempts == ["socket.connect 192.0.2.1"]
    network_attempts.clear()


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()):
            pass
        with socket.create_connection(("localhost", server.getsockname()[1])):
            pass


def test_the_users_folders_are_out_of_reach() -> None:
    assert Path.home() == Path(os.environ["HOME"])
    assert Path.home().name.startswith("theseus-tests-")
