"""Vignettes from data frames are those of files."""

import pathlib

import pandas as pd
import pytest

import dyqn_triage

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def from_files(tmp_path_factory):
    out = tmp_path_factory.mktemp("files") / "data"
    return dyqn_triage.prepare(EXAMPLES / "vignettes.jsonl", out, vocabulary=EXAMPLES / "vocabulary.csv")


@pytest.fixture(scope="module")
def frame():
    return pd.read_json(EXAMPLES / "vignettes.jsonl", lines=True)


def test_a_frame_with_a_column_for_each_piece_of_evidence_is_the_same_data(from_files, frame, tmp_path):
    codes = pd.read_csv(EXAMPLES / "vocabulary.csv")["code"]
    wide = pd.DataFrame({"vignette_id": frame["vignette_id"], "decisions": frame["decisions"]})
    wide["tags"] = frame["tags"].map(";".join)
    stated = [{**dict.fromkeys(row.present, 1), **dict.fromkeys(row.absent, 0)} for row in frame.itertuples()]
    wide = wide.join(pd.DataFrame(stated, columns=list(codes)))
    data = dyqn_triage.prepare(wide, tmp_path / "data", vocabulary=EXAMPLES / "vocabulary.csv")
    assert data.stats["splits"]["train"]["vignettes"] == from_files.stats["splits"]["train"]["vignettes"]
    # In a table evidence has the order of the columns, so the bytes differ; the vignettes are the same.
    read, listed = (_sets(each) for each in (data, from_files))
    assert read == listed
    derived = dyqn_triage.prepare(wide, tmp_path / "derived", ignore_columns=[codes[0]])
    assert set(derived.vocabulary.codes) == set(codes[1:])


def _sets(data):
    arrays = data.read("train")
    bounds = zip(arrays.offsets[:-1], arrays.offsets[1:], strict=True)
    return {
        str(name): (frozenset(arrays.signed_codes[low:high].tolist()), tuple(counts))
        for name, (low, high), counts in zip(arrays.vignette_ids, bounds, arrays.decision_counts.tolist(), strict=True)
    }


def test_faults_are_the_commands(frame, tmp_path):
    vocabulary = EXAMPLES / "vocabulary.csv"
    faulty = frame.assign(decisions=[["Purple"]] * len(frame))
    with pytest.raises(dyqn_triage.InputError, match=r"vignettes: row 0: .*'Purple'.* 119 more"):
        dyqn_triage.prepare(faulty, tmp_path / "data", vocabulary=vocabulary)
    with pytest.raises(dyqn_triage.InputError, match="test_share"):
        dyqn_triage.prepare(frame, tmp_path / "other", vocabulary=vocabulary, test_share=0.5)
    with pytest.raises(dyqn_triage.InputError, match="'decisions'"):
        dyqn_triage.prepare(pd.DataFrame({"vignette_id": ["v"], "fever": [1]}), tmp_path / "third")
