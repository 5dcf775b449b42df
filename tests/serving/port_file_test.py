"""The file that tells the server's port."""

import pytest

from schemas.errors import InputError
from serving import port_file


def test_it_holds_the_port_and_nothing_lies_beside_it(tmp_path):
    path = tmp_path / "port"
    path.write_text("1\n")
    port_file.write(path, 8500)
    assert path.read_text() == "8500\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["port"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match=r"--port-file .*port: cannot write: No such file or directory"):
        port_file.write(tmp_path / "nowhere" / "port", 8500)
