import argparse
import json

import pytest

from schemas.errors import InputError
from triage_runtime.command_line import json_output
from triage_runtime.storage import locations


def test_figures_go_to_the_file_that_the_option_names(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    json_output.add_argument(parser)
    for given in ([], ["--json", "-"], ["--json", str(tmp_path / "f.json")]):
        json_output.write({"é": 1.5}, parser.parse_args(given).json)
    assert json.loads(capsys.readouterr().out) == {"é": 1.5}
    assert (tmp_path / "f.json").read_text(encoding="utf-8") == '{\n  "é": 1.5\n}\n'


def test_a_figure_that_is_not_a_number_is_not_written_as_one(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_output.write({"a": float("nan")}, str(tmp_path / "f.json"))


@pytest.mark.parametrize("name", ["none/f.json", "."])
def test_a_file_that_cannot_be_written_is_reported_before_and_after_the_work(tmp_path, name):
    for report in (json_output.check, lambda path: json_output.write({}, path)):
        with pytest.raises(InputError, match=f"^--json {tmp_path / name}: cannot write"):
            report(tmp_path / name)


def test_a_check_touches_nothing(tmp_path):
    (tmp_path / "old.json").write_text("old")
    remote = locations.fresh_result("gs://bucket/folder/f.json")
    for destination in (None, "-", remote, str(tmp_path / "new.json"), str(tmp_path / "old.json")):
        json_output.check(destination)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.json": "old"}
