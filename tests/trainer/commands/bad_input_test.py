"""What a command cannot use: one line that says what, exit code 2, and neither file nor folder."""

import re

import pytest

import triage_cli
from tests.builders import job_of, network_of
from trainer.config import TrainConfig
from trainer.data.tfrecord import DataDirectory

CALLS = {
    "simulate --out out --vignettes 30": [
        ("--vignettes 0", "--vignettes 0: "),
        ("--seed -1", "--seed -1: "),
        (f"--seed {2**64}", "2.64"),
        ("--test-fraction 1", "--test-fraction 1: "),
        ("--vignettes 1 --test-fraction 0.9", "no vignette is left"),
        ("--test-fraction x", "0.1 or 1/10"),
        ("--test-fraction 1/0", "0.1 or 1/10"),
    ],
    "knowledge": [("--condition toothaches", "'toothaches'")],
    "prepare --vignettes in.jsonl --vocabulary vocabulary.csv --out out": [
        ("--format ddxplus", "--format ddxplus .*--conditions, --evidences, --patients"),
        ("--format csv-long", "--format csv-long .*--evidence-table, --decisions .*--vignettes"),
        ("--patients f", "--format jsonl .*--patients"),
        ("--format csv-wide --risk-factors a", "--risk-factors: .*--vocabulary"),
        ("--test-fraction 1", "--test-fraction 1.0: "),
        ("--seed -1", "--seed -1: "),
        ("--vignettes none.jsonl", "none.jsonl: "),
        ("--vignettes /dev/null", "/dev/null: "),
        ("--vocabulary none.csv", "none.csv: "),
    ],
    "stats data": [("--show 0", "--show 0: "), ("--seed -1", "--seed -1: ")],
    "fold --data data --out out": [
        ("--folds 1 --fold 0", "--folds 1: "),
        ("--folds 3 --fold 3", "--fold 3: "),
        ("--folds 41 --fold 0", "--folds 41: "),
    ],
    "train --data data --job-dir begun": [
        ("--batch-size 0", "batch_size"),
        ("--batch-size many", "--batch-size"),
        ("--config missing.json", "missing.json"),
        ("--data nowhere", "nowhere"),
        ("--rules rules.toml", "--rules .*--model-dir"),
        ("--rules unknown.toml --model-dir model", "'e33'"),
        ("--rules no.toml --model-dir model", "not TOML"),
        ("--danger-signs signs.toml", "signs.toml: e1: "),
    ],
    "evaluate --job-dir job": [
        ("", "--data"),
        ("--data data --step 7", "step 7; .*40"),
        ("--data data --orders 0", "--orders 0"),
        ("--cases cases.jsonl --html r.html", "--html"),
        ("--cases cases.jsonl --rules none", "--rules none: "),
        ("--cases cases.jsonl", "cases.jsonl: line 1: present: .*'fevr'"),
    ],
    "reproduce --data data --out out --quick": [
        ("--learning-rate 0", "learning_rate"),
        ("--preset default", "--preset default"),
        ("--folds 51", "--folds 51"),
    ],
    "export --job-dir job": [
        ("--model-base-path new --step 41 --rules none", "step 41"),
        ("--model-base-path new --version -1 --rules none", "from 1"),
        ("--model-base-path new --sure-enough 0.9", "without probabilities"),
        ("--push-to new", "--data"),
        ("--push-to new --data d --margin nan", "--margin"),
        ("--model-base-path new --margin 0.1", "--margin"),
        ("--model-base-path new --cases c", "--cases"),
        ("--model-base-path new --allow-small-test", "--allow-small-test"),
        ("--push-to new --data d --cases nowhere", "nowhere"),
        ("--model-base-path new --sign nowhere", "--sign nowhere"),
        ("--model-base-path new --compare-with b", "--compare-with"),
        ("--push-to new --compare-with b --data d", "--compare-with"),
        ("--model-base-path new --orders 0", "--orders 0"),
        ("--model-base-path new --data nowhere", "nowhere"),
    ],
    "tflite --out f.tflite --states 300": [
        ("--model models --quantize int8", "--data DIR"),
        ("--model models --data d", "no --data: "),
        ("--model nowhere", "nowhere: "),
        ("--model models --seed -1", "--seed -1: "),
        ("--model models --out no/f.tflite", "--out no/f.tflite: "),
        ("--model models --out models", "--out models: "),
    ],
    "kubeflow compile": [("--out p.txt", "--out p.txt: "), ("--out no/p.yaml", "--out no/p.yaml: ")],
    "kubeflow run-local --vignettes in.jsonl --vocabulary vocabulary.csv --push-to new": [
        ("--vignettes no", "--vignettes no: "),
        ("--cases no", "--cases no: "),
        ("--parameter fold=2", "--parameter fold=2: "),
        ("--parameter folds", "--parameter folds: "),
        ("--parameter folds=two", ".*Integer"),
    ],
}
SLOW = ("kubeflow",)
FILES = {
    "in.jsonl": '{"vignette_id": "v1", "present": ["e1"], "absent": [], "decisions": ["Red"]}\n',
    "cases.jsonl": '{"vignette_id": "c", "title": "C", "category": "urgent", "allowed": ["Red"], "present": ["fevr"], '
    '"absent": []}\n',
    "rules.toml": '[r]\nreason = "Made up."\nurgency = "Red"\nall.present = ["e3"]\n',
    "unknown.toml": '[r]\nreason = "Made up."\nurgency = "Red"\nall.present = ["e33"]\n',
    "no.toml": "[",
    "signs.toml": 'e1 = [["e2", "e33"]]',
}


