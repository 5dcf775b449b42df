"""Which addresses count as this machine."""

import pytest

from serving.security.addresses import is_loopback, is_loopback_target


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1", "LOCALHOST")),
        *((host, False) for host in ("", "::", "10.0.0.7", "::ffff:10.0.0.7", "triage.example.org")),
        ("127.0.0.1.nip.io", False),  # this and the next begin like loopback and are names that anybody may own
        ("localhost.io", False),
    ],
)
def test_only_what_is_certain_to_be_this_machine_is_loopback(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        *((target, True) for target in ("127.0.0.1:8500", "localhost:1", "[::1]:8500", "ipv4:127.0.0.1:41")),
        *((target, True) for target in ("ipv6:%5B::1%5D:41", "dns:localhost:1")),
        *((target, False) for target in ("", "127.0.0.1", "10.0.0.7:8500", "ipv4:10.0.0.7:41", "example.org:127")),
        *((target, False) for target in ("ipv6:%5Bfe80::1%5D:41", "ipv4:127.0.0.1@a:1")),
    ],
)
def test_a_target_is_loopback_by_its_host_alone(target, expected):
    assert is_loopback_target(target) is expected
