"""An interview on a device: Python with LiteRT and NumPy alone, no TensorFlow, and nothing of this package.

    pip install ai-edge-litert
    python examples/mobile/interview.py triage.tflite

Type what is known, one piece of evidence a line: `chest_pain` if it is present, `-fever` if it is absent, an empty line
if there is nothing more to tell. It shows how an app treats what it must not hand to the model in silence: unknown
codes, conflicts, and a vocabulary that it was not built for. No medical device.
"""

import argparse
import hashlib
import json
import pathlib
import sys
import zipfile
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert.interpreter import Interpreter

DESCRIPTION, FORMAT = "triage.json", 1
SIGNATURE = "state"


class RefusedError(Exception):
    """What was given must not reach the model; the message says why."""


class Decision(NamedTuple):
    """What the model answers."""

    action: str  # a triage decision, or "ask"
    best_triage: str  # what it would decide if it had to
    forced: bool
    q_values: dict[str, float]
    rules: list[dict[str, Any]]  # safety rules that fired; `reason` is for the clinician
    novelty: float | None  # from 0 (usual) to 1; None where the file cannot tell
    is_novel: bool  # unlike anything seen in training: the app decides what to do


class TriageModel:
    """A TFLite file that `triage tflite` wrote, with the vocabulary that it brings.

    Raises:
        RefusedError: the file is none of these, or its vocabulary is not the one that the app was built for.
    """

    def __init__(self, path: pathlib.Path, expected_fingerprint: str | None = None):
        try:
            with zipfile.ZipFile(path) as archive:
                self.description: dict[str, Any] = json.loads(archive.read(DESCRIPTION))
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise RefusedError(f"{path}: not a file that `triage tflite` wrote: {error}") from error
        if self.description["format_version"] != FORMAT:
            raise RefusedError(f"{path}: made for a newer app")
        self.questions = {entry["code"]: entry["question"] for entry in self.description["vocabulary"]}
        self._cells = {code: cell for cell, code in enumerate(self.questions)}
        codes = "".join(f"{code}\n" for code in self.questions)
        fingerprint = f"sha256:{hashlib.sha256(codes.encode()).hexdigest()}"
        if fingerprint != self.description["vocabulary_fingerprint"]:
            raise RefusedError(f"{path}: its vocabulary is damaged")
        if expected_fingerprint not in (None, fingerprint):
            raise RefusedError(f"{path}: made for the vocabulary {fingerprint}, this app for {expected_fingerprint}")
        self.max_questions: int = self.description["max_questions"]
        self._interpreter = Interpreter(model_path=str(path))
        self._decide = self._interpreter.get_signature_runner(SIGNATURE)

    def decide(self, evidence: dict[str, bool], questions_asked: int) -> Decision:
        """Returns the decision on what is known: whether each code is present. On nothing it is ask, also if forced."""
        states = np.zeros([1, len(self._cells)], np.float32)
        for code, present in evidence.items():
            states[0, self._cells[code]] = 1 if present else -1
        answer = self._decide(states=states, questions_asked=np.array([questions_asked], np.int32))
        actions, rules = self.description["actions"], self.description["safety_rules"]
        return Decision(
            action=actions[answer["action"][0]],
            best_triage=actions[answer["best_triage"][0]],
            forced=bool(answer["forced"][0]),
            q_values=dict(zip(actions, answer["q_values"][0].tolist(), strict=True)),
            rules=[rule for rule, fired in zip(rules, answer["rules_fired"][0], strict=True) if fired] if rules else [],
            novelty=float(answer["novelty"][0]) if "novelty" in answer else None,
            is_novel="is_novel" in answer and bool(answer["is_novel"][0]),
        )


class Interview:
    """What is known of one patient, and how many questions it took."""

    def __init__(self, model: TriageModel):
        self._model = model
        self._evidence: dict[str, bool] = {}
        self._questions_asked = 0

    def tell(self, text: str) -> None:
        """Adds `code`, which is present, or `-code`, which is absent.

        Raises:
            RefusedError: the code is unknown, or was told the other way before; nothing is added.
        """
        code, present = text.removeprefix("-"), not text.startswith("-")
        if code not in self._model.questions:
            raise RefusedError(f"{code!r} is not in the vocabulary of this model")
        if self._evidence.get(code, present) != present:
            raise RefusedError(f"{code!r} was told to be {'absent' if present else 'present'} before: which is right?")
        self._evidence[code] = present

    def decide(self) -> Decision:
        """Returns what the model answers now; "ask" counts as a question."""
        decision = self._model.decide(self._evidence, self._questions_asked)
        self._questions_asked += decision.action == "ask"
        return decision

    def decide_now(self) -> Decision:
        """Returns a triage decision, as there is nothing more to tell."""
        return self._model.decide(self._evidence, self._model.max_questions)


def main() -> int:
    """Runs an interview on the terminal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--vocabulary", metavar="FINGERPRINT", help="vocabulary that the app was built for")
    arguments = parser.parse_args()
    try:
        model = TriageModel(arguments.file, arguments.vocabulary)
    except RefusedError as reason:
        sys.stderr.write(f"{reason}\n")
        return 2
    say(model.description["notice"])
    say(model.description["parity"]["statement"])
    show(converse(Interview(model)))
    return 0


def converse(interview: Interview) -> Decision:
    """Listens until the model decides, or there is nothing more to tell."""
    listen(interview, "What is the matter? ", needed=True)
    while (decision := interview.decide()).action == "ask":
        if not listen(interview, "What else? "):
            return interview.decide_now()
    return decision


def listen(interview: Interview, prompt: str, needed: bool = False) -> bool:
    """Returns whether something was told; what is refused is asked again, and is no question of its own."""
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            if needed:
                sys.exit("nothing was told")
            text = ""
        if not text and not needed:
            return False
        try:
            interview.tell(text)
            return True
        except RefusedError as reason:
            say(str(reason))


def show(decision: Decision) -> None:
    """Prints a decision."""
    for rule in decision.rules:
        say(f"safety rule {rule['rule_id']}: {rule['reason']}")
    if decision.is_novel:
        say("This is unlike anything that the model was trained on.")
    say(f"{decision.action}{' (forced)' if decision.forced else ''}")
    say(", ".join(f"Q({action}) {value:.3f}" for action, value in decision.q_values.items()))


def say(line: str) -> None:
    """Prints a line."""
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
