"""Runs the warm-up requests of a version, so that no client waits for TensorFlow to initialise."""

import itertools
import pathlib

from schemas import directories, features
from schemas.errors import InputError
from serving.engine.engine import Engine
from serving.messages import state_message

MAX_REQUESTS = 1000
"""Largest number of requests, as in TensorFlow Serving."""


def warm_up(engine: Engine) -> None:
    """Runs one state as the typed service would."""
    state = state_message(engine.vocabulary.codes[:1])
    engine.triage([state])
    if engine.info.questions:
        engine.next_questions([state], 1)


def run_requests(engine: Engine, folder: pathlib.Path) -> int:
    """Runs the requests in `assets.extra/tf_serving_warmup_requests` of a version and returns their number.

    A version need not have the file. Requests other than Predict are skipped, as no signature takes them.

    Raises:
        InputError: the file is damaged, or the model fails on a request.
    """
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

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
