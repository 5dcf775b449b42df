"""Vignettes that are set apart, and how an agent that starts from another one is kept from having seen them."""

import numpy as np
import pytest

from schemas.errors import InputError
from tests.builders import symptoms
from trainer.dyqn.calibrate import Division
from trainer.training import set_apart
from trainer.training.set_apart import Seen

RED, GREEN = [3, 0, 0, 0], [0, 0, 3, 0]


HERE, THERE = symptoms("cough", "fever", "rash"), symptoms("rash", "itch", "cough", "fever")


def test_a_vignette_is_known_by_its_evidence_by_name_in_any_order_and_its_decisions(vignettes_of):
    ours = set_apart.keys(vignettes_of([([1, -2], RED), ([3], GREEN), ([1, -2], GREEN), ([1, 2], RED)]), HERE)
    theirs = set_apart.keys(vignettes_of([([-4, 3], RED), ([1], GREEN), ([2], GREEN)]), THERE)
    assert len(set(ours.tolist())) == 4
    assert (theirs[0], theirs[1]) == (ours[0], ours[1])
    assert theirs[2] not in ours


def test_what_is_learned_or_calibrated_by_is_seen_and_what_is_set_apart_is_not(vignettes_of):
    parts = [vignettes_of([([number], RED)]) for number in (1, 2, 3)]
    seen = set_apart.seen(Division(*parts), HERE, None)
    keys = [set_apart.keys(part, HERE)[0] for part in parts]
    assert (seen.all.tolist(), seen.learned.tolist()) == (sorted(keys[:2]), keys[:1])
    # What the agent that it starts from has seen is seen, too.
    elsewhere = set_apart.seen(Division(vignettes_of([([2], RED)]), None, None), THERE, None)
    both = set_apart.seen(Division(*parts), HERE, elsewhere)
    assert set(both.all.tolist()) == {*keys[:2], *elsewhere.all.tolist()}
    assert set(both.learned.tolist()) == {keys[0], *elsewhere.learned.tolist()}


def test_an_agent_that_has_seen_what_is_set_apart_is_no_start(vignettes_of):
    before = set_apart.seen(Division(vignettes_of([([1], GREEN), ([4, 3], RED)]), None, None), THERE, None)
    apart = vignettes_of([([1, 2], RED), ([1, 2], GREEN)])  # the first one is there, under other numbers
    with pytest.raises(InputError, match="1 of the 2"):
        set_apart.seen(Division(vignettes_of([([3], RED)]), None, apart), HERE, before)


def test_what_was_set_apart_for_the_agent_to_start_from_is_not_seen_though_another_patient_is_just_like_it(
    vignettes_of,
):
    alike = vignettes_of([([1, -2], RED)])
    before = set_apart.seen(Division(alike, None, alike), HERE, None)
    kept = set_apart.keys(alike, HERE)
    assert set_apart.seen(Division(alike, None, alike), HERE, before, kept).all.tolist() == before.all.tolist()
    more = vignettes_of([([1, -2], RED), ([3], GREEN)])  # of these, it may have seen the first one
    with pytest.raises(InputError, match="1 of the 2"):
        set_apart.seen(Division(alike, None, more), HERE, before, kept)


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_written_is_read_back_and_stays(vignettes_of, tmp_path, whole):
    apart, numbers = vignettes_of([([1, -2], RED), ([3], GREEN)]), np.array([5, 7], np.uint64)
    set_apart.prepare(tmp_path, apart, whole, Seen(numbers, numbers[1:]))
    set_apart.prepare(tmp_path, None, whole, Seen(numbers[:1], numbers[:1]))  # as a resumed run does
    vignettes, read_whole = set_apart.read(tmp_path)
    for mine, theirs in zip(vignettes, apart, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert read_whole is whole
    seen = set_apart.read_seen(tmp_path)
    assert (seen.all.tolist(), seen.learned.tolist()) == ([5, 7], [7])


def test_where_nothing_was_set_apart_only_what_was_seen_is_told(tmp_path):
    set_apart.prepare(tmp_path, None, True, Seen(*np.array([[5], [5]], np.uint64)))
    assert set_apart.read(tmp_path) is None
    assert set_apart.read_seen(tmp_path).all.tolist() == [5]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"set_apart\.npz"):
        set_apart.read(tmp_path)
