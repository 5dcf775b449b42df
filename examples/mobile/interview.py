"""An interview on a device: Python with only LiteRT and NumPy, without TensorFlow and this package.

    pip install ai-edge-litert
    python examples/mobile/interview.py triage.tflite

Type what is known, one piece of evidence a line: `chest_pain` if it is present, `-fever` if it is absent, an empty line
if nothing more is known. It shows how an app handles input that it must not silently pass to the model: unknown codes,
conflicts, and a vocabulary that the app was not built for. Not a medical device.
"""

import argparse
import contextlib
import difflib
import hashlib
import json
import os
import pathlib
import sys
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert.interpreter import Interpreter

DESCRIPTION, FORMAT = "triage.json", 1
SIGNATURE, QUESTIONS = "state", "questions"
OPENING = {"age": "Age", "sex": "Sex"}
"""Groups of the vocabulary (`exclusive`) of which every patient has exactly one member, and their questions."""

CONTRADICTORY = 1
REASONS = {
    CONTRADICTORY: "the evidence contradicts itself",
    2: "the evidence is unlike anything seen in training",
    3: "no decision is safe enough",
}
"""Why a person must look, by the output `deferred`, which is 0 where none must."""


class RefusedError(Exception):
    """The input must not reach the model; the message says why."""


class Decision(NamedTuple):
    """The answer of the model."""

    action: str  # a triage decision, or "ask"
    best_triage: str  # the decision that it would make without asking
    forced: bool
    q_values: dict[str, float]
    appropriate: dict[str, float]  # probability that each triage decision is; empty if the model estimates none
    rules: list[dict[str, Any]]  # safety rules that fired; `reason` is for the clinician
    novelty: float | None  # from 0 (usual) to 1; None if the model does not estimate it
    deferred: int  # of REASONS; the app hands the case over, and `best_triage` is the least urgency until then


class Question(NamedTuple):
    """A question that the model would put."""

    code: str
    text: str  # to ask a patient
    worth_asking: bool  # going on is worth more than deciding now
    red_flag: bool  # a yes may raise a red flag
    any_of: tuple[str, ...] = ()  # codes of a question about several, any number of which the patient has
    one_of: tuple[str, ...] = ()  # codes of age bands or sexes, exactly one of which the patient has


