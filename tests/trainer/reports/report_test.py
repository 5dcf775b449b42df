import html.parser
import json

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


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href") and value[:1] != "#"]

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("folds", [True, False])
def test_the_page_has_the_tables_and_figures_and_loads_nothing(results, folds):
    page = _Page(report(results if folds else {**results, "folds": None}))
    assert (page.tags.count("table"), page.tags.count("figure")) == (1 + folds, 2)
    assert (page.addresses, "script" in page.tags) == ([], False)
    assert "triage reproduce <&>" in page.text
    assert "The vignettes are simulated." in page.text
