import json
import re

import pytest

from trainer.reports.report import agents_table, report
from triage_runtime.command_line.json_output import plain


@pytest.fixture
def results(study_results):
    """results.json as it is read from the file."""
    named = {
        "provenance": {"command": "triage reproduce <&>"},
        "data": {"simulated": True, "vignettes": {"train": 40, "test": 10}, "evidence_codes": 12},
    }
    return json.loads(json.dumps(plain({**study_results({"dyqn_or": (0.8, 0.6)}), **named})))


def test_a_row_has_the_mean_its_interval_the_deviation_and_the_papers_number(results):
    rows = {label: cells for label, *cells in agents_table(results).rows}
    assert len(rows) == 8
    assert rows["DyQN, OR query"][0] == "0.700 (0.700 to 0.700; SD 0.141) [0.85]"
    assert rows["DyQN, AND query"][4] == "+0.200 (+0.200 to +0.200)"
    assert rows["Clinicians"][2] == "all evidence"


@pytest.mark.parametrize("folds", [True, False])
def test_the_page_has_the_tables_and_figures_and_loads_nothing(results, folds):
    page = report(results if folds else {**results, "folds": None})
    assert (page.count("<table"), page.count("<figure")) == (1 + folds, 2)
    assert not re.search('<script|(src|href)="[^#]', page)
    assert "triage reproduce &lt;&amp;&gt;" in page
    assert "simulated" in page
