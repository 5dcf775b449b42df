"""The agent as scikit-learn's estimators are used."""

import inspect
import typing

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
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
        with pytest.raises(dyqn_triage.InputError, match="stepz: no such keyword: did you mean steps"):
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


@pytest.mark.slow
def test_it_is_a_step_of_a_pipeline_that_is_cross_validated_by_patient():
    clean = FunctionTransformer(lambda frame: frame.replace({"cough": {9: None}}))
    pipeline = make_pipeline(clean, TriageClassifier(**QUICK))
    scores = cross_val_score(pipeline, X, Y, groups=np.arange(len(X)) // 2, cv=GroupKFold(2))
    assert ((scores >= 0) & (scores <= 1)).all()
