"""A version is loaded only if each of its bytes was signed with the one key."""

import json
import shutil

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from schemas.errors import InputError
from serving.security.signature import VersionKey, verified
from trainer.export.signing import sign

FILES = ("saved_model.pb", "variables/variables.index", "assets.extra/state.tflite", "manifest.json", "BLESSED")


def public(key):
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def private_key():
    return ed25519.Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def key(private_key, tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "public.pem"
    path.write_bytes(public(private_key))
    return VersionKey.read(path)


@pytest.fixture
def version(private_key, tmp_path):
    """A signed version, whose model is none."""
    folder = tmp_path / "models" / "3"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the content of {name}")
    manifest = {
        "format_version": 1,
        "model_version": "3",
        "vocabulary_fingerprint": "sha256:vocabulary",
        "data_fingerprint": "sha256:data",
        "evidence_count": 3,
        "max_questions": 10,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "BLESSED").write_bytes(b"")
    sign(folder, private_key)
    return folder


def refusal(version, key):
    with pytest.raises(InputError) as refused, verified(version, key):
        pytest.fail("was not refused")
    [line] = str(refused.value).splitlines()
    return line


def test_the_verified_copy_is_what_was_signed_and_is_gone_afterwards(version, key):
    before = {name: (version / name).read_bytes() for name in FILES}
    with verified(version, key) as copy:
        shutil.rmtree(version)  # nothing that happens there can change what is loaded
        assert copy.name == "3"
        assert copy.parent.stat().st_mode & 0o077 == 0
        copied = {path.relative_to(copy).as_posix(): path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert copied == before
    assert not copy.exists()


@pytest.mark.parametrize("name", FILES)
def test_one_altered_byte_in_any_file_is_refused(version, key, name):
    content = bytearray((version / name).read_bytes() or b"\0")
    content[-1] ^= 1
    (version / name).write_bytes(content)
    assert refusal(version, key) == (f"{version / name}: is not the file that was signed: publish the version again")


def test_a_missing_file_is_refused(version, key):
    name = "assets.extra/state.tflite"
    (version / name).unlink()
    assert refusal(version, key) == f"{version / name}: was signed, and is missing: publish the version again"


def test_an_added_file_is_refused(version, key):
    name = "variables/variables.data-00000-of-00001"
    (version / name).touch()
    assert refusal(version, key) == (
        f"{version / name}: is not among the files that were signed: publish the version again"
    )


def test_a_folder_elsewhere_does_not_stand_in_for_a_signed_one(version, key, tmp_path):
    shutil.move(version / "variables", tmp_path / "variables")
    (version / "variables").symlink_to(tmp_path / "variables")
    assert "variables.index: was signed, and is missing" in refusal(version, key)


@pytest.mark.parametrize("name", ["SHA256SUMS", "SHA256SUMS.sig"])
def test_a_version_without_a_signature_is_refused(version, key, name):
    (version / name).unlink()
    assert refusal(version, key) == (
        f"{version}: is not signed, but --require-signature demands it: export it with --sign KEY"
    )


def test_another_key_is_refused_and_so_is_a_changed_list(version, key):
    expected = (
        f"{version / 'SHA256SUMS'}: was changed, or signed with a key other than that of {key.name}: publish the "
        "version again"
    )
    with open(version / "SHA256SUMS", "ab") as file:
        file.write(b"\n")
    assert refusal(version, key) == expected
    sign(version, ed25519.Ed25519PrivateKey.generate())
    assert refusal(version, key) == expected
    (version / "SHA256SUMS.sig").write_bytes(b"short")
    assert refusal(version, key) == expected


def test_an_old_version_does_not_come_back_under_a_higher_number(version, key):
    version = version.rename(version.with_name("9"))
    assert refusal(version, key) == f"{version}: was signed as version 3: give it that number"


def test_an_error_about_the_copy_names_the_version(version, key):
    with pytest.raises(InputError) as error, verified(version, key) as copy:
        raise InputError(f"{copy}: cannot load the SavedModel")
    assert str(error.value) == f"{version}: cannot load the SavedModel"


@pytest.mark.parametrize(
    "content",
    [b"no key", public(ec.generate_private_key(ec.SECP256R1()))],
    ids=["text", "another kind of key"],
)
def test_a_file_without_a_public_ed25519_key_is_refused(content, tmp_path):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(InputError, match=r"^--require-signature .*/key: expected a public Ed25519 key in PEM format"):
        VersionKey.read(tmp_path / "key")
