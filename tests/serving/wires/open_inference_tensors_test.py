"""Tensors of the protocol and back; the bytes are worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from schemas.errors import InputError
from serving.wires.open_inference_tensors import (
    Given,
    contents,
    datatype_of_array,
    from_contents,
    read_inputs,
    to_raw,
)
from triage.open_inference import inference_pb2

ARRAYS = {
    "FP32": (np.float32([[1.0, -2.0]]), b"\x00\x00\x80\x3f\x00\x00\x00\xc0"),
    "INT32": (np.int32([[1, -1]]), b"\x01\x00\x00\x00\xff\xff\xff\xff"),
    "BOOL": (np.array([[True, False]]), b"\x01\x00"),
    "BYTES": (np.array([[b"ab", b""]], object), b"\x02\x00\x00\x00ab\x00\x00\x00\x00"),
}


def signature(array):
    made = meta_graph_pb2.SignatureDef()
    made.inputs["x"].dtype = tf.as_dtype(array.dtype).as_datatype_enum
    return made


@pytest.mark.parametrize("datatype", ARRAYS)
def test_a_tensor_survives_the_way_as_bytes_and_as_values(datatype):
    array, raw = ARRAYS[datatype]
    assert datatype_of_array(array) == datatype
    assert to_raw(array) == raw
    for values in (raw, from_contents(contents(array), datatype)):
        (found,) = read_inputs([Given("x", datatype, [1, 2], values)], signature(array)).values()
        assert (found.tolist(), found.dtype) == (array.tolist(), array.dtype)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([Given("y", "FP32", [1], [1.0])], "no input 'y': expected x"),
        ([Given("x", "FP32", [1], [1.0])] * 2, "x: given twice"),
        ([Given("x", "INT32", [1], [1])], "x: expected the datatype FP32, got 'INT32'"),
        ([Given("x", "FP32", [-1], [1.0])], r"x: shape \[-1\]: expected numbers from 0"),
        ([Given("x", "FP32", [2], [1.0])], r"x: expected as many values of type FP32 as fill the shape \[2\]"),
        ([Given("x", "FP32", [2], b"\0" * 4)], "as many values of type FP32 as fill"),
        ([Given("x", "FP32", [1], b"\0" * 5)], "as many values of type FP32 as fill"),
        ([Given("x", "FP32", [0, 2**63], b"")], "as many values of type FP32 as fill"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(given, complaint):
    with pytest.raises(InputError, match=complaint):
        read_inputs(given, signature(np.float32([0])))


@pytest.mark.parametrize("raw", [b"\x05\x00\x00\x00ab", b"\x01\x00"])
def test_bytes_that_end_within_a_value_are_refused(raw):
    with pytest.raises(InputError, match="as many values of type BYTES"):
        read_inputs([Given("x", "BYTES", [1], raw)], signature(np.array([b""], object)))


def test_values_of_a_type_that_no_signature_has_are_not_read():
    assert list(from_contents(inference_pb2.InferTensorContents(fp64_contents=[1.0]), "FP64")) == []
