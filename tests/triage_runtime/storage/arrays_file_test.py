"""Files of named arrays: what is written is read, and what is no such file raises one of the errors that are named."""

import zipfile

import numpy as np
import pytest

from triage_runtime.storage import arrays_file


def test_other_files_raise_what_callers_expect(tmp_path):
    path = tmp_path / "x.npz"
    arrays_file.write(path, {"a": np.arange(100)})
    whole = path.read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", b"no array" * 99)
    text = path.read_bytes()
    for content in (b"", b"PK", b"nothing", whole[:-30], text, text.replace(text[40:60], b"\xff" * 20)):
        path.write_bytes(content)
        with pytest.raises(arrays_file.DAMAGE):
            arrays_file.read(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ValueError, match="one array alone"):
        arrays_file.read(path)
