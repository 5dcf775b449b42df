"""An agent from a data frame to an interview, with the commands' results."""

import json
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest

import dyqn_triage
import triage_cli
from schemas.danger_signs import DangerSigns
from tests.builders import network_of, symptoms, trained_agent, write_version
from trainer.graph.mixture import Mixture

CODES = [f"e{number}" for number in range(8)]
SMALL = {
    "preset": "paper", "hidden_sizes": [8], "batch_size": 4, "memory_capacity": 50, "burn_in_steps": 20, "steps": 60,
    "evaluation_interval": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def data(folder):
    """130 vignettes, enough to choose questions by; three clinicians agree on each.

    A patient has exactly one of e6 and e7.
    """
    found = [{CODES[number % 8], CODES[1 + number % 5]} for number in range(130)]
    rows = [
        {
            "vignette_id": f"v{number}",
            "present": sorted(present),
            "absent": [code for code in CODES[:6] if code not in present][number % 4 :][:1],
            "decisions": ["Red" if number % 8 < 2 else "Green"] * 3,
        }
        for number, present in enumerate(found)
    ]
    texts = {"name": CODES, "question": [f"{code}?" for code in CODES]}
    groups = [None] * 6 + ["sex"] * 2
    vocabulary = pd.DataFrame({"code": CODES, "kind": "symptom", **texts, "exclusive": groups})
    return dyqn_triage.prepare(pd.DataFrame(rows), folder / "data", vocabulary=vocabulary)


@pytest.fixture(scope="module")
def agent(data, folder):
    return dyqn_triage.fit(data, folder / "job", **SMALL)


@pytest.fixture(scope="module")
def model(agent, without_litert, folder):
    with without_litert():
        model = agent.export(folder / "models", rules="none")
    with model:
        yield model


def test_an_evaluation_is_that_of_the_command(agent, data, tmp_path):
    evaluation = agent.evaluate(data, orders=2)
    given = ["--job-dir", str(agent.job_dir), "--data", str(data.path), "--orders", "2"]
    assert triage_cli.main(["evaluate", *given, "--json", str(tmp_path / "figures.json")]) == 0
    assert evaluation.figures == json.loads((tmp_path / "figures.json").read_text())
    rows = {row["measure"]: row for row in evaluation.figures["comparison"]["rows"]}
    safety, table = rows["safety"]["agent"], evaluation.table
    assert table.loc["safety", "agent"].to_dict() == {name: safety[name] for name in ("mean", "low", "high")}
    assert table.loc["safety", "clinicians"]["mean"] == 1.0  # they agree
    assert pd.isna(table.loc["questions", "clinicians"]["mean"])
    assert evaluation.verdict is None  # 13 vignettes show nothing
    assert "safety" in evaluation._repr_html_()
    assert "safety" in repr(evaluation)


def test_training_goes_on_in_the_same_job_directory(agent, data):
    again = dyqn_triage.fit(data, agent.job_dir, **SMALL)
    assert repr(again) == repr(agent)
    assert "60 steps" in repr(agent)
    with pytest.raises(dyqn_triage.InputError, match="batch_size 4 there, 5"):
        dyqn_triage.fit(data, agent.job_dir, **{**SMALL, "batch_size": 5})


def test_an_interview_puts_the_models_questions_and_ends_in_its_decision(model):
    interview = model.interview(present=["e0"])
    interview.answer(None)  # what is chosen from
    asked = []
    while interview.question:
        asked.append(interview.question.code)
        assert interview.question.text == f"{asked[-1]}?"
        interview.answer(None if len(asked) == 1 else False)
    assert asked
    assert len(set(asked)) == len(asked)
    assert not {"e0", "e6", "e7"} & set(asked)
    assert interview.decision == interview.figures["best_triage"]
    ended = f"hand over to a person: {interview.deferred}" if interview.deferred else f"{interview.decision}, decided"
    assert repr(interview) == ended
    with pytest.raises(dyqn_triage.InputError, match="is over"):
        interview.answer(True)


def test_a_model_whose_files_are_gone_cannot_be_pickled(model, folder, tmp_path):
    copied = dyqn_triage.Model(shutil.copytree(folder / "models" / model.version, tmp_path / model.version))
    pickle.dumps(copied)
    shutil.rmtree(tmp_path / model.version)
    with pytest.raises(dyqn_triage.InputError, match=str(tmp_path)):
        pickle.dumps(copied)


def test_a_question_with_a_choice_is_answered_by_one_of_its_codes(model):
    interview = model.interview(present=["e0"])
    assert (interview.question.text, interview.question.one_of) == ("What sex is the patient?", ("e6", "e7"))
    for wrong in (True, False, "e0", ""):
        with pytest.raises(dyqn_triage.InputError, match=f"{wrong!r}.* e6, e7 or None"):
            interview.answer(wrong)
    interview.answer("e7")
    assert interview.explain()["status"].to_dict() == {"e0": "present", "e7": "present"}
    not_told = model.interview(present=["e0"])
    not_told.answer(None)
    assert not_told.question.one_of == ()
    with pytest.raises(dyqn_triage.InputError, match=r"'e1'.* True, False or None"):
        not_told.answer("e1")


@pytest.fixture(scope="module")
def grouping_model(without_litert, folder):
    """A model that always asks, first about e1 and e2, the danger signs of e0."""
    signs = DangerSigns({"e0": (("e1", "e2"),)})
    present = np.array([[0.1] * 8, [0.5] * 8], np.float32)
    truths = np.array([[0.9] * 8, [0.1] * 8], np.float32)  # whoever has much is urgent
    mixture = Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, present)
    network = network_of((np.zeros([8, 5]), [0, 0, 0, 0, 1]))
    with without_litert():
        write_version(folder / "grouping", trained_agent(network, symptoms(*CODES), questions=mixture, signs=signs))
    with dyqn_triage.Model(folder / "grouping") as model:
        yield model


