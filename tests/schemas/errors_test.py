import pytest

from schemas.errors import first_line


class MessageError(Exception):
    message = "Graph execution error:\n\nshape mismatch\n\t[[node]]"


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
