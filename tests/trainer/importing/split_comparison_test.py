import pytest

from tests.builders import symptoms
from trainer.importing.anomalies import Findings, Kind, Place
from trainer.importing.split_comparison import SplitTally, compare, drifted

VOCABULARY = symptoms(*"abc")


def tally(rows):
    """Rows of (codes, [Red, Yellow, Green, Blue] counts, how often)."""
    result = SplitTally()
    for number, (codes, counts, times) in enumerate(rows):
        for _ in range(times):
            result.add(codes, counts, Place("file", number))
    return result


def anomalies_of(train, test):
    findings = Findings()
    compare(tally(train), tally(test), VOCABULARY, findings)
    return {
        anomaly.kind: (anomaly.count, [detail for _, detail in anomaly.examples]) for anomaly in findings.anomalies({})
    }


def test_evidence_that_only_the_test_split_has_and_evidence_nowhere():
    result = anomalies_of([(["a"], [1, 0, 0, 0], 3)], [(["a", "b"], [1, 0, 0, 0], 2)])
    assert result == {Kind.ONLY_IN_TEST: (1, ["b"]), Kind.UNUSED_EVIDENCE: (1, ["c"])}


def test_evidence_that_only_training_has_is_no_anomaly():
    assert anomalies_of([("abc", [1, 0, 0, 0], 1)], [("a", [1, 0, 0, 0], 1)]) == {}


def test_without_training_vignettes_the_test_evidence_is_no_anomaly():
    assert anomalies_of([], [("abc", [1, 0, 0, 0], 1)]) == {}


def colours(red, green, unit=1):
    return tally([("abc", [unit, 0, 0, 0], red), ("abc", [0, 0, unit, 0], green)])


@pytest.mark.parametrize(
    ("train", "test", "labels"),
    [
        (colours(500, 500), colours(80, 20), ["Red", "Green"]),  # 0.5 and 0.8, far beyond chance
        (colours(500, 500), colours(8, 2), []),  # the same shares of ten vignettes: chance (p = 0.1)
        (colours(50_000, 50_000), colours(5_300, 4_700), []),  # beyond chance, but 0.50 and 0.53
        (colours(500, 500), colours(50, 50), []),
        (colours(500, 500), colours(0, 0), []),
        (colours(10, 0), colours(10, 0), []),  # a single colour
        (colours(10, 0), colours(0, 10), ["Red", "Green"]),
    ],
)
def test_classes_drift_where_the_difference_is_large_and_no_chance(train, test, labels):
    assert list(drifted(train, test)) == labels


def test_only_the_colours_that_moved_are_named():
    train = tally([("abc", [1, 0, 0, 0], 100), ("abc", [0, 1, 0, 0], 400), ("abc", [0, 0, 1, 0], 500)])
    test = tally([("abc", [1, 0, 0, 0], 100), ("abc", [0, 1, 0, 0], 100), ("abc", [0, 0, 1, 0], 800)])
    assert drifted(train, test) == {"Yellow": (0.4, 0.1), "Green": (0.5, 0.8)}
    findings = Findings()
    compare(train, test, VOCABULARY, findings)
    [anomaly] = findings.anomalies({})
    assert anomaly.kind is Kind.CLASS_DRIFT
    assert anomaly.examples[0][1] == "Yellow: 40.0% of the decisions in training, 10.0% in test"


def test_vignettes_without_decisions_have_no_part_in_the_drift():
    test = colours(50, 50)
    test.add("a", [0, 0, 0, 0], Place("file"))
    assert test.vignettes == 101
    assert drifted(colours(500, 500), test) == {}