@pytest.mark.parametrize(
    ("said", "statuses"),
    [
        (["e2"], {"e1": "absent", "e2": "present"}),
        ({"e1", "e2"}, {"e1": "present", "e2": "present"}),
        ((), {"e1": "absent", "e2": "absent"}),
        (None, {}),
    ],
)
def test_danger_signs_that_are_asked_together_are_answered_by_those_that_are_present(grouping_model, said, statuses):
    interview = grouping_model.interview(present=["e0"])
    question = interview.question
    assert (question.text, sorted(question.any_of)) == ("Do you have any of these?", ["e1", "e2"])
    assert (question.code, question.one_of) == (question.any_of[0], ())
    for wrong in (True, "e1", ["e1", "e0"]):
        with pytest.raises(dyqn_triage.InputError, match=r"e[12], e[12] or None"):
            interview.answer(wrong)
    interview.answer(said)
    assert interview.explain()["status"].to_dict() == {"e0": "present", **statuses}
    assert interview.question.any_of == ()
    assert interview.question.code not in question.any_of


def test_what_nobody_knows_is_refused_and_changes_nothing(model):
    interview = model.interview(present=["e0"])
    with pytest.raises(dyqn_triage.InputError, match=r"present: .*'e9'"):
        interview.add(present=["e9"])
    assert list(interview.explain().index) == ["e0"]
    with pytest.raises(dyqn_triage.InputError, match="nothing is known"):
        model.interview(present=None)


@pytest.mark.parametrize("argument", ["present", "absent"])
def test_a_single_text_is_not_read_letter_by_letter(model, argument):
    with pytest.raises(dyqn_triage.InputError, match=f"{argument}: .*'e0'"):
        model.interview(**{argument: "e0"})
    with pytest.raises(dyqn_triage.InputError, match=f"{argument}: .*'e0'"):
        model.interview(present=["e1"]).add(**{argument: "e0"})