class TriageModel:
    """A TFLite file that `triage tflite` wrote, with its vocabulary.

    Raises:
        RefusedError: it is not such a file, or its vocabulary is not the one that the app was built for.
    """

    def __init__(self, path: pathlib.Path, expected_fingerprint: str | None = None):
        try:
            with zipfile.ZipFile(path) as archive:
                self.description: dict[str, Any] = json.loads(archive.read(DESCRIPTION))
        except OSError as error:
            raise RefusedError(f"{path}: cannot read: {error.strerror}") from error
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise RefusedError(f"{path}: not a file that `triage tflite` wrote: {error}") from error
        if self.description["format_version"] != FORMAT:
            raise RefusedError(f"{path}: made for a newer app")
        self.questions = {entry["code"]: entry["question"] for entry in self.description["vocabulary"]}
        self.names = {entry["code"]: entry["name"] for entry in self.description["vocabulary"]}
        self.groups = {entry["code"]: entry["exclusive"] for entry in self.description["vocabulary"]}
        self._measured = {entry["code"] for entry in self.description["vocabulary"] if entry["instrument"]}
        self._cells = {code: cell for cell, code in enumerate(self.questions)}
        codes = "".join(f"{code}\n" for code in self.questions)
        fingerprint = f"sha256:{hashlib.sha256(codes.encode()).hexdigest()}"
        if fingerprint != self.description["vocabulary_fingerprint"]:
            raise RefusedError(f"{path}: its vocabulary is damaged")
        if expected_fingerprint not in (None, fingerprint):
            raise RefusedError(f"{path}: made for the vocabulary {fingerprint}, this app for {expected_fingerprint}")
        self.max_questions: int = self.description["max_questions"]
        with silence():  # the first interpreter of a process writes a line about its delegate
            self._interpreter = Interpreter(model_path=str(path))
            self._interpreter.allocate_tensors()
            self._decide = self._interpreter.get_signature_runner(SIGNATURE)
        asks = QUESTIONS in self._interpreter.get_signature_list()  # int8 files have no such signature
        self._ask = self._interpreter.get_signature_runner(QUESTIONS) if asks else None

    def question(self, evidence: dict[str, bool], not_to_ask: set[str], can_measure: bool) -> Question | None:
        """Returns the question that the model would put; None if it cannot choose, or nothing is left to ask."""
        if self._ask is None:
            return None
        not_to_ask = not_to_ask if can_measure else not_to_ask | self._measured
        states, withheld = self._state(evidence), np.zeros([1, len(self._cells)], bool)
        withheld[0, [self._cells[code] for code in not_to_ask]] = True
        best = self._ask(states=states, not_to_ask=withheld)
        cell = int(best["question_codes"][0, 0])
        if cell < 0:
            return None
        codes = list(self._cells)
        worth_asking, red_flag = (bool(best[f"question_{name}"][0, 0]) for name in ("worth_asking", "red_flags"))
        any_of = tuple(codes[each] for each in best["question_together"][0] if each >= 0)
        group = self.groups[codes[cell]]
        members = tuple(code for code in codes if group in OPENING and self.groups[code] == group)
        one_of = members if len(members) > 1 and not {*members} & (evidence.keys() | not_to_ask) else ()
        text = "Do you have any of these?" if any_of else OPENING[group] if one_of else self.questions[codes[cell]]
        return Question(codes[cell], text, worth_asking, red_flag, any_of, one_of)

    def _state(self, evidence: dict[str, bool]) -> np.ndarray:
        states = np.zeros([1, len(self._cells)], np.float32)
        for code, present in evidence.items():
            states[0, self._cells[code]] = 1 if present else -1
        return states

    def decide(self, evidence: dict[str, bool], questions_asked: int) -> Decision:
        """Returns the decision on `evidence`: whether each known code is present. Without any it is ask."""
        answer = self._decide(states=self._state(evidence), questions_asked=np.array([questions_asked], np.int32))
        actions, rules = self.description["actions"], self.description["safety_rules"]
        return Decision(
            action=actions[answer["action"][0]],
            best_triage=actions[answer["best_triage"][0]],
            forced=bool(answer["forced"][0]),
            q_values=dict(zip(actions, answer["q_values"][0].tolist(), strict=True)),
            appropriate=dict(zip(actions, answer["p_appropriate"][0].tolist(), strict=False))  # without ask
            if "p_appropriate" in answer
            else {},
            rules=[rule for rule, fired in zip(rules, answer["rules_fired"][0], strict=True) if fired] if rules else [],
            novelty=float(answer["novelty"][0]) if "novelty" in answer else None,
            deferred=int(answer["deferred"][0]),
        )


class Interview:
    """The known evidence of one patient, and the number of questions asked.

    Questions are about what takes an instrument, such as a stethoscope, only if somebody `can_measure`.
    """

    def __init__(self, model: TriageModel, can_measure: bool = False):
        self._model, self._can_measure = model, can_measure
        self._evidence: dict[str, bool] = {}
        self._questions_asked = 0
        self._opened: set[str] = set()  # which of OPENING were answered
        self._not_known: set[str] = set()

    def question(self) -> Question | None:
        """Returns the question to put next, None if the caller has to choose."""
        return self._model.question(self._evidence, self._not_known, self._can_measure)

    def name(self, code: str) -> str:
        """Returns the plain name of a code."""
        return self._model.names[code]

    def answer(self, question: Question, answer: str) -> tuple[str, ...]:
        """Takes `y`, `n` or `?`, or the numbers of what is present of several.

        Returns:
            The codes that it is about; () if it is no answer.
        """
        codes = question.any_of or question.one_of or (question.code,)
        numbers = [str(number) for number in range(1, len(codes) + 1)] if len(codes) > 1 else []
        typed = {*answer.split()}
        if answer == "?":
            self._not_known |= {*codes}  # they stay unknown, and are not asked again
            return codes
        if answer == "y" and not numbers:
            has = codes
        elif answer == "n" and not question.one_of:
            has = ()
        elif typed and typed <= {*numbers} and (len(typed) == 1 or not question.one_of):
            has = tuple(code for number, code in zip(numbers, codes, strict=True) if number in typed)
        else:
            return ()
        for code in has if question.one_of else codes:  # which other age bands are absent follows
            self.add(code if code in has else f"-{code}")
        return codes

    def add(self, text: str) -> str:
        """Adds `code`, which is present, or `-code`, which is absent; returns the code.

        Raises:
            RefusedError: the code is unknown, or was given as the opposite before; nothing is added.
        """
        code, present = text.removeprefix("-"), not text.startswith("-")
        if code not in self._model.questions:
            similar = difflib.get_close_matches(code.lower().replace(" ", "_"), self._model.questions, n=3)
            meant = f": did you mean {', '.join(similar)}?" if similar else ""
            raise RefusedError(f"{code!r} is not in the vocabulary of this model{meant}")
        if self._evidence.get(code, present) != present:
            raise RefusedError(f"{code!r} was {'absent' if present else 'present'} before: which is right?")
        self._evidence[code] = present
        return code

    def decide(self) -> Decision:
        """Returns the model's decision."""
        return self._model.decide(self._evidence, self._questions_asked)

    def count_answer(self, codes: tuple[str, ...]) -> None:
        """Counts an answer about `codes`; age and sex are one question together."""
        opening = {self._model.groups[code] for code in codes} & OPENING.keys() - self._opened
        self._questions_asked += not (opening and self._opened)
        self._opened |= opening

    def decide_now(self) -> Decision:
        """Returns a triage decision, as nothing more is known."""
        return self._model.decide(self._evidence, self._model.max_questions)


