import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InputError
from trainer.simulation.knowledge_base import COLUMNS, Catalogue

HEADER = ",".join(COLUMNS[:-1]) + "\n"  # without the instruments, which may be left out
DEMOGRAPHY = (
    "child,risk_factor,Child,Child?,demographic,,age,,0.25\n"
    "adult,risk_factor,Adult,Adult?,demographic,,age,,0.75\n"
    "woman,risk_factor,Woman,Woman?,demographic,,sex,,0.5\n"
    "man,risk_factor,Man,Man?,demographic,,sex,,0.5\n"
)
PAIN = "pain,symptom,Pain,Pain?,general,,,,0.1\n"


def _parse(*lines):
    return Catalogue.parse(HEADER + DEMOGRAPHY + "".join(lines), "evidence.csv")


def test_an_entry_keeps_what_its_line_says():
    entry = _parse(PAIN, "cramp,symptom,Cramp,Cramp?,general,pain,kinds,woman|child !man,0.05\n")["cramp"]
    assert (entry.evidence.name, entry.system, entry.parent, entry.exclusive) == ("Cramp", "general", "pain", "kinds")
    assert entry.only_if == ((("woman", True), ("child", True)), (("man", False),))
    assert entry.background == 0.05


def test_kinds_and_groups_are_in_the_order_of_the_file():
    catalogue = _parse(PAIN)
    assert [entry.code for entry in catalogue.of_kind("risk_factor")] == ["child", "adult", "woman", "man"]
    assert [entry.code for entry in catalogue.group("sex")] == ["woman", "man"]
    assert catalogue.vocabulary.codes == ("child", "adult", "woman", "man", "pain")


def test_synonyms_of_an_unknown_code_are_refused():
    catalogue = _parse(PAIN)
    with pytest.raises(InputError, match=r"synonyms\.csv: .*'pains': .*pain"):
        catalogue.with_column("synonyms", {"pains": ("it hurts",)}, "synonyms.csv")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("pain,symptom,Pain,Pain?,general,,,0.1\n", "line 6: .*9 columns"),
        ("pain,symptom,Pain,Pain?,general,,,,1.0\n", "line 6: 'pain': background '1.0': .*0.0001"),
        ("pain,symptom,Pain,Pain?,general,,,,0\n", "background '0'"),
        ("pain,symptom,Pain,Pain?,general,,,,much\n", "background 'much'"),
        ("Pain,symptom,Pain,Pain?,general,,,,0.1\n", "line 6: 'Pain': .*snake_case"),
        ("pain,symptom,Pain,Pain?,,,,,0.1\n", "system '' .*snake_case"),
        ("pain,symptom,Pain,Pain?,general,ache,,,0.1\n", "parent 'ache'"),
        ("pain,symptom,Pain,Pain?,general,man,,,0.1\n", "parent 'man' .*another kind"),
        ("cramp,symptom,C,C?,general,pain,,,0.1\n" + PAIN, "parent 'pain' .*above it"),
        (PAIN + "cramp,symptom,C,C?,general,pain,,,0.2\n", "background 0.2 .*parent 'pain'"),
        (PAIN + "cramp,symptom,C,C?,general,,,pain,0.2\n", "only_if: 'pain' "),
        ("old,risk_factor,Old,Old?,demographic,,age,,0.2\n", "group 'age': .* 1.2"),
        ('"pain,symptom', "quoted cell"),
    ],
)
def test_a_faulty_line_is_named_with_what_was_expected(line, fault):
    with pytest.raises(InputError, match=fault):
        _parse(line)


def test_all_faults_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        _parse("pain,symptom,Pain,Pain?,general,,,,2\n", "cramp,symptom\n")
    assert len(str(caught.value).splitlines()) == 2


@given(
    st.text(st.characters(codec="utf-8")) | st.lists(st.text(st.sampled_from('ab,"\n0.!|')), max_size=5).map("\n".join)
)
def test_any_text_is_a_catalogue_or_an_input_error(text):
    for content in (text, HEADER + DEMOGRAPHY + text):
        result = ""
        try:
            result = " ".join(Catalogue.parse(content, "evidence.csv").vocabulary.codes)
        except InputError as error:
            result = str(error)
        assert result.startswith(("evidence.csv: ", "child adult woman man"))
