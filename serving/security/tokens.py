"""Valid tokens, from a file that may change while the server runs."""

import hashlib
import hmac
import pathlib
import re
import string
from typing import NamedTuple

from schemas.errors import InputError
from schemas.text_file import read_text
from serving.security.reread import Reread

_NAME_DIGITS = 8  # of the token's SHA-256
# RFC 6750's b64token: an HTTP header may change other characters.
_ALLOWED = frozenset(string.ascii_letters + string.digits + "-._~+/=")
_LIMITS = re.compile(r"(roles=(?P<roles>\S+))?( ?models=(?P<models>\S+))?")

CALL, RELOAD, METRICS = "call", "reload", "metrics"
ROLES = frozenset([CALL, RELOAD, METRICS])
"""What a token may permit: to ask, to change what is served, and to read the metrics."""


class Holder(NamedTuple):
    """The holder of a token: a name that does not reveal it, and what it permits.

    Attributes:
        name: it has some digits of the token's digest.
        roles: what the token permits, some of `ROLES`.
        models: the names of the models to which `CALL` is limited, None for all.
    """

    name: str
    roles: frozenset[str]
    models: frozenset[str] | None


class TokenFile:
    """The tokens in a file, one per line, except blank lines and lines that begin with #. For use from any thread.

    A line such as `TOKEN roles=call,metrics` limits what the token permits, and one such as `TOKEN models=adults`
    permits calls of some models; a token alone permits everything.

    The file is read again when it changes. While it cannot be read, is faulty or has no token, the earlier tokens stay
    valid, and the log says so once, without a token.

    Raises:
        InputError: the file cannot be read, a line is not a token, or there is no token.
    """

    def __init__(self, path: pathlib.Path):
        self._digests = Reread([path], lambda: _digests(path), "the earlier tokens stay valid")

    def holder_of(self, token: str) -> Holder | None:
        """Returns the holder of a token in the file, None for any other token.

        The time that it takes depends only on the number of tokens.
        """
        digest = _digest(token)  # of constant length, so that the time does not reveal a token's length
        accepted = None
        for known, holder in self._digests.current().items():
            if hmac.compare_digest(known, digest):
                accepted = holder
        return accepted


def read_tokens(path: pathlib.Path) -> dict[str, Holder]:
    """Returns the tokens in a file, at least one, with what each permits.

    Raises:
        InputError: it cannot be read, a line is not a token with or without limits, a token occurs twice, or there is
            none. No message contains a token.
    """
    tokens: dict[str, Holder] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        token, *limits = line.split() or [""]
        if not token or token.startswith("#"):
            continue
        limited = _LIMITS.fullmatch(" ".join(limits))
        if not is_token(token) or limited is None:
            raise InputError(
                f"{path}:{number}: expected a token of letters, digits and -._~+/= without spaces, and behind it at "
                "most roles=... and models=..."
            )
        models = None if limited["models"] is None else frozenset(limited["models"].split(","))
        roles = frozenset(limited["roles"].split(",")) if limited["roles"] else ROLES if models is None else {CALL}
        if not roles <= ROLES:
            raise InputError(f"{path}:{number}: expected roles= with some of {', '.join(sorted(ROLES))}, and commas")
        if models is not None and roles != {CALL}:
            raise InputError(f"{path}:{number}: models= limits calls: leave out other roles, which are for all models")
        if token in tokens:
            raise InputError(f"{path}:{number}: this token is also on an earlier line: leave one of them")
        name = f"token {_digest(token).hex()[:_NAME_DIGITS]}"
        tokens[token] = Holder(name, frozenset(roles), models)
    if not tokens:
        raise InputError(f"{path}: expected one token per line, found none")
    return tokens


def is_token(text: str) -> bool:
    """Returns whether `text` is a token."""
    return bool(text) and _ALLOWED.issuperset(text)


def _digests(path: pathlib.Path) -> dict[bytes, Holder]:
    return {_digest(token): holder for token, holder in read_tokens(path).items()}


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
