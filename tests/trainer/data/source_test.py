import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.directories import UTF_16_MARKS
from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.text_file import MAX_LINE_BYTES, PREFIX_BYTES
from trainer.data.source import LineReader, check_kind

VOCABULARY = Vocabulary([Evidence("a", "symptom", "A", "A?")])
GOOD = b'{"vignette_id": "v1", "present": ["a"], "absent": [], "decisions": ["Red"]}'


def lines_of(path, content):
    path.write_bytes(content)
    return list(LineReader(path))


def test_lines_have_numbers_offsets_and_no_ends(tmp_path):
    lines = lines_of(tmp_path / "f", b"one\ntwo\r\n\nlast")

    assert [(line.number, line.length, line.content) for line in lines] == [
        (1, 3, b"one"),
        (2, 3, b"two"),
        (3, 0, b""),
        (4, 4, b"last"),
    ]
    assert [line.blank for line in lines] == [False, False, True, False]


@given(st.binary(max_size=60).filter(lambda content: content[:2] not in (b"PK", b"\x1f\x8b", *UTF_16_MARKS)))
def test_no_byte_of_a_file_is_lost(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("lines") / "f"
    reader = LineReader(path)
    path.write_bytes(content)

    lines = list(reader)

    ends = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    assert len(lines) == ends
    whole = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").removesuffix(b"\n")
    assert b"\n".join(line.content for line in lines) == whole


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_of_the_largest_size_is_read_whole(tmp_path, start, end):
    [line] = lines_of(tmp_path / "f", start + b"x" * MAX_LINE_BYTES + end)

    assert len(line.decoded()) == MAX_LINE_BYTES
    assert line.length == len(line.content) == MAX_LINE_BYTES


@pytest.mark.parametrize("length", [MAX_LINE_BYTES + 1, MAX_LINE_BYTES + 2, 3 * MAX_LINE_BYTES + 17])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_of_a_longer_line_a_prefix_stays_and_the_next_line_is_found(tmp_path, length, end):
    first, second = lines_of(tmp_path / "f", b"x" * length + end + b"next")

    assert first.length == length
    assert first.content == b"x" * PREFIX_BYTES
    assert not first.blank
    assert (second.number, second.content) == (2, b"next")
    with pytest.raises(InputError, match=f"1,048,576 .*{length:,}"):
        first.decoded()


def test_the_one_file_inside_an_archive_is_read(tmp_path):
    path = tmp_path / "release.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("release", "one\ntwo\n")
        archive.writestr("__MACOSX/release", "no content")
    reader = LineReader(path)

    assert [line.content for line in reader] == [b"one", b"two"]


def test_an_archive_in_which_lines_stand_as_they_are_is_not_taken_for_a_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "f.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("f.jsonl", GOOD)
    check_kind(tmp_path / "f.zip")


@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_an_archive_of_none_or_several_files_is_refused(tmp_path, names):
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.mkdir("folder") if hasattr(archive, "mkdir") else archive.writestr("folder/", "")
        for name in names:
            archive.writestr(name, "text")

    with pytest.raises(InputError, match=rf"f\.zip: .*found {len(names)}"):
        list(LineReader(tmp_path / "f.zip"))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_named(tmp_path, compression):
    path = tmp_path / "f.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("a", "some text that is packed\n" * 99)
    content = bytearray(path.read_bytes())
    content[40:60] = b"\xff" * 20
    path.write_bytes(content)

    with pytest.raises(InputError, match=r"f\.zip: "):
        list(LineReader(path))


def test_an_archive_with_a_damaged_name_inside_is_named(tmp_path):
    path = tmp_path / "f.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é", "some text")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))

    with pytest.raises(InputError, match=r"f\.zip: .*archive"):
        list(LineReader(path))
