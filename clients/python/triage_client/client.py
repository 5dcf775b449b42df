"""The synchronous client. `triage_client.asynchronous` has the same for asyncio."""

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import grpc

from triage_client import errors, messages
from triage_client.connection import Connection, checked_seconds
from triage_client.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

INTERVIEW_SECONDS = 1800.0
ENDED = "the interview has ended: begin another"


class TriageClient:
    """Calls a TriageService. Use it as a context manager, or call `close`; threads may share it.

    Args:
        server: `HOST:PORT`, or any other target that gRPC knows.
        timeout_seconds: largest duration of a call, including retries.
        credentials: of an encrypted connection, such as those of `tls_credentials(...)`; None means plain text.
        token: sent with each call as `authorization: Bearer TOKEN`.
        insecure: whether the token may go to another host in plain text.
        http_proxy: whether to use the HTTP proxy of the environment, which can read plain text.

    Where a server has several models, `model` is the name of one; "" is its first.

    A call that fails with UNAVAILABLE is tried again within its deadline, up to four attempts in all. Methods raise
    `TriageError`, and ValueError for an invalid `timeout_seconds` or after `close`.

    Raises:
        ValueError: an argument is out of its range, or the token would go to another host in plain text.
    """

    def __init__(
        self,
        server: str,
        *,
        timeout_seconds: float = 2.0,
        credentials: Optional[grpc.ChannelCredentials] = None,
        token: Optional[str] = None,
        insecure: bool = False,
        http_proxy: bool = False,
    ):
        self._connection = Connection(server, timeout_seconds, credentials, token, insecure, http_proxy)
        self._channel = self._connection.channel(grpc)
        self._stub = triage_service_pb2_grpc.TriageServiceStub(self._channel)

    def __enter__(self) -> "TriageClient":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection and cancels its calls."""
        self._channel.close()

    def triage(
        self,
        state: triage_pb2.EvidenceState,
        *,
        allow_unknown_codes: bool = False,
        questions: int = 0,
        not_to_ask: Iterable[str] = (),
        explain: bool = False,
        model: str = "",
        defer_below: Optional[float] = None,
        can_measure: bool = False,
        timeout_seconds: Optional[float] = None,
    ) -> triage_pb2.TriageResponse:
        """Returns the answer to one evidence state, with the best `questions` to ask next, without `not_to_ask`.

        With `defer_below`, the answer may be `deferred`: handed over to a person, such as where P(safe) is lower.
        With `can_measure`, questions may be about what takes an instrument.
        """
        request = triage_service_pb2.TriageRequest(
            state=state, allow_unknown_codes=allow_unknown_codes, questions=questions,
            not_to_ask=messages.several("not_to_ask", not_to_ask), explain=explain, model=model,
            defer_below=defer_below, can_measure=can_measure,
        )  # fmt: skip
        return self._call(self._stub.Triage, request, timeout_seconds)

    def batch_triage(
        self,
        states: Sequence[triage_pb2.EvidenceState],
        *,
        allow_unknown_codes: bool = False,
        questions: int = 0,
        model: str = "",
        defer_below: Optional[float] = None,
        can_measure: bool = False,
        timeout_seconds: Optional[float] = None,
    ) -> list[triage_pb2.TriageResponse]:
        """Returns the answer to each evidence state, in the same order. One faulty state fails the call."""
        request = triage_service_pb2.BatchTriageRequest(
            states=states, allow_unknown_codes=allow_unknown_codes, questions=questions, model=model,
            defer_below=defer_below, can_measure=can_measure,
        )  # fmt: skip
        return list(self._call(self._stub.BatchTriage, request, timeout_seconds).responses)

    def model_info(
        self, *, model: str = "", timeout_seconds: Optional[float] = None
    ) -> triage_service_pb2.GetModelInfoResponse:
        """Returns a description of the model that answers, and of how it was made."""
        request = triage_service_pb2.GetModelInfoRequest(model=model)
        return self._call(self._stub.GetModelInfo, request, timeout_seconds)

    def vocabulary(
        self, *, model: str = "", timeout_seconds: Optional[float] = None
    ) -> triage_service_pb2.GetVocabularyResponse:
        """Returns the evidence that the model knows, with the question to ask a patient for each."""
        request = triage_service_pb2.GetVocabularyRequest(model=model)
        return self._call(self._stub.GetVocabulary, request, timeout_seconds)

    def interview(
        self,
        *,
        max_questions: int = 0,
        allow_unknown_codes: bool = False,
        questions: int = 0,
        model: str = "",
        defer_below: Optional[float] = None,
        can_measure: bool = False,
        timeout_seconds: float = INTERVIEW_SECONDS,
    ) -> "Interview":
        """Begins an interview of at most `timeout_seconds` in all. Use it as a context manager.

        Each answer has the best `questions` to ask next; `not_known` is about the first of them.
        """
        settings = triage_service_pb2.InterviewSettings(
            max_questions=max_questions, allow_unknown_codes=allow_unknown_codes, questions=questions, model=model,
            defer_below=defer_below, can_measure=can_measure,
        )  # fmt: skip
        script = messages.Script(settings)
        checked_seconds(timeout_seconds)
        return Interview(self._stub.Interview, script, self._connection, timeout_seconds)

    def _call(self, method: Any, request: Any, timeout_seconds: Optional[float]) -> Any:
        seconds = self._connection.seconds(timeout_seconds)
        try:
            return method(request, timeout=seconds, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from error


class Interview:
    """Reports evidence piece by piece; each answer considers everything so far. Made by `TriageClient.interview`.

    Each answer may take the client's `timeout_seconds`. Methods raise `TriageError`, which ends the interview, and
    ValueError after the end. For one thread at a time.
    """

    def __init__(self, method: Any, script: messages.Script, connection: Connection, timeout_seconds: float):
        self._script = script
        self._answer_seconds = connection.timeout_seconds
        self._requests: queue.SimpleQueue[Optional[triage_service_pb2.InterviewRequest]] = queue.SimpleQueue()
        requests: Iterator[Any] = iter(self._requests.get, None)
        self._responses = method(requests, timeout=timeout_seconds, metadata=connection.metadata)
        self._ended = False

    def __enter__(self) -> "Interview":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the interview."""
        self._ended = True
        self._requests.put(None)
        self._responses.cancel()

    def present(self, code: str, *also: str) -> triage_service_pb2.InterviewResponse:
        """Reports that `code` is present, and with it other codes, all in answer to one question."""
        return self.answer((code, *also))

    def absent(self, code: str, *also: str) -> triage_service_pb2.InterviewResponse:
        """Reports that `code` is absent, and with it other codes, all in answer to one question."""
        return self.answer((), (code, *also))

    def answer(
        self, present: Iterable[str] = (), absent: Iterable[str] = (), not_known: Iterable[str] = ()
    ) -> triage_service_pb2.InterviewResponse:
        """Reports what of a question's `any_of` is present, absent and not known, at least one code."""
        return self._send(self._script.answer(present, absent, not_known))

    def not_known(self) -> triage_service_pb2.InterviewResponse:
        """Reports that the question could not be answered."""
        return self._send(self._script.not_known())

    def no_more_evidence(self) -> triage_service_pb2.InterviewResponse:
        """Reports that nobody can answer further questions: the server must triage."""
        return self._send(self._script.no_more_evidence())

    def _send(self, request: triage_service_pb2.InterviewRequest) -> triage_service_pb2.InterviewResponse:
        if self._ended:
            raise ValueError(ENDED)
        late = threading.Event()
        # The stream's only deadline is that of the whole interview, too long to wait for a silent server.
        timer = threading.Timer(self._answer_seconds, self._give_up, [late])
        timer.daemon = True
        timer.start()
        try:
            self._requests.put(request)
            response = next(self._responses)
            self._ended = response.ended
            return response
        except StopIteration:
            self.close()
            raise ValueError(ENDED) from None
        except grpc.RpcError as error:
            self.close()
            if late.is_set() and error.code() is grpc.StatusCode.CANCELLED:
                raise errors.late_answer(self._answer_seconds) from error
            raise errors.from_rpc(error) from error
        except BaseException:  # Ctrl-C: the late answer would be taken for the next one
            self.close()
            raise
        finally:
            timer.cancel()

    def _give_up(self, late: threading.Event) -> None:
        late.set()
        self._responses.cancel()
