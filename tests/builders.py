"""Vocabularies, networks, agents and servers of tests, with what a test is not about filled in."""

import contextlib
import csv
import io
import json
import pathlib
import zipfile
from typing import Any, NamedTuple

import grpc
import httpx
import keras
import numpy as np
import scipy.special
import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from serving.config.settings import ServeConfig
from serving.engine.model_config import ModelConfig
from serving.engine.served_models import LocalModels
from serving.engine.watcher import Watcher
from serving.server.triage_server import TriageServer
from trainer.config import NetworkConfig, TrainConfig
from trainer.data.arrays import VignetteArrays
from trainer.data.output import describe
from trainer.data.tfrecord import encode_example, write_shards
from trainer.dyqn.network import build_network
from trainer.dyqn.rollout import Outcomes
from trainer.export import saved_model
from trainer.graph.rules import RuleGraph
from trainer.training.job import JobDirectory, TrainedNetwork


def symptoms(*codes, flags=(), parents=None, exclusive=None):
    """A vocabulary of symptoms that are named by their codes, some of them red flags; also parents and groups."""
    above, groups = parents or {}, exclusive or {}
    return Vocabulary(
        Evidence(
            code, "symptom", code, f"{code}?",
            parent=above.get(code, ""), exclusive=groups.get(code, ""), red_flag="yes" * (code in flags),
        )
        for code in codes
    )  # fmt: skip


def state_of(vocabulary, present, absent=()):
    """What is known to be present and absent, float32 `[E]`."""
    state = np.zeros(len(vocabulary), np.float32)
    state[[vocabulary.index(code) for code in present]] = 1
    state[[vocabulary.index(code) for code in absent]] = -1
    return state


def fired_in(rules, vocabulary, *cases):
    """The ids of the rules that fire in each case, which is what is known to be present and to be absent."""
    rules = tuple(rules)
    states = tf.constant([state_of(vocabulary, *case) for case in cases])
    return [
        {rule.rule_id for rule, fires in zip(rules, row, strict=True) if fires}
        for row in RuleGraph(rules, vocabulary).fired(states).numpy()
    ]


def network_of(*layers, **settings):
    """A network of these layers, each a kernel and its bias: its logits are s kernel + bias where there is one."""
    kernels = [np.asarray(kernel, np.float32) for kernel, _ in layers]
    sizes = tuple(kernel.shape[1] for kernel in kernels[:-1])
    network = build_network(len(kernels[0]), NetworkConfig(hidden_sizes=sizes, **settings), seed=0)
    names = [*(f"hidden_{number}" for number in range(1, len(layers))), "q_values"]
    for name, kernel, (_, bias) in zip(names, kernels, layers, strict=True):
        network.get_layer(name).set_weights([kernel, np.broadcast_to(np.float32(bias), kernel.shape[1:])])
    return network


def random_network(count, hidden_sizes, spread, seed=1, patients=None, **settings):
    """A network whose every weight is drawn at random, biases too, so that no two cells or actions are alike."""
    network = build_network(count, NetworkConfig(hidden_sizes=hidden_sizes, **settings), 0, patients)
    generator = np.random.default_rng(seed)
    for weight in network.trainable_variables:  # a calibration stays as it is
        weight.assign(generator.normal(0, spread, weight.shape))
    return network


def sigmoid_network(**heads):
    """A network of one sigmoid layer a head, each given as its kernel and bias."""
    states = keras.Input([len(next(iter(heads.values()))[0])])
    layers = {head: keras.layers.Dense(len(bias), "sigmoid", name=head) for head, (_, bias) in heads.items()}
    model = keras.Model(states, {head: layer(states) for head, layer in layers.items()})
    for head, weights in heads.items():
        layers[head].set_weights([np.array(each, np.float32) for each in weights])
    return model


def constant_network(count, safe, appropriate, asking):
    """A network that gives these probabilities, of all four decisions, and this Q(ask), whatever is known."""
    safe, appropriate = np.array(safe), np.array(appropriate)
    given = np.concatenate([safe[1:], (safe - appropriate)[:-1], [asking]])  # the last of P(H) is 0
    return network_of((np.zeros([count, 7]), scipy.special.logit(given)), outputs="probabilities")


def trained_agent(network, vocabulary, max_questions=23, **more):
    """What a training run leaves of that network; `more` are further fields of `TrainedNetwork`."""
    fields = {"config": {}, "data_fingerprint": "sha256:data", "metrics": {}, "training": {}} | more
    return TrainedNetwork(network, vocabulary, max_questions=max_questions, **fields)


def job_of(path, network, vocabulary, config=TrainConfig()):  # noqa: B008  # it is frozen
    """The job directory that a training run leaves with the checkpoint of its step 40."""
    job = JobDirectory(path)
    job.prepare(config, vocabulary, "sha256:data")
    counters = {"step": tf.Variable(40, dtype=tf.int64), "episode": tf.Variable(9, dtype=tf.int64)}
    job.manager(tf.train.Checkpoint(chosen=network, **counters)).save(40)
    return job


def write_version(base, trained, version=None):
    """Publishes that agent as a version, by default the next one, and returns its folder."""
    with saved_model.staged(base, trained, version or saved_model.next_version(base)) as stage:
        return stage.publish()


def description_in(file):
    """The description inside a TFLite file."""
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read("triage.json"))


