"""What follows from what is known, and what cannot be so together, by the relations that a vocabulary states."""

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.relations import Contradiction

TEXT = """\
code,kind,name,question,parent,exclusive
pain,symptom,Pain,Pain?,,
chest_pain,symptom,Chest pain,Chest pain?,pain,
crushing,symptom,Crushing,Crushing?,chest_pain,
child,risk_factor,Child,Child?,,age
baby,risk_factor,Baby,Baby?,child,
adult,risk_factor,Adult,Adult?,,age
cough,symptom,Cough,Cough?,,
"""


@pytest.fixture(scope="module")
def relations():
    return Vocabulary.parse(TEXT, "vocabulary.csv").relations


@pytest.mark.parametrize(
    ("present", "absent", "faults"),
    [
        (["crushing"], ["pain"], [Contradiction("crushing", "pain", False)]),
        (["adult", "child"], [], [Contradiction("child", "adult", True)]),
        (["adult", "baby"], [], [Contradiction("baby", "adult", True)]),
        (["baby", "child", "pain"], ["crushing", "chest_pain", "adult"], []),  # an absent child says nothing of pain
        ([], ["child", "adult"], []),
        (["gout"], ["cough"], []),
    ],
)
def test_what_contradicts_a_parent_or_a_group_is_found(relations, present, absent, faults):
    assert list(relations.contradictions(present, frozenset(absent))) == faults


@pytest.mark.parametrize(
    ("code", "present", "absent", "follows"),
    [
        ("pain", {"pain", "crushing"}, set(), True),
        ("crushing", {"pain", "crushing"}, set(), False),
        ("chest_pain", set(), {"pain", "chest_pain"}, True),
        ("pain", set(), {"pain", "chest_pain"}, False),
        ("adult", {"baby"}, {"adult"}, True),
        ("baby", {"adult"}, {"baby"}, True),
        ("adult", {"cough"}, {"adult"}, False),
    ],
)
def test_what_follows_from_other_evidence_is_known(relations, code, present, absent, follows):
    assert relations.follows(code, present, absent) == follows


@pytest.mark.parametrize(
    ("stated", "independent"),
    [
        ([("pain", True), ("crushing", True)], [("crushing", True)]),
        ([("pain", False), ("crushing", False)], [("pain", False)]),
        ([("child", True), ("adult", False)], [("child", True)]),  # they say the same
        ([("adult", False), ("child", True)], [("adult", False)]),
        ([("adult", False), ("child", True), ("baby", True)], [("baby", True)]),
        ([("cough", True), ("gout", False)], [("cough", True), ("gout", False)]),
    ],
)
def test_what_follows_from_no_other_status_is_independent(relations, stated, independent):
    assert relations.independent(stated) == independent


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("ache,symptom,A,A?,aches,", "'ache': .*parent 'aches'"),
        ("ache,symptom,A,A?,ache,", "'ache' .*own ancestor"),
        ("teen,risk_factor,T,T?,child,age", "'teen': .*group 'age'"),
    ],
)
def test_an_impossible_relation_is_refused_with_the_file(line, fault):
    with pytest.raises(InputError, match=f"^vocabulary.csv: .*{fault}"):
        Vocabulary.parse(TEXT + line + "\n", "vocabulary.csv")


@pytest.mark.parametrize("only_if", ["women", "woman|women", "!", "woman\npain"])
def test_who_can_have_something_is_said_in_one_line_of_known_codes(only_if):
    woman = Evidence("woman", "risk_factor", "Woman", "Woman?")
    pain = Evidence("pain", "symptom", "Pain", "Pain?")
    with pytest.raises(InputError, match=r"'pregnant'.*only_if"):
        Vocabulary([woman, pain, Evidence("pregnant", "risk_factor", "Pregnant", "Pregnant?", only_if=only_if)])
