"""Imports run one way: schemas <- trainer, schemas <- serving; inside trainer in the order of its concepts."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = {"schemas", "trainer", "serving", "triage_cli"}
# A module may import those above it.
TRAINER_ORDER = (
    "config", "vignette", "source", "rejects", "split", "state", "arrays", "tfrecord", "spool", "split_stats",
    "passes", "output", "progress", "ddxplus", "ddxplus_patients",
    "csv_table", "csv_cells", "row_groups", "derived_vocabulary", "csv_wide", "csv_long", "input_formats",
    "prepare",
    "simulation_config", "draws", "evidence_tree", "risk_tables", "knowledge_tables", "patients", "card", "panel",
    "simulator", "simulate", "knowledge", "sparse_states", "powerset", "powerset_shards", "powerset_pipeline",
    "rewards", "decision", "network", "environment",
    "targets", "policy", "agent", "replay", "window", "loop", "rollout", "metrics",
    "agreement", "calibration", "prefixes", "slices", "evaluation_table", "vignette_statistics",
    "directory_lock", "job", "evaluate", "session", "messages", "signatures", "warmup", "servable", "servable_policy",
    "gate", "model_card", "card_markdown", "publish", "export",
    "litert", "tflite_conversion", "tflite_parity", "tflite_file", "tflite", "task",
    "vignette_text", "anomalies", "feature_schema", "near_duplicates", "split_comparison", "record_check", "validation",
    "stats_table", "stats",
    "folds", "ensemble", "classifier_file", "state_values", "baselines", "stopping", "partially_observed",
    "report_numbers", "drawing", "interval_figures", "learning_figures", "quality_figures", "report_sentences",
    "report_tables", "report_markdown", "report",
    "study", "study_directory", "study_worker", "study_fixed", "study_learning", "study_supervised", "study_detail",
    "study_tasks", "study_run", "study_claims", "study_results", "study_table", "reproduce",
)  # fmt: skip


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _modules(package):
    return sorted((ROOT / package).glob("*.py"))


def _roots(path):
    return {name.split(".")[0] for name in _imports(path)}


def test_schemas_import_nothing_of_ours_and_no_tensorflow():
    for path in _modules("schemas"):
        assert not _roots(path) & {"trainer", "serving", "triage", "tensorflow", "keras", "tf_agents"}, path.name


def test_trainer_and_serving_never_import_each_other():
    for package, other in (("trainer", "serving"), ("serving", "trainer")):
        for path in _modules(package):
            assert other not in _roots(path), path.name


def test_serving_needs_neither_keras_nor_tf_agents():
    for path in _modules("serving"):
        assert not _roots(path) & {"keras", "tf_keras", "tf_agents"}, path.name


def test_trainer_imports_run_one_way():
    places = {name: place for place, name in enumerate(TRAINER_ORDER)}
    found = {path.stem for path in _modules("trainer")} - {"__init__"}
    assert found == set(TRAINER_ORDER), "give each new module its place in TRAINER_ORDER"
    for name in TRAINER_ORDER:
        for imported in _imports(ROOT / "trainer" / f"{name}.py"):
            parts = imported.split(".")
            if parts[0] == "trainer" and len(parts) > 1 and parts[1] in places:
                assert places[parts[1]] < places[name], f"trainer/{name}.py imports {parts[1]}, which stands below it"


def test_every_module_has_a_test_of_its_name():
    missing = [
        f"{package}/{path.name}"
        for package in ("schemas", "trainer", "serving")
        for path in _modules(package)
        if path.stem != "__init__" and not (ROOT / "tests" / package / f"{path.stem}_test.py").exists()
    ]
    assert missing == []


def test_files_stay_a_concept_long():
    long = {
        str(path.relative_to(ROOT)): length
        for package in ("schemas", "trainer", "serving")
        for path in _modules(package)
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > 320
    }
    assert long == {}
