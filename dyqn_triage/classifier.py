"""An agent as an estimator of scikit-learn, for its pipelines and its cross-validation."""

import contextlib
import inspect
import io
import os
import pathlib
import tempfile
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dyqn_triage.agent import fit
from dyqn_triage.data import prepare
from dyqn_triage.frames import Frame
from dyqn_triage.keywords import in_keywords, takes_options
from schemas.errors import InputError
from schemas.triage import DECISION_LABELS, parse_decision
from trainer import presets


class TriageClassifier(ClassifierMixin, BaseEstimator):
    """Learns the decisions `y` of frames `X`, and predicts the best decision.

    `X` is a frame as `prepare` takes it, without `decisions`; `y` has a decision, a list of several, or a text such as
    "Red;Yellow" for each row. `model_` is the trained `Model`, in a folder that goes with it, and `classes_`
    are the colours from the most urgent one, as in the columns of `predict_proba`.

    Args:
        vocabulary: as `prepare` takes it.
        ignore_columns: columns of `X` that are no evidence.
        rules: as `Agent.export` takes them.
        options: hyper-parameters of `fit`, such as `steps=500`, `seed=1`.
    """

    @takes_options(presets.add_arguments, "config", "evaluation_interval")
    def __init__(
        self,
        *,
        vocabulary: pd.DataFrame | str | os.PathLike[str] | None = None,
        ignore_columns: Iterable[str] = (),
        rules: str | os.PathLike[str] | None = None,
        **options: Any,
    ):
        self.vocabulary, self.ignore_columns, self.rules = vocabulary, ignore_columns, rules
        for name in inspect.signature(TriageClassifier).parameters.keys() - {"vocabulary", "ignore_columns", "rules"}:
            setattr(self, name, options.get(name))

    def fit(self, X: pd.DataFrame, y: Iterable[Any]) -> "TriageClassifier":  # noqa: N803 - scikit-learn's names
        """Trains on all rows, and returns itself.

        Raises:
            InputError: a row or a hyper-parameter is faulty.
        """
        decisions = list(y)
        if not isinstance(X, pd.DataFrame) or len(X) != len(decisions):
            raise InputError("X: expected a data frame as long as y: transformers return one with set_output('pandas')")
        rows = X.assign(decisions=pd.Series(decisions, X.index, object))
        given = self.get_params()
        vocabulary, ignored, rules = (given.pop(name) for name in ("vocabulary", "ignore_columns", "rules"))
        with contextlib.ExitStack() as stack:
            folder, said = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())), io.StringIO()
            with in_keywords(vignettes="X"), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                data = prepare(rows, folder / "data", vocabulary, ignore_columns=list(ignored) or None, test_fraction=0)
                agent = fit(data, folder / "job", evaluation_interval=0, **given)
                self.model_ = agent.export(folder / "models", rules=rules)
            weakref.finalize(self.model_, stack.pop_all().close)  # its interviews read the folder
        for line in said.getvalue().splitlines():
            if line.startswith("warning: ") and "test split" not in line:
                warnings.warn(line.removeprefix("warning: "), stacklevel=2)
        self.classes_ = np.array(DECISION_LABELS)
        self.feature_names_in_, self.n_features_in_ = np.array(X.columns, object), X.shape[1]
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:  # noqa: N803
        """Returns the best decision on each row; `model_.predict` says more."""
        check_is_fitted(self)
        with in_keywords(frame="X"):
            return self.model_.predict(X, ignore_columns=self.ignore_columns)["decision"].to_numpy()

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:  # noqa: N803
        """Returns the probabilities `[B, 4]` that each decision is appropriate, which do not sum to 1."""
        check_is_fitted(self)
        with in_keywords(frame="X"):
            return self.model_.predict_proba(X, ignore_columns=self.ignore_columns).to_numpy()

    def score(self, X: pd.DataFrame, y: Iterable[Any]) -> float:  # noqa: N803
        """Returns the share of the rows whose decision is appropriate: one of those in `y`, or between two of them."""
        decisions = Frame("y", pd.DataFrame({"decisions": pd.Series(list(y), dtype=object)}), ["decisions"])
        hits = []
        for row, best in zip(decisions.rows(), self.predict(X), strict=True):
            given = [parse_decision(each) for each in row.fields["decisions"]]
            hits.append(best in DECISION_LABELS[min(given) : max(given) + 1])
        return float(np.mean(hits))
