"""Writes whole interviews for a person to read: `python docs/site/transcripts.py [DEMO]`.

DEMO is the directory of `make demo`, by default demo/. The interviews are led by the agent in it, which obeys the
default safety rules; they are put into tests/golden/transcripts.txt, and tests/transcripts_test.py judges them.
"""

import itertools
import json
import pathlib
import sys
import textwrap
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from schemas.triage import DECISION_LABELS
from serving.console.local_server import serving
from serving.messages import action_label
from trainer.graph.relations import settled_by
from trainer.simulation.knowledge_base import KnowledgeBase
from triage_client import NextStep, QuestionReason, TriageClient, TriageResponse, evidence_state

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTBOOK = ROOT / "schemas" / "cases" / "textbook.jsonl"
TRANSCRIPTS = ROOT / "tests" / "golden" / "transcripts.txt"
WITHIN = 8  # questions; an interview that ends before goes on, so that shares are comparable
UNKNOWN_SEX = "sex_female"  # of a patient whose case leaves it open
CASES = (
    "heart-attack", "stroke", "subarachnoid-haemorrhage", "meningitis-in-a-baby", "ectopic-pregnancy",
    "pulmonary-embolism", "anaphylaxis", "diabetic-ketoacidosis", "cauda-equina", "testicular-torsion",
    "placental-abruption", "acute-glaucoma", "suicide-plan", "appendicitis", "swallowed-battery",
    "deep-vein-thrombosis", "kidney-infection", "urinary-retention", "racing-heart", "chest-infection", "bronchiolitis",
    "dehydrated-child", "bladder-infection", "ear-infection-child", "depression", "underactive-thyroid",
    "eczema-child", "sprained-ankle", "common-cold", "wasp-sting", "heart-attack-as-stomach-pain",
    "lung-clot-after-a-flight",
)  # fmt: skip
"""A spread of complaints, from emergencies to what everybody has now and then."""
OTHERS = (
    {
        "vignette_id": "meningitis-in-a-baby",
        "title": "Meningitis in a baby: fever, drowsy, the soft spot bulges",
        "allowed": ["Red"],
        "present": [
            "fever", "fever_over_39", "drowsiness", "bulging_fontanelle", "vomiting", "generally_unwell",
            "age_3_to_11_months",
        ],
        "tags": ["condition=bacterial_meningitis"],
    },
    {
        "vignette_id": "chest-infection",
        "title": "Chest infection: green phlegm and a fever",
        "allowed": ["Yellow", "Green"],
        "present": [
            "productive_cough", "cough", "fever", "fatigue", "pleuritic_pain", "chest_pain",
            "lasting_one_to_seven_days", "age_30_to_44",
        ],
        "tags": ["condition=pneumonia"],
    },
    {
        "vignette_id": "swallowed-battery",
        "title": "Toddler who swallowed a button battery, and drools",
        "allowed": ["Red"],
        "present": [
            "swallowed_object", "swallowed_battery_or_magnet", "drooling", "difficulty_swallowing", "sudden_onset",
            "lasting_under_one_day", "age_1_to_4",
        ],
        "tags": ["condition=swallowed_battery"],
    },
    {
        "vignette_id": "heart-attack-as-stomach-pain",
        "title": "Heart attack: an older woman with diabetes has pain in the upper tummy and vomits",
        "allowed": ["Red"],
        "present": [
            "upper_abdominal_pain", "lasting_under_one_day", "nausea", "vomiting", "sweating", "pale_clammy_skin",
            "diabetes", "high_blood_pressure", "age_60_to_74", "sex_female",
        ],
        "tags": ["condition=acute_myocardial_infarction"],
    },
    {
        "vignette_id": "lung-clot-after-a-flight",
        "title": "Clot in the lung after a long flight: a sharp pain on breathing in, and breathless",
        "allowed": ["Red"],
        "present": [
            "pleuritic_pain", "chest_pain", "shortness_of_breath", "fast_heart_rate", "sudden_onset",
            "lasting_under_one_day", "recent_long_journey", "hormonal_contraception", "age_30_to_44", "sex_female",
        ],
        "tags": ["condition=pulmonary_embolism"],
    },
)  # fmt: skip
"""Cases that the textbook lacks, in its form."""
HEADER = f"""\
Interviews that the agent of `make demo` leads with {len(CASES)} patients; `make transcripts` renews this file.

A patient presents with the first finding of a textbook case, says yes to what the case lists as present, and no to all
the rest. Where a case leaves the sex open, it is female. Columns: question, * a red flag of the patient's own condition
(schemas/knowledge/conditions), ! part of a question about red flags, of a safety rule for Red or of the vocabulary,
code, answer, decision so far with the default safety rules and P(appropriate) by the model alone, question. Age and sex
are one question, and so are red flags that are asked together, of which each stands with its own question and answer.
Where the agent `stops`, it decides; these interviews go on to question {WITHIN} all the same, for the share of own red
flags that are asked about. Those that take an instrument, are in the complaint, or follow from the answers up to there
cannot be asked about, and do not count.

NOT REVIEWED BY CLINICIANS: research software, not for use in care.
"""


