"""The tokens in a file, and changes of the file."""

import logging

import pytest

from schemas.errors import InputError
from serving.security.tokens import TokenFile, read_tokens


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# the ward\n\n  alpha-1  \nbeta+/=\n")
    return path


def test_only_complete_tokens_are_accepted(path):
    tokens = TokenFile(path)
    assert [tokens.holder_of(token) is not None for token in ("alpha-1", "beta+/=")] == [True, True]
    for other in ("", "alpha", "alpha-12", "ALPHA-1", "# the ward", "alpha-1\nbeta+/="):
        assert tokens.holder_of(other) is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "tokens: .*found none"),
        (b"# alpha\n\n", "tokens: .*found none"),
        (b"alpha\nmy secret\n", "tokens:2: "),
        (b"alpha secret=call\n", "tokens:1: "),
        (b"alpha roles=call,secret\n", "tokens:1: .*roles=.*call, metrics, reload"),
        (b"alpha models=a secret=b\n", "tokens:1: "),
        (b"alpha roles=call,reload models=secret\n", "tokens:1: models= .*roles"),
        (b"secret\nsecret roles=call\n", "tokens:2: .*earlier line"),
        (b"secret\xff\n", "tokens: byte 6: "),
    ],
)
def test_a_faulty_file_is_reported_without_a_token(path, content, complaint):
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as error:
        read_tokens(path)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize("content", ["", "gamma\nmy secret\n", None], ids=["emptied", "broken", "deleted"])
def test_earlier_tokens_stay_valid_while_their_file_is_faulty_which_is_logged_once(path, caplog, content):
    tokens = TokenFile(path)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with caplog.at_level(logging.INFO):
        assert [tokens.holder_of(token) is not None for token in ("alpha-1", "gamma", "alpha-1")] == [True, False, True]
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert not any(word in caplog.text for word in ("secret", "alpha", "gamma"))
    path.write_text("gamma\n")
    assert [tokens.holder_of(token) is not None for token in ("alpha-1", "gamma")] == [False, True]


def test_a_token_permits_everything_or_what_its_line_says(path):
    path.write_text(
        "alpha\nbeta roles=call\ngamma   roles=metrics,reload\ndelta models=a,b\nepsilon roles=call  models=a\n"
    )
    tokens = TokenFile(path)
    permitted = {token: tokens.holder_of(token)[1:] for token in read_tokens(path)}
    assert permitted == {
        "alpha": ({"call", "reload", "metrics"}, None),
        "beta": ({"call"}, None),
        "gamma": ({"metrics", "reload"}, None),
        "delta": ({"call"}, {"a", "b"}),
        "epsilon": ({"call"}, {"a"}),
    }
    assert tokens.holder_of("beta").name.startswith("token ")
    assert "beta" not in tokens.holder_of("beta").name
