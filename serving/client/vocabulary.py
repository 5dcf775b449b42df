"""The vocabulary that a server lists."""

from schemas.evidence import FLAGGED, Evidence, Vocabulary
from serving.wires.message_json import EVIDENCE_KINDS
from triage_client.v1 import triage_service_pb2


def vocabulary_of(listed: triage_service_pb2.GetVocabularyResponse) -> Vocabulary:
    """Returns the answer of GetVocabulary as a vocabulary."""
    return Vocabulary(
        Evidence(
            entry.code, EVIDENCE_KINDS[entry.kind], entry.name, entry.question, tuple(entry.synonyms),
            entry.parent, entry.exclusive, entry.band, entry.instrument, FLAGGED if entry.red_flag else "",
        )
        for entry in listed.entries
    )  # fmt: skip
