"""`triage ask`: asks a server about one patient. Needs grpcio, protobuf, rich and rapidfuzz, no TensorFlow."""

import argparse
import dataclasses
import sys
from typing import Any

import rich.box
import rich.console
import rich.table
import rich.text

from schemas.errors import InputError
from schemas.features import MOST_QUESTIONS
from serving.client import channel
from serving.client.interactive import InterviewOptions, KnownEvidence, ask_complaint, converse
from serving.messages import DEFERRALS, action_label, speaks
from serving.wires.message_json import message_figures
from triage_client import (
    Evidence,
    EvidenceStatus,
    InvalidArgumentError,
    NextQuestion,
    NextStep,
    NotFoundError,
    QuestionReason,
    TriageAction,
    TriageClient,
    TriageError,
    TriageResponse,
    evidence_state,
)
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option

FAILED = 1
DISCLAIMER = "Research software for decision support. It is not a medical device and does not replace a clinician."
_BAR_WIDTH = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class AskOptions(InterviewOptions):
    """What is known about a patient, and what to ask the server about it; see the help of `triage ask`."""

    present: list[str] = option(
        "evidence that is present, or a number, such as temperature=38.9",
        action="extend", nargs="+", default=[], metavar="CODE",
    )  # fmt: skip
    absent: list[str] = option("evidence that is absent", action="extend", nargs="+", default=[], metavar="CODE")
    questions_asked: int = option("number of questions so far; default: 0", default=0, metavar="N")
    explain: bool = option("explain the decision")
    questions: int = option("number of next questions to suggest; default: 0", default=0, metavar="N")
    interactive: bool = option("ask the model's questions one by one until it decides")

    def __post_init__(self) -> None:
        options.check_bounds("questions", self.questions, 0, MOST_QUESTIONS)
        if self.interactive and self.questions:
            raise InputError("--questions: not with --interactive, which asks one by one: leave out one of them")
        if not self.model_name.isprintable():
            raise InputError(f"--model-name {self.model_name!r}: expected a name")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage ask`."""
    channel.add_arguments(parser)
    options.add_arguments(parser, AskOptions)
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Asks about one patient and prints the answer.

    Returns:
        0, or 1 if the server cannot be reached or fails.

    Raises:
        InputError: an option is wrong, or the server refuses the evidence; the message says why.
    """
    asked = options.read(AskOptions, arguments)
    connection = options.read(channel.ConnectionOptions, arguments)
    try:
        response = _ask(asked, connection)
    except InvalidArgumentError as error:
        raise InputError(error.message) from error
    except NotFoundError as error:
        raise InputError(f"--model-name {asked.model_name}: {error.message}") from error
    except TriageError as error:
        sys.stderr.write(f"triage ask: error: {channel.why_it_failed(error, connection)}\n")
        return FAILED
    if arguments.json != "-":
        _print(response)
    json_output.write(message_figures(response), arguments.json)
    return 0


def _ask(asked: AskOptions, connection: channel.ConnectionOptions) -> TriageResponse:
    """Returns the server's answer; the client's own errors of an argument become InputErrors."""
    try:
        state = evidence_state(asked.present, asked.absent, questions_asked=asked.questions_asked)
    except ValueError as error:
        raise InputError(f"not an evidence state: {error}") from error
    with channel.open_client(connection) as client:
        if asked.interactive:
            return _interview(client, asked)
        return asked.triage(client, state, questions=asked.questions, explain=asked.explain)


def _interview(client: TriageClient, asked: AskOptions) -> TriageResponse:
    """Returns the last answer of an interview on the terminal."""
    known = KnownEvidence([*asked.present], [*asked.absent], questions_asked=asked.questions_asked)
    vocabulary = channel.vocabulary_of(client.vocabulary(model=asked.model_name))
    if not known.present and not known.absent:
        ask_complaint(known, vocabulary, sys.stdin.readline)
    response = converse(client, known, asked, vocabulary, sys.stdin.readline)
    sys.stdout.write("\n")
    if not asked.explain:
        return response
    return asked.triage(client, known.state(), not_to_ask=known.not_known, explain=True)


def _piece(evidence: Evidence) -> str:
    return f"{'no ' if evidence.status == EvidenceStatus.EVIDENCE_STATUS_ABSENT else ''}{evidence.code}"


def _print_explanation(console: rich.console.Console, response: TriageResponse) -> None:
    why, decision = response.explanation, action_label(response.best_triage)
    for each in why.effects:
        other = action_label(each.best_triage_without)
        turned = "" if other == decision else f"; without it {other}"
        side = speaks(each, response.best_triage) or "neither"
        console.print(rich.text.Text(f"{side:<8} {_piece(each.evidence)} ({each.support:+.3f}{turned})"))
    console.print(rich.text.Text(f"enough for {decision}: {', '.join(map(_piece, why.sufficient))}"))
    for turn in why.turning[:3]:
        piece, other = _piece(turn.evidence), action_label(turn.best_triage)
        console.print(rich.text.Text(f"would be {other} with {piece} ({turn.likely:.0%} likely)"))


def _worth(question: NextQuestion) -> str:
    """Returns why a question comes where it does."""
    worth = f"worth {question.expected_gain:.3f} bits, {question.likely:.0%} likely"
    if question.rationale:
        return f"{question.rationale.rstrip('.')}; {worth}"
    return f"red flag, {worth}" if question.reason == QuestionReason.QUESTION_REASON_RED_FLAG else worth


_STEPS: dict[Any, str] = {
    NextStep.NEXT_STEP_ASK: "ask a question",
    NextStep.NEXT_STEP_DECIDE: "decide",
    NextStep.NEXT_STEP_HAND_OVER: "hand over to a person",
}


def _print(response: TriageResponse) -> None:
    """Prints an answer for a person to read."""
    console = rich.console.Console(highlight=False, soft_wrap=True)
    action = action_label(response.action)
    forced = " (asking was not possible)" if response.forced else ""
    console.print(rich.text.Text(f"action       {action}{forced}", style="bold"))
    deferred = response.HasField("deferred")
    asks = response.action == TriageAction.TRIAGE_ACTION_ASK
    by_action = NextStep.NEXT_STEP_ASK if asks else NextStep.NEXT_STEP_DECIDE
    says_why = deferred and response.next == NextStep.NEXT_STEP_HAND_OVER
    if response.next not in (NextStep.NEXT_STEP_UNSPECIFIED, by_action) and not says_why:
        console.print(rich.text.Text(f"next         {_STEPS[response.next]}", style="bold"))
    if deferred:
        console.print(rich.text.Text(f"hand over to a person: {DEFERRALS[response.deferred]}", style="bold"))
    console.print(rich.text.Text(f"best triage  {action_label(response.best_triage)}"))
    numbers = ("Q-value", "appropriate", "safe") if response.probabilities else ("Q-value",)
    columns = (rich.table.Column(name, justify="right") for name in numbers)
    table = rich.table.Table("action", *columns, "", box=rich.box.SIMPLE)
    probabilities = {each.decision: (f"{each.appropriate:.0%}", f"{each.safe:.0%}") for each in response.probabilities}
    for q_value in response.q_values:
        bar = ("#" if console.options.ascii_only else "█") * round(q_value.value * _BAR_WIDTH)
        cells = probabilities.get(q_value.action, ("",) * (len(numbers) - 1))
        table.add_row(action_label(q_value.action), f"{q_value.value:.3f}", *cells, bar)
    console.print(table)
    if response.unknown_codes:
        console.print(rich.text.Text(f"unknown codes, ignored in the decision: {', '.join(response.unknown_codes)}"))
    if response.conflicting_codes:
        console.print(rich.text.Text(f"contradictory codes: {', '.join(response.conflicting_codes)}"))
    for rule in response.fired_rules:
        change = f"{action_label(rule.from_action)} -> {action_label(rule.to_action)}"
        console.print(rich.text.Text(f"safety rule {rule.rule_id} ({change}): {rule.reason}"))
    for number, question in enumerate(response.next_questions, start=1):
        codes = ", ".join(question.any_of or question.one_of or [question.code])
        console.print(rich.text.Text(f"next {number}  {question.question} ({codes}, {_worth(question)})"))
    if response.HasField("explanation"):
        _print_explanation(console, response)
    if response.is_novel:
        console.print(
            rich.text.Text(f"unlike anything seen in training (novelty {response.novelty:.3f})", style="bold")
        )
    console.print(rich.text.Text(f"model version {response.model_version}"))
    console.print(rich.text.Text(DISCLAIMER, style="italic"))
