import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.vignettes.split_stats import Moments, SplitStats
from trainer.vignettes.vignette import Vignette


@given(st.lists(st.integers(0, 1_000), min_size=2, max_size=50))
def test_running_moments_are_those_of_the_list(values):
    moments = Moments()
    for value in values:
        moments.add(value)

    assert moments.to_dict()["mean"] == pytest.approx(statistics.mean(values))
    assert moments.to_dict()["sd"] == pytest.approx(statistics.stdev(values), abs=1e-9)


def test_what_too_few_values_leave_undefined_is_none():
    moments = Moments()
    assert moments.to_dict() == {"mean": None, "sd": None}

    moments.add(3)
    assert moments.to_dict() == {"mean": 3.0, "sd": None}


def test_statistics_of_two_vignettes():
    symptoms, risks = [f"s{number}" for number in range(5)], [f"r{number}" for number in range(3)]
    stats = SplitStats(
        Vocabulary(
            [Evidence(code, "symptom", code, f"{code}?") for code in symptoms]
            + [Evidence(code, "risk_factor", code, f"{code}?") for code in risks]
        )
    )
    red, yellow = [Action.RED] * 2, [Action.YELLOW] * 2
    stats.add(Vignette("v1", (*symptoms[:4], *risks[:2]), (symptoms[4],), (*red, *yellow)))
    stats.add(Vignette("v2", tuple(symptoms[:2]), tuple(risks), (Action.BLUE,), split="test"))

    values = stats.to_dict()

    assert values["vignettes"] == 2
    assert values["decisions"] == {"Red": 2, "Yellow": 2, "Green": 0, "Blue": 1}
    assert values["majority"] == {"Red": 1, "Yellow": 0, "Green": 0, "Blue": 1}  # a tie is urgent
    # shares of Red: 2/4 and 0: mean 0.25, sd sqrt(2 * 0.25^2) = 0.3536
    assert values["decision_share"]["Red"] == {"mean": 0.25, "sd": pytest.approx(0.3536, abs=1e-4)}
    # 4 and 2: mean 3, sd sqrt(1 + 1) = 1.4142
    assert values["symptoms_present"] == {"mean": 3.0, "sd": pytest.approx(1.4142, abs=1e-4)}
    assert values["symptoms_absent"]["mean"] == 0.5
    assert values["risk_factors_present"]["mean"] == 1.0
    assert values["risk_factors_absent"]["mean"] == 1.5
    # 4 + 1 + 2 + 0 = 7 and 2 + 0 + 0 + 3 = 5
    assert values["evidence"]["mean"] == 6.0
    assert values["decisions_per_vignette"]["mean"] == 2.5
