import json

import pytest

import triage_cli
from trainer.commands.simulate import PAPER_TEST, PAPER_VIGNETTES
from trainer.data.tfrecord import DataDirectory
from trainer.simulation.simulator import BLOCK


@pytest.fixture
def simulate(toy_knowledge_directory, tmp_path):
    def run(name, *arguments):
        common = ["--knowledge", toy_knowledge_directory, "--out", tmp_path / name]
        return triage_cli.main(["simulate", *map(str, common), *map(str, arguments)]), tmp_path / name

    return run


def _files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _vignettes(directory, split):
    data = DataDirectory.open(directory)
    arrays = data.read(split)
    return [arrays.vignette(row, data.vocabulary) for row in range(len(arrays.vignette_ids))]


def test_the_default_is_a_data_directory_of_the_papers_size(simulate):
    code, directory = simulate("data")
    assert code == 0
    data = DataDirectory.open(directory)
    assert data.stats["splits"]["train"]["vignettes"] == PAPER_VIGNETTES - PAPER_TEST == 1248
    assert data.stats["splits"]["test"]["vignettes"] == PAPER_TEST == 126
    assert len(data.read("train").decision_counts) == 1248


def test_a_number_of_vignettes_that_cuts_the_last_block_is_kept(simulate):
    _, directory = simulate("data", "--vignettes", BLOCK + 7)
    assert len(_vignettes(directory, "train")) + len(_vignettes(directory, "test")) == BLOCK + 7


def test_the_directory_states_how_it_was_made(simulate, toy_knowledge):
    _, directory = simulate("data", "--vignettes", 40, "--seed", 3)
    stats = json.loads((directory / "stats.json").read_text())
    assert (stats["format"], stats["seed"]) == ("simulate", 3)
    assert stats["options"]["knowledge_fingerprint"] == toy_knowledge.fingerprint
    assert stats["options"]["simulation"]["panel"]["clinicians"] > 0
    assert stats["vocabulary_fingerprint"] == toy_knowledge.catalogue.vocabulary.fingerprint


def test_whole_patients_say_so_in_the_data_directory_and_cards_do_not(simulate):
    _, cards = simulate("cards", "--vignettes", 40)
    _, whole = simulate("whole", "--vignettes", 40, "--whole-patient")
    assert not DataDirectory.open(cards).whole_patients
    assert DataDirectory.open(whole).whole_patients
    assert sorted(v.vignette_id for split in ("train", "test") for v in _vignettes(whole, split))[0] == "w0-0000001"
