"""The batching parameters file, in the text that TensorFlow Serving's documentation has."""

import pytest

from schemas.errors import InputError
from serving.config.batching_parameters import BatchingParameters, read_parameters

# The example of TensorFlow Serving's batching guide, with each field that the server reads.
EXAMPLE = """
max_batch_size { value: 128 }
batch_timeout_micros { value: 0 }
max_enqueued_batches { value: 1000000 }
num_batch_threads { value: 8 }
thread_pool_name { value: "triage" }
allowed_batch_sizes: 32
allowed_batch_sizes: 128
pad_variable_length_inputs: true
"""


def read(tmp_path, text):
    path = tmp_path / "batching.txt"
    path.write_text(text)
    return read_parameters(path)


def test_all_fields_of_the_file_are_read(tmp_path):
    assert read(tmp_path, EXAMPLE) == BatchingParameters(128, 0, 1000000, 8, (32, 128))


def test_what_the_file_leaves_out_keeps_its_default(tmp_path):
    assert read(tmp_path, "max_batch_size { value: 8 }") == BatchingParameters(max_batch_size=8)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("max_batch_size: 8", r"batching.txt:1:17.*such as max_batch_size \{ value: 64 \}"),
        ("max_size { value: 8 }", r"batching.txt:1:1.*no field named"),
        ("max_batch_size { value: 0 }", "max_batch_size 0: expected a whole number from 1"),
        ("batch_timeout_micros { value: -1 }", "batch_timeout_micros -1: expected a whole number from 0"),
        ("allowed_batch_sizes: 8 allowed_batch_sizes: 4", r"allowed_batch_sizes \[8, 4\]: expected ascending numbers"),
        ("max_batch_size { value: 8 } allowed_batch_sizes: 4", "that end with max_batch_size, 8"),
    ],
)
def test_a_faulty_file_is_reported_with_the_place(tmp_path, text, complaint):
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, text)
