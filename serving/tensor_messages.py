"""Arrays as TensorProtos that clients without TensorFlow can read: with their values, not with `tensor_content`."""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

VALUE_FIELDS = {tf.float32: "float_val", tf.int32: "int_val", tf.bool: "bool_val", tf.string: "string_val"}
"""The field with the values of each type that a signature has; TensorFlow Serving fills these as well."""


def to_message(values: np.ndarray) -> tensor_pb2.TensorProto:
    """Returns the tensor of an array; strings are an array of objects."""
    field = VALUE_FIELDS.get(tf.as_dtype(values.dtype))
    if field is None:
        return tf.make_tensor_proto(values)
    tensor = tensor_pb2.TensorProto(dtype=tf.as_dtype(values.dtype).as_datatype_enum)
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)
    getattr(tensor, field).extend(values.ravel().tolist())
    return tensor