@pytest.fixture(scope="module")
def place(data_directory, version_base, tmp_path_factory):
    """A folder with data, a job, models and `FILES`, and two empty folders, as training and an export make theirs."""
    place = tmp_path_factory.mktemp("place")
    for name in ("begun", "base"):
        (place / name).mkdir()
    vocabulary = DataDirectory.open(data_directory).vocabulary
    config = TrainConfig.from_dict({"network": {"hidden_sizes": [1]}})
    job_of(place / "job", network_of(([[0]] * 12, 0), ([[0] * 5], 0)), vocabulary, config)
    vocabulary.save(place / "vocabulary.csv")
    for name, folder in (("data", data_directory), ("models", version_base)):
        (place / name).symlink_to(folder)
    for name, text in FILES.items():
        (place / name).write_text(text)
    return place


def ended(command, place, monkeypatch, capsys):
    """Runs a command in the place, where it makes nothing; returns its exit code and what it says."""
    monkeypatch.chdir(place)
    before = inside(place)
    try:
        code = triage_cli.main(command.split())
    except SystemExit as ended:  # argparse's own
        code = ended.code
    assert inside(place) == before
    return code, capsys.readouterr().err.splitlines()


def inside(place):
    """What is below a folder, but for the locks of job directories."""
    return sorted(path for path in place.rglob("*") if path.name != "lock")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        pytest.param(f"{start} {more}", named, marks=[pytest.mark.slow] * start.startswith(SLOW))
        for start, rows in CALLS.items()
        for more, named in rows
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_leaves_no_file(place, monkeypatch, capsys, command, named):
    code, (*warnings, line) = ended(command, place, monkeypatch, capsys)
    assert code == 2
    assert re.match(f"triage {command.split()[0]}: error: .*{named}", line)
    assert not any("error" in each or "Traceback" in each for each in warnings)


@pytest.mark.usefixtures("light_exports")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("evaluate --job-dir job --data data --orders 1 --html page", "--html page: "),
        ("evaluate --job-dir job --data data --orders 1 --json figures", "--json figures: "),
        ("export --job-dir job --model-base-path base --rules none", ""),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_no_half_file(place, monkeypatch, capsys, full_disk, command, named):
    with full_disk(100):
        code, (*_, line) = ended(command, place, monkeypatch, capsys)
    assert code == 2
    assert re.match(f"triage {command.split()[0]}: error: {named}.*File too large", line)
