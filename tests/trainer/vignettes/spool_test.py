from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.vignettes.spool import IdRegistry, Spool, Summary
from trainer.vignettes.tfrecord import encode_example
from trainer.vignettes.vignette import Vignette

VOCABULARY = Vocabulary(
    [
        Evidence("fever", "symptom", "F", "F?"),
        Evidence("cough", "symptom", "C", "C?"),
        Evidence("smoker", "risk_factor", "S", "S?"),
        Evidence("diabetes", "risk_factor", "D", "D?"),
    ]
)


def test_an_id_is_claimed_once_and_then_has_its_place(tmp_path):
    ids = IdRegistry(tmp_path / "ids")

    assert ids.claim("v1", "a.jsonl:1") is None
    assert ids.claim("V1", "a.jsonl:2") is None
    assert ids.claim("v1", "b.jsonl:9") == "a.jsonl:1"
    assert ids.claim("v1", "b.jsonl:10") == "a.jsonl:1"
    ids.close()


def test_vignettes_are_returned_in_order_with_their_summaries(tmp_path):
    vignettes = [
        Vignette("v1", ("fever", "smoker"), ("cough", "diabetes"), (Action.RED, Action.YELLOW)),
        Vignette("v2", ("fever", "cough"), (), (Action.BLUE,) * 255, split="test"),
        Vignette("v3", (), ("smoker",), (Action.GREEN,), split="train"),
    ]
    with Spool(tmp_path, VOCABULARY) as spool:
        for vignette in vignettes:
            spool.add(vignette)

    summaries, records = zip(*spool, strict=True)

    assert summaries == (
        Summary(None, 1, 1, 1, 1, (1, 1, 0, 0)),
        Summary("test", 2, 0, 0, 0, (0, 0, 0, 255)),
        Summary("train", 0, 0, 0, 1, (0, 0, 1, 0)),
    )
    assert list(records) == [encode_example(vignette) for vignette in vignettes]
    assert spool.count == 3
    assert spool.given == {"train": 1, "test": 1}
    assert spool.strata == [1, 0, 0, 0]  # v1 alone is to be drawn; its tie is urgent


def test_more_vignettes_than_a_batch_stay_aligned(tmp_path):
    with Spool(tmp_path, VOCABULARY) as spool:
        for i in range(5_000):
            spool.add(Vignette(f"v{i}", ("fever",), (), (Action.RED,) * (1 + i % 200)))

    for i, (summary, record) in enumerate(spool):
        assert summary.decision_counts == (1 + i % 200, 0, 0, 0)
        assert f"v{i}".encode() in record
    assert i == 4_999


def test_an_empty_spool_yields_nothing(tmp_path):
    with Spool(tmp_path, VOCABULARY) as spool:
        pass

    assert list(spool) == []
