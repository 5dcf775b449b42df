"""The rules that --rules means."""

import argparse

import pytest

from schemas.evidence import Evidence, Vocabulary
from trainer.training import rule_options as options

VOCABULARY = Vocabulary([Evidence("fever", "symptom", "Fever", "Fever?")])


def rules_of(*given):
    parser = argparse.ArgumentParser()
    options.add_argument(parser)
    return options.read_rules(parser.parse_args([*map(str, given)]).rules, VOCABULARY)


def test_a_file_is_read_and_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[hot]\nreason = "Hot."\nurgency = "Green"\nall.present = ["fever"]\n')
    rules = rules_of("--rules", path)
    assert [rule.rule_id for rule in rules] == ["hot"]
    assert rules.source == str(path)


@pytest.mark.parametrize(
    ("given", "warning"), [((), "no safety rules: the default ones are for"), (("--rules", "none"), "")]
)
def test_a_warning_says_that_no_rules_apply_unless_that_was_asked_for(given, warning, capsys):
    assert len(rules_of(*given)) == 0
    printed = capsys.readouterr().err
    assert printed.startswith(warning)
    assert bool(printed) == bool(warning)
