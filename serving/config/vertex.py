"""The variables that Vertex AI sets for a custom container: where to listen, at which paths, on which model."""

import os
from typing import Any

from schemas.errors import InputError

PORT, PREDICT, HEALTH, STORAGE = "AIP_HTTP_PORT", "AIP_PREDICT_ROUTE", "AIP_HEALTH_ROUTE", "AIP_STORAGE_URI"


def defaults() -> dict[str, Any]:
    """Returns the settings of `triage serve` that Vertex AI's variables stand for, by their names in ServeConfig.

    The service itself speaks plain HTTP to the container, on any address, and encrypts what it receives. It does not
    call gRPC, which stays on loopback.

    Raises:
        InputError: the port is not a number.
    """
    port = os.environ.get(PORT)
    if not port:
        return {}
    if not (port.isascii() and port.isdecimal()):
        raise InputError(f"{PORT} {port!r}: expected the number of a port")
    return {"http_port": int(port), "http_host": "0.0.0.0", "insecure": True}  # noqa: S104


def model_base_path() -> str | None:
    """Returns where Vertex AI put the model, None elsewhere."""
    return os.environ.get(STORAGE) or None


def routes() -> tuple[str | None, str | None]:
    """Returns the paths for predictions and for health that Vertex AI chose, None elsewhere."""
    return os.environ.get(PREDICT) or None, os.environ.get(HEALTH) or None
