import argparse
import json

import pytest

from schemas.errors import InputError
from triage_runtime.command_line import json_output
from triage_runtime.storage import locations


def test_the_option_is_off_unless_given():
    parser = argparse.ArgumentParser()
    json_output.add_argument(parser)

    assert parser.parse_args([]).json is None
    assert parser.parse_args(["--json", "-"]).json == "-"


def test_figures_go_to_the_file(tmp_path):
    json_output.write({"é": 1.5}, str(tmp_path / "f.json"))

    assert (tmp_path / "f.json").read_text(encoding="utf-8") == '{\n  "é": 1.5\n}\n'


def test_a_dash_is_standard_output_and_none_is_nowhere(capsys):
    json_output.write({"a": 1}, "-")
    json_output.write({"b": 2}, None)

    assert json.loads(capsys.readouterr().out) == {"a": 1}


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match=r"--json .*cannot write"):
        json_output.write({}, str(tmp_path / "none" / "f.json"))


def test_a_figure_that_is_not_a_number_is_not_written_as_one(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_output.write({"a": float("nan")}, str(tmp_path / "f.json"))


@pytest.mark.parametrize(("name", "fault"), [("none/f.json", "none is not a directory"), (".", "it is a directory")])
def test_a_file_that_cannot_be_written_is_reported_before_the_work(tmp_path, name, fault):
    with pytest.raises(InputError, match=rf"--json .*cannot write: .*{fault}"):
        json_output.check(tmp_path / name)


def test_a_check_touches_nothing(tmp_path):
    (tmp_path / "old.json").write_text("old")
    remote = locations.fresh_result("gs://bucket/folder/f.json")
    for destination in (None, "-", remote, str(tmp_path / "new.json"), str(tmp_path / "old.json")):
        json_output.check(destination)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.json": "old"}
