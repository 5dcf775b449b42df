"""Evidence rates in the training split of a data directory, for comparison with served cases."""

import pathlib

import tensorflow as tf
from google.protobuf.message import DecodeError

from schemas import directories, features
from schemas.errors import InputError
from schemas.reference import Reference


def read_reference(data: pathlib.Path) -> Reference:
    """Returns how often each piece of evidence is present and absent in the vignettes of the training split.

    The number of pieces and the urgencies are left out, as it is unknown at which point of a whole vignette a version
    would decide.

    Raises:
        InputError: it is not a data directory, or a file in it is damaged.
    """
    try:
        names = sorted(path.name for path in data.iterdir())
    except OSError as error:
        raise InputError(f"--data {data}: cannot read: {error.strerror or error}") from error
    shards = [name for name in names if (parts := directories.shard_parts(name)) and parts[0] == "train"]
    if not shards:
        raise InputError(f"--data {data}: no training shards: expected a data directory from triage prepare")
    cases = 0
    counts: dict[str, dict[str, float]] = {features.PRESENT: {}, features.ABSENT: {}}
    for name in shards:
        try:
            for serialized in tf.data.TFRecordDataset(str(data / name)).as_numpy_iterator():
                feature = tf.train.Example.FromString(serialized).features.feature
                cases += 1
                for status, counted in counts.items():
                    for code in {*feature[status].bytes_list.value}:
                        text = code.decode()
                        counted[text] = counted.get(text, 0.0) + 1
        except (tf.errors.OpError, DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{data / name}: not a shard of vignettes: prepare the data again") from error
    if not cases:
        raise InputError(f"--data {data}: the training split has no vignettes")
    return Reference(
        f"whole vignettes of {data}, training split", cases, counts[features.PRESENT], counts[features.ABSENT]
    )
