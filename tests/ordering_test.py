"""benchmarks/ordering.py, which counts in how many studies an ordering of the paper holds."""

from benchmarks import ordering


def study(*claims, appropriate=0.86):
    rows = [{"claim": name, "outcome": outcome, "seen": seen} for name, outcome, seen in claims]
    observed = {"metrics": {"appropriateness": {"mean": appropriate}, "safety": {"mean": 0.94}}}
    return {"claims": rows, "agents": {"fully_observed": observed}, "provenance": {"task_seconds": 5400.0}}


def test_an_ordering_is_counted_over_the_cells_and_other_claims_are_left_out():
    studies = [
        study(("safer", "holds", 0.9), ("learns", "holds", None)),
        study(("safer", "not shown", 0.6), ("learns", "holds", None), appropriate=0.84),
    ]
    assert ordering.table(studies).splitlines()[2:] == [
        "| safer | 1 | 1 | 0 | 75% (60%-90%) |",
        "",
        "2 cells; fully observed 0.850 / 0.940; 3.0 hours of tasks",
    ]


def test_cells_that_judged_other_claims_are_counted_where_they_did():
    """A claim that came later is counted in the cells that have it."""
    older, newer = study(("safer", "holds", 0.9)), study(("as good", "fails", 0.2), ("safer", "holds", 0.7))
    for cells in ([older, newer], [newer, older]):
        assert sorted(ordering.table(cells).splitlines()[2:4]) == [
            "| as good | 0 | 0 | 1 | 20% (20%-20%) |",
            "| safer | 2 | 0 | 0 | 80% (70%-90%) |",
        ]


def test_a_cell_is_a_study_of_its_own_that_is_not_repeated(monkeypatch, tmp_path, capsys):
    commands = []

    def reproduce(words):
        commands.append(words)
        out = tmp_path / words[words.index("--out") + 1]
        out.mkdir(parents=True, exist_ok=True)
        (out / "results.json").write_text(ordering.json.dumps(study(("safer", "holds", 0.9))))
        return 0

    monkeypatch.setattr(ordering.triage_cli, "main", reproduce)
    monkeypatch.setattr(ordering, "simulate_splits", lambda data, *sizes: data.mkdir(parents=True))
    given = ["--out", str(tmp_path), "--sizes", "40", "60", "--cells", "", "--steps 9", "--", "--quick"]
    for _ in range(2):
        ordering.main(given)
        assert "| safer | 4 | 0 | 0 | 90% (90%-90%) |" in capsys.readouterr().out
    assert [words["--steps" in words and words.index("--steps") + 1] for words in commands] == ["reproduce", "9"] * 2
    assert all("--quick" in words for words in commands)
    assert len({words[words.index("--out") + 1] for words in commands}) == 2  # ensembles are those of the data
