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
    """Runs the signatures of the SavedModel in a folder; calls come from several threads at once.

    A session takes the graph over whole, as TensorFlow Serving does. `tf.saved_model.load` makes Python objects of its
    operations instead, and calls that other threads answer meanwhile wait for the interpreter again and again.

    Args:
        folder: of the SavedModel.
        grappler: whether Grappler rewrites the graph, which makes loading longer and no run shorter
            (`benchmarks/loading.py`).

    Raises:
        Exception: of one of many kinds, where the SavedModel is damaged.
    """

    def __init__(self, folder: pathlib.Path, grappler: bool = False):
        config = tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        with graph.as_default():
            meta_graph = tf.compat.v1.saved_model.load(self._session, [tf.saved_model.SERVING], os.fspath(folder))
        graph.finalize()
        # Copied, as a part of a message keeps the whole of it in memory.
        self.signatures = {name: copy.deepcopy(value) for name, value in meta_graph.signature_def.items()}
        self._inputs, self._outputs = {}, {}
        for name, signature in self.signatures.items():
            if signature.inputs:  # the one that initialises the tables is an operation, not a function
                self._inputs[name] = _tensors(graph, signature.inputs)
                self._outputs[name] = _tensors(graph, signature.outputs)

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by their aliases.

        Args:
            signature: its name, a key of `signatures`.
            inputs: by their aliases, of the types and shapes that the signature states.

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
    """Whether to log a line of TensorFlow's: neither where it reads from nor its advice on the loader is."""
    return record.levelno > logging.INFO and "is deprecated" not in record.getMessage()


tf.get_logger().addFilter(_is_for_operators)
