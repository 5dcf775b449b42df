"""TensorFlow Serving's file of batching parameters: a `BatchingParameters` message in text format.

`tensorflow-serving-api` does not contain its .proto file, so its fields are declared here, in a descriptor pool of
their own.
"""

import dataclasses
import itertools
import pathlib
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from schemas.errors import InputError
from schemas.text_file import read_text

_LARGEST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """How requests are batched, with TensorFlow Serving's names; the defaults are our own (docs/serving.md).

    Raises:
        InputError: a number is out of its range.
    """

    max_batch_size: int = 64  # evidence states
    batch_timeout_micros: int = 2000  # longest time that a batch waits for more requests
    max_enqueued_batches: int = 16
    num_batch_threads: int = 1  # batches that run at once
    allowed_batch_sizes: tuple[int, ...] = ()  # batches are padded to these sizes; by default they are not padded

    def __post_init__(self) -> None:
        for name, least in (
            ("max_batch_size", 1),
            ("batch_timeout_micros", 0),
            ("max_enqueued_batches", 1),
            ("num_batch_threads", 1),
        ):
            value = getattr(self, name)
            if not least <= value <= _LARGEST:
                raise InputError(f"{name} {value}: expected a whole number from {least} to {_LARGEST}")
        sizes = self.allowed_batch_sizes
        rising = all(1 <= size < larger for size, larger in itertools.pairwise(sizes))
        if sizes and not (rising and sizes[0] >= 1 and sizes[-1] == self.max_batch_size):
            raise InputError(
                f"allowed_batch_sizes {list(sizes)}: expected ascending numbers that end with max_batch_size, "
                f"{self.max_batch_size}"
            )


def read_parameters(path: pathlib.Path) -> BatchingParameters:
    """Reads a file of batching parameters; those that it omits keep their defaults.

    Raises:
        InputError: the file cannot be read, is not a BatchingParameters message, or a number is out of its range.
    """
    text = read_text(path, "--batching-parameters-file")
    try:
        message = text_format.Parse(text, _message_class()())
    except text_format.ParseError as error:
        fault = str(error).rstrip(".")
        raise InputError(
            f"--batching-parameters-file {path}:{fault}: expected TensorFlow Serving's BatchingParameters, such as "
            "max_batch_size { value: 64 }"
        ) from error
    given: dict[str, Any] = {name: getattr(message, name).value for name in _NUMBERS if message.HasField(name)}
    if message.allowed_batch_sizes:
        given["allowed_batch_sizes"] = tuple(message.allowed_batch_sizes)
    try:
        return BatchingParameters(**given)
    except InputError as error:
        raise InputError(f"--batching-parameters-file {path}: {error}") from error


_NUMBERS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
_NAMES = ("thread_pool_name",)  # accepted, and without effect here
# Also without effect: evidence is always padded, and large requests always run alone.
_FLAGS = ("pad_variable_length_inputs", "enable_large_batch_splitting")


def _message_class() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="batching_parameters.proto", package="triage.batching", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name="BatchingParameters")

    def add(name: str, kind: int, **options: Any) -> None:
        message.field.add(name=name, number=len(message.field) + 1, type=kind, label=field.LABEL_OPTIONAL, **options)

    for name in _NUMBERS:
        add(name, field.TYPE_MESSAGE, type_name=".google.protobuf.Int64Value")
    for name in _NAMES:
        add(name, field.TYPE_MESSAGE, type_name=".google.protobuf.StringValue")
    message.field.add(
        name="allowed_batch_sizes", number=len(message.field) + 1, type=field.TYPE_INT64, label=field.LABEL_REPEATED
    )
    add(_FLAGS[0], field.TYPE_BOOL)
    add(_FLAGS[1], field.TYPE_MESSAGE, type_name=".google.protobuf.BoolValue")
    pool = descriptor_pool.DescriptorPool()
    wrappers = descriptor_pb2.FileDescriptorProto()
    wrappers_pb2.DESCRIPTOR.CopyToProto(wrappers)
    pool.Add(wrappers)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("triage.batching.BatchingParameters"))
