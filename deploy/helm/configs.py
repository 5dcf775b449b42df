"""Writes the configuration of TensorFlow Serving, for the chart and Compose: `python deploy/helm/configs.py [OUT]`.

models.config is made with the message of tensorflow-serving-api. That package lacks the other two, so MESSAGES repeats
their fields, as session_bundle_config.proto and monitoring_config.proto of TensorFlow Serving have them.
"""

import pathlib
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format, wrappers_pb2
from tensorflow_serving.config import model_server_config_pb2

FOLDER = pathlib.Path(__file__).resolve().parent / "triage" / "tensorflow-serving"
MODEL = "triage"
MODELS = "/models"
VERSIONS = 2  # the newest, and the previous one for a front server that has not loaded the newest yet
MAX_BATCH = 64
SIZES = (1, 2, 4, 8, 16, 32, MAX_BATCH)
THREADS = 2
WAIT_MICROSECONDS = 1000
METRICS = "/monitoring/prometheus/metrics"

_FIELD = descriptor_pb2.FieldDescriptorProto
_WRAPPED = ".google.protobuf.Int64Value"
MESSAGES = {
    "BatchingParameters": (
        ("max_batch_size", 1, _WRAPPED),
        ("batch_timeout_micros", 2, _WRAPPED),
        ("max_enqueued_batches", 3, _WRAPPED),
        ("num_batch_threads", 4, _WRAPPED),
        ("thread_pool_name", 5, ".google.protobuf.StringValue"),
        ("allowed_batch_sizes", 6, [_FIELD.TYPE_INT64]),
        ("pad_variable_length_inputs", 7, _FIELD.TYPE_BOOL),
    ),
    "PrometheusConfig": (("enable", 1, _FIELD.TYPE_BOOL), ("path", 2, _FIELD.TYPE_STRING)),
    "MonitoringConfig": (("prometheus_config", 1, ".tensorflow.serving.PrometheusConfig"),),
}


def message_classes() -> dict[str, type[message.Message]]:
    """Returns the class of each of MESSAGES; a list means a repeated field, a string a message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tensorflow_serving/configs.proto", package="tensorflow.serving", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, fields in MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, number, kind in fields:
            label = _FIELD.LABEL_REPEATED if isinstance(kind, list) else _FIELD.LABEL_OPTIONAL
            kind = kind[0] if isinstance(kind, list) else kind
            of_message = {"type": _FIELD.TYPE_MESSAGE, "type_name": kind} if isinstance(kind, str) else {"type": kind}
            described.field.add(name=field, number=number, label=label, **of_message)
    pool = descriptor_pool.DescriptorPool()  # a private one, as TensorFlow Serving's own files may be loaded too
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    descriptors = (pool.FindMessageTypeByName(f"tensorflow.serving.{name}") for name in MESSAGES)
    return {descriptor.name: message_factory.GetMessageClass(descriptor) for descriptor in descriptors}


def configs() -> dict[str, message.Message]:
    """Returns each file's message, by the name of the file."""
    classes = message_classes()
    models = model_server_config_pb2.ModelServerConfig()
    model = models.model_config_list.config.add(name=MODEL, base_path=MODELS, model_platform="tensorflow")
    model.model_version_policy.latest.num_versions = VERSIONS
    batching = classes["BatchingParameters"](
        max_batch_size={"value": MAX_BATCH},
        batch_timeout_micros={"value": WAIT_MICROSECONDS},
        max_enqueued_batches={"value": 100},
        num_batch_threads={"value": THREADS},
        allowed_batch_sizes=SIZES,
        # Requests have different numbers of codes; they are padded with "", which the model ignores.
        pad_variable_length_inputs=True,
    )
    monitoring = classes["MonitoringConfig"](prometheus_config={"enable": True, "path": METRICS})
    return {"models.config": models, "batching.config": batching, "monitoring.config": monitoring}


def main() -> None:
    """Writes the files."""
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, config in configs().items():
        (out / name).write_text(text_format.MessageToString(config), encoding="utf-8")


if __name__ == "__main__":
    main()
