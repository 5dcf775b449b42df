"""What a clinician would insist on in the interviews of tests/golden/transcripts.txt, whatever agent led them."""

import json
import pathlib
import re
from typing import NamedTuple

import pytest

from schemas.relations import EXHAUSTIVE
from trainer.graph.relations import settled_by
from trainer.simulation.knowledge_base import KnowledgeBase

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = (ROOT / "tests" / "golden" / "transcripts.txt").read_text(encoding="utf-8")
TURN = re.compile(
    r" ?(?P<number>\d+) [* ][! ] (?P<code>\S+) +(?P<answer>yes|no|chosen) +(?P<decision>\w+) +[01]\.\d\d  \S.*"
)
STOPS = "   -- stops"


class Turn(NamedTuple):
    number: int
    code: str
    answer: str
    decision: str


class Transcript:
    """What the lines of an interview say."""

    def __init__(self, text):
        first, condition, complaint, *lines = text.splitlines()
        self.name = first.split()[1].rstrip(":")
        self.condition, allowed = re.fullmatch(r"condition  (\w+); allowed: (.+)", condition).groups()
        self.allowed = allowed.split(", ")
        _, self.complaint, at_first, _ = complaint.split()
        matches = [(place, match) for place, line in enumerate(lines) if (match := TURN.fullmatch(line))]
        self.turns = [Turn(int(m["number"]), m["code"], m["answer"], m["decision"]) for _, m in matches]
        assert len(self.turns) == sum(line[:2].strip().isdigit() for line in lines), self.name
        before = [turn for turn, (place, _) in zip(self.turns, matches, strict=True) if place < lines.index(STOPS)]
        self.stops_after = before[-1].number if before else 0
        self.at_stop = before[-1].decision if before else at_first
        self.ends = "\n".join(lines)

    def said_before(self, number):
        """Returns what is present and what is absent before a question; the opening is one question."""
        turns = [turn for turn in self.turns if turn.number < number]
        absent = {turn.code for turn in turns if turn.answer == "no"}
        return {self.complaint} | {turn.code for turn in turns} - absent, absent


TRANSCRIPTS = [Transcript(text) for text in re.split(r"^== ", TEXT, flags=re.MULTILINE)[1:-1]]
each_transcript = pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)


@pytest.fixture(scope="module")
def knowledge():
    return KnowledgeBase.load()


@pytest.fixture(scope="module")
def settled(knowledge):
    """Returns what follows from what is present and absent."""
    vocabulary = knowledge.catalogue.vocabulary
    settling = dict(zip(vocabulary.codes, map(set, settled_by(vocabulary).tolist()), strict=True))

    def follows(present, absent):
        literals = {*map(vocabulary.index, present), *(vocabulary.index(code) + len(vocabulary) for code in absent)}
        return {code for code in vocabulary.codes if settling[code] & literals}

    return follows


def test_all_patients_have_complaints_of_their_own():
    assert len({transcript.complaint for transcript in TRANSCRIPTS}) == len(TRANSCRIPTS) == 32


def test_patients_are_those_of_the_textbook_and_answer_as_it_says():
    lines = (ROOT / "schemas" / "cases" / "textbook.jsonl").read_text(encoding="utf-8").splitlines()
    cases = {case["vignette_id"]: case for case in map(json.loads, lines)}
    textbook = [transcript for transcript in TRANSCRIPTS if transcript.name in cases]
    assert len(textbook) >= 27
    for transcript in textbook:
        case = cases[transcript.name]
        assert (transcript.allowed, transcript.complaint) == (case["allowed"], case["present"][0])
        assert case["tags"] == [f"condition={transcript.condition}"]
        yes_or_no = [turn for turn in transcript.turns if turn.answer != "chosen"]
        assert [turn for turn in yes_or_no if (turn.answer == "yes") != (turn.code in case["present"])] == []


@each_transcript
def test_age_and_sex_are_asked_first_unless_the_complaint_says_them(transcript, knowledge, settled):
    known = settled({transcript.complaint}, set())
    groups = {name: {entry.code for entry in knowledge.catalogue.group(name)} for name in EXHAUSTIVE}
    to_ask = {name for name, codes in groups.items() if not codes <= known}
    chosen = [turn for turn in transcript.turns if turn.answer == "chosen"]
    assert {name for turn in chosen for name, codes in groups.items() if turn.code in codes} == to_ask
    assert len(chosen) == len(to_ask)
    assert {turn.number for turn in chosen} <= {1}
    assert [turn.code for turn in transcript.turns if turn.number == 1] == [turn.code for turn in chosen]


@each_transcript
def test_nobody_is_asked_what_takes_an_instrument(transcript, knowledge):
    assert [turn.code for turn in transcript.turns if knowledge.catalogue[turn.code].evidence.instrument] == []


@each_transcript
def test_nobody_is_asked_what_follows_from_what_was_said(transcript, settled, impossible):
    asked = [turn for turn in transcript.turns if turn.code in settled(*transcript.said_before(turn.number))]
    assert {turn.code for turn in asked} <= impossible(transcript)  # of which the next test is


@each_transcript
def test_nobody_is_asked_about_a_special_kind_of_what_is_still_open(transcript, settled, knowledge):
    """Such as how the chest hurts before whether it does."""
    above = knowledge.catalogue.vocabulary.relations.above
    early = [
        turn.code
        for turn in transcript.turns
        if not set(above[turn.code]) <= settled(*transcript.said_before(turn.number))
    ]
    assert early == []


@pytest.fixture(scope="module")
def impossible(knowledge):
    """Returns the risk factors asked about that nobody of the age or sex in a transcript has."""

    def asked(transcript):
        codes = {turn.code for turn in transcript.turns}
        return {code for code in codes if any(knowledge.demographics.get(code, {}).get(other) == 0 for other in codes)}

    return asked


def test_nobody_is_asked_about_a_risk_factor_that_nobody_of_that_age_or_sex_has(impossible):
    """Such as a toddler about pregnancy."""
    assert {transcript.name: impossible(transcript) for transcript in TRANSCRIPTS if impossible(transcript)} == {}


def test_no_agent_that_asks_worse_takes_the_place_of_this_one():
    """One training moves these by about two patients."""
    share, at_once, right, raised, denied = (
        float(re.search(pattern, TEXT, re.MULTILINE)[1])
        for pattern in (
            r"^mean share of own .*: (.+)$",
            r"^interviews that stop before .*: (\d+) of \d+$",
            r"^decisions in the allowed range: (\d+) of \d+$",
            r"^questions after which .*: (\d+) of \d+$",
            r"^questions after which .*: \d+ of (\d+)$",
        )
    )
    assert share >= 0.6
    assert at_once <= 3
    assert right >= 0.8 * len(TRANSCRIPTS)
    assert raised <= 0.05 * denied


def test_the_page_on_the_console_states_how_twelve_interviews_end():
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\| .+ \| `(\w+)` \| (\w+) after (\d+) questions(, by a rule)? \| ([\w, ]+) \|$", page, re.MULTILINE
    )
    ends = {
        each.complaint: (
            each.at_stop,
            str(each.stops_after),
            "" if "; rules: none;" in each.ends else ", by a rule",
            ", ".join(each.allowed),
        )
        for each in TRANSCRIPTS
    }
    assert len(table) == 12
    assert {complaint: tuple(rest) for complaint, *rest in table}.items() <= ends.items()
