import pytest

import triage_cli
from schemas.errors import InputError, first_line


def test_library_users_may_catch_it_as_a_value_error():
    assert issubclass(InputError, ValueError)


def test_the_command_line_shows_it_as_one_line_and_exits_with_2(tmp_path, capsys):
    missing = str(tmp_path / "none")

    code = triage_cli.main(["prepare", "--vignettes", missing, "--vocabulary", missing, "--out", str(tmp_path / "out")])

    assert code == 2
    assert capsys.readouterr().err == f"triage prepare: error: {missing}: no such file\n"


class MessageError(Exception):
    message = "\nshape mismatch\n\t[[node]]"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(), "ValueError"),
        (MessageError("Graph: ..."), "shape mismatch"),
        (
            ValueError("{{function_node __wrapped__Next_/device:CPU:0}} corrupted record [Op:Next] name: "),
            "corrupted record",
        ),
        (OSError(28, "No space left on device", "shard"), "No space left on device"),
    ],
)
def test_the_first_line_of_an_error_says_something(error, expected):
    assert first_line(error) == expected
