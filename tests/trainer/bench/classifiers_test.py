import numpy as np
import pytest

from schemas.triage import Action
from trainer.bench import classifiers
from trainer.vignettes.state import sparse_states

E = 6


@pytest.mark.parametrize("name", sorted(classifiers.CLASSIFIERS))
def test_a_classifier_expects_the_share_of_clinicians_that_it_was_taught(vignettes_of, name):
    # Of four clinicians, one says Red and three say Green wherever the first piece is present, all Blue elsewhere.
    taught = vignettes_of([([1, 2], [1, 0, 3, 0]), ([-1, 2], [0, 0, 0, 4])] * 50)
    states = sparse_states(taught, E)
    values = classifiers.classifier(name, states, taught.decision_counts, seed=0)(states[:2])
    # Nobody says Yellow. Logistic regression is pulled towards even shares.
    np.testing.assert_allclose(values, [[0.25, 0.0, 0.75, 0.0], [0.0, 0.0, 0.0, 1.0]], atol=0.1)
    np.testing.assert_allclose(values[:, Action.YELLOW], 0.0)
