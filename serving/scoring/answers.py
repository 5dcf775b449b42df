"""A model's answers to cases, as columns."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from schemas import features
from schemas.answer import ANSWER, Kind
from schemas.bands import by_numbers
from schemas.errors import InputError
from schemas.evidence import StateEncoder, pad_rows
from schemas.triage import ACTION_LABELS, Action, is_unsure, next_step
from serving.engine.saved_model import SavedModelEngine
from serving.scoring.cases import ID, Cases
from serving.wires.message_json import names_of
from triage.v1 import triage_pb2

Columns = dict[str, list[Any]]
"""Values by name, of the same length: text, a number, a truth, a list of texts, or None."""
_DIGITS = 6  # float32 has no more
_REASONS = names_of(triage_pb2.DeferralReason.DESCRIPTOR)
_NEXT = names_of(triage_pb2.NextStep.DESCRIPTOR)
DECIDE = _NEXT[triage_pb2.NEXT_STEP_DECIDE]
"""In the column `next` of a case that is decided."""


class Scorer:
    """Answers cases with one version, as the server does.

    With `defer_below` a case is handed over to a person where P(safe) of the decision is less, as those are that are
    novel or contradictory; without it none is, and contradictory ones are refused.

    Raises:
        InputError: the version cannot choose questions.
    """

    def __init__(
        self, engine: SavedModelEngine, questions: int, allow_unknown_codes: bool, defer_below: float | None = None
    ):
        self.engine = engine
        if questions and not engine.info.questions:
            raise InputError(
                f"--questions {questions}: version {engine.info.model_version} cannot choose questions: train on 100 "
                "vignettes or more"
            )
        self._encoder = StateEncoder(self.engine.vocabulary)
        self._questions = questions
        self._allow_unknown_codes = allow_unknown_codes
        self._defer_below = defer_below

    def encode(self, cases: Cases) -> dict[str, np.ndarray]:
        """Returns what `answer` takes: states `[B, E]`, questions asked `[B]`, and unknown codes.

        Raises:
            InputError: codes contradict each other, one is not in the vocabulary, or a number is faulty.
        """
        cases, numbers = self._numbers_read(cases)
        codes = list(chain.from_iterable(chain.from_iterable(zip(cases.present, cases.absent, strict=True))))
        lengths = [length for pair in zip(cases.present, cases.absent, strict=True) for length in map(len, pair)]
        present: np.ndarray = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)
        encoded = self._encoder.encode(codes, np.reshape(lengths, [-1, 2]).sum(axis=1).tolist(), present, ~present)
        if encoded.conflicting_codes.size and self._defer_below is None:
            row, code = _first(encoded.conflicting_codes)
            by = by_numbers(numbers[row], code)
            raise InputError(f"{cases.places[row]}: {code!r} is both present and absent{by}: give one of them")
        conflicting: list[list[bytes]] = [list(filter(None, row)) for row in encoded.conflicting_codes.tolist()]
        for row, (there, missing) in enumerate(zip(cases.present, cases.absent, strict=True)):
            for contradiction in self.engine.vocabulary.relations.contradictions(there, frozenset(missing)):
                both = contradiction.code, contradiction.other
                if self._defer_below is None:
                    by = by_numbers(numbers[row], *both)
                    raise InputError(f"{cases.places[row]}: {contradiction}{by}: correct one of them")
                conflicting[row] += [code for code in map(str.encode, both) if code not in conflicting[row]]
        if encoded.unknown_codes.size and not self._allow_unknown_codes:
            row, code = _first(encoded.unknown_codes)
            raise InputError(
                f"{cases.places[row]}: {self.engine.vocabulary.unknown_message(code)}; --allow-unknown-codes "
                "leaves such codes out of the decision, and lists them"
            )
        return {
            features.STATES: encoded.states,
            features.QUESTIONS_ASKED: cases.questions_asked,
            features.UNKNOWN_CODES: encoded.unknown_codes,
            features.CONFLICTING_CODES: pad_rows(conflicting),
        }

    def _numbers_read(self, cases: Cases) -> tuple[Cases, list[Mapping[str, str]]]:
        """Returns the cases with the codes of their bands in place of numbers, and each case's numbers by code."""
        read = []
        for row, (there, missing) in enumerate(zip(cases.present, cases.absent, strict=True)):
            try:
                read.append(self.engine.vocabulary.read_numbers(there, missing))
            except InputError as error:
                raise InputError(f"{cases.places[row]}: {error}") from None
        present, absent, numbers = (list(column) for column in zip(*read, strict=True))
        return cases._replace(present=present, absent=absent), numbers

    def answer(self, ids: Sequence[str], encoded: Mapping[str, np.ndarray]) -> Columns:
        """Returns the answers to encoded cases.

        Columns: `vignette_id`, those of the tensors in `schemas.answer` that the model has, values with one for each
        action or triage decision, `fired_rules`, and `next`; `deferred` and `conflicting_codes` where cases are handed
        over; `next_questions` and `asked_together` where questions are suggested.
        """
        states = encoded[features.STATES]
        outputs = {
            features.RULES_FIRED: np.zeros([len(ids), 0], bool),
            **self.engine.decide(states, encoded[features.QUESTIONS_ASKED]),
            features.UNKNOWN_CODES: encoded[features.UNKNOWN_CODES],
        }
        columns: Columns = {ID: list(ids)}
        for tensor in ANSWER:
            if tensor.column is not None and tensor.name in outputs:
                columns |= self._columns(tensor.column or tensor.name, tensor.kind, outputs[tensor.name])
        questions, known = self._next_questions(states, columns[features.FORCED])
        conflicting = encoded[features.CONFLICTING_CODES]
        if self._defer_below is not None:
            known |= self._doubts(outputs, conflicting, self._defer_below)
        step = next_step(*(outputs[name] for name in (features.ACTION, features.BEST_TRIAGE, features.FORCED)), **known)
        numbers = np.select(
            [step.hand_over, step.ask],
            [triage_pb2.NEXT_STEP_HAND_OVER, triage_pb2.NEXT_STEP_ASK],
            triage_pb2.NEXT_STEP_DECIDE,
        )
        columns["next"] = [_NEXT[number] for number in numbers.tolist()]
        if self._defer_below is not None:
            numbers = np.select(step.reasons, range(1, 1 + len(step.reasons)), 0)
            columns["deferred"] = [_REASONS.get(number, "") for number in numbers.tolist()]
            columns |= self._columns(features.CONFLICTING_CODES, Kind.CODES, conflicting)
            for column in questions.values():  # nothing is asked of a case that is handed over
                column[:] = [[] if why else each for each, why in zip(column, columns["deferred"], strict=True)]
        return columns | questions

    def _doubts(
        self, outputs: Mapping[str, np.ndarray], conflicting: np.ndarray, defer_below: float
    ) -> dict[str, np.ndarray]:
        """Returns what may hand a case over, as arguments of `next_step`, bool `[B]` each."""
        best, count = outputs[features.BEST_TRIAGE], len(conflicting)
        unsure: np.ndarray = np.zeros(count, bool)
        if features.P_SAFE in outputs:
            safe = outputs[features.P_SAFE][np.arange(count), best]
            red = outputs[features.P_APPROPRIATE][:, Action.RED]
            unsure = is_unsure(best, safe, red, defer_below, self.engine.info.hand_over_from)
        is_novel = outputs.get(features.IS_NOVEL, np.zeros(count, bool))
        return {"contradictory": (conflicting != b"").any(axis=1), "is_novel": is_novel, "unsure": unsure}

    def _columns(self, name: str, kind: Kind, values: np.ndarray) -> Columns:
        if kind is Kind.VALUES:
            labels = (label.lower() for label in ACTION_LABELS)  # those of decisions come first
            return {f"{name}_{label}": _rounded(column) for label, column in zip(labels, values.T, strict=False)}
        if kind is Kind.ACTION:
            return {name: np.array(ACTION_LABELS, object)[values].tolist()}
        if kind is Kind.RULES:
            return {name: _chosen(values, [rule.rule_id for rule in self.engine.info.rules])}
        if kind is Kind.CODES:
            return {name: [[code.decode() for code in row if code] for row in values.tolist()]}
        return {name: _rounded(values) if kind is Kind.NUMBER else values.tolist()}

    def _next_questions(self, states: np.ndarray, forced: Sequence[bool]) -> tuple[Columns, dict[str, np.ndarray]]:
        """Returns the columns of the questions, and what `next_step` takes of them, bool `[B]` each."""
        if not self._questions:
            return {}, {}
        vocabulary = self.engine.vocabulary
        not_to_ask = np.broadcast_to(vocabulary.takes_instrument, states.shape)
        inputs = {features.STATES: states, features.NOT_TO_ASK: not_to_ask}
        outputs = self.engine.predict(features.QUESTIONS, inputs)
        cells = outputs[features.QUESTION_CODES][:, : self._questions]
        cells = np.where(np.array(forced)[:, np.newaxis], -1, cells)  # asking is not possible
        opening: np.ndarray = np.zeros(states.shape, bool)
        for group in map(list, vocabulary.openings.values()):
            opening[:, group] = ((states == 0) & ~not_to_ask)[:, group].all(axis=1, keepdims=True)
        red_flags = outputs[features.QUESTION_RED_FLAGS][:, : self._questions]
        must_ask = ((red_flags | np.take_along_axis(opening, cells, axis=1)) & (cells >= 0)).any(axis=1)
        worth = (outputs[features.QUESTION_WORTH_ASKING][:, : self._questions] & (cells >= 0)).any(axis=1)
        cells = cells.tolist()
        together = outputs.get(features.QUESTION_TOGETHER, np.full([len(cells), 1], -1))
        together = np.where(np.array(forced)[:, np.newaxis], -1, together).tolist()
        codes = vocabulary.codes
        columns: Columns = {
            name: [[codes[cell] for cell in row if cell >= 0] for row in rows]
            for name, rows in (("next_questions", cells), ("asked_together", together))
        }
        return columns, {"nothing_known": (states == 0).all(axis=1), "worth_asking": worth, "must_ask": must_ask}


def _first(codes: np.ndarray) -> tuple[int, str]:
    """Returns the first row in which there are `codes`, bytes `[B, N]`, and the first of its codes."""
    return next((row, listed[0].decode()) for row, listed in enumerate(codes.tolist()) if listed[0])


def _rounded(values: np.ndarray) -> list[Any]:
    rounded: list[Any] = np.round(values.astype(np.float64), _DIGITS).tolist()
    return rounded


def _chosen(flags: np.ndarray, names: Sequence[str]) -> list[list[str]]:
    """Returns the names whose flags `[B, N]` are set in each row."""
    rows: list[list[str]] = [[] for _ in flags]
    for row, column in zip(*(places.tolist() for places in np.nonzero(flags)), strict=True):
        rows[row].append(names[column])
    return rows
