"""`triage ask`, and a client of TriageService for Python programs. Needs grpcio, protobuf and rich, no TensorFlow."""

import argparse
import functools
import queue
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
import rich.box
import rich.console
import rich.table
import rich.text

from schemas import figures
from schemas.errors import InputError
from serving.actions import action_label
from serving.client import channel
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

FAILED = 1
DISCLAIMER = "Research software for decision support. It is no medical device and does not replace a clinician."
_BAR_WIDTH = 30


class TriageClient:
    """Calls a TriageService; every call has a deadline. Use it as a context manager, or call `close`.

    Args:
        server: `HOST:PORT`.
        timeout_seconds: how long a call may take.
        credentials: of `serving.security.tls.channel_credentials`; without them what is said goes in plain text.
        token: one of the server's tokens, "" for a server without.
        insecure: whether the token may go to another machine in plain text.

    Raises:
        InputError: the token cannot be sent safely.

    Each method raises `grpc.RpcError` where the server refuses the call or cannot be reached in time.
    """

    def __init__(
        self,
        server: str,
        timeout_seconds: float = 5.0,
        credentials: grpc.ChannelCredentials | None = None,
        token: str = "",
        insecure: bool = False,
    ):
        if token:
            channel.check_token(server, token, encrypted=credentials is not None or insecure)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._timeout_seconds = timeout_seconds
        self._channel = channel.open_channel(server, credentials)
        self._stub = triage_service_pb2_grpc.TriageServiceStub(self._channel)

    def __enter__(self) -> "TriageClient":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def triage(self, state: triage_pb2.EvidenceState, allow_unknown_codes: bool = False) -> triage_pb2.TriageResponse:
        """Returns the answer to one evidence state."""
        request = triage_service_pb2.TriageRequest(state=state, allow_unknown_codes=allow_unknown_codes)
        return self._stub.Triage(request, timeout=self._timeout_seconds, metadata=self._metadata)

    def batch_triage(
        self, states: Sequence[triage_pb2.EvidenceState], allow_unknown_codes: bool = False
    ) -> list[triage_pb2.TriageResponse]:
        """Returns the answer to each evidence state, in their order."""
        request = triage_service_pb2.BatchTriageRequest(states=states, allow_unknown_codes=allow_unknown_codes)
        return list(self._stub.BatchTriage(request, timeout=self._timeout_seconds, metadata=self._metadata).responses)

    def interview(
        self, max_questions: int = 0, allow_unknown_codes: bool = False, timeout_seconds: float = 1800.0
    ) -> "Interview":
        """Begins an interview, which may take `timeout_seconds` in all. Use it as a context manager."""
        settings = triage_service_pb2.InterviewSettings(
            max_questions=max_questions, allow_unknown_codes=allow_unknown_codes
        )
        call = functools.partial(self._stub.Interview, metadata=self._metadata)
        return Interview(call, settings, timeout_seconds)

    def model_info(self) -> triage_service_pb2.GetModelInfoResponse:
        """Returns which model answers, and how it was made."""
        return self._stub.GetModelInfo(
            triage_service_pb2.GetModelInfoRequest(), timeout=self._timeout_seconds, metadata=self._metadata
        )

    def vocabulary(self) -> triage_service_pb2.GetVocabularyResponse:
        """Returns the evidence that the model knows, with the question to ask a patient for each."""
        return self._stub.GetVocabulary(
            triage_service_pb2.GetVocabularyRequest(), timeout=self._timeout_seconds, metadata=self._metadata
        )


