"""The table of an answer's fields names all of them."""

from schemas.answer import ANSWER, BY_SERVER, NOVELTY, PROBABILITIES, RULES, Kind, of_model
from triage.v1 import triage_pb2

FIELDS = set(triage_pb2.TriageResponse.DESCRIPTOR.fields_by_name)


def test_every_field_of_the_response_is_in_the_table_or_added_by_the_server():
    in_table = {tensor.part_of or tensor.name for tensor in ANSWER if tensor.kind is not Kind.REASON}
    assert in_table | BY_SERVER == FIELDS
    assert not in_table & BY_SERVER


def test_the_tensors_of_a_model_are_those_that_it_has_the_parts_for():
    def names(has):
        return {tensor.name for tensor in of_model(frozenset(has))}

    assert names({RULES}) - names(()) == {"rules_fired", "model_action", "model_best_triage"}
    assert names({NOVELTY}) - names(()) == {"novelty", "is_novel"}
    assert names({PROBABILITIES}) - names(()) == {"p_appropriate", "p_safe"}
    assert {tensor.name for tensor in ANSWER} == names({RULES, NOVELTY, PROBABILITIES})
