"""The template unit: options that the server knows, ports of its own for each instance, and time to end."""

import configparser
import dataclasses
import pathlib
import shutil
import subprocess
import sys

import pytest

from serving.commands.serve import END_SECONDS

pytestmark = pytest.mark.slow

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "triage@.service"


@pytest.fixture(scope="module")
def service():
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(UNIT.read_text())
    return parser["Service"]


@pytest.fixture(scope="module")
def settings(service, parsed):
    return lambda instance: parsed(options_of(service, instance))


def options_of(service, instance):
    program, subcommand, *options = service["ExecStart"].replace("%i", instance).split()
    assert (program, subcommand) == ("/opt/triage/bin/triage", "serve")
    return [option.replace("/etc/triage/server.toml", str(UNIT.with_name("server.toml"))) for option in options]


def test_instances_share_the_port_for_calls_and_no_other(settings):
    one, two = (settings(instance) for instance in "12")
    assert one.reuse_port
    assert one.encrypted
    assert one.tokens
    assert (one.probe_port, two.probe_port) == (8511, 8512)
    assert (one.metrics_port, two.metrics_port) == (9091, 9092)
    assert dataclasses.replace(two, probe_port=8511, metrics_port=9091) == one


def test_a_service_that_hangs_is_restarted_and_one_that_ends_has_the_time_for_it(service, settings):
    config = settings("1")
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) >= 5
    assert service["Restart"] == "on-failure"  # which a watchdog's timeout is
    assert int(service["TimeoutStopSec"]) > config.drain_seconds + config.grace_seconds + END_SECONDS


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    unit = tmp_path / "triage@1.service"
    unit.write_text(UNIT.read_text().replace("/opt/triage/bin/triage", sys.executable).replace("User=triage", ""))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