class Interview:
    """Says one thing after the other, each of which is answered on all that was said. Made by `TriageClient.interview`.

    Each method returns the server's InterviewResponse. It raises `grpc.RpcError` where the server refuses what was
    said, which ends the interview, and ValueError after the end.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        settings: triage_service_pb2.InterviewSettings,
        timeout_seconds: float,
    ):
        self._settings: triage_service_pb2.InterviewSettings | None = settings
        self._said: queue.SimpleQueue[triage_service_pb2.InterviewRequest | None] = queue.SimpleQueue()
        self._responses = method(iter(self._said.get, None), timeout=timeout_seconds)

    def __enter__(self) -> "Interview":
        return self

    def __exit__(self, *exception: object) -> None:
        self._said.put(None)
        self._responses.cancel()

    def present(self, code: str) -> triage_service_pb2.InterviewResponse:
        """Says that the patient has `code`."""
        return self._say(evidence=triage_pb2.Evidence(code=code, status=triage_pb2.EVIDENCE_STATUS_PRESENT))

    def absent(self, code: str) -> triage_service_pb2.InterviewResponse:
        """Says that the patient has not `code`."""
        return self._say(evidence=triage_pb2.Evidence(code=code, status=triage_pb2.EVIDENCE_STATUS_ABSENT))

    def not_known(self) -> triage_service_pb2.InterviewResponse:
        """Says that the question could not be answered."""
        return self._say(not_known=True)

    def no_more_evidence(self) -> triage_service_pb2.InterviewResponse:
        """Says that nobody can answer another question: the server must triage."""
        return self._say(no_more_evidence=True)

    def _say(self, **said: Any) -> triage_service_pb2.InterviewResponse:
        self._said.put(triage_service_pb2.InterviewRequest(settings=self._settings, **said))
        self._settings = None  # only the first message holds them
        try:
            return next(self._responses)
        except StopIteration:
            raise ValueError("the interview has ended: begin another") from None


def evidence_state(
    present: Iterable[str],
    absent: Iterable[str] = (),
    questions_asked: int = 0,
    no_more_evidence: bool = False,
    max_questions: int = 0,
) -> triage_pb2.EvidenceState:
    """Returns what is known about a patient as a message; see `triage.proto` for the fields.

    Raises:
        InputError: a number does not fit into 32 bits, or a code is not Unicode text.
    """
    statuses = ((present, triage_pb2.EVIDENCE_STATUS_PRESENT), (absent, triage_pb2.EVIDENCE_STATUS_ABSENT))
    try:
        return triage_pb2.EvidenceState(
            evidence=[triage_pb2.Evidence(code=code, status=status) for codes, status in statuses for code in codes],
            questions_asked=questions_asked,
            no_more_evidence=no_more_evidence,
            max_questions=max_questions,
        )
    except ValueError as error:
        raise InputError(f"not an evidence state: {error}") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage ask`."""
    parser.add_argument("--server", default="127.0.0.1:8500", metavar="HOST:PORT", help="default: 127.0.0.1:8500")
    parser.add_argument("--present", nargs="+", default=[], metavar="CODE", help="evidence that the patient has")
    parser.add_argument("--absent", nargs="+", default=[], metavar="CODE", help="evidence that the patient has not")
    parser.add_argument("--questions-asked", type=int, default=0, metavar="N", help="questions so far; default: 0")
    parser.add_argument(
        "--max-questions", type=int, default=0, metavar="N", help="limit on questions, if lower than the model's"
    )
    parser.add_argument("--no-more-evidence", action="store_true", help="nobody can answer another question")
    parser.add_argument(
        "--allow-unknown-codes", action="store_true", help="leave codes out that the model does not know"
    )
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS", help="wait this long; default: 5")
    channel.add_arguments(parser)
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Asks about one patient and prints the answer.

    Returns:
        0, or 1 where the server cannot be reached or fails.

    Raises:
        InputError: the server refuses the evidence; the message tells why.
    """
    if not 0 < arguments.timeout < float("inf"):
        raise InputError(f"--timeout {arguments.timeout}: expected a number of seconds above 0")
    state = evidence_state(
        arguments.present,
        arguments.absent,
        arguments.questions_asked,
        arguments.no_more_evidence,
        arguments.max_questions,
    )
    credentials = channel.credentials_of(arguments)
    token, insecure = channel.token_of(arguments), arguments.insecure
    try:
        with TriageClient(arguments.server, arguments.timeout, credentials, token, insecure) as client:
            response = client.triage(state, arguments.allow_unknown_codes)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
            raise InputError(error.details()) from error
        sys.stderr.write(f"triage ask: error: {_failure(error, arguments.server, arguments.timeout)}\n")
        return FAILED
    if arguments.json != "-":
        _print(response)
    figures.write(_figures(response), arguments.json)
    return 0


def _failure(error: grpc.RpcError, server: str, timeout_seconds: float) -> str:
    """Returns one line on why a call failed, and what to do."""
    # Where a server answers that it cannot serve now, it says why; these words are gRPC's own.
    if error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith("failed to connect"):
        return channel.failure(server, error.details())
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from {server} within {timeout_seconds:g} s: try again, or raise --timeout"
    if error.code() is grpc.StatusCode.UNAUTHENTICATED:
        return f"{server}: {error.details()} (--token-file FILE)"
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return f"{server} is no triage server: it does not offer triage.v1.TriageService"
    return f"{server}: {error.code().name}: {' '.join((error.details() or 'no details').split())}"


def _figures(response: triage_pb2.TriageResponse) -> dict[str, Any]:
    return {
        "action": action_label(response.action),
        "best_triage": action_label(response.best_triage),
        "q_values": {action_label(q_value.action): q_value.value for q_value in response.q_values},
        "forced": response.forced,
        "unknown_codes": list(response.unknown_codes),
        "conflicting_codes": list(response.conflicting_codes),
        "fired_rules": [
            {
                "rule_id": rule.rule_id,
                "reason": rule.reason,
                "from_action": action_label(rule.from_action),
                "to_action": action_label(rule.to_action),
            }
            for rule in response.fired_rules
        ],
        "novelty": response.novelty if response.HasField("novelty") else None,
        "is_novel": response.is_novel,
        "model_version": response.model_version,
        "vocabulary_fingerprint": response.vocabulary_fingerprint,
    }


def _print(response: triage_pb2.TriageResponse) -> None:
    """Prints an answer for a person to read."""
    console = rich.console.Console(highlight=False, soft_wrap=True)
    action = action_label(response.action)
    forced = " (asking was not possible)" if response.forced else ""
    console.print(rich.text.Text(f"action       {action}{forced}", style="bold"))
    console.print(rich.text.Text(f"best triage  {action_label(response.best_triage)}"))
    table = rich.table.Table("action", rich.table.Column("Q-value", justify="right"), "", box=rich.box.SIMPLE)
    for q_value in response.q_values:
        bar = ("#" if console.options.ascii_only else "█") * round(q_value.value * _BAR_WIDTH)
        table.add_row(action_label(q_value.action), f"{q_value.value:.3f}", bar)
    console.print(table)
    for title, codes in (("unknown", response.unknown_codes), ("conflicting", response.conflicting_codes)):
        if codes:
            console.print(rich.text.Text(f"{title} codes, not part of the decision: {', '.join(codes)}"))
    for rule in response.fired_rules:
        change = f"{action_label(rule.from_action)} -> {action_label(rule.to_action)}"
        console.print(rich.text.Text(f"safety rule {rule.rule_id} ({change}): {rule.reason}"))
    if response.is_novel:
        console.print(
            rich.text.Text(f"unlike anything seen in training (novelty {response.novelty:.3f})", style="bold")
        )
    console.print(rich.text.Text(f"model version {response.model_version}"))
    console.print(rich.text.Text(DISCLAIMER, style="italic"))