def main() -> int:
    """Runs an interview on the terminal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--vocabulary", metavar="FINGERPRINT", help="vocabulary that the app was built for")
    parser.add_argument("--can-measure", action="store_true", help="ask about what takes an instrument, too")
    arguments = parser.parse_args()
    try:
        model = TriageModel(arguments.file, arguments.vocabulary)
    except RefusedError as reason:
        sys.stderr.write(f"{reason}\n")
        return 2
    say(model.description["notice"])
    say(model.description["parity"]["statement"])
    show(converse(Interview(model, arguments.can_measure)))
    return 0


def converse(interview: Interview) -> Decision:
    """Reads evidence while `asks_next` says so and the user has something to tell."""
    read_evidence(interview, "What is the matter? ", needed=True)
    while asks_next(decision := interview.decide(), question := interview.question()):
        prompt = f"{question.text} (y, n, ?, or other evidence) " if question else "What else? "
        if question and (several := question.any_of or question.one_of):
            listed = "".join(f"\n  {place} {interview.name(code)}" for place, code in enumerate(several, start=1))
            how = "numbers, n for none" if question.any_of else "a number"
            prompt = f"{question.text}{listed}\n({how}, ?, or other evidence) "
        if not read_evidence(interview, prompt, asked=question):
            return interview.decide_now()
    return interview.decide_now() if decision.action == "ask" else decision


def asks_next(decision: Decision, question: Question | None) -> bool:
    """Returns whether the interview goes on: while the model asks what is worth it, or must ask.

    It must ask for age and sex, and about red flags, where the decision is not Red yet. Evidence that contradicts
    itself ends it; other reasons to hand over count at the end.
    """
    asks = decision.action == "ask" and (question is None or question.worth_asking)
    must_ask = question is not None and bool(question.one_of or question.red_flag) and decision.best_triage != "Red"
    return (asks or must_ask) and not decision.forced and decision.deferred != CONTRADICTORY


def read_evidence(interview: Interview, prompt: str, needed: bool = False, asked: Question | None = None) -> bool:
    """Returns whether evidence was added; after refused input the prompt is repeated, which is not a new question."""
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            if needed:
                sys.exit("no evidence was given")
            text = ""
        if not text and not needed:
            return False
        try:
            codes = (asked and interview.answer(asked, text)) or (interview.add(text),)
            if not needed:  # it follows a question
                interview.count_answer(codes)
            return True
        except RefusedError as reason:
            say(str(reason))


def show(decision: Decision) -> None:
    """Prints a decision."""
    for rule in decision.rules:
        say(f"safety rule {rule['rule_id']}: {rule['reason']}")
    if decision.deferred:
        say(f"A person must look: {REASONS[decision.deferred]}.")
    say(f"{decision.action}{' (forced)' if decision.forced else ''}")
    if decision.appropriate:  # what the model decides by
        shown = (f"{triage} {value:.2f}" for triage, value in decision.appropriate.items())
        say(f"Probability that clinicians find it appropriate: {', '.join(shown)}")
    else:
        say(", ".join(f"Q({action}) {value:.3f}" for action, value in decision.q_values.items()))


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Hides what libraries write to standard error while the block runs."""
    shown = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)


def say(line: str) -> None:
    """Prints a line."""
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
