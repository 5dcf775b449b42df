import pytest

from trainer.config import OptimiserConfig
from trainer.evaluation.cautions import before_training, cautions
from trainer.evaluation.estimates import Estimate


def cautions_of(vignettes=50, forced=0.3, questions=8.0):
    return cautions("test", vignettes, {"forced": Estimate(forced), "questions": Estimate(questions)})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vignettes": 49}, "the test split has 49 vignettes"),
        ({"forced": 1.0, "questions": 23.0}, "forced to decide in every episode"),
        ({"forced": 0.0}, "never forced"),
        ({"forced": 0.0, "questions": 0.0}, "asks nothing"),
    ],
)
def test_a_doubtful_evaluation_has_a_warning(given, sentence):
    (caution,) = cautions_of(**given)
    assert sentence in caution


def test_a_sound_evaluation_has_no_warning():
    assert cautions_of() == []


def split(vignettes, **decisions):
    return {"vignettes": vignettes, "decisions": {"Red": 0, "Yellow": 0, "Green": 0, "Blue": 0} | decisions}


SOUND = split(100, Red=90, Yellow=90, Green=90, Blue=90)


@pytest.mark.parametrize(
    ("train", "learned", "optimiser", "sentence"),
    [
        (split(100, Green=300), 100, OptimiserConfig(), "all decisions in the train split are Green"),
        (split(360, Red=90, Yellow=90, Green=90, Blue=90), 360, OptimiserConfig(), "has one decision"),
        (split(100, Yellow=90, Green=90, Blue=90), 100, OptimiserConfig(), "no decision in the train split is Red"),
        (SOUND, 75, OptimiserConfig(), "with fewer than 100 it cannot"),
        (SOUND, 74, OptimiserConfig(), "with fewer than 75 it cannot choose questions"),
        (SOUND, 100, OptimiserConfig(learning_rate=1e9), "the learning rate of 1e+09 is very high for sgd"),
        (SOUND, 100, OptimiserConfig("adam", 0.06), "the learning rate of 0.06 is very high for adam"),
    ],
)
def test_a_doubtful_training_has_a_warning_before_it_begins(train, learned, optimiser, sentence):
    (caution,) = before_training({"train": train, "test": SOUND}, learned, optimiser)
    assert sentence in caution


@pytest.mark.parametrize("optimiser", [OptimiserConfig(), OptimiserConfig("adam", 0.001), OptimiserConfig("sgd", 1.0)])
def test_a_sound_training_has_no_warning(optimiser):
    assert before_training({"train": SOUND, "test": SOUND}, 100, optimiser) == []
