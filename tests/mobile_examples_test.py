"""The examples for phones fit the file that `triage tflite` writes, and the Python one needs LiteRT alone."""

import contextlib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import triage_cli
from schemas import safety_rules
from schemas.answer import ANSWER, Kind
from tests.builders import constant_network, description_in, network_of, symptoms, trained_agent, write_version
from tests.mobile import programs
from trainer.export import tflite_file
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty

MOBILE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "mobile"
VOCABULARY = symptoms("cough", "fever", "rash")

RULES = safety_rules.parse(
    '[cough_and_rash]\nreason = "Can be measles."\nurgency = "Yellow"\nall.present = ["cough", "rash"]\n',
    "rules.toml",
    VOCABULARY,
)

# Ends with 99 where something that a phone does not have was loaded.
WITHOUT_TENSORFLOW = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    if {name.split(".")[0] for name in sys.modules} & {"tensorflow", "keras", "trainer", "schemas", "serving"}:
        sys.exit(99)
"""


def converted(folder, without_litert, network=None, **more):
    """Converts a model that asks until fever is known: present means Red, absent Blue; else it says Green. Limit 4."""
    hidden = [[0, 0], [1, -1], [0, 0]]  # fever present, fever absent
    network = network or network_of((hidden, 0), ([[9, 0, 0, 0, 0], [0, 0, 0, 9, 0]], [-2, -2, -1, -2, 1]))
    log_literals = np.zeros([6, 2], np.float32)
    log_literals[2, 1] = 1.0  # a rash is novel
    novelty = Novelty(np.zeros(1, np.float32), log_literals, np.full([1, 1], 0.5, np.float32), 10)
    trained = trained_agent(network, VOCABULARY, 4, rules=RULES, novelty=novelty, **more)
    with without_litert():  # the version's own is not the file that is looked at
        write_version(folder / "models", trained)
    out = folder / "triage.tflite"
    options = ["--model", str(folder / "models"), "--out", str(out), "--states", "50"]
    assert triage_cli.main(["tflite", *options]) == 0
    return out


@pytest.fixture(scope="module")
def file(without_litert, tmp_path_factory):
    """A file that cannot choose questions."""
    return converted(tmp_path_factory.mktemp("mobile"), without_litert)


@pytest.fixture(scope="module")
def asking_file(without_litert, tmp_path_factory):
    """A file that chooses questions and estimates probabilities."""
    present = np.array([[0.5, 0.99, 0.4], [0.5, 0.01, 0.1]], np.float32)
    truths = np.array([[0.9, *[0.1] * 7], [0.1, *[0.9] * 7]], np.float32)
    mixture = Mixture(np.log(np.full(2, 0.5, np.float32)), present, truths, 1 - present)
    network = constant_network(3, safe=[1, 0.9, 0.6, 0.3], appropriate=[0.2, 0.5, 0.5, 0.25], asking=0.5)
    return converted(tmp_path_factory.mktemp("asking"), without_litert, network=network, questions=mixture)


def interview(file, *lines, options=()):
    """Runs the Python example on `lines` as a user types them."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patched.setattr(sys, "argv", ["interview.py", str(file), *options])
        patched.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        try:
            runpy.run_path(str(MOBILE / "interview.py"), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess("interview.py", code or 0, out.getvalue(), err.getvalue())


def decision(finished):
    assert finished.returncode == 0, finished.stderr
    return decision_in(finished.stdout)


def decision_in(printed):
    [decided] = re.findall(r"^(?:.*> )?(Red|Yellow|Green|Blue)$", printed, re.MULTILINE)
    return decided


def test_the_description_has_the_tensors_of_both_signatures(file, asking_file):
    assert description_in(file)["question_signature"] is None
    described = description_in(asking_file)
    interpreter = Interpreter(model_path=str(asking_file))
    for key, name in (("signature", "state"), ("question_signature", "questions")):
        runner = interpreter.get_signature_runner(name)
        for side, details in (("inputs", runner.get_input_details()), ("outputs", runner.get_output_details())):
            there = {each: detail["shape"].tolist() for each, detail in details.items()}
            assert {each: tensor["shape"] for each, tensor in described[key][side].items()} == there
    assert described["question_signature"]["inputs"]["not_to_ask"] == {"dtype": "bool", "shape": [1, 3]}
    for side in ("inputs", "outputs"):  # a turn of an interview is one call
        assert described["signature"][side].items() <= described["question_signature"][side].items()


def test_the_page_to_which_that_on_phones_points_names_every_output():
    page = (MOBILE.parents[1] / "docs" / "reference.md").read_text(encoding="utf-8")
    names = [tensor.name for tensor in ANSWER if tensor.kind not in (Kind.CODES, Kind.LABEL)]
    assert [name for name in names if f"`{name}`" not in page] == []


ENDS = [
    (["fever"], "Red"),
    (["-fever"], "Blue"),
    (["cough", ""], "Green"),  # nothing more to tell
    (["cough", "cough", "cough", "cough", "cough", "fever"], "Green"),  # at 4 questions
    (["cough", "rash", ""], "Yellow"),  # a safety rule, that lets it ask on
    (["", "cough", ""], "Green"),
    (["cough -cough", "cough", "nonsense", "-cough", "fever"], "Red"),  # what is refused is no question, nor counts
]


@pytest.mark.parametrize(("lines", "expected"), ENDS)
def test_an_interview_ends_as_the_model_says_and_counts_its_questions(file, lines, expected):
    assert decision(interview(file, *lines)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("language", ["kotlin", "swift"])
def test_an_app_of_which_the_file_chooses_no_questions_ends_as_the_model_says(file, language, made_once):
    ends = [decision_in(programs.interview(language, made_once, file, lines)) for lines, _ in ENDS]
    assert ends == [expected for _, expected in ENDS]


def test_an_interview_runs_on_litert_alone_and_says_what_it_is_not_for(file):
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, str(MOBILE / "interview.py"), str(file)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished = subprocess.run(command, input="fever\n", capture_output=True, text=True, env=environment, timeout=120)
    assert decision(finished) == "Red"
    assert finished.stderr == ""  # not LiteRT's line about its delegate either
    first, second, *_ = finished.stdout.splitlines()
    assert "not a medical device" in first
    assert second == description_in(file)["parity"]["statement"]


def test_what_must_not_reach_the_model_is_named(file):
    finished = interview(file, "Feverr", "cough", "-cough", "fever")
    assert re.search("'Feverr' .*fever", finished.stdout)
    assert "'cough' was present before" in finished.stdout
    assert decision(finished) == "Red"


def test_an_app_for_another_vocabulary_refuses_the_file(file, tmp_path):
    assert interview(file, "fever", options=["--vocabulary", VOCABULARY.fingerprint]).returncode == 0
    finished = interview(file, "fever", options=["--vocabulary", "sha256:other"])
    assert finished.returncode == 2
    assert re.search(f"{VOCABULARY.fingerprint}.*sha256:other", finished.stderr)
    with zipfile.ZipFile(file) as archive:
        content = file.read_bytes()[: archive.infolist()[0].header_offset]
    swapped, older = description_in(file), description_in(file) | {"format_version": 1}
    swapped["vocabulary"].reverse()
    for other, why in ((swapped, "vocabulary is damaged"), (older, "another version")):
        written = tmp_path / "other.tflite"
        written.write_bytes(tflite_file.embed(content, other))
        finished = interview(written, "fever")
        assert finished.returncode == 2
        assert why in finished.stderr


def test_what_is_not_a_file_of_ours_is_refused(file):
    other = file.with_name("triage.tflite.json")
    for path, why in (("none", "none: "), (other, "`triage tflite`")):
        finished = interview(path)
        assert finished.returncode == 2
        assert why in finished.stderr


@pytest.mark.parametrize(
    ("example", "version"),
    [("Interview.kt", r"com\.google\.ai\.edge\.litert:litert:\d+\.\d+\.\d+"), ("Interview.swift", r"'\d+\.\d+\.\d+'")],
)
def test_the_app_examples_name_an_interpreter_and_the_signatures_and_tensors_of_the_file(asking_file, example, version):
    """As far as can be seen without their compilers, which not every machine has."""
    text, described = (MOBILE / example).read_text(encoding="utf-8"), description_in(asking_file)
    assert re.search(version, text)
    assert re.search(rf"(format_?version|FORMAT) = {described['format_version']}$", text, re.MULTILINE | re.IGNORECASE)
    turn = described["question_signature"]
    for name in (described["signature"]["name"], turn["name"]):
        assert re.search(rf'(signature|questions)\w* = "{name}"$', text, re.MULTILINE | re.IGNORECASE)
    there = {(side, name): tensor for side in ("input", "output") for name, tensor in turn[f"{side}s"].items()}
    said = re.findall(r'"(\w+)" +// (?:of questions, )?(input|output) (\w+) \[([\w, ]+)\]', text)
    chosen = {name: there["output", f"question_{name}"]["shape"][1] for name in ("codes", "together")}
    sizes = {"E": len(VOCABULARY), "R": len(RULES), "D": 4, "Q": chosen["codes"], "T": chosen["together"]}
    for name, side, dtype, shape in said:
        expected = [sizes.get(size) or int(size) for size in shape.split(", ")]
        assert there[side, name] == {"dtype": dtype, "shape": expected}, name
    named = {(side, name) for name, side, _, _ in said}
    assert {each for each in there if each[0] == "input"} | {
        ("output", name) for name in ("next", "question_codes", "question_together")
    } < named


def test_the_keys_that_the_app_examples_read_are_in_the_description(file):
    description = description_in(file)
    kotlin = (MOBILE / "Interview.kt").read_text(encoding="utf-8")
    keys = set(re.findall(r'description\.get\w+\("(\w+)"\)', kotlin))
    read = "format_version vocabulary vocabulary_fingerprint max_questions actions steps safety_rules texts"
    assert keys == {*read.split()}
    assert keys <= set(description)
    assert set(re.findall(r'entry\.get\w+\("(\w+)"\)', kotlin)) <= set(description["vocabulary"][0])
    assert re.search(r"enum class Step \{ (.*) \}", kotlin)[1].lower().split(", ") == description["steps"]
    swift = (MOBILE / "Interview.swift").read_text(encoding="utf-8")
    fields = re.search(r"struct Description: Decodable \{(.*?)\n\}", swift, re.DOTALL)[1]
    snake = {
        re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name) for name in re.findall(r"let (\w+):", fields)
    }
    entry, sidecar = description["vocabulary"][0], {"file", "sha256"}
    parts = set(description["safety_rules"][0])
    assert snake <= set(description) | set(entry) | sidecar | parts


def test_a_clinician_reads_the_rules_that_fired_and_why_a_person_must_look(file):
    finished = interview(file, "cough", "rash", "")
    assert re.search("novel.*\nYellow\nRule cough_and_rash: Can be measles.\n", finished.stdout)
    finished = interview(file, "fever")
    assert "Rule" not in finished.stdout
    assert "person" not in finished.stdout.split("\n", 2)[2]


def test_an_interview_that_is_broken_off_ends_without_a_decision(file):
    finished = interview(file, "cough")
    assert "input ended" in finished.returncode
    assert not re.search("Red|Yellow|Green|Blue", finished.stdout.split("\n", 2)[2])
