"""CDS Hooks 2.0 under /cds-services: discovery, the cards, and feedback on them."""

import datetime
import json
import os
import pathlib
import threading
import time
from typing import Any

from schemas import feedback
from schemas.errors import InputError
from schemas.triage import DECISION_LABELS
from serving.errors import Fault, FaultyRequestError, NotFoundError, UnavailableError
from serving.hospital.cds_hooks import PREFETCH, SERVICES, CodeMap, card_of, discovery, unread_card
from serving.hospital.fhir_resources import knows_complaint
from serving.messages import action_label, codes_of, state_message
from serving.service import TriageService
from serving.wires.http_endpoints import Exchange
from serving.wires.http_problems import BodyError
from serving.wires.json_body import read_json
from triage.v1 import triage_service_pb2


class FeedbackLog:
    """Appends lines to a file of this process in a directory, which is made if needed; threads may share it.

    Only this user may read it.

    Raises:
        InputError: the directory cannot be written to.
    """

    def __init__(self, directory: pathlib.Path):
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._path = directory / f"feedback-{stamp}-{os.getpid()}.jsonl"
        self._lock = threading.Lock()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.write()
        except OSError as error:
            raise InputError(f"--cds-feedback {directory}: cannot write: {error.strerror or error}") from error

    def write(self, *lines: dict[str, Any]) -> None:
        """Appends lines.

        Raises:
            OSError: they cannot be written.
        """
        content = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()
        with self._lock, open(self._path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(content)


class CdsHooksRoutes:
    """Answers from the typed service, which gRPC calls too; without a log it keeps nothing, and offers no feedback."""

    def __init__(self, service: TriageService, codes: CodeMap, log: FeedbackLog | None):
        self._service, self._codes, self._log = service, codes, log

    def discover(self, exchange: Exchange) -> Any:
        """Lists the services."""
        self._service.check_first()
        return discovery()

    async def call(self, exchange: Exchange) -> Any:
        """Answers the hook with a card.

        There is none where the record holds no complaint that the model knows, unless a part of it cannot be read.
        """
        body, hook = await self._body(exchange), SERVICES[exchange.request.path_params["name"]]
        context = body["context"] if isinstance(body.get("context"), dict) else {}
        prefetch = {} if body.get("prefetch") is None else body["prefetch"]
        faults = [
            Fault(name, f"expected {what}", "FAULTY_HOOK")
            for name, what, there in (
                ("hook", repr(hook), body.get("hook") == hook),
                ("hookInstance", "a text", isinstance(body.get("hookInstance"), str)),
                ("context.patientId", "a text", isinstance(context.get("patientId"), str)),
                ("prefetch", "an object", isinstance(prefetch, dict)),
            )
            if not there
        ]
        if faults:
            raise FaultyRequestError(faults)
        delivered = [value for name, value in prefetch.items() if name in PREFETCH and isinstance(value, dict)]
        if all(value.get("resourceType") == "OperationOutcome" for value in delivered):
            raise BodyError(
                412, f"prefetch: expected any of {', '.join(PREFETCH)}: this server asks no FHIR server itself"
            )
        vocabulary = self._service.vocabulary()
        now = datetime.datetime.now(datetime.timezone.utc)
        sent = {**prefetch, "draftOrders": context.get("draftOrders")}
        findings = await self._service.workers.run(self._codes.read, sent, vocabulary, now, context["patientId"])
        if not knows_complaint(findings.present, vocabulary):
            return {"cards": [unread_card([*findings.left_out, *findings.missing])] if findings.left_out else []}
        state = state_message(findings.present, findings.absent)
        request = triage_service_pb2.TriageRequest(state=state, questions=1, allow_unknown_codes=True, defer_below=0.0)
        answer = await self._service.triage(request, questions_if_able=True)
        card = card_of(answer, request.state, [*findings.left_out, *findings.missing], vocabulary)
        present, absent = codes_of(request.state)
        await self._keep(
            {
                feedback.CARD: card["uuid"],
                "present": present,
                "absent": absent,
                feedback.DECISION: None if answer.HasField("deferred") else action_label(answer.best_triage),
                "model_version": answer.model_version,
            }
        )
        return {"cards": [card]}

    async def feedback(self, exchange: Exchange) -> Any:
        """Keeps clinicians' feedback on cards."""
        body = await self._body(exchange)
        if self._log is None:
            raise NotFoundError("this server keeps no feedback: start it with --cds-feedback")
        given = body.get("feedback")
        if not isinstance(given, list):
            raise FaultyRequestError([Fault("feedback", "expected a list", "FAULTY_FEEDBACK")])
        await self._keep(*(_outcome(each, f"feedback[{number}]") for number, each in enumerate(given)))
        return {}

    async def _body(self, exchange: Exchange) -> dict[str, Any]:
        name = exchange.request.path_params["name"]
        if name not in SERVICES:
            raise NotFoundError(f"there is no service {name[:80]!r}: there are {', '.join(SERVICES)}")
        self._service.check_first()
        body = await self._service.workers.run(read_json, exchange.raw)
        if not isinstance(body, dict):
            raise InputError("expected a JSON object")
        return body

    async def _keep(self, *lines: dict[str, Any]) -> None:
        if self._log is not None:
            try:
                await self._service.workers.run(self._log.write, *lines)
            except OSError as error:
                raise UnavailableError(f"feedback cannot be kept: {error.strerror or error}") from error


def _outcome(given: Any, place: str) -> dict[str, Any]:
    """Returns the line of an entry of `feedback`.

    Raises:
        FaultyRequestError: a field cannot be read; the message names it.
    """
    fields = given if isinstance(given, dict) else {}
    outcome, time = fields.get("outcome"), fields.get("outcomeTimestamp")
    why = fields.get("overrideReason") or {}
    stated = why if isinstance(why, dict) else {}
    comment, reason = stated.get("userComment"), stated.get("reason")
    code = reason.get("code") if isinstance(reason, dict) else None
    decision = next((label for label in DECISION_LABELS if label.casefold() == str(code).strip().casefold()), None)
    for name, there, expected in (
        ("card", isinstance(fields.get("card"), str), "a text"),
        ("outcome", outcome in feedback.OUTCOMES, " or ".join(feedback.OUTCOMES)),
        ("outcomeTimestamp", isinstance(time, str) and feedback.read_time(time) is not None, feedback.A_TIME),
        (
            "overrideReason",
            isinstance(why, dict) and why.keys() <= {"reason", "userComment", "extension"},
            "an object with reason or userComment",
        ),
        ("overrideReason.userComment", isinstance(comment, str | None), "a text"),
        (
            "overrideReason.reason",
            reason is None or (decision and outcome == feedback.OVERRIDDEN),
            f"a code, {' or '.join(DECISION_LABELS)}, and {feedback.OVERRIDDEN} as the outcome",
        ),
    ):
        if not there:
            raise FaultyRequestError([Fault(f"{place}.{name}", f"expected {expected}", "FAULTY_FEEDBACK")])
    return {
        feedback.CARD: fields["card"],
        feedback.OUTCOME: outcome,
        feedback.DECISION: decision,
        "comment": comment,
        feedback.TIME: time,
    }
