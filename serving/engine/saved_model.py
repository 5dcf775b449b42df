"""A SavedModel in a TensorFlow session of its own, and the engines that run it."""

import copy
import itertools
import logging
import os
import pathlib
import queue
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import prediction_log_pb2

from schemas import directories, features, parity
from schemas.errors import InputError, first_line
from serving.engine.engine import EncodingEngine, Engine
from serving.engine.litert import MOST_ASKED, MOST_STATES, InterpreterPool, ask_each, read_litert_model
from triage_runtime.litert import LiteRtModel

_LOGGER = logging.getLogger(__name__)
MAX_REQUESTS = 1000
"""Largest number of warm-up requests, as in TensorFlow Serving."""


def _tensors(graph: tf.Graph, named: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, tf.Tensor]:
    return {alias: graph.get_tensor_by_name(info.name) for alias, info in named.items()}


def _is_for_operators(record: logging.LogRecord) -> bool:
    """Returns whether to log a record of TensorFlow's, except its paths and its advice on the deprecated loader."""
    return record.levelno > logging.INFO and "is deprecated" not in record.getMessage()


tf.get_logger().addFilter(_is_for_operators)


class SavedModelEngine(EncodingEngine):
    """Runs the SavedModel of one version.

    A session imports the graph as a whole, as TensorFlow Serving does. `tf.saved_model.load` makes a Python object of
    each operation, during which calls in other threads wait for the interpreter again and again.

    Raises:
        InputError: the version is damaged.
    """

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder)
        try:
            self._load(folder)
        except Exception as error:  # TensorFlow raises ValueError, KeyError and others for a half-written model
            reason = first_line(error)
            raise InputError(f"{folder}: cannot load the SavedModel: export the model again: {reason}") from error
        for name in (features.SERVING_DEFAULT, features.STATE):
            if name not in self.signatures:
                raise InputError(f"{folder}: no signature {name!r}: expected a model from `triage export`")

    def _load(self, folder: pathlib.Path) -> None:
        config = tf.compat.v1.ConfigProto()
        # Grappler, which rewrites the graph, slows loading down and speeds no run up.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
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

    def predict(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of one signature for inputs that have been checked against `signatures`.

        Raises:
            KeyError: there is no such signature.
            tf.errors.OpError: the graph failed.
        """
        tensors = self._inputs[signature]
        outputs: dict[str, np.ndarray] = self._session.run(
            self._outputs[signature], {tensors[alias]: value for alias, value in inputs.items()}
        )
        return outputs


class SavedModelWithLiteRt(SavedModelEngine):
    """Runs small batches, and the questions of a few states, with LiteRT, and everything else with the SavedModel.

    If the TFLite file is missing or damaged, or its answers differ from the SavedModel's, the log says so, and the
    SavedModel runs everything.

    Raises:
        InputError: the SavedModel is damaged.
    """

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder)
        self.litert: InterpreterPool | None = None
        version = self.info.model_version
        try:
            model = read_litert_model(folder, self.info)
            with model.lent() as interpreter:
                fault = parity.compare(interpreter.run, super().decide, self.info)
            if fault:
                raise InputError(f"LiteRT and the SavedModel differ: {fault}")
        except InputError as error:
            _LOGGER.warning("version %s: LiteRT is not used: %s", version, error)
            return
        self.litert = model
        _LOGGER.info("version %s: LiteRT runs up to %d states at once", version, MOST_STATES)

    @property
    def brief(self) -> bool:
        """As the interpreters', if LiteRT is used."""
        return (litert := self.litert) is not None and litert.brief

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `state`, as those of `SavedModelEngine`."""
        if 0 < len(states) <= MOST_STATES:
            outputs = self._by_litert(lambda model: model.run(states, questions_asked))
            if outputs is not None:
                return outputs
        return super().decide(states, questions_asked)

    def choose_questions(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `questions`, as those of `SavedModelEngine`."""
        states, not_to_ask = inputs[features.STATES], inputs[features.NOT_TO_ASK]
        if len(states) <= MOST_ASKED and (litert := self.litert) is not None and litert.asks:
            outputs = self._by_litert(lambda model: ask_each(model, states, not_to_ask))
            if outputs is not None:
                return outputs
        return super().choose_questions(inputs)

    def _by_litert(self, run: Callable[[LiteRtModel], Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray] | None:
        """Returns the outputs of LiteRT, None where the SavedModel has to run."""
        if (litert := self.litert) is None:  # read once: another thread may give it up meanwhile
            return None
        try:
            with litert.lent(wait=False) as model:
                return run(model)
        except queue.Empty:
            return None
        except InputError as error:  # such as lack of memory; the SavedModel can still answer the caller
            version, self.litert = self.info.model_version, None
            _LOGGER.error("version %s: LiteRT failed and is no longer used: %s", version, error)
            return None


def run_warmup_requests(engine: Engine, folder: pathlib.Path) -> int:
    """Runs the requests in `assets.extra/tf_serving_warmup_requests` of a version and returns their number.

    A version need not have the file. Requests other than Predict are skipped, as no signature takes them.

    Raises:
        InputError: the file is damaged, or the model fails on a request.
    """
    path = folder / directories.WARMUP_REQUESTS
    if not path.exists():
        return 0
    done = 0
    try:
        for record in itertools.islice(tf.data.TFRecordDataset(str(path)).as_numpy_iterator(), MAX_REQUESTS):
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if log.HasField("predict_log"):
                request = log.predict_log.request
                inputs = {alias: tf.make_ndarray(tensor) for alias, tensor in request.inputs.items()}
                engine.predict(request.model_spec.signature_name or features.SERVING_DEFAULT, inputs)
                done += 1
    except Exception as error:  # a damaged record and an unfit request raise various errors
        raise InputError(f"{path}: request {done + 1} failed: {type(error).__name__}: {error}") from error
    return done
