"""Paths and addresses: which is which, and how each is shown."""

import argparse
import pathlib

import pytest

from schemas.errors import InputError
from triage_runtime.storage import locations
from triage_runtime.storage.locations import Fetched, Remote


@pytest.mark.parametrize("text", ["gs://b/x", "gs://b/x/", "s3://b/x"])
def test_an_address_is_no_path(text):
    assert locations.source(text) == Remote(text.rstrip("/"), Fetched.ALL, written=False)


@pytest.mark.parametrize("text", ["/data", "data", "C:/data", "gs/b", "a:b"])
def test_a_path_is_a_path(text):
    assert locations.result(text) == pathlib.Path(text)


@pytest.mark.parametrize("text", ["gs://bucket", "gs://bucket/", "gs:///x"])
def test_a_whole_bucket_is_no_place(text):
    with pytest.raises(argparse.ArgumentTypeError, match="in the bucket"):
        locations.source(text)


def test_paths_that_stand_for_addresses_are_shown_as_those_while_they_do():
    with locations.standing_for({"/tmp/s/1": "gs://one", "/tmp/s/10": "gs://ten"}):  # noqa: S108  # no such folder
        assert locations.shown(pathlib.Path("/tmp/s/1/job")) == "gs://one/job"  # noqa: S108
        assert locations.shown("from /tmp/s/10/job on") == "from gs://ten/job on"
        assert locations.shown("/data") == "/data"
    assert locations.shown("/tmp/s/1/job") == "/tmp/s/1/job"  # noqa: S108


def _fail_in_a_signed_copy_of_a_fetched_folder():
    with locations.standing_for({"/copies/1": "gs://one"}), locations.standing_for({"/signed/7": "/copies/1/7"}):
        raise InputError("/copies/1: no version, nor in /signed/7/x; see /copies/10")


def test_errors_that_leave_the_block_name_what_the_user_gave():
    with pytest.raises(InputError, match=r"^gs://one: .* gs://one/7/x; see /copies/10$"):
        _fail_in_a_signed_copy_of_a_fetched_folder()
