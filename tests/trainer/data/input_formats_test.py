import argparse

import pytest

from schemas.errors import InputError
from trainer.data import input_formats

VOCABULARY = "code,kind,name,question\na,symptom,A,A?\n"
FILES = {
    "v.csv": VOCABULARY,
    "v.jsonl": '{"vignette_id": "v1", "present": ["a"], "absent": [], "decisions": ["Red"]}\n',
    "wide.csv": "vignette_id,a,decisions\nv1,1,Red\n",
    "evidence.csv": "vignette_id,evidence,presence\nv1,a,1\n",
    "decisions.csv": "vignette_id,decision\nv1,Red\n",
}
FORMATS = {
    "jsonl": ["--vignettes", "v.jsonl", "--vocabulary", "v.csv"],
    "csv-wide": ["--vignettes", "wide.csv"],
    "csv-long": ["--evidence-table", "evidence.csv", "--decisions", "decisions.csv"],
}


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)

    def parse(*options):
        parser = argparse.ArgumentParser()
        input_formats.add_arguments(parser)
        return parser.parse_args(options)

    return parse


def opened(arguments):
    return input_formats.chosen_format(arguments).open(0)


def test_rows_that_are_loaded_are_counted(parsed, tmp_path):
    counted = []

    def tracked(rows, unit):
        for row in rows:
            counted.append(unit)
            yield row

    opened(parsed("--format", "csv-long", *FORMATS["csv-long"])).read(tracked)

    assert counted == ["rows", "rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "csv-wide"], "--format csv-wide needs --vignettes$"),
        (["--format", "csv-long"], "--format csv-long needs --evidence-table, --decisions$"),
        (
            ["--format", "csv-long", *FORMATS["csv-wide"]],
            "--format csv-long needs --evidence-table, --decisions and takes no --vignettes$",
        ),
        ([*FORMATS["jsonl"], "--risk-factors", "a"], "--format jsonl takes no --risk-factors$"),
        (["--format", "ddxplus", "--vocabulary", "v.csv"], "takes no --vocabulary$"),
        (
            ["--format", "csv-wide", *FORMATS["csv-wide"], "--vocabulary", "v.csv", "--risk-factors", "a"],
            "--risk-factors: the file of --vocabulary names the risk factors: give only one of the two$",
        ),
    ],
)
def test_options_of_another_format_are_refused(parsed, options, message):
    with pytest.raises(InputError, match=message):
        input_formats.chosen_format(parsed(*options))


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("jsonl", "v.jsonl", "v.jsonl: no such file"),
        ("csv-wide", "wide.csv", "wide.csv: no such file"),
        ("csv-long", "evidence.csv", "evidence.csv: no such file"),
        ("csv-long", "decisions.csv", "decisions.csv: no such file"),
    ],
)
def test_a_file_that_does_not_exist_is_named_before_anything_is_read(parsed, tmp_path, name, file, message):
    (tmp_path / file).unlink()

    with pytest.raises(InputError, match=message):
        opened(parsed("--format", name, *FORMATS[name]))
