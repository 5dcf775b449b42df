import json

from trainer.importing.anomalies import EXAMPLES, Findings, Kind, Place, Severity


def test_all_are_counted_and_the_first_five_keep_their_place():
    findings = Findings()
    for number in range(1, 9):
        findings.add(Kind.CONTRADICTION, Place("train.tfrecord", number, f"v{number}"), "'fever'")
    [anomaly] = findings.anomalies({"vignettes": 32})
    assert (anomaly.count, anomaly.share) == (8, 0.25)
    assert [place.record for place, _ in anomaly.examples] == list(range(1, EXAMPLES + 1))
    assert str(anomaly).splitlines() == [
        "error: present and absent: 8 vignettes (25.0%)",
        *(f"    train.tfrecord record {number} (v{number}): 'fever'" for number in range(1, 6)),
        "    ... and 3 more",
        "    -> Ask the author of the vignette which of the two is right.",
    ]


def test_errors_come_first_and_each_feature_is_an_anomaly_of_its_own():
    findings = Findings()
    findings.add(Kind.ONE_CLINICIAN, Place("f"))
    findings.add(Kind.SAME_EVIDENCE, Place("f"))
    findings.add(Kind.WRONG_TYPE, Place("f"), subject="tags")
    findings.add(Kind.WRONG_TYPE, Place("f"), subject="absent")
    anomalies = findings.anomalies({})
    assert [(anomaly.kind.severity, anomaly.subject) for anomaly in anomalies] == [
        (Severity.ERROR, "absent"),
        (Severity.ERROR, "tags"),
        (Severity.WARNING, ""),
        (Severity.NOTE, ""),
    ]
    assert str(anomalies[0]).startswith("error: wrong type [absent]: 1 vignettes")


def test_an_anomaly_goes_into_a_json_file():
    findings = Findings()
    findings.add(Kind.UNUSED_EVIDENCE, Place("vocabulary.csv"), "fever", count=3)
    [anomaly] = findings.anomalies({"vignettes": 10})
    assert json.loads(json.dumps(anomaly.to_dict())) == {
        "severity": "note",
        "name": "evidence never used",
        "subject": None,
        "count": 3,
        "unit": "codes",
        "share": None,
        "examples": [{"file": "vocabulary.csv", "record": None, "vignette_id": None, "detail": "fever"}],
        "advice": Kind.UNUSED_EVIDENCE.advice,
    }


def test_an_id_with_control_characters_does_not_reach_the_terminal():
    assert str(Place("f", 1, "a\x1b[2J")) == "f record 1 ('a\\x1b[2J')"


def test_kinds_have_titles_of_their_own_and_say_what_to_do():
    assert len({kind.title for kind in Kind}) == len(Kind)
    assert all(kind.advice.endswith(".") for kind in Kind)
