import pytest

from schemas.evidence import Evidence, Vocabulary
from trainer.graph.relations import more_general, settled_by
from trainer.simulation.knowledge_base import with_known_relations


@pytest.fixture
def settling(toy_knowledge):
    """From a code to the literals that settle it, as `code` where present and `-code` where absent."""
    vocabulary = toy_knowledge.catalogue.vocabulary
    table = settled_by(vocabulary)
    names = [*vocabulary.codes, *(f"-{code}" for code in vocabulary.codes)]
    return lambda code: {names[cell] for cell in table[vocabulary.index(code)] if cell < len(names)}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("cough", {"cough", "-cough"}),
        ("chest_pain", {"chest_pain", "-chest_pain", "crushing_chest_pain"}),  # a child implies its parent
        ("crushing_chest_pain", {"crushing_chest_pain", "-crushing_chest_pain", "-chest_pain"}),
        ("mild_pain", {"mild_pain", "-mild_pain", "severe_pain"}),  # one pain is not both; it may be neither
        ("man", {"man", "-man", "woman", "-woman"}),  # everybody is one of the two
        (
            "vaginal_bleeding",
            {"vaginal_bleeding", "-vaginal_bleeding", "man", "-woman", "child", "-adult"},
        ),  # women who are no child
        ("pregnant", {"pregnant", "-pregnant", "man", "-woman", "child", "-adult"}),  # no child and no man ever is
        ("smoker", {"smoker", "-smoker", "child", "-adult"}),
    ],
)
def test_a_code_is_settled_by_what_implies_or_excludes_it(settling, code, expected):
    assert settling(code) == expected


def test_codes_without_relations_are_settled_by_their_own_answer():
    vocabulary = Vocabulary([Evidence("E_91", "symptom", "Fever", "Do you have a fever?"),
                             Evidence("cough", "symptom", "Cough", "Do you cough?")])  # fmt: skip
    assert settled_by(vocabulary).tolist() == [[0, 2], [1, 3]]


def test_a_code_is_a_special_kind_of_its_ancestors_and_of_what_nobody_has_it_without():
    """Only who is pregnant has the waters broken; that only men have pain in a testicle is a matter of sex."""
    codes = ("cough", "productive_cough", "green_sputum", "pregnant", "waters_broken", "testicular_pain", "sex_male")
    stated = Vocabulary(Evidence(code, "symptom", code, f"{code}?") for code in (*codes, "sex_female"))
    vocabulary = with_known_relations(stated)
    kinds = {
        code: {codes[cell] for cell in row if cell < 8}
        for code, row in zip(vocabulary.codes, more_general(vocabulary), strict=True)
    }
    assert {code: above for code, above in kinds.items() if above} == {
        "productive_cough": {"cough"},
        "green_sputum": {"productive_cough", "cough"},
        "waters_broken": {"pregnant"},
    }
