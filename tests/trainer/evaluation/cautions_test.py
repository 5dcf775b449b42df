import pytest

from trainer.evaluation.cautions import cautions


def report(vignettes=50, forced=0.3, questions=8.0):
    return {
        "vignettes": vignettes,
        "split": "test",
        "agent": {"forced": {"mean": forced}, "questions": {"mean": questions}},
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (report(vignettes=49), "the test split has 49 vignettes"),
        (report(forced=1.0, questions=23.0), "forced to decide in every episode"),
        (report(forced=0.0), "never forced"),
        (report(forced=0.0, questions=0.0), "asks nothing"),
    ],
)
def test_a_doubtful_evaluation_has_a_warning(given, sentence):
    (caution,) = cautions(given)
    assert sentence in caution


def test_a_sound_evaluation_has_no_warning():
    assert cautions(report()) == []
