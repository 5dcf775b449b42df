"""Ports that several processes listen on."""

import contextlib
import dataclasses
import socket
from typing import Any

from schemas.errors import InputError
from serving.config import ServeConfig


class HeldPort:
    """Holds a port that workers then listen on; nobody can connect to it here.

    Args:
        host: the address.
        port: the number, 0 for any free one.
        option: its name, for the message.

    Raises:
        InputError: another server listens there.
    """

    def __init__(self, host: str, port: int, option: str):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            with socket.socket(family) as alone:  # another fleet would share its port
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind((host, port))
                number = alone.getsockname()[1]
            for shared in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                self._socket.setsockopt(socket.SOL_SOCKET, shared, 1)
            self._socket.bind((host, number))
        except OSError as error:
            self._socket.close()
            raise InputError(
                f"{option}: cannot listen on {host}:{port}: {error.strerror or error}: is another server running "
                f"there? Choose another {option}, or 0 for any free port; --host must be an address of this machine"
            ) from error
        self.number: int = number

    def close(self) -> None:
        """Releases the port."""
        self._socket.close()


def with_ports(config: ServeConfig, stack: contextlib.ExitStack) -> ServeConfig:
    """Returns `config` with the numbers of its ports, which are held until `stack` closes."""
    numbers: dict[str, Any] = {}
    for name in ("port", "http_port", "probe_port"):
        if getattr(config, name) >= 0:
            held = HeldPort(config.host, getattr(config, name), f"--{name.replace('_', '-')}")
            stack.callback(held.close)
            numbers[name] = held.number
    return dataclasses.replace(config, **numbers)
