"""Tells a caller that its request is no message of the call: gRPC would say INTERNAL, as if the server failed."""

from collections.abc import Callable
from typing import Any

from google.protobuf import message

from schemas.errors import InputError


def parse(deserializer: Callable[[bytes], Any], data: bytes) -> Any:
    """Returns the message that `data` is.

    Raises:
        InputError: it is none.
    """
    try:
        return deserializer(data)
    except message.DecodeError as error:
        raise InputError(
            "the request cannot be parsed: send a message of this call's type, as the .proto files have it"
        ) from error
