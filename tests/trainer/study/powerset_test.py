import itertools

import pytest

from schemas.triage import Action
from trainer.study.powerset import expand, id_number, row_count
from trainer.vignettes.vignette import Vignette

DECISIONS = (Action.RED, Action.GREEN)


def vignette_of(pieces, vignette_id="v17"):
    """A vignette whose evidence is present and absent in turn."""
    codes = [f"e{index}" for index in range(pieces)]
    return Vignette(vignette_id, tuple(codes[::2]), tuple(codes[1::2]), DECISIONS, "train", ("heart",))


def evidence_of(vignette):
    return frozenset(vignette.present) | frozenset(f"-{code}" for code in vignette.absent)


@pytest.mark.parametrize(
    ("pieces", "rows"),
    # max(1, n - 10) * 2^min(n, 10): 2^0, 2^1, 2^3, 2^10, 1 * 1024, 2 * 1024, 5 * 1024
    [(0, 1), (1, 2), (3, 8), (10, 1024), (11, 1024), (12, 2048), (15, 5120)],
)
def test_the_rows_are_as_many_as_the_formula_says_and_differ_in_evidence_and_id(pieces, rows):
    made = list(expand(vignette_of(pieces), seed=0))

    assert row_count(pieces) == len(made) == rows
    assert len({evidence_of(row) for row in made}) == rows
    assert [row.vignette_id for row in made] == [f"v17/{number}" for number in range(rows)]


def test_three_pieces_of_evidence_give_their_powerset():
    rows = expand(Vignette("v", ("fever", "cough"), ("rash",), DECISIONS), seed=0)

    assert [(row.present, row.absent) for row in rows] == [
        ((), ()),
        (("fever",), ()),
        (("cough",), ()),
        (("fever", "cough"), ()),
        ((), ("rash",)),
        (("fever",), ("rash",)),
        (("cough",), ("rash",)),
        (("fever", "cough"), ("rash",)),
    ]


@pytest.mark.parametrize(("pieces", "growths"), [(11, 1), (12, 2), (15, 5)])
def test_further_pieces_grow_one_by_one_in_front_of_every_set_of_the_other_ten(pieces, growths):
    vignette = vignette_of(pieces)
    sets = [evidence_of(row) for row in expand(vignette, seed=0)]

    # Where the set of the ten is empty, the growth stands alone: {v_1}, {v_1, v_2} ..
    grown = sets[::1024]
    assert [len(growth) for growth in grown] == list(range(1, growths + 1))
    assert all(smaller < larger for smaller, larger in itertools.pairwise(grown))
    ten = evidence_of(vignette) - grown[-1]
    for growth, start in zip(grown, range(0, len(sets), 1024), strict=True):
        powerset = {evidence - growth for evidence in sets[start : start + 1024]}
        assert len(powerset) == 1024
        assert all(subset <= ten for subset in powerset)


@pytest.mark.parametrize("pieces", [1, 3, 10, 11, 12, 15])
def test_the_last_row_is_the_full_evidence(pieces):
    vignette = vignette_of(pieces)

    assert evidence_of(list(expand(vignette, seed=0))[-1]) == evidence_of(vignette)


@pytest.mark.parametrize(("pieces", "smallest"), [(3, 0), (10, 0), (11, 1), (15, 1)])
def test_the_empty_set_is_a_row_of_up_to_ten_pieces(pieces, smallest):
    assert min(len(evidence_of(row)) for row in expand(vignette_of(pieces), seed=0)) == smallest


def test_signs_decisions_split_and_tags_stay():
    vignette = vignette_of(13)

    for row in expand(vignette, seed=0):
        assert set(row.present) <= set(vignette.present)
        assert set(row.absent) <= set(vignette.absent)
        assert (row.decisions, row.split, row.tags) == (DECISIONS, "train", ("heart",))


def first_drawn(vignette_id, seed):
    """Returns v_1 of a vignette of eleven pieces: the evidence of row 0."""
    return evidence_of(next(expand(vignette_of(11, vignette_id), seed)))


def test_the_further_pieces_depend_on_seed_and_id():
    of_ids = [first_drawn(f"v{number}", seed=0) for number in range(200)]
    of_seeds = [first_drawn("v0", seed) for seed in range(200)]

    # Of 200 even draws, the chance that one of the eleven pieces never comes is 11 * (10 / 11)^200 < 1e-7.
    assert len(set(of_ids)) == len(set(of_seeds)) == 11
    assert first_drawn("v0", seed=0) == of_ids[0] == of_seeds[0]


def test_a_seed_makes_the_same_data_on_every_machine():
    # The SHA-256 digest of "v17" begins with these eight bytes; v_1 follows from them and the seed.
    assert id_number("v17") == 0x8B6B767C3DF161E7
    assert evidence_of(next(expand(vignette_of(12), seed=3))) == {"-e11"}


def test_a_sample_is_a_part_of_the_rows_and_of_every_larger_sample():
    vignette = vignette_of(15)
    rows = list(expand(vignette, seed=0))
    tenth, half = (list(expand(vignette, seed=0, sample=sample)) for sample in (0.1, 0.5))

    # 5120 rows: 512 and 2560 on average, with SDs of sqrt(5120 * .1 * .9) = 21.5 and 35.8; four of them to each side.
    assert 426 <= len(tenth) <= 598
    assert 2417 <= len(half) <= 2703
    of_all, of_tenth, of_half = ({row.vignette_id: row for row in part} for part in (rows, tenth, half))
    assert of_tenth.items() <= of_half.items() <= of_all.items()


def test_another_seed_draws_another_sample():
    vignette = vignette_of(10)
    one, other = ([row.vignette_id for row in expand(vignette, seed, 0.1)] for seed in (0, 1))

    assert one != other
