"""Signs a version: the digests of all its files, as the program `sha256sum` lists them, and an Ed25519 signature.

`serving.security.signature` verifies them.
"""

import hashlib
import os
import pathlib
from typing import TYPE_CHECKING

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import file_names
from triage_runtime.command_line.extras import need

if TYPE_CHECKING:  # an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def read_key(path: pathlib.Path) -> "Ed25519PrivateKey":
    """Returns the private key in a file.

    Raises:
        InputError: the file cannot be read or holds no Ed25519 key, the key has a password, or the extra `signing` is
            not installed.
    """
    need("cryptography", "--sign", "signing")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InputError(f"--sign {path}: cannot read: {error.strerror or error}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"--sign {path}: expected a private Ed25519 key in PEM format, without a password: make one with "
            "openssl genpkey -algorithm ed25519"
        )
    return key


def sign(folder: pathlib.Path, key: "Ed25519PrivateKey") -> None:
    """Adds the list of digests and its signature to a version whose other files are complete.

    Raises:
        OSError: a file cannot be read or written.
    """
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in file_names(folder)}
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    checksums = os.fsencode("".join(lines))
    (folder / directories.CHECKSUMS).write_bytes(checksums)
    (folder / directories.SIGNATURE).write_bytes(key.sign(checksums))
