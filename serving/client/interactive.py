"""`triage ask --interactive`: an interview on the terminal, in which the model chooses the questions."""

import dataclasses
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import rich.console
import rich.text

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.questions import NONE_OF
from serving.client.search import Search
from serving.client.words import words_of
from serving.messages import ANSWERS, IN_DANGER, action_label
from triage_client import (
    EvidenceState,
    NextQuestion,
    NextStep,
    QuestionReason,
    TriageAction,
    TriageClient,
    TriageResponse,
    evidence_state,
)
from triage_runtime.command_line.options import option

_ENOUGH = "no more questions"
_COMPLAINT = "What is the presenting complaint, in words or codes? "
_OFFERED = 3
"""Matches of what was typed that are offered, so that they fit in a line or two."""


@dataclasses.dataclass
class KnownEvidence:
    """What is known of the patient so far."""

    present: list[str]
    absent: list[str]
    not_known: list[str] = dataclasses.field(default_factory=list)
    questions_asked: int = 0
    no_more_evidence: bool = False

    def state(self) -> EvidenceState:
        """Returns it as a message."""
        return evidence_state(
            self.present,
            self.absent,
            questions_asked=self.questions_asked,
            no_more_evidence=self.no_more_evidence,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterviewOptions:
    """What is asked of the server beside the patient, as in EvidenceState and TriageRequest, and how of the user."""

    allow_unknown_codes: bool = option("ignore codes that the model does not know", default=False)
    model_name: str = option("model to ask, if the server has several; default: the first", default="", metavar="NAME")
    defer_below: float | None = option(
        "hand over to a person if the case is novel or contradictory, or P(safe) is below P", default=None, metavar="P"
    )
    can_measure: bool = option("allow questions that need an instrument, such as a stethoscope", default=False)

    def triage(self, client: TriageClient, state: EvidenceState, **more: Any) -> TriageResponse:
        """Returns the server's answer to a state; `more` are further arguments of `TriageClient.triage`."""
        return client.triage(
            state, allow_unknown_codes=self.allow_unknown_codes, model=self.model_name, defer_below=self.defer_below,
            can_measure=self.can_measure, **more,
        )  # fmt: skip


def converse(
    client: TriageClient,
    known: KnownEvidence,
    options: InterviewOptions,
    vocabulary: Vocabulary,
    read: Callable[[], str],
) -> TriageResponse:
    """Puts questions while the next step is to ask, adds the answers to what is known, and returns the last response.

    `read` returns a line that somebody types, "" at the end of the input.

    Raises:
        InputError: the input ends before the interview does.
        TriageError: the server refuses or fails.
    """
    console, search = rich.console.Console(highlight=False, soft_wrap=True), Search(tuple(vocabulary))
    while True:
        state = known.state()
        # Two questions are age and sex, which are asked in one turn.
        response = options.triage(client, state, questions=2, not_to_ask=known.not_known)
        asks = response.next == NextStep.NEXT_STEP_ASK
        decided = not asks and response.action != TriageAction.TRIAGE_ACTION_ASK
        if decided or response.forced or response.HasField("deferred"):
            return response  # forced to ask: nothing is known, and nobody can say more
        if not asks or not response.next_questions:
            known.no_more_evidence = True
            console.print("\nNo remaining question is worth asking.")
            continue
        opening = list(itertools.takewhile(lambda question: question.one_of, response.next_questions))
        before = (*known.present, *known.absent, *known.not_known)
        for place, question in enumerate(opening or response.next_questions[:1]):
            if known.no_more_evidence:
                break
            number = f"{known.questions_asked + 1}. "
            begin = f"\n{number}" if not place else " " * len(number)
            console.print(rich.text.Text(f"{begin}{question.question}", style="bold"))
            red_flag = question.reason == QuestionReason.QUESTION_REASON_RED_FLAG
            why = "may be a red flag" if red_flag else f"worth {question.expected_gain:.3f} bits"
            codes = ", ".join(question.any_of or [question.code])
            about = "" if question.one_of and not red_flag else f"{codes}: {why}; "
            so_far = action_label(response.best_triage)
            console.print(rich.text.Text(f"   {about}best triage so far: {so_far}"))
            _take(console, known, question, vocabulary, search, read)
        known.questions_asked += before != (*known.present, *known.absent, *known.not_known)


def ask_complaint(known: KnownEvidence, vocabulary: Vocabulary, read: Callable[[], str]) -> None:
    """Asks for codes, numbers or words, of which the first matches are offered, until at least one code is known.

    Raises:
        InputError: the input ends before.
    """

    def typed(text: str) -> str:
        sys.stdout.write(text)
        sys.stdout.flush()
        line = read()
        if not line:
            raise InputError("nothing is known about the patient: give --present CODE, or type a complaint")
        return line.strip()

    search = Search(tuple(vocabulary))
    line = typed(_COMPLAINT)
    while not known.present and not known.absent:
        if not line:
            line = typed(f"Nothing was typed. {_COMPLAINT}")
            continue
        try:
            present, absent, _ = vocabulary.read_numbers(line.split(), known.absent)
        except InputError as error:
            line = typed(f"{error}\n{_COMPLAINT}")
            continue
        if all(code in vocabulary for code in present):
            known.present, known.absent = present, absent
            continue
        offered = {number: number.replace("_", " ").replace("=", " ") for number in search.numbers(line)}
        said = set[str]().union(*map(vocabulary.bands.codes_of, offered))  # by these numbers
        found = [entry for entry in search.find(line) if entry.code not in said][:_OFFERED]
        names = [*offered, *(entry.name for entry in found)]
        offered |= {entry.code: f"{entry.name} ({entry.code})" for entry in found}
        if not offered:
            line = typed(f"No match: try another word for it. {IN_DANGER}\n{_COMPLAINT}")
            continue
        codes = {str(number): code for number, code in enumerate(offered, start=1)}
        choices = "   ".join(f"{number} {offered[code]}" for number, code in codes.items())
        line = typed(f"   {choices}   (one or more numbers, or other words): ")
        while (picked := _numbers(line, names)) and all(map(str.isdecimal, picked)):
            if codes.keys() >= {*picked}:
                line = " ".join(code for number, code in codes.items() if number in picked)
                break
            line = typed(f"   expected numbers from 1 to {len(codes)}, or other words: ")


def _take(
    console: rich.console.Console,
    known: KnownEvidence,
    question: NextQuestion,
    vocabulary: Vocabulary,
    search: Search,
    read: Callable[[], str],
) -> None:
    """Adds the answer to a question; what is no answer is asked again, with the reason.

    Of red flags that are asked together, those without an answer are asked about again: nobody has denied them.

    Raises:
        InputError: the input ends before: nobody has said that there are no more answers.
    """
    measure = "" if question.any_of else vocabulary.bands.measure_of(question.code)
    yes, no, not_known = (answer.lower() for answer in ANSWERS)
    members = list(question.any_of or question.one_of)
    several, rest = bool(question.any_of), members or [question.code]
    while True:
        names = [vocabulary[vocabulary.index(code)].name for code in rest] if members else [yes]
        denial = [] if question.one_of else [NONE_OF.lower() if several else no]
        texts = [*names, *denial, not_known, _ENOUGH]
        choices = "   ".join(f"{number} {text}" for number, text in enumerate(texts, start=1))
        if several:
            choices += f"   (one or more numbers; 1? for {not_known})"
        number_of = ""
        if measure:
            number_of = f"={measure}{f' in {unit}' if (unit := vocabulary.bands.units[measure]) else ''}"
            choices += f"   {number_of}"
        console.print(f"   {choices}: ", end="", markup=False)
        line = read()
        if not line:
            raise InputError(f"the input ended at a question: {len(texts)} ({_ENOUGH}) ends an interview")
        answer = line.strip()
        if not sys.stdin.isatty():
            console.print(answer)  # in a transcript, too, the answer stands behind its question
        try:
            if number := _number(answer, measure, search):
                _add_number(known, number, vocabulary)
                return
            picked = _picked(answer, texts, len(names) if several else 0, number_of)
        except InputError as error:
            console.print(f"   {error}", markup=False)
            continue
        said = {rest[place]: doubtful for place, doubtful in picked.items() if place < len(names)}
        known.present += [code for code, doubtful in said.items() if not doubtful]
        known.not_known += [code for code, doubtful in said.items() if doubtful]
        rest = [code for code in rest if code not in said]
        last = len(texts) - max(picked)  # who says something of the rest says it last
        if last == 1:
            known.no_more_evidence = True
        elif last == 2:
            known.not_known += rest if several else [question.code]
        elif max(picked) >= len(names):
            known.absent += rest
        elif several and rest:
            console.print("   And the others?")
            continue
        return


def _number(answer: str, measure: str, search: Search) -> str:
    """Returns an answer as a number of a measure, "" if it is none; a whole number alone is that of a choice."""
    if not measure or answer.isdecimal():
        return ""
    typed = answer.removeprefix("=").strip()
    return search.number(measure, typed) or (f"{measure}={typed}" if answer.startswith("=") else "")


def _add_number(known: KnownEvidence, number: str, vocabulary: Vocabulary) -> None:
    """Adds what a number says; raises an InputError where it is faulty, or contradicts what is known."""
    present, absent, _ = vocabulary.read_numbers([*known.present, number], known.absent)
    if set(present) & set(absent) or any(vocabulary.relations.contradictions(present, set(absent))):
        raise InputError(f"{number!r} contradicts what is known")  # the server would end the interview
    known.present, known.absent = present, absent


def _numbers(answer: str, texts: Sequence[str]) -> list[str]:
    """Returns the numbers of choices that were typed, and for the words of a choice its number; the rest as it is."""
    numbers = {tuple(words_of(text)): str(number) for number, text in enumerate(texts, start=1)}
    typed: list[str] = []
    for part in [answer] if tuple(words_of(answer)) in numbers else answer.split(","):
        number = numbers.get(tuple(words_of(part)))
        typed += [number + "?" * part.rstrip().endswith("?")] if number else part.split()
    return typed


def _picked(answer: str, texts: Sequence[str], signs: int, number_of: str) -> dict[int, bool]:
    """Returns the places of the choices that an answer names, from 0, and whether each is in doubt, as "2?" is.

    Args:
        answer: what was typed.
        texts: the choices.
        signs: how many of them, the first ones, may be named together and be in doubt; 0 if only one may be named.
        number_of: what else may be typed, for errors.

    Raises:
        InputError: it names none, or too many.
    """
    picked: dict[int, bool] = {}
    other = f" or its words{f', or {number_of}' if number_of else ''}"
    for typed in _numbers(answer, texts):
        number = typed.removesuffix("?") if signs else typed
        last = signs if number != typed else len(texts)
        if not number.isdecimal() or not 1 <= int(number) <= last:
            raise InputError(f"{answer!r}: expected a number from 1 to {last}{other}")
        picked[int(number) - 1] = number != typed
    if not picked:
        raise InputError(f"nothing was typed: expected a number from 1 to {len(texts)}{other}")
    if sum(place >= signs for place in picked) > 1:
        raise InputError(f"{answer!r}: expected only one number from {signs + 1} to {len(texts)}")
    return picked
