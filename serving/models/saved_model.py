"""A SavedModel in a TensorFlow session of its own."""

import copy
import logging
import os
import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2


class SavedModel:
    """Runs the signatures of the SavedModel in a folder, from any number of threads.

    A session imports the graph as a whole, as TensorFlow Serving does. `tf.saved_model.load` makes a Python object of
    each operation, during which calls in other threads wait for the interpreter again and again.

    Args:
        folder: the SavedModel.
        grappler: whether Grappler rewrites the graph, which slows loading down and speeds no run up
            (`benchmarks/loading.py`).

    Raises:
        Exception: any of several kinds, if the SavedModel is damaged.
    """

    def __init__(self, folder: pathlib.Path, grappler: bool = False):
        config = tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        with graph.as_default():
            meta_graph = tf.compat.v1.saved_model.load(self._session, [tf.saved_model.SERVING], os.fspath(folder))
        graph.finalize()
        # Copied, as a reference to a part of a message keeps all of it in memory.
        self.signatures = {name: copy.deepcopy(value) for name, value in meta_graph.signature_def.items()}
        self._inputs, self._outputs = {}, {}
        for name, signature in self.signatures.items():
            if signature.inputs:  # the one that initialises tables is an operation, not a function
                self._inputs[name] = _tensors(graph, signature.inputs)
                self._outputs[name] = _tensors(graph, signature.outputs)

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by alias.

        Args:
            signature: its name, a key of `signatures`.
            inputs: by alias, of the types and shapes that the signature declares.

        Raises:
            KeyError: there is no such signature, or it has no such input.
            ValueError: an input has another shape.
            tf.errors.OpError: the graph failed, or an input is missing.
        """
        tensors = self._inputs[signature]
        outputs: dict[str, np.ndarray] = self._session.run(
            self._outputs[signature], {tensors[alias]: value for alias, value in inputs.items()}
        )
        return outputs


def _tensors(graph: tf.Graph, named: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, tf.Tensor]:
    return {alias: graph.get_tensor_by_name(info.name) for alias, info in named.items()}


def _is_for_operators(record: logging.LogRecord) -> bool:
    """Returns whether to log a record of TensorFlow's, except its paths and its advice on the deprecated loader."""
    return record.levelno > logging.INFO and "is deprecated" not in record.getMessage()


tf.get_logger().addFilter(_is_for_operators)