class _Turn(NamedTuple):
    """A question with its answer, and what the agent makes of it."""

    number: int
    code: str
    answer: str
    question: str
    red_flag: bool
    so_far: str


class _Interview(NamedTuple):
    complaint: str
    at_first: str
    turns: list[_Turn]
    stops_after: int
    decision: TriageResponse
    """Where the agent stops."""


def main(demo: pathlib.Path) -> int:
    """Writes the transcripts; returns the exit code."""
    if not (demo / "models").is_dir():
        sys.stderr.write(f"no transcripts, there is not {demo / 'models'}: run make demo first\n")
        return 1
    lines = map(json.loads, TEXTBOOK.read_text(encoding="utf-8").splitlines())
    cases = {case["vignette_id"]: case for case in (*lines, *OTHERS)}
    with serving(demo / "models") as address, TriageClient(address, timeout_seconds=30.0) as client:
        written, shares, shares_at_stop, right, at_once, denials = [HEADER], [], [], 0, 0, []
        for number, name in enumerate(CASES, start=1):
            case = cases[name]
            interview = _lead(client, case["present"])
            asked, missed, never = _own_red_flags(case, interview)
            before = _put_before_it_stops(asked, interview)
            if asked or missed:
                shares.append(len(asked) / len(asked + missed))
                shares_at_stop.append(before / len(asked + missed))
            denials += _raised_by_denials(interview)
            at_once += not interview.stops_after
            right += action_label(interview.decision.best_triage) in case["allowed"]
            written.append("\n".join(_transcript(number, case, interview, asked, missed, never)))
    mean, mean_at_stop = sum(shares) / len(shares), sum(shares_at_stop) / len(shares)
    written.append(
        f"== all\nmean share of own red flags asked about within {WITHIN} questions: {mean:.3f}\n"
        f"mean share asked about before the agent stops, of these: {mean_at_stop:.3f}\n"
        f"interviews that stop before the first question: {at_once} of {len(CASES)}\n"
        f"decisions in the allowed range: {right} of {len(CASES)}\n"
        f"questions after which all red flags asked about are denied, and the decision is more urgent: {sum(denials)} "
        f"of {len(denials)}\n"
    )
    TRANSCRIPTS.write_text("\n".join(written), encoding="utf-8")
    sys.stdout.write(f"{written[-1]}{TRANSCRIPTS}\n")
    return 0


def _lead(client: TriageClient, has: list[str]) -> _Interview:
    """Returns the interview of a patient who has what is in `has`, and presents with the first of it."""
    present, absent, turns = has[:1], [], []
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    at_first, decision, stops_after = "", None, 0
    for number in itertools.count(1):
        state = evidence_state(present, absent, questions_asked=number - 1)
        response = client.triage(state, questions=2)  # age and sex, which are asked in one turn
        at_first = at_first or _so_far(response)
        for place, turn in enumerate(turns):
            if not turn.so_far:
                turns[place] = turn._replace(so_far=_so_far(response))
        if decision is None and not (response.next == NextStep.NEXT_STEP_ASK and response.next_questions):
            decision, stops_after = response, number - 1
        if (decision is not None and number > WITHIN) or not response.next_questions:
            return _Interview(has[0], at_first, turns, stops_after, decision)
        opening = list(itertools.takewhile(lambda question: question.one_of, response.next_questions))
        for question in opening or response.next_questions[:1]:
            red_flag = question.reason == QuestionReason.QUESTION_REASON_RED_FLAG
            if question.one_of:
                code = next((each for each in question.one_of if each in has), UNKNOWN_SEX)
                turns.append(_Turn(number, code, "chosen", "Which of these is right?", red_flag, ""))
                present.append(code)
                continue
            for code in question.any_of or [question.code]:
                answer, text = "yes" if code in has else "no", vocabulary[vocabulary.index(code)].question
                turns.append(_Turn(number, code, answer, text, red_flag, ""))
                (present if answer == "yes" else absent).append(code)
    raise AssertionError  # the server forces a decision


