import pathlib

from trainer.commands.reproduce import print_results


def _figure(mean, sd=None):
    return {"mean": mean, "sd_over_seeds": sd}


def test_the_table_holds_this_study_beside_the_paper_and_the_verdicts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    metrics = {
        "appropriateness": _figure(0.8123, 0.0214), "safety": _figure(0.9), "questions": None,
        "evidence_seen": _figure(6.54),
    }  # fmt: skip
    results = {
        "agents": {"x": {"label": "An agent", "metrics": metrics, "paper": {"appropriateness": 0.85, "safety": None}}},
        "claims": [
            {"claim": "It asks", "outcome": "holds", "numbers": "N1."},
            {"claim": "It stops", "outcome": "fails", "numbers": "N2."},
            {"claim": "It flies", "outcome": "not measured", "numbers": "Not measured in this study."},
        ],
        "failures": [{"task": "dyqn_or-seed-0", "error": "the loss [red] is not finite"}],
    }
    print_results(results, pathlib.Path("out"))
    printed = capsys.readouterr().out
    [row] = [line for line in printed.splitlines() if "An agent" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "An agent", "0.812 ± 0.021 (0.85)", "0.900", "", "6.5",
    ]  # fmt: skip
    for line in (
        "       holds  It asks. N1.",
        "       fails  It stops. N2.",
        "not measured  It flies.",
        "failed: dyqn_or-seed-0: the loss [red] is",
    ):
        assert line in printed
    assert "out/report.html" in printed
