"""Text files that users name, and the error about one that cannot be read."""

import pathlib

from schemas.errors import InputError


def read_text(path: pathlib.Path, option: str = "") -> str:
    """Returns the text of a UTF-8 file.

    Args:
        path: of the file.
        option: by which the user named it, such as "--config", for errors.

    Raises:
        InputError: it cannot be read, or is not UTF-8. The cause has nothing of its content, which may be secret.
    """
    named = f"{option} {path}".lstrip()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{named}: cannot read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{named}: byte {error.start}: not UTF-8") from None
