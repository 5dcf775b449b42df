import pytest

from schemas.errors import InputError
from trainer.training.lock import lock


def test_a_lock_is_exclusive_until_its_file_is_closed(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as second:
        lock(first, "not said")
        with pytest.raises(InputError, match=r"^taken: wait$"):
            lock(second, "taken: wait")
        first.close()
        lock(second, "not said")
