"""Valid tokens, from a file that may change while the server runs."""

import hashlib
import hmac
import logging
import os
import pathlib
import string
import threading

from schemas.errors import InputError

_LOGGER = logging.getLogger(__name__)

# RFC 6750's b68token: an HTTP header may change other characters.
_NAME_DIGITS = 8  # of the token's SHA-256
_ALLOWED = frozenset(string.ascii_letters + string.digits + "-._~+/=")


class TokenFile:
    """The tokens in a file, one per line, except blank lines and lines that begin with #. For use from any thread.

    The file is read again when it changes. While it cannot be read, is faulty or has no token, the earlier tokens stay
    valid, and the log says so once, without a token.

    Raises:
        InputError: the file cannot be read, a line is not a token, or there is no token.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._lock = threading.Lock()
        self._state = self._look()
        self._digests = _digests(read_tokens(path))

    def name_of(self, token: str) -> str | None:
        """Returns a name for a token in the file, which does not reveal it, and None for any other.

        The time that it takes depends only on the number of tokens.
        """
        digest = _digest(token)  # of constant length, so that the time does not reveal a token's length
        accepted = False
        for known in self._current():
            accepted |= hmac.compare_digest(known, digest)
        return f"token {digest.hex()[:_NAME_DIGITS]}" if accepted else None

    def _current(self) -> tuple[bytes, ...]:
        with self._lock:
            state = self._look()
            if state != self._state:
                self._state = state  # even of a faulty file, which is reported once
                try:
                    self._digests = _digests(read_tokens(self._path))
                    _LOGGER.info("%s: read again, %d tokens", self._path, len(self._digests))
                except InputError as error:
                    _LOGGER.error("%s; the earlier tokens stay valid", error)
            return self._digests

    def _look(self) -> tuple[int, ...] | None:
        """Returns values that change with the file, None while it cannot be read."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def read_tokens(path: pathlib.Path) -> list[str]:
    """Returns the tokens in a file, at least one.

    Raises:
        InputError: it cannot be read, a line is not a token, or there is no token. No message contains a token.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise InputError(
            f"{path}: expected text with one token per line"
        ) from None  # the cause would contain the tokens
    tokens = []
    for number, line in enumerate(lines, start=1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if not is_token(token):
            raise InputError(f"{path}:{number}: expected a token of letters, digits and -._~+/= without spaces")
        tokens.append(token)
    if not tokens:
        raise InputError(f"{path}: expected one token per line, found none")
    return tokens


def is_token(text: str) -> bool:
    """Returns whether `text` is a token."""
    return bool(text) and _ALLOWED.issuperset(text)


def _digests(tokens: list[str]) -> tuple[bytes, ...]:
    return tuple(_digest(token) for token in tokens)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
