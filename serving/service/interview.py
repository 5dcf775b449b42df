"""The state of one interview: what has been said so far, and how many questions that took."""

from collections.abc import Iterable

from serving.errors import Fault, FaultyRequestError
from serving.service.validation import RequestLimits, check_codes, check_not_to_ask, check_states
from triage.v1 import triage_pb2, triage_service_pb2


class InterviewState:
    """Collects what the caller says; for use by one thread at a time.

    Args:
        limits: what a state may hold; the interview's own settings replace `allow_unknown_codes`.
    """

    def __init__(self, limits: RequestLimits):
        self._limits = limits
        self._state = triage_pb2.EvidenceState()
        self._started = False
        self._asked = False  # whether the last response was ASK, or suggested a question
        self._put: triage_pb2.NextQuestion | None = None  # its first question
        self._opened: set[str] = set()  # which of age and sex were asked for: they are one question together
        self._not_to_ask: dict[str, None] = {}
        self.questions = 0
        """How many questions each response suggests."""
        self.can_measure = False
        """Whether questions may need an instrument."""
        self.defer_below: float | None = None
        """See `serving.service.next_step.set_next_step`."""

    @property
    def not_to_ask(self) -> tuple[str, ...]:
        """The codes that the patient does not know."""
        return tuple(self._not_to_ask)

    def add(self, request: triage_service_pb2.InterviewRequest) -> triage_pb2.EvidenceState:
        """Adds one message and returns the evidence state with it.

        A message that follows ASK, or a suggested question, counts as an answer, even if it makes nothing known.
        The first answers about age and about sex count once together, whatever their form and order.

        Raises:
            FaultyRequestError: the message says nothing, contradicts an earlier one, or is otherwise faulty.
        """
        if request.HasField("settings"):
            self._take_settings(request.settings)
        said = request.WhichOneof("said")
        if said is None or (said != "evidence" and not getattr(request, said)):
            description = "empty: set evidence, or not_known or no_more_evidence to true"
            raise FaultyRequestError([Fault("said", description, "NOTHING_SAID")])
        if request.also and said != "evidence":
            description = "only evidence can be said together with other evidence"
            raise FaultyRequestError([Fault("also", description, "NOTHING_SAID")])
        before = len(self._state.evidence)
        if said == "evidence":
            check_codes(len(request.also), self._limits, "also")  # before the list: a long one takes quadratic time
            self._state.evidence.extend([request.evidence, *request.also])
        elif said == "not_known" and self._put:
            self._not_to_ask |= dict.fromkeys(self._put.any_of or [self._put.code])
        elif said == "no_more_evidence":
            self._state.no_more_evidence = True
        check_not_to_ask(request.not_to_ask, self._limits)
        self._not_to_ask |= {code: None for code in request.not_to_ask if code in self._limits.vocabulary}
        check_states([self._state], self._limits, batch=False)
        if self._asked and said != "no_more_evidence":
            codes = [piece.code for piece in self._state.evidence[before:]]  # also those in place of numbers
            if said == "not_known" and self._put:
                codes = list(self._put.one_of)
            opening = self._openings_of(codes) - self._opened
            self._state.questions_asked += not (opening and self._opened)
            self._opened |= opening
        self._started = True
        return self._state

    def respond(self, response: triage_pb2.TriageResponse) -> triage_service_pb2.InterviewResponse:
        """Returns the message with the response to the state that `add` returned."""
        self._put = response.next_questions[0] if response.next_questions else None
        self._asked = self._put is not None or response.action == triage_pb2.TRIAGE_ACTION_ASK
        ended = response.forced or response.HasField("deferred")
        return triage_service_pb2.InterviewResponse(
            response=response, questions_asked=self._state.questions_asked, ended=ended
        )

    def _openings_of(self, codes: Iterable[str]) -> set[str]:
        """Returns which groups of the opening, such as age, have one of the codes."""
        vocabulary = self._limits.vocabulary
        groups = {vocabulary[vocabulary.index(code)].exclusive for code in codes if code in vocabulary}
        return groups & vocabulary.openings.keys()

    def _take_settings(self, settings: triage_service_pb2.InterviewSettings) -> None:
        if self._started:
            description = "only the first message of an interview may set them"
            raise FaultyRequestError([Fault("settings", description, "LATE_SETTINGS")])
        self._state.max_questions = settings.max_questions
        self.questions = settings.questions
        self.can_measure = settings.can_measure
        self.defer_below = settings.defer_below if settings.HasField("defer_below") else None
        self._limits = self._limits._replace(
            allow_unknown_codes=settings.allow_unknown_codes,
            allow_contradictions=self.defer_below is not None,
        )
