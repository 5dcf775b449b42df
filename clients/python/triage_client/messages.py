"""Makes requests from Python values."""

from collections.abc import Iterable
from typing import Any, Optional

from triage_client.v1 import triage_pb2, triage_service_pb2


def evidence_state(
    present: Optional[Iterable[str]] = (),
    absent: Optional[Iterable[str]] = (),
    *,
    questions_asked: Optional[float] = 0,
    no_more_evidence: Optional[bool] = False,
    max_questions: Optional[float] = 0,
) -> triage_pb2.EvidenceState:
    """Returns what is known about a patient at one moment.

    None says nothing, as an argument that is left out.

    Args:
        present: codes of present evidence.
        absent: codes of absent evidence.
        questions_asked: number of questions so far, 0 or more; 3.0 is 3.
        no_more_evidence: whether nobody can answer further questions, so that the server must triage.
        max_questions: limit on the number of questions; 0 means the model's limit.

    Raises:
        TypeError: `present` or `absent` is a single text, or contains anything but texts; a number is not whole.
        ValueError: a number does not fit into 32 bits, or a code is not Unicode text.
    """
    evidence = [
        *_evidence("present", present, triage_pb2.EVIDENCE_STATUS_PRESENT),
        *_evidence("absent", absent, triage_pb2.EVIDENCE_STATUS_ABSENT),
    ]
    return triage_pb2.EvidenceState(
        evidence=evidence,
        questions_asked=_whole("questions_asked", questions_asked),
        no_more_evidence=no_more_evidence or False,
        max_questions=_whole("max_questions", max_questions),
    )


def _whole(name: str, number: Any) -> Any:
    whole = int(number) if isinstance(number, float) and number.is_integer() else number
    if isinstance(whole, bool) or not (whole is None or hasattr(whole, "__index__")):
        raise TypeError(f"{name}: expected a whole number, got {number!r}")
    return whole


def _evidence(
    name: str, codes: Optional[Iterable[str]], status: triage_pb2.EvidenceStatus
) -> list[triage_pb2.Evidence]:
    return [triage_pb2.Evidence(code=code, status=status) for code in several(name, codes)]


def several(name: str, codes: Optional[Iterable[str]]) -> list[str]:
    """Returns the codes of the argument `name`, none for None.

    Raises:
        TypeError: they are a single text, whose letters would be codes, or contain anything but texts.
    """
    if isinstance(codes, (str, bytes)):
        raise TypeError(f"{name}: expected several codes, such as [{codes!r}]; got a single text")
    listed = [] if codes is None else list(codes)
    for code in listed:
        if not isinstance(code, str):
            raise TypeError(f"{name}: expected evidence codes, got {code!r}")
    return listed


class Script:
    """Makes the requests of one interview, of which only the first has the settings."""

    def __init__(self, settings: triage_service_pb2.InterviewSettings):
        self._first: dict[str, Any] = {"settings": settings}

    def answer(
        self, present: Iterable[str], absent: Iterable[str], not_known: Iterable[str]
    ) -> triage_service_pb2.InterviewRequest:
        """Reports what is present, absent and not known, all in answer to one question."""
        said, not_to_ask = evidence_state(present, absent).evidence, [*several("not_known", not_known)]
        if said:
            return self._request(evidence=said[0], also=said[1:], not_to_ask=not_to_ask)
        if not not_to_ask:
            raise ValueError("expected a code that is present, absent or not known")
        return self._request(not_known=True, not_to_ask=not_to_ask)

    def not_known(self) -> triage_service_pb2.InterviewRequest:
        """Reports that the question could not be answered."""
        return self._request(not_known=True)

    def no_more_evidence(self) -> triage_service_pb2.InterviewRequest:
        """Reports that nobody can answer further questions."""
        return self._request(no_more_evidence=True)

    def _request(self, **said: Any) -> triage_service_pb2.InterviewRequest:
        request = triage_service_pb2.InterviewRequest(**self._first, **said)
        self._first = {}
        return request