def _so_far(response: TriageResponse) -> str:
    best = response.best_triage
    sure = next(each.appropriate for each in response.probabilities if each.decision == best)
    return f"{action_label(best):<6} {sure:.2f}"


def _urgency(so_far: str) -> int:
    return DECISION_LABELS.index(so_far.split()[0])


def _own_red_flags(case: dict[str, Any], interview: _Interview) -> tuple[list[str], list[str], list[str]]:
    """Returns the red flags of the condition that are asked about, those that could have been, and all others."""
    turns = [turn for turn in interview.turns if turn.number <= WITHIN]
    absent = {turn.code for turn in turns if turn.answer == "no"}
    present = {interview.complaint, *(turn.code for turn in turns)} - absent
    settled = _settled(present, absent)
    flags = KnowledgeBase.load().condition(_condition(case)).red_flags
    asked = [code for code in flags if code in {turn.code for turn in turns}]
    left = [code for code in flags if code not in asked]
    measured = KnowledgeBase.load().catalogue.vocabulary.measured
    missed = [code for code in left if code not in settled and code not in measured]
    return asked, missed, [code for code in left if code not in missed]


def _raised_by_denials(interview: _Interview) -> Iterator[bool]:
    """Yields, for each question that only denies red flags, whether the decision is more urgent afterwards."""
    vocabulary, before = KnowledgeBase.load().catalogue.vocabulary, interview.at_first
    for _, turns in itertools.groupby(interview.turns, lambda turn: turn.number):
        asked = list(turns)
        after = asked[0].so_far
        if all(turn.answer == "no" and vocabulary[vocabulary.index(turn.code)].red_flag for turn in asked):
            yield _urgency(after) < _urgency(before)
        before = after


def _put_before_it_stops(asked: Collection[str], interview: _Interview) -> int:
    return sum(turn.code in asked and turn.number <= interview.stops_after for turn in interview.turns)


def _settled(present: Collection[str], absent: Collection[str]) -> set[str]:
    """Returns the codes whose answer follows from what is said."""
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    literals = {vocabulary.index(code) for code in present}
    literals |= {vocabulary.index(code) + len(vocabulary) for code in absent}
    rows = zip(vocabulary.codes, settled_by(vocabulary).tolist(), strict=True)
    return {code for code, conditions in rows if literals & set(conditions)}


def _condition(case: dict[str, Any]) -> str:
    return next(tag.removeprefix("condition=") for tag in case["tags"] if tag.startswith("condition="))


def _transcript(
    number: int, case: dict[str, Any], interview: _Interview, asked: list[str], missed: list[str], never: list[str]
) -> Iterator[str]:
    """Yields the lines of a transcript."""
    own = KnowledgeBase.load().condition(_condition(case)).red_flags
    yield f"== {number}. {case['vignette_id']}: {case['title']}"
    yield f"condition  {_condition(case)}; allowed: {', '.join(case['allowed'])}"
    yield f"complaint  {interview.complaint:<37} {interview.at_first}"
    if not interview.stops_after:
        yield "   -- stops"
    for turn in interview.turns:
        marks = f"{'*' if turn.code in own else ' '}{'!' if turn.red_flag else ' '}"
        yield f"{turn.number:>2} {marks} {turn.code:<36} {turn.answer:<6} {turn.so_far}  {turn.question}"
        last = turn is [each for each in interview.turns if each.number == turn.number][-1]
        if last and turn.number == interview.stops_after:
            yield "   -- stops"
    best = action_label(interview.decision.best_triage)
    rules = ", ".join(rule.rule_id for rule in interview.decision.fired_rules) or "none"
    within = "allowed" if best in case["allowed"] else "NOT ALLOWED"
    yield f"decision   {best} after {interview.stops_after} questions; rules: {rules}; {within}"
    for title, codes in (("asked", asked), ("not asked", missed), ("cannot be asked", never)):
        text = f"red flags {title}: {', '.join(codes) or 'none'}"
        yield textwrap.fill(text, 118, subsequent_indent=" " * 4, break_long_words=False)
    yield f"own red flags asked about within {WITHIN} questions: {len(asked)} of {len(asked + missed)}"
    yield f"of these before the agent stops: {_put_before_it_stops(asked, interview)}\n"


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo")))
