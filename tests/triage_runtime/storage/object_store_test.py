import pytest

from schemas.errors import InputError
from triage_runtime.storage.object_store import copy, faults, names


def test_a_folder_that_a_tool_marked_with_an_empty_object_is_read(object_store):
    for name, content in (("data/", b""), ("data/a", b"1"), ("data/below/", b""), ("data/below/b", b"2")):
        object_store.write(f"gs://bucket/{name}", content)
    assert names("gs://bucket/data") == ["a", "below/b"]


def test_an_object_alone_has_no_name_below_itself_and_what_is_not_there_has_none(object_store):
    object_store.write("gs://bucket/a", b"1")
    assert (names("gs://bucket/a"), names("gs://bucket/lost")) == ([""], [])


def test_what_the_store_refuses_is_one_line(object_store):
    complaint = r"^gs://bucket/a: cannot read: .*No such object: check the address, and that"
    with pytest.raises(InputError, match=complaint), faults("gs://bucket/a: cannot read"):
        copy("gs://bucket/a", "/nowhere")