def arrays_of(counts, codes=((1, -2, 3),), tags=None):
    """Vignettes named v0, v1, ... with these decision counts and signed codes, the last codes repeated."""
    codes = [*codes, *[codes[-1]] * (len(counts) - len(codes))]
    ids = np.array([f"v{row}" for row in range(len(counts))], object)
    offsets = np.cumsum([0, *map(len, codes)]).astype(np.int64)
    return VignetteArrays(
        ids, offsets, np.concatenate(codes).astype(np.int16), np.array(counts, np.uint8), tags or ((),) * len(counts)
    )


def outcomes_of(decisions, questions=None):
    decisions = np.array(decisions, np.int32)
    questions = np.zeros_like(decisions) if questions is None else np.array(questions, np.int32)
    return Outcomes(decisions, questions, questions + 1, np.zeros(decisions.shape, bool))


def data_directory_of(path, vocabulary, train, test, shard_size=2):
    """A data directory of these vignettes, with as much in stats.json as is read."""
    path.mkdir()
    for split, vignettes in (("train", train), ("test", test)):
        write_shards(path, split, [encode_example(vignette) for vignette in vignettes], shard_size)
    splits = {"train": {"vignettes": len(train)}, "test": {"vignettes": len(test)}}
    stats = {"vocabulary_fingerprint": vocabulary.fingerprint, "data_fingerprint": "sha256:0", "splits": splits}
    describe(path, vocabulary, stats)
    return path


def prepared(folder, lines, vocabulary, *options):
    """The data directory that `triage prepare` makes of vignettes as JSON objects, and of a vocabulary or its file."""
    files = {"--vignettes": folder / "vignettes.jsonl", "--vocabulary": vocabulary, "--out": folder / "data"}
    files["--vignettes"].write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if isinstance(vocabulary, Vocabulary):
        files["--vocabulary"] = folder / "vocabulary.csv"
        vocabulary.save(files["--vocabulary"])
    given = [str(part) for pair in files.items() for part in pair]
    assert triage_cli.main(["prepare", *given, *options]) == 0
    return files["--out"]


def ddxplus_release(folder, **conditions):
    """The options for a release of DDXPlus with these conditions, each a severity and its yes-or-no symptoms."""
    question = {"is_antecedent": False, "data_type": "B"}
    files = {
        "conditions": {
            name: {"severity": severity, "symptoms": {code: {} for code in has}, "antecedents": {}}
            for name, (severity, has) in conditions.items()
        },
        "evidences": {code: {"question_en": f"{code}?", **question} for _, has in conditions.values() for code in has},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return ["--format", "ddxplus", *(part for name in files for part in (f"--{name}", folder / f"{name}.json"))]


def ddxplus_patients(path, *rows):
    """A file of patients; what a row does not say is a boy of five with heat, a cold by .6 and a storm by .4."""
    usual = {"AGE": 5, "DIFFERENTIAL_DIAGNOSIS": "[['Cold', 0.6], ['Storm', 0.4]]", "SEX": "M", "PATHOLOGY": "Cold",
             "EVIDENCES": "['hot']", "INITIAL_EVIDENCE": "hot"}  # fmt: skip
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, usual)
        writer.writeheader()
        writer.writerows([usual | row for row in rows])


class Evaluated(NamedTuple):
    """The figures of an evaluation, what it said and warned of, and where its files are."""

    figures: dict[str, Any]
    out: str
    err: str
    folder: pathlib.Path


def evaluated_with(folder, *arguments):
    """Runs `triage evaluate`, whose figures it writes to the folder."""
    path, out, err = folder / "figures.json", io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert triage_cli.main([*map(str, ["evaluate", *arguments, "--json", path])]) == 0
    return Evaluated(json.loads(path.read_text()), out.getvalue(), err.getvalue(), folder)


def watching(base, models=None, name="triage", **wanted):
    """The versions in a folder, loaded; `wanted` says which and by which labels, as in `ModelConfig`."""
    watcher = Watcher(models or LocalModels(), ModelConfig(name, str(base), **wanted))
    watcher.look()
    return watcher


@contextlib.contextmanager
def served(*models, **settings):
    """A server of models, each a folder of versions or a watcher, that stops without grace unless that is set."""
    server = TriageServer(ServeConfig(**{"port": 0, "grace_seconds": 0.0, **settings}))
    server.start(*(model if isinstance(model, Watcher) else watching(model) for model in models))
    try:
        yield server
    finally:
        server.stop()


def counted(server, name, **labels):
    """The value of a metric of a server's, summed over other labels than these."""
    samples = [sample for family in server.telemetry.metrics.registry.collect() for sample in family.samples]
    return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


def channel_to(address, *options):
    """A channel that no proxy stands in."""
    return grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0), *options])


def model_spec(name="triage", version=None, label=None):
    """Names a model to TensorFlow Serving's services, and perhaps one of its versions by number or by label."""
    spec = model_pb2.ModelSpec(name=name)
    if version is not None:
        spec.version.value = version
    if label is not None:
        spec.version_label = label
    return spec


def predict_request(inputs, signature="", outputs=(), name="triage"):
    """A request of TensorFlow Serving's Predict for inputs by their names."""
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for alias, values in inputs.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(values))
    return request


def http_to(server, **more):
    """An HTTP client of a server's, without a proxy."""
    return httpx.Client(base_url=server.http.url, trust_env=False, timeout=60, **more)
