"""Objects in a store such as `gs://`, through TensorFlow's `tf.io.gfile`, which loads with the first call."""

import contextlib
from collections.abc import Iterator

from schemas.errors import InputError, first_line


def names(uri: str) -> list[str]:
    """Returns the names of the objects below `uri`, relative to it: `[""]` if it is an object, `[]` if there are none.

    Args:
        uri: without a slash at its end.
    """
    import tensorflow as tf

    files = tf.io.gfile
    if not files.isdir(uri):
        return [""] if files.exists(uri) else []
    below = []
    for folder, _, objects in files.walk(uri):
        path = folder.rstrip("/").removeprefix(uri).strip("/")
        # Some tools create an empty object whose name ends with a slash to mark a folder.
        below += ["/".join(filter(None, (path, name))) for name in objects if name and not name.endswith("/")]
    return sorted(below)


def copy(source: str, target: str) -> None:
    """Copies a file or an object, overwriting the target."""
    import tensorflow as tf

    tf.io.gfile.copy(source, target, overwrite=True)


def remove(uri: str) -> None:
    """Deletes an object."""
    import tensorflow as tf

    tf.io.gfile.remove(uri)


@contextlib.contextmanager
def faults(text: str) -> Iterator[None]:
    """Turns the store's errors in the block into an InputError that begins with `text`."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        advice = "check the address, and that this machine's account may use it"
        raise InputError(f"{text}: {first_line(error)}: {advice}") from error
