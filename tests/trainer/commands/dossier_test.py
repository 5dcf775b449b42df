"""`triage dossier` on the files of a real version, and its refusals."""

import hashlib
import json
import shutil

import pytest
import tensorflow as tf

import triage_cli
from schemas.reference import Reference
from serving.monitor.drift import Observed, Thresholds, compare
from trainer.config import TrainConfig
from trainer.dyqn.network import build_network
from trainer.reports.checklists import NAMES, read_checklist
from trainer.training.job import JobDirectory
from trainer.vignettes.tfrecord import DataDirectory

# Fields of versions with probabilities, after a gate, or of other options than those of the test.
CONDITIONAL = {
    "card:decision.safety_weight", "card:decision.sure_enough", "card:decision.chosen",
    "card:decision.held_out.vignettes", "card:promise.statements", "card:promise.asked.confidence",
    "card:promise.operating_point.hand_over_from",
    "card:promise.found.interview", "card:promise.found.all_evidence", "card:promise.not_covered",
    "card:promise.newer.holds", "monitoring:promise.broken", "card:gate.margin",
    "card:gate.serving_version", "card:gate.lower_bound", "card:gate.passed", "card:novelty.threshold",
    "results:textbook_cases.cases",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(data_directory, tmp_path_factory, without_litert):
    """An evaluated version, the figures of `triage evaluate`, and those of `triage monitor` on an empty log."""
    tmp_path = tmp_path_factory.mktemp("dossier")
    data = DataDirectory.open(data_directory)
    config = TrainConfig.from_dict({"network": {"hidden_sizes": [2]}})
    job = JobDirectory(tmp_path / "job")
    job.prepare(config, data.vocabulary, data.data_fingerprint)
    counters = {"step": tf.Variable(40, dtype=tf.int64), "episode": tf.Variable(9, dtype=tf.int64)}
    model = build_network(len(data.vocabulary), config.network, seed=3)
    job.manager(tf.train.Checkpoint(chosen=model, **counters), kept=1).save(40)
    codes = json.dumps(data.vocabulary.codes)
    (tmp_path / "rules.toml").write_text(f'[any]\nreason = "Any."\nurgency = "Red"\nany.present = {codes}\n')
    given = ["--job-dir", job.path, "--data", data_directory, "--orders", 1, "--rules", tmp_path / "rules.toml"]
    with without_litert():
        assert triage_cli.main([*map(str, ["export", *given, "--model-base-path", tmp_path / "models"])]) == 0
    assert triage_cli.main([*map(str, ["evaluate", *given, "--json", tmp_path / "results.json"])]) == 0
    reference = Reference("the training split", 40, {}, {})
    manifest = hashlib.sha256((tmp_path / "models" / "1" / "manifest.json").read_bytes()).hexdigest()
    counts = {"version": 1, "manifest_sha256": manifest, "records": 7, "answers_that_ask": 5}
    counts["answers_of_other_versions"] = 2
    monitored = counts | compare(Observed(), reference, Thresholds())
    (tmp_path / "monitoring.json").write_text(json.dumps(monitored))
    return tmp_path


@pytest.fixture
def files(made, tmp_path):
    return shutil.copytree(made, tmp_path / "files")


def keys(values, prefix=""):
    """The paths of all values in nested objects."""
    for key, value in values.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{key}.")


def interval(estimate):
    return f"{estimate['mean']:.3f} \\[{estimate['low']:.3f}, {estimate['high']:.3f}\\]"


def test_the_lists_are_filled_from_the_files_that_they_name(files, capsys):
    given = [
        "--model",
        files / "models",
        "--results",
        files / "results.json",
        "--monitoring",
        files / "monitoring.json",
    ]
    capsys.readouterr()
    assert triage_cli.main([*map(str, ["dossier", *given, "--output", files / "dossier.md"])]) == 0
    assert capsys.readouterr().out == f"wrote {files / 'dossier.md'}\n"
    text = (files / "dossier.md").read_text(encoding="utf-8")
    manifest = files / "models" / "1" / "manifest.json"
    assert f"| manifest.json | {hashlib.sha256(manifest.read_bytes()).hexdigest()} |" in text
    results = json.loads((files / "results.json").read_text())
    alone, ruled = results["agent"]["safety"], results["safety_rules"]["metrics"]["safety"]["with_rules"]
    assert alone["mean"] < ruled["mean"]  # the rule says Red wherever something is present
    assert text.count(f"agent.safety: {interval(alone)} (results.json)") == 3
    cited = f"safety\\_rules.metrics.safety.with\\_rules: {interval(ruled)} (results.json)"
    assert text.count(cited) == 3  # each list has performance
    assert (
        "| 10a | How much the system was used, and whether as intended | records: 7 (monitoring.json)<br>cases: 0 "
        in text
    )
    assert "training\\_data.splits.train.vignettes: 40 (model\\_card.json)" in text
    assert triage_cli.main(["dossier", "--model", str(files / "models" / "1")]) == 0
    assert "results.json" not in capsys.readouterr().out

    # The figures of another agent are refused.
    results = json.loads((files / "results.json").read_text())
    results["training"]["steps"] = 41
    (files / "results.json").write_text(json.dumps(results))
    assert triage_cli.main([*map(str, ["dossier", *given])]) == 2
    assert "results.json: training {'steps': 41, 'episodes': 9}: the version has" in capsys.readouterr().err


def change(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_figures_of_the_vignettes_that_the_agent_learned_from_are_refused(files, data_directory, capsys):
    given = ["--job-dir", files / "job", "--data", data_directory, "--orders", 1, "--split", "train"]
    assert triage_cli.main([*map(str, ["evaluate", *given, "--json", files / "train.json"])]) == 0
    dossier = ["dossier", *map(str, ["--model", files / "models", "--results", files / "train.json"])]
    assert triage_cli.main(dossier) == 2
    error = capsys.readouterr().err
    assert f"--results {files / 'train.json'}: split 'train': expected test, as the agent learned from" in error
    assert f"triage evaluate --data DIR --job-dir DIR --split test --json {files / 'train.json'}" in error


def test_figures_with_other_safety_rules_than_those_of_the_version_are_refused(files, capsys):
    results, manifest = files / "results.json", files / "models" / "1" / "manifest.json"
    dossier = ["dossier", *map(str, ["--model", files / "models", "--results", results, "--output", files / "d.md"])]
    rules = json.loads(manifest.read_text())["safety_rules"]
    change(manifest, safety_rules=rules | {"source": "ward.toml", "fingerprint": "sha256:other"})
    assert triage_cli.main(dossier) == 2
    error = capsys.readouterr().err
    assert "rules.toml there, ward.toml in the version): run triage evaluate with --rules" in error
    assert str(files / "models" / "1" / "assets.extra" / "rules.toml") in error
    change(manifest, safety_rules={"source": "none", "fingerprint": None, "rules": []})
    assert triage_cli.main(dossier) == 2
    assert "rules.toml there, none in the version): run triage evaluate without --rules" in capsys.readouterr().err
    change(results, safety_rules=None)
    assert triage_cli.main(dossier) == 0


def test_figures_of_another_operating_point_or_question_limit_are_refused(files, capsys):
    results, manifest = files / "results.json", files / "models" / "1" / "manifest.json"
    dossier = ["dossier", *map(str, ["--model", files / "models", "--results", results, "--output", files / "d.md"])]
    point = {"safety_weight": 4.0, "sure_enough": None, "price": 0.0125}
    change(manifest, decision={"probabilities": True, **point, "hand_over_from": 0.1, "chosen": "promise"})
    change(results, operating_point=point | {"chosen": "given"})
    assert triage_cli.main(dossier) == 0
    change(results, operating_point=point | {"safety_weight": 1.0, "sure_enough": 0.9, "chosen": "held_out"})
    assert triage_cli.main(dossier) == 2
    message = capsys.readouterr().err
    assert "(safety_weight 1.0 there, 4.0 in the version; sure_enough 0.9 there, None in the version)" in message
    assert "triage evaluate --data DIR --job-dir DIR --safety-weight 4.0 --question-price 0.0125 --json" in message
    change(results, operating_point=point, max_questions=23)
    change(manifest, max_questions=10)
    assert triage_cli.main(dossier) == 2
    assert "max_questions 23: the version asks at most 10" in capsys.readouterr().err


@pytest.mark.parametrize("digest", ["ab", None], ids=["another version", "compared with a data directory"])
def test_what_another_version_served_is_refused(files, capsys, digest):
    monitoring = files / "monitoring.json"
    change(monitoring, manifest_sha256=digest)
    capsys.readouterr()
    assert triage_cli.main(["dossier", "--model", str(files / "models"), "--monitoring", str(monitoring)]) == 2
    error = capsys.readouterr().err
    assert f"--monitoring {monitoring}: of another version" in error
    assert error.count("\n") == 1


def test_each_field_of_the_lists_is_one_of_its_file(made):
    version = made / "models" / "1"
    paths = {
        "manifest": version / "manifest.json",
        "card": version / "model_card.json",
        "results": made / "results.json",
        "monitoring": made / "monitoring.json",
    }
    there = {f"{name}:{key}" for name, path in paths.items() for key in keys(json.loads(path.read_text()))}
    wanted = {fact for name in NAMES for item in read_checklist(name).items for fact in item.facts}
    assert wanted - there - CONDITIONAL == set()
    assert wanted >= CONDITIONAL


def test_what_a_promise_does_not_cover_stands_beside_it(files, capsys):
    found = {"red": {"errors": 3, "patients": 180}}
    promise = {"statements": ["At most 5% of all."], "asked": {"confidence": 0.9}, "found": {"all_evidence": found}}
    change(files / "models" / "1" / "model_card.json", promise=promise | {"not_covered": ["single patients", "others"]})
    capsys.readouterr()
    assert triage_cli.main(["dossier", "--model", str(files / "models")]) == 0
    text = capsys.readouterr().out
    assert text.count("promise.statements: At most 5% of all. (model\\_card.json)") == 3
    assert text.count("promise.not\\_covered: single patients; others (model\\_card.json)") == 2
    assert "promise.found.all\\_evidence: red \\(errors 3, patients 180\\) (model\\_card.json)" in text
