"""Interviews in which an agent learns: who answers what, which questions are its own, and when they end."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from schemas.danger_signs import NO_SIGNS, DangerSigns
from schemas.evidence import Evidence, Vocabulary
from tests.builders import symptoms
from trainer.data import state
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.interviews.episodes import InterviewEpisodes

CODES = ("cough", "rash", "pain", "collapse")
VOCABULARY = symptoms(*CODES)
CARDS = [([1, -3], [0, 0, 3, 0]), ([2], [3, 0, 0, 0])]  # a cough without pain; a rash
WHOLE = np.array([[1, -1, -1, -1], [-1, 1, -1, -1]])  # what complete patients answer

pytestmark = pytest.mark.usefixtures("eager")


def _mixture(present, safe=None):
    """Two classes, equally frequent, of which each answer is .985 certain where `present` says 1 or 0."""
    present = np.clip(np.array(present, np.float32), 0.015, 0.985)
    truths = np.full([2, 8], 0.5, np.float32)
    if safe is not None:
        truths[:, 4:] = safe
    return Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, 1 - present)


MIXTURE = _mixture([[1, 0, 0, 1], [0, 1, 1, 0]])
"""Everybody with a cough has a collapse, too, everybody with a rash has pain, and nobody anything else."""


def _episodes(cards, whole=True, mixture=MIXTURE, vocabulary=VOCABULARY, signs=NO_SIGNS, rows=64, most=5):
    generator = tf.random.Generator.from_seed(0, alg="philox")
    return InterviewEpisodes(cards, whole, mixture, vocabulary, signs, rows, most, generator)


def _collected(episodes, count=4):
    """A step: states before and after, int `[B, E]`, the transition, and what else is known of each row."""
    transition = episodes.collect().transition
    before, after = (
        state.from_signed_codes(codes, count).numpy().astype(int) for codes in (transition.s_tm1, transition.s_t)
    )
    return before, after, transition, {name: part.numpy() for name, part in episodes.variables.items()}


def test_complete_patients_lack_what_their_vignettes_do_not_list(vignettes_of):
    episodes = _episodes(vignettes_of(CARDS))
    for _ in range(12):
        before, after, transition, now = _collected(episodes)
        truth = WHOLE[now["vignette"]]
        assert ((after == 0) | (after == truth)).all()
        assert ((before == 0) | (before == after)).all()
        # Decisions are rewarded as this patient's clinicians decided: Green is right for the first, Red for the other.
        assert transition.r_t.numpy().argmax(axis=1).tolist() == [(2, 0)[number] for number in now["vignette"]]


def test_patients_come_with_their_complaint_and_some_with_another_part_of_the_vignette(vignettes_of):
    before, _, _, now = _collected(_episodes(vignettes_of(CARDS), rows=400))
    starts = Counter(map(tuple, before[now["vignette"] == 0].tolist()))
    assert starts.keys() == {(1, 0, 0, 0), (0, 0, -1, 0), (1, 0, -1, 0)}
    assert starts[1, 0, 0, 0] > 0.8 * starts.total()


def test_what_a_card_leaves_open_is_answered_as_by_patients_with_such_a_card(vignettes_of):
    _, _, _, now = _collected(_episodes(vignettes_of(CARDS), whole=False, rows=200))
    cough, rash = (now["answers"][now["vignette"] == number] for number in (0, 1))
    # The mixture is .985 sure of each answer; what the card lists is never drawn.
    assert (cough[:, [0, 2]] == [1, -1]).all()
    assert (rash[:, 1] == 1).all()
    assert (cough == [1, -1, -1, 1]).mean() > 0.96
    assert (rash == [-1, 1, 1, -1]).mean() > 0.96


def test_what_a_card_leaves_open_agrees_with_its_decisions(vignettes_of):
    """Nothing but the decisions tells both classes apart; who has pain is Red in 95 of 100, and who has none Green."""
    alike = _mixture([[0.5, 0.5, 1, 0.5], [0.5, 0.5, 0, 0.5]], [[0.99, 0.05, 0.0, 0.0], [0.99, 0.95, 0.95, 0.0]])
    cards = vignettes_of([([1], [3, 0, 0, 0]), ([1], [1, 0, 2, 0])])  # a cough; the least urgent decision counts
    _, _, _, now = _collected(_episodes(cards, whole=False, mixture=alike, rows=400))
    pain = now["answers"][:, 2] == 1
    # Red: .95 to .05, so pain in .95 x .985 + .05 x .015. Green: .01 to .95, so in .0104 x .985 + .9896 x .015.
    assert pain[now["vignette"] == 0].mean() == pytest.approx(0.9365, abs=0.06)
    assert pain[now["vignette"] == 1].mean() == pytest.approx(0.0251, abs=0.04)


def test_each_vignette_is_drawn_once_before_any_comes_again(vignettes_of):
    """With no questions left, each step is an interview of its own; eleven vignettes, three at a time."""
    episodes = _episodes(vignettes_of([([1], [0, 0, 1, 0])] * 11), rows=3, most=0)
    drawn = np.concatenate([_collected(episodes)[3]["vignette"] for _ in range(22)]).reshape(6, 11)
    assert [sorted(epoch) for epoch in drawn.tolist()] == [list(range(11))] * 6
    assert len({tuple(epoch) for epoch in drawn.tolist()}) == 6, "each in an order of its own"
    assert int(episodes.finished) == 66


def _new(before, after):
    """The cells that became known, a set for each row."""
    return [set(np.flatnonzero(row).tolist()) for row in before != after]


@pytest.mark.parametrize("whole", [True, False], ids=["complete patients", "cards"])
def test_asking_is_learned_from_the_agent_s_own_questions_alone(vignettes_of, whole):
    """The others are drawn at random, or read from the card."""
    signs = DangerSigns({"cough": (("rash", "collapse"),)})
    graph = QuestionGraph(MIXTURE, VOCABULARY, (), signs)
    episodes, seen = _episodes(vignettes_of(CARDS), whole, signs=signs, rows=128), Counter()
    for _ in range(8):
        before, after, transition, now = _collected(episodes)
        asks = graph.asks(tf.constant(before, tf.float32), tf.zeros(before.shape, tf.bool)).numpy()
        listed = np.array([[1, 0, -1, 0], [0, 1, 0, 0]])[now["vignette"]]
        for row, new in enumerate(_new(before, after)):
            own = {cell for cell in asks[row].tolist() if cell >= 0}
            reads, random = now["reads"][row], now["explored"][row] > 0
            if transition.asked.numpy()[row]:
                assert new == own
                assert not reads
                assert new
            elif new:
                assert reads or random
                assert not reads or all(listed[row, cell] for cell in new)
            seen[bool(transition.asked.numpy()[row]), bool(new), bool(reads)] += 1
    assert seen[True, True, False] > seen[False, True, False] > 0
    assert (seen[False, True, True] > 0) == (not whole), "only cards are read"


def test_an_interview_ends_after_a_drawn_number_of_questions_or_when_nothing_is_left(vignettes_of):
    episodes = _episodes(vignettes_of(CARDS[:1]), mixture=_mixture([[0.5] * 4] * 2))
    lengths, left, finished = np.zeros(64, int), np.full(64, -1), 0
    nothing_left = Counter()
    for _ in range(10):
        before, after, transition, now = _collected(episodes)
        lengths = np.where(left < 0, 1, lengths + 1)
        known = (before != 0).all(axis=1)
        assert (now["left"][known] == -1).all()
        assert (before[known] == after[known]).all()
        assert not transition.asked.numpy()[known].any()
        assert ((after != before).any(axis=1) | known).all(), "each question has an answer"
        nothing_left.update(known.tolist())
        left, finished = now["left"], finished + (now["left"] < 0).sum()
    assert int(episodes.finished) == finished
    assert nothing_left[True] > 0
    assert lengths.max() <= 4, "three questions, and one step that finds nothing left"


def test_the_opening_and_danger_signs_make_several_answers_known_and_no_instrument_is_used(vignettes_of):
    """A woman with a cough: her sex comes first, then both signs; her saturation is never measured."""
    flags, sexes = {"rash", "collapse"}, {"male", "female"}
    codes = ("cough", "male", "female", "rash", "collapse", "saturation")
    vocabulary = Vocabulary(
        Evidence(
            code, "symptom", code, f"{code}?",
            exclusive="sex" if code in sexes else "",
            instrument="meter" if code == "saturation" else "",
            red_flag="yes" if code in flags else "",
        )
        for code in codes
    )  # fmt: skip
    mixture = _mixture([[1, 0, 1, 0.5, 0.5, 0.5], [1, 1, 0, 0.5, 0.5, 0.5]])
    signs = DangerSigns({"cough": (("collapse", "rash", "saturation"),)})
    episodes = _episodes(vignettes_of([([1, 3, 4], [1, 0, 0, 0])]), True, mixture, vocabulary, signs)
    steps = Counter()
    for _ in range(8):
        before, after, transition, _ = _collected(episodes, 6)
        assert not after[:, 5].any()
        for row in np.flatnonzero(transition.asked):
            steps[tuple(before[row]), tuple(after[row])] += 1
    begun = (1, 0, 0, 0, 0, 0)
    assert {after for before, after in steps if before == begun} == {(1, 0, 1, 0, 0, 0)}
    assert {after for before, after in steps if before == (1, 0, 1, 0, 0, 0)} == {(1, 0, 1, 1, -1, 0)}
