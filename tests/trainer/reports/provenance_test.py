import sys

from trainer.reports.provenance import provenance


def test_the_command_is_quoted_so_that_it_can_be_repeated(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/triage", "evaluate", "--data", "my data"])
    made = provenance()
    assert made["command"] == "triage evaluate --data 'my data'"
    assert made["python"].startswith("3.")
    assert made["tensorflow"].startswith("2.")
