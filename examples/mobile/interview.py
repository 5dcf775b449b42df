"""An interview on a device: Python with only LiteRT and NumPy, without TensorFlow and this package.

    pip install ai-edge-litert
    python examples/mobile/interview.py triage.tflite

Type the codes of the complaint, `-fever` for one that is absent, and answer what is asked. It shows how an app handles
input that it must not silently pass to the model: unknown codes, conflicts, and a vocabulary that the app was not built
for. Not a medical device.
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
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert.interpreter import Interpreter

DESCRIPTION, FORMAT = "triage.json", 2
SIGNATURE, QUESTIONS = "state", "questions"
OPENING = ("age", "sex")
"""Groups of the vocabulary (`exclusive`) of which every patient has exactly one member."""

REASONS = {1: "contradictory", 2: "novel", 3: "unsure"}
"""Why a person must look, by the output `deferred`, which is 0 where none must."""
ASK, HAND_OVER = "ask", "hand_over"
"""Of `steps` in the description; else the interview ends with the decision."""


class RefusedError(Exception):
    """The input must not reach the model; the message says why."""


class Decision(NamedTuple):
    """The answer of the model."""

    action: str  # a triage decision, or "ask"
    best_triage: str  # the decision that it would make without asking
    q_values: dict[str, float]
    chances: dict[str, tuple[float, float]]  # that each triage decision is appropriate, and safe; {} if not estimated
    rules: list[dict[str, Any]]  # safety rules that fired; `reason` is for the clinician
    novelty: float | None  # from 0 (usual) to 1; None if the model does not estimate it
    deferred: int  # of REASONS; the app hands the case over, and `best_triage` is the least urgency until then


class Question(NamedTuple):
    """A question that the model would put."""

    code: str
    text: str  # to ask a patient
    any_of: tuple[str, ...]  # codes of a question about several, any number of which the patient has
    one_of: tuple[str, ...]  # codes of age bands or sexes, exactly one of which the patient has


class Turn(NamedTuple):
    """Where an interview stands."""

    step: str  # ASK, HAND_OVER or to decide
    decision: Decision
    question: Question | None  # to ask; None where the file cannot choose one, and the app has to


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
            raise RefusedError(f"{path}: made for another version of this app")
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
        self.chooses_questions: bool = QUESTIONS in self._interpreter.get_signature_list()  # not in int8
        self._run = self._interpreter.get_signature_runner(QUESTIONS if self.chooses_questions else SIGNATURE)

    def turn(self, evidence: dict[str, bool], questions_asked: int, not_to_ask: set[str], can_measure: bool) -> Turn:
        """Returns what is next where `evidence` says whether each known code is present."""
        not_to_ask = not_to_ask if can_measure else not_to_ask | self._measured
        states, withheld = np.zeros([1, len(self._cells)], np.float32), np.zeros([1, len(self._cells)], bool)
        for code, present in evidence.items():
            states[0, self._cells[code]] = 1 if present else -1
        withheld[0, [self._cells[code] for code in not_to_ask]] = True
        choice = {"not_to_ask": withheld} if self.chooses_questions else {}
        answer = self._run(states=states, questions_asked=np.array([questions_asked], np.int32), **choice)
        step = self.description["steps"][answer["next"][0]]
        asks = step == ASK and self.chooses_questions
        return Turn(step, self._decision(answer), self._question(answer, evidence, not_to_ask) if asks else None)

    def _question(self, answer: dict[str, np.ndarray], evidence: dict[str, bool], not_to_ask: set[str]) -> Question:
        codes = list(self._cells)
        code = codes[answer["question_codes"][0, 0]]
        any_of = tuple(codes[each] for each in answer["question_together"][0] if each >= 0)
        group = self.groups[code]
        members = tuple(each for each in codes if group in OPENING and self.groups[each] == group)
        one_of = members if len(members) > 1 and not {*members} & (evidence.keys() | not_to_ask) else ()
        texts = self.description["texts"]
        text = texts["several"] if any_of else texts[group] if one_of else self.questions[code]
        return Question(code, text, any_of, one_of)

    def _decision(self, answer: dict[str, np.ndarray]) -> Decision:
        actions, rules = self.description["actions"], self.description["safety_rules"]
        chances = [answer[name][0].tolist() for name in ("p_appropriate", "p_safe") if name in answer]
        return Decision(
            action=actions[answer["action"][0]],
            best_triage=actions[answer["best_triage"][0]],
            q_values=dict(zip(actions, answer["q_values"][0].tolist(), strict=True)),
            chances=dict(zip(actions, zip(*chances, strict=True), strict=False)) if chances else {},  # without ask
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
        self._not_known: set[str] = set()
        self._questions_asked = 0
        self._opened: set[str] = set()  # which of OPENING were answered
        self._over = False

    def add(self, present: Collection[str] = (), absent: Collection[str] = (), not_known: Collection[str] = ()) -> None:
        """Adds what is said; what is not known is not asked about again.

        Raises:
            RefusedError: a code is unknown, or was given as the opposite before; nothing is added.
        """
        said = {**self._evidence}
        for code in (*present, *absent, *not_known):
            if code not in self._model.questions:
                similar = difflib.get_close_matches(code.lower().replace(" ", "_"), self._model.questions, n=3)
                meant = f": did you mean {', '.join(similar)}?" if similar else ""
                raise RefusedError(f"{code!r} is not in the vocabulary of this model{meant}")
        for code, here in (*((code, True) for code in present), *((code, False) for code in absent)):
            if said.setdefault(code, here) != here:
                raise RefusedError(f"{code!r} was {'absent' if here else 'present'} before: which is right?")
        self._evidence = said
        self._not_known |= {*not_known}

    def count(self, codes: Collection[str]) -> None:
        """Counts an answer about `codes`; age and sex are one question together."""
        opening = {self._model.groups[code] for code in codes} & {*OPENING} - self._opened
        self._questions_asked += not (opening and self._opened)
        self._opened |= opening

    def end(self) -> None:
        """Notes that nobody can say more."""
        self._over = True

    def next(self) -> Turn:
        """Returns whether to ask, to decide or to hand over, as a server would."""
        asked = self._model.max_questions if self._over else self._questions_asked
        return self._model.turn(self._evidence, asked, self._not_known, self._can_measure)


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
    show(converse(Interview(model, arguments.can_measure), model))
    return 0


def converse(interview: Interview, model: TriageModel) -> Turn:
    """Leads the whole interview: asks while that is the next step."""
    while not tell(interview, read("Codes of the complaint")):
        say("Something must be known.")
    while (turn := interview.next()).step == ASK:
        if turn.question:
            put(interview, turn.question, model)
        elif codes := tell(interview, read("What else? Codes, or nothing")):  # the app has to choose
            interview.count(codes)
        else:
            interview.end()
    return turn


def tell(interview: Interview, typed: str) -> list[str]:
    """Adds typed codes, those that are absent with a minus; returns them, [] if they were refused."""
    codes = typed.split()
    absent = [code[1:] for code in codes if code.startswith("-")]
    present = [code for code in codes if not code.startswith("-")]
    try:
        interview.add(present, absent)
    except RefusedError as reason:
        say(str(reason))
        return tell(interview, read("Codes"))
    return [*present, *absent]


def put(interview: Interview, question: Question, model: TriageModel) -> None:
    """Puts a question to the patient, and adds the answer."""
    say(question.text)
    codes = question.one_of or question.any_of or (question.code,)
    if question.one_of:  # exactly one is present
        numbers = [str(number) for number in range(1, len(codes) + 1)]
        for number, code in zip(numbers, codes, strict=True):
            say(f"  {number} {model.names[code]}")
        typed = choose(numbers)
        interview.add([codes[int(typed) - 1]] if typed else [], [], [] if typed else [question.code])
    else:
        said: dict[str, list[str]] = {"y": [], "n": [], "": []}
        for code in codes:  # of several danger signs each has its own answer
            say(f"  {model.names[code]}")
            said[choose(("y", "n"))].append(code)
        interview.add(said["y"], said["n"], said[""])
    interview.count(codes)


def choose(choices: Sequence[str]) -> str:
    """Returns one of the choices, "" where the patient cannot tell."""
    while (typed := read(f"{', '.join(choices)}, or nothing if not known")) not in ("", *choices):
        pass
    return typed


def read(prompt: str) -> str:
    """Returns a line that is typed."""
    try:
        return input(f"{prompt}> ").strip()
    except EOFError:
        sys.exit("the input ended before the interview")


def show(turn: Turn) -> None:
    """Prints the end of an interview."""
    decision = turn.decision
    if turn.step == HAND_OVER:
        say(f"A person must look: {REASONS.get(decision.deferred, 'nothing is known')}. Until then:")
    say(decision.best_triage)
    for triage, (appropriate, safe) in decision.chances.items():
        say(f"  {triage}: appropriate {appropriate:.0%}, safe {safe:.0%}")
    for rule in decision.rules:
        say(f"Rule {rule['rule_id']}: {rule['reason']}")


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
