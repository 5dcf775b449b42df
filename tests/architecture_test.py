"""Imports run one way: schemas <- trainer, schemas <- serving; inside trainer in the order of its concepts."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = {"schemas", "trainer", "serving", "triage_cli"}
# A module may import those above it.
TRAINER_ORDER = (
    "cloud.staging", "cloud.service_environment", "cloud.tuning_report",
    "cloud.vertex_request", "cloud.vertex",
    "config", "rule_options", "vignettes.vignette", "vignettes.source", "vignettes.rejects", "vignettes.split", "state",
    "vignettes.arrays", "vignettes.tfrecord", "vignettes.spool", "vignettes.split_stats", "vignettes.passes",
    "output", "progress", "vignettes.ddxplus", "vignettes.ddxplus_patients", "vignettes.csv_table",
    "vignettes.csv_cells", "vignettes.row_groups", "vignettes.derived_vocabulary", "vignettes.csv_wide",
    "vignettes.csv_long", "vignettes.input_formats", "vignettes.prepare", "simulation.simulation_config",
    "simulation.draws", "simulation.evidence_tree", "simulation.risk_tables", "simulation.knowledge_tables",
    "simulation.patients", "simulation.card", "simulation.panel", "simulation.simulator", "simulation.simulate",
    "simulation.knowledge", "supervised.sparse_states", "supervised.powerset", "supervised.powerset_shards",
    "supervised.powerset_pipeline", "rewards", "decision", "rule_graph", "whole_file", "novelty", "novelty_file",
    "network", "environment", "targets", "policy", "workers",
    "agent", "sparse_layer", "learner", "bucket_counts", "replay", "window", "loop", "rollout", "metrics",
    "evaluation.agreement", "evaluation.calibration", "evaluation.prefixes", "evaluation.slices",
    "evaluation.evaluation_table", "evaluation.rule_effect",
    "checks.vignette_statistics", "directory_lock", "checkpoint_files", "job", "checkpoints", "evaluate",
    "session", "exporting.messages", "exporting.signatures", "exporting.warmup",
    "exporting.servable_policy", "exporting.litert", "exporting.tflite_conversion", "exporting.servable",
    "exporting.case_reference", "exporting.gate", "exporting.model_card",
    "exporting.card_markdown", "exporting.publish", "exporting.export", "exporting.push",
    "exporting.tflite_parity", "exporting.tflite_file", "exporting.tflite",
    "cloud.final_model", "task",
    "checks.vignette_text", "checks.anomalies", "checks.feature_schema", "checks.near_duplicates",
    "checks.split_comparison", "checks.record_check", "checks.validation", "checks.stats_table", "checks.stats",
    "supervised.folds", "supervised.fold", "supervised.ensemble", "supervised.classifier_file",
    "supervised.state_values", "supervised.baselines", "supervised.stopping", "supervised.partially_observed",
    "reporting.report_numbers",
    "reporting.drawing", "reporting.interval_figures", "reporting.learning_figures", "reporting.quality_figures",
    "reporting.report_sentences", "reporting.report_tables", "reporting.report_markdown", "reporting.report",
    "studies.study", "studies.study_directory", "studies.study_worker", "studies.study_fixed",
    "studies.study_learning", "studies.study_supervised", "studies.study_detail", "studies.study_tasks",
    "studies.study_run", "studies.study_claims", "studies.study_results", "studies.study_table", "studies.reproduce",
    "pipeline", "kubeflow",
    "bench.worker", "bench.rounds", "bench.task_vignettes", "bench.settings", "bench.ours", "bench.tf_agents_loop",
    "bench.sb3_loop", "bench.floor", "bench.contestants", "bench.train_report", "bench.train",
)  # fmt: skip


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _modules(package):
    return sorted((ROOT / package).rglob("*.py"))


def _dotted(path):
    return ".".join(path.relative_to(ROOT / "trainer").with_suffix("").parts)


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
    found = {_dotted(path) for path in _modules("trainer") if path.stem != "__init__"}
    assert found == set(TRAINER_ORDER), "give each new module its place in TRAINER_ORDER"
    for name in TRAINER_ORDER:
        for imported in _imports(ROOT / "trainer" / f"{name.replace('.', '/')}.py"):
            _, _, module = imported.partition("trainer.")
            if imported.startswith("trainer.") and module in places:
                assert places[module] < places[name], f"trainer.{name} imports {module}, which stands below it"


def test_packages_inside_the_trainer_hold_what_stands_together():
    for path in _modules("trainer"):
        assert len(path.relative_to(ROOT).parts) <= 3, f"{path} lies too deep"
        if path.stem == "__init__" and path.parent.name != "trainer":
            assert not list(_imports(path)), f"{path}: modules are imported by their own names"


def test_every_module_has_a_test_of_its_name():
    missing = [
        str(path.relative_to(ROOT))
        for package in ("schemas", "trainer", "serving")
        for path in _modules(package)
        if path.stem != "__init__"
        and not (ROOT / "tests" / path.relative_to(ROOT)).with_name(f"{path.stem}_test.py").exists()
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
