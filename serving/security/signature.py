"""Versions whose files match their signature.

`trainer.export.signing` lists the digests of a version's files, as the program `sha256sum` does, and signs the list
with Ed25519.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import file_names, read_manifest
from triage_runtime.command_line.extras import missing
from triage_runtime.storage import locations

_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_CHUNK = 2**20


@dataclasses.dataclass(frozen=True)
class VersionKey:
    """The public key that verifies signed versions.

    Attributes:
        name: the name of the key's file, for messages.
        content: the key, 32 bytes.
    """

    name: str
    content: bytes

    @classmethod
    def read(cls, path: pathlib.Path) -> "VersionKey":
        """Returns the key in a file.

        Raises:
            InputError: the file cannot be read or holds no public Ed25519 key, or the extra `signing` is not installed.
        """
        name = locations.shown(path)
        option = f"--require-signature {name}"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{option}: cannot read: {error.strerror or error}") from error
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise missing("cryptography", option, "signing") from error
        try:
            key = serialization.load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise InputError(
                f"{option}: expected a public Ed25519 key in PEM format: openssl pkey -in KEY -pubout writes that of a "
                "private key"
            )
        return cls(name, key.public_bytes_raw())

    def signed_digests(self, folder: pathlib.Path) -> dict[str, str]:
        """Returns the SHA-256 of each file of a version, by its name relative to `folder`, as they were signed.

        Raises:
            InputError: the version is not signed, or not with the private key of this one.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        path = folder / directories.CHECKSUMS
        try:
            checksums, signature = path.read_bytes(), (folder / directories.SIGNATURE).read_bytes()
        except FileNotFoundError as error:
            raise InputError(
                f"{folder}: is not signed, but --require-signature demands it: export it with --sign KEY"
            ) from error
        except OSError as error:
            raise InputError(f"{error.filename}: cannot read: {error.strerror or error}") from error
        try:
            Ed25519PublicKey.from_public_bytes(self.content).verify(signature, checksums)
        except InvalidSignature as error:
            raise InputError(
                f"{path}: was changed, or signed with a key other than that of {self.name}: publish the version again"
            ) from error
        lines = [_LINE.fullmatch(line) for line in os.fsdecode(checksums).splitlines()]
        if None in lines:
            raise InputError(f"{path}: expected lines as sha256sum writes them, a digest and the name of a file")
        return {line[2]: line[1] for line in lines if line}


@contextlib.contextmanager
def verified(folder: pathlib.Path, key: VersionKey | None) -> Iterator[pathlib.Path]:
    """Yields a copy of a version of which each byte was signed, in a temporary folder that only this user can change.

    What is loaded from it is thus what was verified. An InputError of the block names the version in place of the copy.
    Without a key, `folder` itself is yielded.

    Raises:
        InputError: the version is not what was signed, has another number, or cannot be copied.
    """
    if key is None:
        yield folder
        return
    digests, there = key.signed_digests(folder), file_names(folder)
    if added := sorted(there - digests.keys()):
        raise InputError(f"{folder / added[0]}: is not among the files that were signed: publish the version again")
    if missing := sorted(digests.keys() - there):
        raise InputError(f"{folder / missing[0]}: was signed, and is missing: publish the version again")
    with tempfile.TemporaryDirectory(prefix="triage-signed-") as scratch:
        copy = pathlib.Path(scratch) / folder.absolute().name
        for name, digest in digests.items():
            if _copy(folder / name, copy / name) != digest:
                raise InputError(f"{folder / name}: is not the file that was signed: publish the version again")
        with locations.standing_for({str(copy): str(folder)}):
            number = read_manifest(copy).get("model_version")
            if number != copy.name:  # otherwise an old version could come back as the newest
                raise InputError(f"{folder}: was signed as version {number}: give it that number")
            yield copy


def _copy(source: pathlib.Path, target: pathlib.Path) -> str:
    """Copies a file, and returns the SHA-256 of what was copied.

    Raises:
        InputError: it cannot be read or written.
    """
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(source, "rb") as file, open(target, "wb") as copy:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                copy.write(chunk)
    except OSError as error:
        raise InputError(
            f"{source}: cannot copy it to {target.parent}, to verify it: {error.strerror or error}"
        ) from error
    return digest.hexdigest()
