"""Tensors in JSON and back."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from schemas.errors import InputError
from serving.wires import tensor_json


def signature(**inputs):
    made = meta_graph_pb2.SignatureDef()
    for alias, (kind, rank) in inputs.items():
        info = made.inputs[alias]
        info.dtype = kind.as_datatype_enum
        for _ in range(rank):
            info.tensor_shape.dim.add(size=-1)
    return made


TWO = signature(codes=(tf.string, 2), count=(tf.int32, 1))


def test_rows_become_columns():
    rows = [{"codes": ["a", "b"], "count": 1}, {"codes": ["c", {"b64": "/w=="}], "count": 2}]
    inputs = tensor_json.read_rows(rows, TWO)
    assert inputs["codes"].tolist() == [[b"a", b"b"], [b"c", b"\xff"]]
    assert (inputs["count"].tolist(), inputs["count"].dtype) == ([1, 2], np.int32)
    columns = tensor_json.read_columns({"codes": [["a"]], "count": [1]}, TWO)
    assert columns["codes"].tolist() == [[b"a"]]


def test_whole_numbers_may_stand_for_floats_and_not_the_reverse():
    floats = signature(values=(tf.float32, 1))
    assert tensor_json.read_columns([1, 2.5], floats)["values"].tolist() == [1.0, 2.5]
    with pytest.raises(InputError, match="values: expected numbers of type int32"):
        tensor_json.read_columns([1, 2.5], signature(values=(tf.int32, 1)))
    with pytest.raises(InputError, match="values: expected numbers of type int32"):
        tensor_json.read_columns([True], signature(values=(tf.int32, 1)))


def test_outputs_are_written_in_rows_and_columns():
    outputs = {"action": np.int32([0, 4]), "label": np.array([b"Red", b"ask"], object)}
    assert tensor_json.write_columns(outputs) == {"action": [0, 4], "label": ["Red", "ask"]}
    assert tensor_json.write_rows(outputs) == [{"action": 0, "label": "Red"}, {"action": 4, "label": "ask"}]
    assert tensor_json.write_rows({"label": outputs["label"]}) == ["Red", "ask"]
    assert tensor_json.write_columns({"triage_responses": np.array([b"\xff"], object)}) == [{"b64": "/w=="}]
