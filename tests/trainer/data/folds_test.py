import numpy as np

from tests.builders import arrays_of
from trainer.data.arrays import fold_rows


def _arrays(*rows):
    """Vignettes from (signed codes, tags) rows; each has as many Red decisions as pieces of evidence."""
    return arrays_of([[len(codes), 0, 0, 0] for codes, _ in rows], *zip(*rows, strict=True))


def _rows(arrays):
    rows = zip(arrays.offsets[:-1], arrays.offsets[1:], strict=True)
    codes = [arrays.signed_codes[start:end].tolist() for start, end in rows]
    return list(zip(codes, arrays.decision_counts[:, 0].tolist(), arrays.tags, strict=True))


A, B, C = ([1, -2], ("x",)), ([3], ()), ([-4, 5, 6], ("y", "z"))


def test_joined_vignettes_keep_their_own_evidence_and_tags():
    joined = _arrays(A, B).joined(_arrays(C))
    assert _rows(joined) == [([1, -2], 2, ("x",)), ([3], 1, ()), ([-4, 5, 6], 3, ("y", "z"))]
    assert joined.vignette_ids.tolist() == ["v0", "v1", "v0"]


def test_chosen_vignettes_come_in_the_order_asked_for():
    chosen = _arrays(A, B, C).select(np.array([2, 0]))
    assert _rows(chosen) == [([-4, 5, 6], 3, ("y", "z")), ([1, -2], 2, ("x",))]
    assert chosen.vignette_ids.tolist() == ["v2", "v0"]


def test_folds_share_no_test_vignette_and_hold_all():
    splits = [fold_rows(11, 3, fold, seed=5) for fold in range(3)]
    # 11 = 4 + 4 + 3.
    assert [len(test) for _, test in splits] == [4, 4, 3]
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(11))
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(11))
