import re

import pytest

from trainer.config import OptimiserConfig
from trainer.evaluation.cautions import before_training, cautions
from trainer.evaluation.estimates import Estimate


def cautions_of(vignettes=50, forced=0.3, questions=8.0):
    return cautions("test", vignettes, {"forced": Estimate(forced), "questions": Estimate(questions)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"vignettes": 49}, "the test split .*49"),
        ({"forced": 1.0, "questions": 23.0}, "in every episode"),
        ({"forced": 0.0}, "never forced"),
        ({"forced": 0.0, "questions": 0.0}, "asks nothing"),
    ],
)
def test_a_doubtful_evaluation_has_a_warning(given, said):
    (caution,) = cautions_of(**given)
    assert re.search(said, caution)


def test_a_sound_evaluation_has_no_warning():
    assert cautions_of() == []


def split(vignettes, **decisions):
    return {"vignettes": vignettes, "decisions": {"Red": 0, "Yellow": 0, "Green": 0, "Blue": 0} | decisions}


SOUND = split(100, Red=90, Yellow=90, Green=90, Blue=90)


@pytest.mark.parametrize(
    ("train", "learned", "optimiser", "said"),
    [
        (split(100, Green=300), 100, OptimiserConfig(), "train split are Green"),
        (split(360, Red=90, Yellow=90, Green=90, Blue=90), 360, OptimiserConfig(), "one decision"),
        (split(100, Yellow=90, Green=90, Blue=90), 100, OptimiserConfig(), "train split is Red"),
        (SOUND, 75, OptimiserConfig(), "fewer than 100 "),
        (SOUND, 74, OptimiserConfig(), "fewer than 75 "),
        (SOUND, 100, OptimiserConfig(learning_rate=1e9), r"learning rate of 1e\+09 .*sgd"),
        (SOUND, 100, OptimiserConfig("adam", 0.06), "learning rate of 0.06 .*adam"),
    ],
)
def test_a_doubtful_training_has_a_warning_before_it_begins(train, learned, optimiser, said):
    (caution,) = before_training({"train": train, "test": SOUND}, learned, optimiser)
    assert re.search(said, caution)


@pytest.mark.parametrize("optimiser", [OptimiserConfig(), OptimiserConfig("adam", 0.001), OptimiserConfig("sgd", 1.0)])
def test_a_sound_training_has_no_warning(optimiser):
    assert before_training({"train": SOUND, "test": SOUND}, 100, optimiser) == []
