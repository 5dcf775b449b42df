"""The rules that --rules means."""

import argparse

import pytest

from schemas.evidence import Evidence, Vocabulary
from trainer.safeguards import options

VOCABULARY = Vocabulary([Evidence("fever", "symptom", "Fever", "Fever?")])


def chosen(*given):
    parser = argparse.ArgumentParser()
    options.add_argument(parser)
    return options.chosen(parser.parse_args([*map(str, given)]), VOCABULARY)


def test_a_file_is_read_and_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[hot]\nreason = "Hot."\nurgency = "Green"\nall.present = ["fever"]\n')
    rules = chosen("--rules", path)
    assert [rule.rule_id for rule in rules] == ["hot"]
    assert rules.source == str(path)


@pytest.mark.parametrize(
    ("given", "said"), [((), "no safety rules: the default ones are for"), (("--rules", "none"), "")]
)
def test_whoever_did_not_ask_for_no_rules_is_told(given, said, capsys):
    assert len(chosen(*given)) == 0
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert bool(told) == bool(said)
