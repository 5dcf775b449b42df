"""What clinicians made of cards, as vignettes: the model's decision where they accepted it, else their own.

A card says nothing, and is left out, if nobody answered it, if it was overridden without another decision, or if it
handed over to a person and was accepted; so is an outcome of an unknown card. Of several outcomes of a card the one
with the latest time counts, the last one if several have it.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from schemas import feedback
from schemas.errors import shown
from schemas.evidence import Vocabulary
from schemas.text_file import Line
from trainer.data.source import Accepted, LineReader, Outcome, Rejected, read_each
from trainer.data.vignette import VignetteError, from_fields
from triage_runtime.case import parse_object

_EVIDENCE = ("present", "absent")


class _Record(NamedTuple):
    line: Line
    fields: dict[str, Any]


def read_feedback(readers: Iterable[LineReader], vocabulary: Vocabulary) -> Iterator[Outcome]:
    """Yields the vignette of each card with a decision, what each other one is, and a reject for each faulty line.

    Raises:
        InputError: a file cannot be read.
    """
    cards: dict[str, _Record] = {}
    outcomes: dict[str, dict[str, Any]] = {}
    for record in itertools.chain.from_iterable(read_each(reader, _card_or_outcome) for reader in readers):
        if record is None or isinstance(record, Rejected):
            yield record
            continue
        name = record.fields[feedback.CARD]
        if feedback.OUTCOME not in record.fields:
            if cards.setdefault(name, record) is not record:
                first = cards[name].line
                yield Rejected(record.line, name, f"the card is there twice: first in {first.file}:{first.number}")
            continue
        if name in outcomes:
            yield "outcomes of cards with a later one"
        if name not in outcomes or outcomes[name][feedback.TIME] <= record.fields[feedback.TIME]:
            outcomes[name] = record.fields
    yield from ("outcomes of cards that are not in the files" for name in outcomes if name not in cards)
    for name, (line, fields) in cards.items():
        outcome = outcomes.get(name)
        if outcome is None:
            yield "cards that nobody answered"
            continue
        kind = outcome[feedback.OUTCOME]
        decision = (fields if kind == feedback.ACCEPTED else outcome)[feedback.DECISION]
        if decision is None:
            yield f"cards that were {kind} without a decision"
            continue
        stated = {"vignette_id": name, "decisions": [decision], "tags": [f"feedback:{kind}"]}
        try:
            yield Accepted(line, from_fields({**stated, **{key: fields.get(key) for key in _EVIDENCE}}, vocabulary))
        except VignetteError as error:
            yield Rejected(line, name, str(error))


def _card_or_outcome(line: Line) -> _Record:
    """Returns what a line says, see `schemas.feedback`; the time of an outcome is read.

    Raises:
        VignetteError: it is neither of a card nor of an outcome.
    """
    fields = parse_object(line.decoded())
    texts = (feedback.CARD, *((feedback.TIME,) if feedback.OUTCOME in fields else (feedback.DECISION,)))
    for key in texts:
        handed_over = key == feedback.DECISION and fields.get(key, "") is None
        if not handed_over and not isinstance(fields.get(key), str):
            raise VignetteError(f"{key}: expected a text, found {shown(fields.get(key))}")
    outcome = fields.get(feedback.OUTCOME, feedback.ACCEPTED)
    if outcome not in feedback.OUTCOMES:
        raise VignetteError(f"{feedback.OUTCOME}: expected {' or '.join(feedback.OUTCOMES)}, found {shown(outcome)}")
    if feedback.OUTCOME in fields:
        time = feedback.read_time(fields[feedback.TIME])
        if time is None:
            raise VignetteError(f"{feedback.TIME}: expected {feedback.A_TIME}, found {shown(fields[feedback.TIME])}")
        fields[feedback.TIME] = time
    return _Record(line, {feedback.DECISION: None, **fields})
