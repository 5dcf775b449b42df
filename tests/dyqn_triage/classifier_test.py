"""The agent as scikit-learn's estimators are used."""

import inspect
import pickle
import subprocess
import sys
import typing

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dyqn_triage
from dyqn_triage import TriageClassifier
from tests.dyqn_triage.agent_test import SMALL

X = pd.DataFrame({"fever": [1, 0] * 12, "cough": [0, 1, None] * 8, "ward": "A"})
Y = [["Red", "Yellow"] if fever else "Green" for fever in X["fever"]]
QUICK = {name: value for name, value in SMALL.items() if name != "evaluation_interval"}  # there is no test split
QUICK |= {"rules": "none", "ignore_columns": ["ward"]}


@pytest.fixture(scope="module")
def fitted(without_litert):
    with without_litert():
        classifier = TriageClassifier(**QUICK)
        assert classifier.fit(X, Y) is classifier
    return classifier


def test_hyper_parameters_are_those_of_fit_and_a_clone_has_them():
    parameters = inspect.signature(dyqn_triage.fit).parameters
    assert parameters["learning_rate"].annotation is float
    assert parameters["hidden_sizes"].annotation == list[int]
    assert set(typing.get_args(parameters["preset"].annotation)) == {"default", "paper"}
    classifier = clone(TriageClassifier(**QUICK).set_params(learning_rate=0.1))
    assert classifier.get_params()["learning_rate"] == 0.1
    assert classifier.get_params()["hidden_sizes"] == [8]
    assert "learning_rate=0.1" in repr(classifier)
    for call in (TriageClassifier, lambda **wrong: dyqn_triage.fit("data", "job", **wrong)):
        with pytest.raises(dyqn_triage.InputError, match=r"stepz: .* steps"):
            call(stepz=5)


def test_predictions_and_score_are_those_of_the_model(fitted):
    decisions = fitted.predict(X)
    assert fitted.classes_.tolist() == ["Red", "Yellow", "Green", "Blue"]
    assert decisions.tolist() == fitted.model_.predict(X, ignore_columns=["ward"])["decision"].tolist()
    suitable = [best in given for best, given in zip(decisions, Y, strict=True)]
    assert fitted.score(X, Y) == pytest.approx(np.mean(suitable))
    between = [["Red", "Blue"]] * len(X)
    assert fitted.score(X, between) == 1.0


def test_faults_name_the_arguments_of_the_estimator(fitted):
    for call in (
        lambda: fitted.predict(X.to_numpy()),
        lambda: TriageClassifier(**QUICK).fit(X, Y[1:]),
        lambda: TriageClassifier(**QUICK).fit(X, ["Purple", *Y[1:]]),
    ):
        with pytest.raises(dyqn_triage.InputError, match=r"^X: "):
            call()


def test_a_pickle_holds_the_model_and_its_interviews(fitted):
    copied = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - made here
    pd.testing.assert_frame_equal(copied.model_.predict(X[["fever"]]), fitted.model_.predict(X[["fever"]]))
    assert copied.n_features_in_ == 3
    with copied.model_ as model:
        assert model.interview(present=["fever"]).decision == fitted.predict(X[:1])[0]


@pytest.mark.slow
def test_a_pipeline_is_searched_by_patient_in_processes_and_loaded_in_another(tmp_path):
    grid = {"triageclassifier__seed": [1, 2]}
    pipeline = make_pipeline(FunctionTransformer(), TriageClassifier(**QUICK))
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(2), n_jobs=2, error_score="raise")
    search.fit(X, Y, groups=np.arange(len(X)) // 2)
    scores = search.cv_results_["mean_test_score"]
    assert ((scores >= 0) & (scores <= 1)).all()
    joblib.dump((search.best_estimator_, X), tmp_path / "dumped")
    script = "import joblib, sys; agent, frame = joblib.load(sys.argv[1]); print(*agent.predict(frame))"
    printed = subprocess.run([sys.executable, "-c", script, tmp_path / "dumped"], check=True, capture_output=True)
    assert printed.stdout.decode().split() == search.predict(X).tolist()
