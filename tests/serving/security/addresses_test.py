"""Which addresses count as this machine."""

import pytest

from serving.security.addresses import host_and_port, is_loopback, is_loopback_target


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1:8500"), ("triage.example.org", "triage.example.org:8500"), ("::1", "[::1]:8500")],
)
def test_only_an_ipv6_address_gets_brackets_before_its_port(host, expected):
    assert host_and_port(host, 8500) == expected


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1", "localhost", "LOCALHOST"]
)
def test_loopback_addresses_are_recognised(host):
    assert is_loopback(host)


# The last two begin like loopback and are names that anybody may own.
@pytest.mark.parametrize(
    "host", ["", "::", "10.0.0.7", "::ffff:10.0.0.7", "triage.example.org", "127.0.0.1.nip.io", "localhost.io"]
)
def test_other_addresses_are_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "target",
    ["127.0.0.1:8500", "localhost:1", "[::1]:8500", "ipv4:127.0.0.1:41", "ipv6:%5B::1%5D:41", "dns:localhost:1"],
)
def test_a_target_on_this_machine_is_recognised(target):
    assert is_loopback_target(target)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "127.0.0.1",
        "10.0.0.7:8500",
        "ipv4:10.0.0.7:41",
        "ipv6:%5Bfe80::1%5D:41",
        "example.org:127",
        "ipv4:127.0.0.1@a:1",
    ],
)
def test_a_target_that_may_be_elsewhere_is_not_loopback(target):
    assert not is_loopback_target(target)
