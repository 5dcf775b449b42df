"""One interview: what was said so far, and how many questions that took."""

import dataclasses

from serving.errors import Fault, FaultyRequestError
from serving.triage.validation import Rules, check_states
from triage.v1 import triage_pb2, triage_service_pb2


class Interview:
    """Collects what is said; not for use by several threads.

    Args:
        rules: what a state may hold; `allow_unknown_codes` is set by the interview's own settings.
    """

    def __init__(self, rules: Rules):
        self._rules = rules
        self._state = triage_pb2.EvidenceState()
        self._started = False
        self._asked = False  # whether the last response was ASK

    def hear(self, request: triage_service_pb2.InterviewRequest) -> triage_pb2.EvidenceState:
        """Returns the evidence state after one more message.

        What follows a response of ASK answers a question, which counts, also where nothing becomes known.

        Raises:
            FaultyRequestError: the message says nothing, contradicts what was said, or is otherwise faulty.
        """
        if request.HasField("settings"):
            self._take_settings(request.settings)
        said = request.WhichOneof("said")
        if said is None or (said != "evidence" and not getattr(request, said)):
            description = "empty: set evidence, or not_known or no_more_evidence to true"
            raise FaultyRequestError([Fault("said", description, "NOTHING_SAID")])
        if said == "evidence":
            self._state.evidence.append(request.evidence)
        elif said == "no_more_evidence":
            self._state.no_more_evidence = True
        if self._asked and said != "no_more_evidence":
            self._state.questions_asked += 1
        check_states([self._state], self._rules, batch=False)
        self._started = True
        return self._state

    def answer(self, response: triage_pb2.TriageResponse) -> triage_service_pb2.InterviewResponse:
        """Returns the message for the response to the state that `hear` returned."""
        self._asked = response.action == triage_pb2.TRIAGE_ACTION_ASK
        return triage_service_pb2.InterviewResponse(
            response=response, questions_asked=self._state.questions_asked, ended=response.forced
        )

    def _take_settings(self, settings: triage_service_pb2.InterviewSettings) -> None:
        if self._started:
            description = "only the first message of an interview may set them"
            raise FaultyRequestError([Fault("settings", description, "LATE_SETTINGS")])
        self._state.max_questions = settings.max_questions
        self._rules = dataclasses.replace(self._rules, allow_unknown_codes=settings.allow_unknown_codes)
