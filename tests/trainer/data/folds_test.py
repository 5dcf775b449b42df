import numpy as np

from trainer.data.arrays import VignetteArrays, fold_rows


def _arrays(*rows):
    """Vignettes from (id, signed codes, tags) rows; each has as many Red decisions as pieces of evidence."""
    codes = [codes for _, codes, _ in rows]
    counts = [[len(each), 0, 0, 0] for each in codes]
    ids = np.empty(len(rows), object)
    ids[:] = [name for name, _, _ in rows]
    offsets = np.cumsum([0, *map(len, codes)]).astype(np.int64)
    return VignetteArrays(
        ids, offsets, np.concatenate(codes).astype(np.int16), np.array(counts, np.uint8), tuple(t for _, _, t in rows)
    )


def _rows(arrays):
    rows = zip(arrays.offsets[:-1], arrays.offsets[1:], strict=True)
    return [
        (name, arrays.signed_codes[start:end].tolist(), int(counts[0]), tags)
        for name, (start, end), counts, tags in zip(
            arrays.vignette_ids, rows, arrays.decision_counts, arrays.tags, strict=True
        )
    ]


A, B, C = ("a", [1, -2], ("x",)), ("b", [3], ()), ("c", [-4, 5, 6], ("y", "z"))


def test_joined_vignettes_keep_their_own_evidence_and_tags():
    assert _rows(_arrays(A, B).joined(_arrays(C))) == [
        ("a", [1, -2], 2, ("x",)), ("b", [3], 1, ()), ("c", [-4, 5, 6], 3, ("y", "z")),
    ]  # fmt: skip


def test_chosen_vignettes_come_in_the_order_asked_for():
    assert _rows(_arrays(A, B, C).select(np.array([2, 0]))) == [
        ("c", [-4, 5, 6], 3, ("y", "z")),
        ("a", [1, -2], 2, ("x",)),
    ]


def test_folds_share_no_test_vignette_and_hold_all():
    splits = [fold_rows(11, 3, fold, seed=5) for fold in range(3)]
    # 11 = 4 + 4 + 3.
    assert [len(test) for _, test in splits] == [4, 4, 3]
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(11))
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(11))
