"""A port that processes share, which no other server has."""

import contextlib
import socket

import pytest

from schemas.errors import InputError
from serving.config import ServeConfig
from serving.fleet.ports import HeldPort, with_ports


def test_a_port_is_held_for_workers_alone():
    held = HeldPort("127.0.0.1", 0, "--port")
    shared = socket.socket()
    try:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            shared.setsockopt(socket.SOL_SOCKET, option, 1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", held.number))
        shared.bind(("127.0.0.1", held.number))
        shared.listen()
        for _ in range(20):  # none goes to the holder
            socket.create_connection(("127.0.0.1", held.number)).close()
            shared.accept()[0].close()
        with pytest.raises(InputError, match=r"^--port: cannot listen on 127.0.0.1:\d+: Address already in use"):
            HeldPort("127.0.0.1", held.number, "--port")  # as another fleet would
    finally:
        shared.close()
        held.close()


def test_a_server_gets_the_numbers_of_its_ports_and_keeps_those_that_it_does_not_open():
    with contextlib.ExitStack() as stack:
        config = with_ports(ServeConfig(port=0, http_port=0, processes=2), stack)
        assert config.port > 0
        assert config.http_port > 0
        assert config.port != config.http_port
        assert (config.probe_port, config.metrics_port) == (-1, -1)
