"""The client for asyncio: `triage_client.client`, with `await`."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import grpc
import grpc.aio

from triage_client import errors, messages
from triage_client.client import ENDED, INTERVIEW_SECONDS
from triage_client.connection import Connection, checked_seconds
from triage_client.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc


class AsyncTriageClient:
    """Calls a TriageService from asyncio. Make it in the event loop; use it as a context manager, or call `close`.

    Arguments, retries and errors are those of `TriageClient`. Cancelling a task cancels its call.
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
        self._channel = self._connection.channel(grpc.aio)
        self._stub = triage_service_pb2_grpc.TriageServiceStub(self._channel)

    async def __aenter__(self) -> "AsyncTriageClient":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls and interviews should have ended before."""
        await self._channel.close()

    async def triage(
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
        return await self._call(self._stub.Triage, request, timeout_seconds)

    async def batch_triage(
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
        return list((await self._call(self._stub.BatchTriage, request, timeout_seconds)).responses)

    async def model_info(
        self, *, model: str = "", timeout_seconds: Optional[float] = None
    ) -> triage_service_pb2.GetModelInfoResponse:
        """Returns a description of the model that answers, and of how it was made."""
        request = triage_service_pb2.GetModelInfoRequest(model=model)
        return await self._call(self._stub.GetModelInfo, request, timeout_seconds)

    async def vocabulary(
        self, *, model: str = "", timeout_seconds: Optional[float] = None
    ) -> triage_service_pb2.GetVocabularyResponse:
        """Returns the evidence that the model knows, with the question to ask a patient for each."""
        request = triage_service_pb2.GetVocabularyRequest(model=model)
        return await self._call(self._stub.GetVocabulary, request, timeout_seconds)

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
    ) -> "AsyncInterview":
        """Begins an interview of at most `timeout_seconds` in all. Use it as a context manager (`async with`)."""
        settings = triage_service_pb2.InterviewSettings(
            max_questions=max_questions, allow_unknown_codes=allow_unknown_codes, questions=questions, model=model,
            defer_below=defer_below, can_measure=can_measure,
        )  # fmt: skip
        script = messages.Script(settings)
        checked_seconds(timeout_seconds)
        try:
            return AsyncInterview(self._stub.Interview, script, self._connection, timeout_seconds)
        except grpc.aio.UsageError as error:
            raise ValueError(str(error)) from error

    async def _call(self, method: Any, request: Any, timeout_seconds: Optional[float]) -> Any:
        seconds = self._connection.seconds(timeout_seconds)
        try:
            return await method(request, timeout=seconds, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from error
        except grpc.aio.UsageError as error:
            raise ValueError(str(error)) from error


class AsyncInterview:
    """As `Interview`, for asyncio. Made by `AsyncTriageClient.interview`; for one task at a time."""

    def __init__(self, method: Any, script: messages.Script, connection: Connection, timeout_seconds: float):
        self._script = script
        self._answer_seconds = connection.timeout_seconds
        self._stream = method(timeout=timeout_seconds, metadata=connection.metadata)
        self._ended = False

    async def __aenter__(self) -> "AsyncInterview":
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the interview."""
        self._ended = True
        self._stream.cancel()

    async def present(self, code: str, *also: str) -> triage_service_pb2.InterviewResponse:
        """Reports that `code` is present, and with it other codes, all in answer to one question."""
        return await self.answer((code, *also))

    async def absent(self, code: str, *also: str) -> triage_service_pb2.InterviewResponse:
        """Reports that `code` is absent, and with it other codes, all in answer to one question."""
        return await self.answer((), (code, *also))

    async def answer(
        self, present: Iterable[str] = (), absent: Iterable[str] = (), not_known: Iterable[str] = ()
    ) -> triage_service_pb2.InterviewResponse:
        """Reports what of a question's `any_of` is present, absent and not known, at least one code."""
        return await self._send(self._script.answer(present, absent, not_known))

    async def not_known(self) -> triage_service_pb2.InterviewResponse:
        """Reports that the question could not be answered."""
        return await self._send(self._script.not_known())

    async def no_more_evidence(self) -> triage_service_pb2.InterviewResponse:
        """Reports that nobody can answer further questions: the server must triage."""
        return await self._send(self._script.no_more_evidence())

    async def _send(self, request: triage_service_pb2.InterviewRequest) -> triage_service_pb2.InterviewResponse:
        if self._ended:
            raise ValueError(ENDED)
        try:
            response = await asyncio.wait_for(self._exchange(request), self._answer_seconds)
        except asyncio.TimeoutError as error:
            self.close()
            raise errors.late_answer(self._answer_seconds) from error
        except grpc.RpcError as error:
            self.close()
            raise errors.from_rpc(error) from error
        except BaseException:  # a cancelled task: its late answer would be taken for the next one
            self.close()
            raise
        if response is grpc.aio.EOF:
            self.close()
            raise ValueError(ENDED)
        self._ended = response.ended
        return response

    async def _exchange(self, request: triage_service_pb2.InterviewRequest) -> Any:
        # Reading begins first: if the server answers and ends the stream at once, the write may fail, and with it every
        # read that begins later.
        answer = asyncio.ensure_future(self._stream.read())
        try:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # the read reports how the stream ended
                await self._stream.write(request)
            return await answer
        finally:
            answer.cancel()
