"""`triage export`, from a job directory to a version."""

import contextlib
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import triage_cli
from tests.builders import job_of, network_of, prepared, symptoms
from trainer.config import TrainConfig
from trainer.dyqn.network import build_network
from trainer.graph.mixture import Mixture
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training import promises, set_apart
from trainer.training.job import QUESTIONS, JobDirectory
from triage_runtime.storage import arrays_file

VOCABULARY = symptoms("cough", "fever")

ESTIMATE = {"mean": 0.8, "low": 0.7, "high": 0.9, "vignettes": 12}
LOOKED_AT = {
    "step": 40,
    "metrics": dict.fromkeys(("appropriateness", "safety", "over_triage", "questions"), ESTIMATE),
}
"""An evaluation during training, as far as it matters here."""


@pytest.fixture(scope="module")
def model():
    return build_network(2, TrainConfig().network, seed=3)


def make_job(path, model, config=TrainConfig()):  # noqa: B008  # it is frozen
    """Makes a job directory whose last checkpoint was evaluated."""
    job = job_of(path, model, VOCABULARY, config)
    job.append_evaluation(LOOKED_AT)
    return job.path


@pytest.fixture(scope="module")
def job_dir(model, tmp_path_factory):
    return make_job(tmp_path_factory.mktemp("job"), model)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Two agents: one says Red at once; the other says Blue when fever is present.

    Until then that one asks, up to the limit, where a fever that is absent (logit of Blue about -10) makes it say Red.
    """
    folders = {}
    for name, biases in (("red", [3, 0, 0, 0, -3]), ("asks", [-3, -3, -3, 0, 2])):
        network = network_of(([[0], [1]], 0), ([[0, 0, 0, 9 * (name == "asks"), 0]], biases))
        config = TrainConfig.from_dict({"network": {"hidden_sizes": [1]}, "environment": {"max_questions": 4}})
        folders[name] = make_job(tmp_path_factory.mktemp(name), network, config)
    return folders


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """12 vignettes: where fever is present, Blue is not safe."""
    folder = tmp_path_factory.mktemp("vignettes")
    lines = [
        {
            "vignette_id": f"v{row}",
            "present": ["cough", "fever"] if row % 2 else ["cough"],
            "absent": [] if row % 2 else ["fever"],
            "decisions": ["Blue"] if row % 4 == 0 else ["Red", "Yellow", "Yellow"],
            "split": "test",
            "tags": ["system=a|b"] if row else [],
        }
        for row in range(12)
    ]
    lines.append(lines[0] | {"vignette_id": "train", "split": "train"})  # a data directory needs one
    return prepared(folder, lines, VOCABULARY)


@pytest.fixture(scope="module")
def served_red(jobs, data, without_litert, made_once):
    """A base path to which the agent that says Red was pushed as version 1, and what the command printed."""

    def make(folder):
        given = ["--push-to", folder / "models", "--data", data, "--orders", 1, "--rules", "none", "--allow-small-test"]
        with (folder / "printed").open("w") as printed, contextlib.redirect_stdout(printed), without_litert():
            assert triage_cli.main([*map(str, ["export", "--job-dir", jobs["red"], *given])]) == 0

    folder = made_once("served red", make)
    return folder / "models", (folder / "printed").read_text()


@pytest.fixture
def base(served_red, tmp_path):
    """A base path that serves the agent which says Red, as version 1."""
    return shutil.copytree(served_red[0], tmp_path / "models")


def run(capsys, *arguments):
    """Returns exit code, standard output and standard error of a command."""
    capsys.readouterr()
    code = triage_cli.main([*map(str, arguments)])
    return code, *capsys.readouterr()


def test_the_trained_weights_answer_from_the_exported_version(model, job_dir, tmp_path, capsys):
    assert triage_cli.main(["export", "--job-dir", str(job_dir), "--model-base-path", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.out == f"wrote version 1 to {tmp_path / '1'}\n"
    assert said.err.endswith(f"result in {tmp_path / '1'}; next: triage serve --model-base-path {tmp_path}\n")
    exported = tf.saved_model.load(str(tmp_path / "1"))
    states = np.array([[1, -1], [0, 1]], np.float32)
    answer = exported.signatures["state"](states=tf.constant(states), questions_asked=tf.constant([0, 0]))
    np.testing.assert_allclose(answer["q_values"], model(states)["q"], atol=1e-6)
    manifest = json.loads((tmp_path / "1" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"] == TrainConfig().to_dict()
    assert manifest["training"] == {"steps": 40, "episodes": 9}
    assert manifest["metrics"] == LOOKED_AT
    assert "not evaluated" in (tmp_path / "1" / "model_card.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("known_graphs")
def test_an_export_is_signed_with_the_given_key_and_prints_nothing_but_its_json(job_dir, tmp_path, capsys):
    key = Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "private.pem").write_bytes(key.private_bytes(*form))
    options = ["--version", "12", "--step", "40", "--model-name", "nurse", "--json", "-"]
    options += ["--sign", str(tmp_path / "private.pem")]
    assert triage_cli.main(["export", "--job-dir", str(job_dir), "--model-base-path", str(tmp_path), *options]) == 0
    signed = [(tmp_path / "12" / name).read_bytes() for name in ("SHA256SUMS.sig", "SHA256SUMS")]
    key.public_key().verify(*signed)
    assert b"nurse" in (tmp_path / "12" / "assets.extra" / "tf_serving_warmup_requests").read_bytes()
    assert json.loads(capsys.readouterr().out) == {
        "path": str(tmp_path / "12"),
        "model_version": "12",
        "published": True,
        "vocabulary_fingerprint": VOCABULARY.fingerprint,
        "data_fingerprint": "sha256:data",
        "metrics": LOOKED_AT,
        "evaluation": None,
        "gate": None,
        "safety_rules": {"source": "none", "fingerprint": "", "rules": []},
        "decision": {"probabilities": False},
        "promise": None,
    }


@pytest.mark.usefixtures("known_graphs")
def test_the_exported_version_has_the_figures_of_triage_evaluate(jobs, data, tmp_path, capsys):
    chosen = ["--job-dir", jobs["asks"], "--data", data, "--orders", 4, "--seed", 3, "--json", "-"]
    code, out, _ = run(capsys, "export", "--model-base-path", tmp_path, *chosen)
    assert code == 0
    exported = json.loads(out)
    evaluated = json.loads(run(capsys, "evaluate", *chosen)[1])
    assert exported["evaluation"]["agent"] == evaluated["agent"]
    assert exported["evaluation"]["human"] == evaluated["human"]
    assert exported["evaluation"]["constants"] == evaluated["constants"]
    assert 0 < evaluated["agent"]["questions"]["mean"] < 4  # the agent does ask, and not always for ever
    assert exported["metrics"]["metrics"] == evaluated["agent"]
    safety = evaluated["agent"]["safety"]
    card = (tmp_path / "1" / "model_card.md").read_text(encoding="utf-8")
    assert f"{safety['mean']:.3f} [{safety['low']:.3f}, {safety['high']:.3f}]" in card
    assert r"| a\|b | 11 |" in card


@pytest.mark.usefixtures("known_graphs")
def test_a_push_publishes_a_safe_version_and_exits_with_3_for_an_unsafe_one(
    served_red, base, jobs, data, tmp_path, capsys
):
    first, printed = served_red
    assert printed == f"wrote version 1 to {first / '1'}\n  {first} holds no version to compare with\n"
    given = ["--push-to", base, "--data", data, "--orders", 1, "--rules", "none"]
    code, _, error = run(capsys, "export", "--job-dir", jobs["red"], *given)
    assert code == 3
    assert re.search("\n  12 .*50 .*--allow-small-test\n", error)
    given.append("--allow-small-test")
    figures = ["--json", tmp_path / "figures.json"]
    code, out, error = run(capsys, "export", "--job-dir", jobs["asks"], *given, *figures)
    assert code == 3
    assert out == ""
    assert re.match("version 2 .*less safe .*version 1 .*0.02:\n", error)
    assert "\nnothing was published" in error
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["published"], figures["gate"]["passed"]) == (False, False)
    assert figures["gate"]["metrics"]["safety"]["new"] == 0.5  # Blue on the 6 that have fever, Red on the others
    assert [path.name for path in base.iterdir()] == ["1"]
    code, out, _ = run(capsys, "export", "--job-dir", jobs["red"], *given, "--margin", 0)
    assert code == 0
    assert out.startswith(f"wrote version 2 to {base / '2'}\n")


@pytest.mark.usefixtures("known_graphs")
def test_a_version_compared_elsewhere_is_marked_and_only_a_blessed_one_can_be_pushed(jobs, data, tmp_path, capsys):
    served, apart = tmp_path / "served", tmp_path / "apart"
    given = ["--compare-with", served, "--data", data, "--orders", "1", "--allow-small-test"]
    code, out, _ = run(capsys, "export", "--job-dir", jobs["red"], "--model-base-path", apart / "red", *given)
    assert code == 0
    assert f"{served} holds no version" in out
    assert not served.exists()
    assert run(capsys, "push", "--version-dir", apart / "red" / "1", "--to", served)[:2] == (
        0, f"pushed to {served / '1'}\n",
    )  # fmt: skip
    # The agent that says Blue to a fever is less safe than the one that says Red to all.
    code, _, error = run(capsys, "export", "--job-dir", jobs["asks"], "--model-base-path", apart / "asks", *given)
    assert code == 3
    assert error.endswith(f" {apart / 'asks' / '2'}\n")
    assert (apart / "asks" / "2" / "NOT_BLESSED").exists()
    code, _, error = run(capsys, "push", "--version-dir", apart / "asks" / "2", "--to", served)
    assert code == 2
    assert "not blessed" in error
    assert [path.name for path in served.iterdir()] == ["1"]


@pytest.fixture
def asking(tmp_path, vignettes_of):
    """An agent that leads interviews and decides Red on a fever; 100 patients with a fever are set apart, all Red."""
    config = TrainConfig.from_dict({"network": {"hidden_sizes": [1], "outputs": "probabilities"}})
    half, truths = np.full((1, 2), 0.5, np.float32), np.array([[0] * 4 + [0.5] * 4], np.float32)
    classes = Mixture(np.zeros(1, np.float32), half, truths, half)  # adds nothing to the logits
    network = build_network(VOCABULARY, config.network, 0, classes)
    network.get_layer("hidden_1").set_weights([np.array([[0], [1]], np.float32), np.zeros(1, np.float32)])
    kernel, biases = network.get_layer("q_values").get_weights()
    kernel[:], biases[:] = 0, -3
    for column in (0, 1, 3, 4):  # Yellow and Green are safe, and all are less urgent than Red and Yellow
        kernel[0, column], biases[column] = -9, 2
    network.get_layer("q_values").set_weights([kernel, biases])
    job = make_job(tmp_path / "job", network, config)
    arrays_file.write(job / QUESTIONS, classes._asdict())
    q, appropriate, _ = (head.numpy() for head in network(np.float32([[0, 1]] * 20)).values())
    known = HeldOutOutputs(q, appropriate, np.ones(20, np.int64), np.array([[3, 0, 0, 0]] * 20))
    JobDirectory(job).write_held_out(known)
    set_apart.prepare(
        job, vignettes_of([([2, -1], [3, 0, 0, 0])] * 100), True, set_apart.Seen(*[np.zeros(0, np.uint64)] * 2)
    )
    return job


@pytest.mark.slow
@pytest.mark.usefixtures("light_exports")
def test_a_version_has_the_promise_that_was_asked_for_or_is_not_written(asking, tmp_path, capsys):
    given = ["export", "--job-dir", asking, "--model-base-path", tmp_path / "models", "--rules", "none"]
    # No error among 100 patients: .97 ** 100 is .048, less than the .075 of the test; .98 ** 100 is .13.
    code, out, error = run(capsys, *given, "--promise", "red=0.02", "--json", "-")
    assert (code, json.loads(out)["promise"]["kept"]) == (3, False)
    assert re.search(r"no promise of red=0\.02 .*100 for red.*red=", error)
    assert not (tmp_path / "models").exists()
    (asking / "promises.jsonl").unlink()
    code, _, error = run(capsys, *given, "--promise", "red=0.03")
    assert (code, "90% confidence: red=0.03" in error) == (0, True)
    version = tmp_path / "models" / "1"
    manifest = json.loads((version / "manifest.json").read_text())
    assert manifest["decision"]["chosen"] == "promise"
    assert manifest["promise"]["levels"] == {"red": 0.03}
    assert manifest["promise"]["asked"]["question_limit"] == manifest["max_questions"]
    assert manifest["promise"]["found"]["interview"]["red"] == {"errors": 0, "patients": 100}
    assert "At most 3% of patients whom clinicians call Red " in (version / "model_card.md").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("light_exports")
def test_newer_patients_in_other_codes_may_break_a_promise_and_then_nothing_is_published(
    asking, tmp_path, capsys, monkeypatch
):
    line = {"vignette_id": "v", "present": ["fever"], "absent": ["cough"], "decisions": ["Red"] * 3, "split": "test"}
    lines = [line, line | {"vignette_id": "train", "split": "train"}]  # a data directory needs one
    data = prepared(tmp_path, lines, symptoms("fever", "cough"))
    judged = []
    broken = {"holds": False, "broken": {"interview": ["red"]}, "confidence": 0.95, "found": {}}
    monkeypatch.setattr(promises, "on_newer", lambda *given: (judged.append(given[2]), broken)[1])
    given = ["--job-dir", asking, "--push-to", tmp_path / "models", "--data", data, "--allow-small-test"]
    given += ["--rules", "none", "--promise", "red=0.03"]
    code, _, error = run(capsys, "export", *given)
    assert (code, list((tmp_path / "models").iterdir())) == (3, [])
    assert "(interview: red)" in error
    [vignettes] = judged
    assert vignettes.signed_codes.tolist() == [2, -1]  # the agent knows cough, then fever
