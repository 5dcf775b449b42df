"""Small vignette sets that tests spell out in full."""

import contextlib
import hashlib
import json
import pickle
import shutil
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

import triage_cli
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from tests.builders import prepared, random_network, symptoms, trained_agent, write_version
from trainer.config import TrainConfig
from trainer.dyqn.rollout import Slice
from trainer.export import signatures
from trainer.export.policy import load_version
from trainer.presets import preset


def make_vignettes(rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Slice:
    """Returns vignettes from (signed codes, [Red, Yellow, Green, Blue] counts) rows."""
    offsets = np.cumsum([0] + [len(codes) for codes, _ in rows]).astype(np.int64)
    signed_codes = np.concatenate([np.asarray(codes, np.int16) for codes, _ in rows])
    return Slice(offsets, signed_codes, np.asarray([counts for _, counts in rows], np.uint8))


@pytest.fixture(scope="session")
def vignettes_of():
    return make_vignettes


@pytest.fixture(scope="session")
def random_vignettes():
    """200 vignettes over 30 pieces of evidence, 1 to 9 a vignette."""
    generator = np.random.default_rng(7)
    rows = []
    for _ in range(200):
        count = generator.integers(1, 10)
        codes = (generator.permutation(30)[:count] + 1) * generator.choice([-1, 1], count)
        counts = generator.multinomial(3, [0.1, 0.4, 0.4, 0.1])
        rows.append((codes.tolist(), counts.tolist()))
    return make_vignettes(rows)


@pytest.fixture(scope="session")
def data_directory(made_once):
    """A data directory of 50 made-up vignettes, 40 to train on and 10 to test on, as `triage prepare` writes it."""
    return made_once("prepared", prepare) / "data"


def prepare(folder, vignettes=50):
    """Writes made-up vignettes over 12 pieces of evidence, and the data directory of them, in `data`."""
    codes = [f"e{index}" for index in range(12)]
    generator = np.random.default_rng(11)
    lines = []
    for number in range(vignettes):
        chosen = [codes[index] for index in generator.permutation(12)[: generator.integers(2, 8)]]
        split = int(generator.integers(1, len(chosen) + 1))
        lines.append(
            {
                "vignette_id": f"v{number}",
                "present": chosen[:split],
                "absent": chosen[split:],
                "decisions": [DECISION_LABELS[index] for index in generator.choice(4, 3, p=[0.1, 0.4, 0.4, 0.1])],
            }
        )
    prepared(folder, lines, symptoms(*codes), "--test-fraction", "0.2")


@pytest.fixture(scope="session")
def many(made_once):
    """A data directory as `data_directory`, of 200 vignettes: enough for interviews."""
    return made_once("for-interviews", lambda folder: prepare(folder, 200)) / "data"


TINY = {
    "environment": {"environments": 6},
    "network": {"hidden_sizes": [8], "networks": 2},
    "memory": {"batch_size": 16, "memory_capacity": 64},
    "validation": {"set_apart": 0.1},
    "optimiser": {"schedule": "constant"},
    "loop": {"burn_in_steps": 10, "steps": 60, "evaluation_interval": 40, "checkpoint_interval": 20},
}  # fmt: skip


def tiny_default(**loop):
    """The preset `default`, made tiny."""
    values = {name: {**section, **TINY.get(name, {})} for name, section in preset("default").to_dict().items()}
    return TrainConfig.from_dict({**values, "loop": {**values["loop"], **loop}})


TINY_PAPER = TrainConfig.from_dict(
    {
        "network": {"hidden_sizes": [8]},
        "memory": {"batch_size": 4, "memory_capacity": 50},
        "loop": {"burn_in_steps": 20, "steps": 60, "evaluation_interval": 0},
    }
)


RULES = """
[e3_without_e4]
reason = "Made up."
urgency = "Red"
all.present = ["e3"]
none.present = ["e4"]
"""


@pytest.fixture(scope="session")
def settled(many, made_once, without_litert):
    """The folder of a finished run of `tiny_default` by `triage train`; whoever trains takes a copy of its `job`.

    Beside that are `config.json`, a `model` with `RULES`, `report.json` and `stderr`.
    """

    def make(folder):
        (folder / "rules.toml").write_text(RULES)
        (folder / "config.json").write_text(json.dumps(tiny_default().to_dict()))
        given = {"--data": many, "--job-dir": folder / "job", "--config": folder / "config.json",
                 "--model-dir": folder / "model", "--rules": folder / "rules.toml",
                 "--json": folder / "report.json"}  # fmt: skip
        with (folder / "stderr").open("w") as errors, contextlib.redirect_stderr(errors), without_litert():
            assert triage_cli.main(["train", *(str(part) for pair in given.items() for part in pair)]) == 0

    return made_once("settled", make)


@pytest.fixture
def eager():
    """What would be traced to be called once or twice is called as it is."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def light_exports(eager, without_litert):
    """Exports in half the time, for tests that are about neither LiteRT nor compiled functions."""
    with without_litert():
        yield


@pytest.fixture
def known_graphs(light_exports, made_once, monkeypatch):
    """Light exports that copy the SavedModel of an agent which was exported before, for tests of all that follows."""
    write = signatures.write

    def write_once(folder, model, vocabulary, identity, safeguards):
        agent = pickle.dumps((identity, safeguards, model.get_weights()))
        name = f"graph-{hashlib.sha256(agent).hexdigest()}"
        made = made_once(name, lambda place: write(place, model, vocabulary, identity, safeguards))
        shutil.copytree(made, folder, dirs_exist_ok=True)

    monkeypatch.setattr(signatures, "write", write_once)


@pytest.fixture(scope="session")
def version_base(data_directory, made_once):
    """A model base path with version 1: a random network, biases too, over the vocabulary of `data_directory`."""

    def make(base):
        vocabulary = Vocabulary.load(data_directory / "vocabulary.csv")
        network = random_network(len(vocabulary), (32, 16), spread=0.25)
        write_version(base, trained_agent(network, vocabulary, 5))

    return made_once("random-network", make)


@pytest.fixture(scope="session")
def version(version_base):
    return load_version(version_base / "1")


@pytest.fixture
def study_files(data_directory, tmp_path):
    """Makes (study, splits, files by training) of a study in which each agent has a value a seed, .5 where not given.

    Two trainings of each learning agent, and two repetitions of two folds; no agent was trained.
    """
    from trainer.data.tfrecord import DataDirectory
    from trainer.study.agents import METRICS, read_splits
    from trainer.study.study import SUPERVISED, Study, StudySettings

    splits = read_splits(DataDirectory.open(data_directory))
    settings = StudySettings(seeds=2, folds=2, fold_seeds=2, powerset_rows=100, config=TrainConfig())

    def file_of(training, value):
        sizes = {"test": 10 if training.fold is None else 25, "train": 40, "leave_one_out": 10}
        values = {split: {name: [value] * size for name in METRICS} for split, size in sizes.items()}
        curve = {"steps": [10, 20], **{split: {name: [0.0, value] for name in METRICS} for split in ("test", "train")}}
        return values | {"curve": curve}

    def make(values):
        study, files = Study(data_directory, settings, tmp_path), {}
        for training in study.trainings():
            value = values.get(training.agent, (0.5, 0.5))[training.seed]
            files[training] = file_of(training, value if training.fold is None else training.fold / 2)
            if training.agent in SUPERVISED[1:]:
                better = training.agent == "calibrated"
                files[training] = {
                    "pieces": [0, 1, 1, 3, 4], "vignettes": [0, 0, 1, 0, 1],
                    "appropriateness": [0.0, 0.0, 1.0, float(better), 1.0], "safety": [1.0] * 5,
                }  # fmt: skip
        return study, splits, files

    return make


@pytest.fixture
def study_results(study_files):
    """The results of the study of `study_files`."""
    from trainer.study.results import study_figures

    return lambda values: study_figures(*study_files(values))
