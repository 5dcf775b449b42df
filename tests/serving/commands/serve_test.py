"""`triage serve`: settings, signals, and versions that come later."""

import argparse
import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import signal
import socket

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import triage_cli
from schemas.errors import InputError
from serving.admission.probes import LIVENESS
from serving.commands import serve as command
from serving.commands.serve import parse_labels
from serving.server.triage_server import TriageServer
from tests.builders import channel_to
from tests.waiting import until
from triage_client import TriageClient, TriageError, evidence_state
from triage_runtime.command_line import extras

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def start_server(start):
    """Starts `triage serve`."""
    return functools.partial(start, "-m", "triage_cli", "serve")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "setting", "litert"),
    [(signal.SIGTERM, 0, "--litert", 1), (signal.SIGINT, 130, "--no-litert", 0)],
)
def test_the_command_serves_until_a_signal_and_ends_in_order(
    start_server, model_base_path, number, code, setting, litert
):
    process = start_server("--model-base-path", str(model_base_path), "--port", "0", setting)
    port = re.fullmatch(r"listening on 127.0.0.1:(\d+), model version 3\n", process.stdout.readline())[1]
    with TriageClient(f"127.0.0.1:{port}", timeout_seconds=30.0) as client:
        assert client.triage(evidence_state(["fever"])).model_version == "3"
    process.send_signal(number)
    assert process.wait(60) == code
    errors = process.communicate()[1]
    assert "Traceback" not in errors
    assert errors.count("version 3: LiteRT runs up to 64 states at once") == litert


@pytest.mark.slow
def test_the_command_keeps_answering_while_it_drains_so_that_load_balancers_can_notice(start_server, model_base_path):
    options = ["--model-base-path", str(model_base_path), "--port", "0", "--drain-seconds", "600"]
    process = start_server(*options)
    address = process.stdout.readline().split()[2].rstrip(",")
    with channel_to(address) as channel, TriageClient(address, timeout_seconds=30.0) as client:
        changes = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        statuses = [next(changes).status]
        process.send_signal(signal.SIGTERM)
        statuses.append(next(changes).status)
        assert statuses == [SERVING, NOT_SERVING]
        assert client.triage(evidence_state(["fever"])).model_version == "3"
        changes.cancel()
    process.send_signal(signal.SIGTERM)  # a second one does not wait
    assert process.wait(60) == -signal.SIGTERM


def models_file(path, **bases):
    """Writes a configuration of models, each with the policy and the labels that follow its base path."""
    entries = (f'config {{ name: "{name}" model_platform: "tensorflow" {rest} }}' for name, rest in bases.items())
    path.write_text("model_config_list {\n" + "\n".join(entries) + "\n}\n")
    return str(path)


@pytest.mark.slow
def test_servers_share_a_port_and_go_on_without_one_that_is_killed(start_server, model_base_path):
    options = ["--model-base-path", str(model_base_path), "--reuse-port", "--http-port", "0", "--port"]
    first = start_server(*options, "0")
    started = [first]
    address, http = (first.stdout.readline().split()[place].rstrip(",") for place in (2, -1))
    options[options.index("--http-port") + 1] = http.rpartition(":")[2]
    started += [start_server(*options, address.rpartition(":")[2]) for _ in range(2)]
    assert all(each.stdout.readline().startswith(f"listening on {address}, ") for each in started[1:])
    assert all(each.stdout.readline() == f"HTTP at {http}\n" for each in started[1:])
    first.kill()
    first.wait(60)
    for _ in range(20):  # each over a new connection
        with TriageClient(address, timeout_seconds=30.0) as client:
            assert client.triage(evidence_state(["fever"])).model_version == "3"
    assert httpx.post(f"{http}/v1/triage", json={"present": ["fever"]}, trust_env=False).json()["action"] == "ask"
    alone = start_server(*(option for option in options if option != "--reuse-port"), address.rpartition(":")[2])
    assert "another server" in alone.communicate(timeout=120)[1]
    assert alone.returncode == 2
    for each in started[1:]:
        each.send_signal(signal.SIGTERM)
    assert [each.wait(60) for each in started[1:]] == [0, 0]


BLOCKED = """
import sys, time
import triage_cli
from serving.service import TriageService

async def block(self, request, context):
    time.sleep(600)

TriageService.Triage = block
sys.exit(triage_cli.main(["serve", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_a_server_whose_event_loop_hangs_says_so_to_probes_and_to_systemd(start, model_base_path, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, socket.socket() as free:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(120)
        free.bind(("127.0.0.1", 0))
        probes = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        options = ["--model-base-path", str(model_base_path), "--port", "0", "--probe-port", probes.rpartition(":")[2]]
        process = start("-c", BLOCKED, *options, env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        address = process.stdout.readline().split()[2].rstrip(",")
        while systemd.recv(64) != b"READY=1":
            pass
        assert systemd.recv(64) == b"WATCHDOG=1"  # and every second from now on
        with channel_to(probes) as channel, TriageClient(address, timeout_seconds=1.0) as client:

            def status():
                request = health_pb2.HealthCheckRequest(service=LIVENESS)
                return health_pb2_grpc.HealthStub(channel).Check(request, timeout=30).status

            assert status() == SERVING
            with pytest.raises(TriageError):
                client.triage(evidence_state(["fever"]))
            until(lambda: status() == NOT_SERVING)
        systemd.settimeout(2)
        with contextlib.suppress(TimeoutError):
            while systemd.recv(64):  # until nothing more comes
                pass
        process.send_signal(signal.SIGABRT)  # systemd's, when WatchdogSec has passed
        assert process.wait(60) == -signal.SIGABRT
        errors = process.communicate()[1]
        assert "in block" in errors  # where it hung


def named(client, model):
    with contextlib.suppress(TriageError):
        return client.model_info(model=model)
    return None


@pytest.mark.slow
def test_the_command_serves_several_models_each_with_its_own_versions_and_follows_their_file(
    start_server, model_base_path, contrary_version, tmp_path
):
    base = tmp_path / "models"
    shutil.copytree(model_base_path / "3", base / "3")
    file = models_file(
        tmp_path / "models.config",
        adults=f'base_path: "{base}"',
        contrary=f'base_path: "{contrary_version.parent}" version_labels {{ key: "stable" value: 6 }}',
    )
    options = ["--port", "0", "--metrics-port", "0", "--poll-seconds", "0.1"]
    process = start_server("--model-config-file", file, *options)
    line = process.stdout.readline()
    assert line.endswith(", models adults version 3, contrary version 6\n")
    with TriageClient(line.split()[2].rstrip(","), timeout_seconds=30.0) as client:
        smoker = evidence_state(["smoker"])
        shutil.copytree(model_base_path / "3", tmp_path / "whole")
        (tmp_path / "whole").rename(base / "5")
        until(lambda: client.model_info(model="adults").model_version == "5")
        versions = [client.triage(smoker, model=name).model_version for name in ("adults", "contrary")]
        assert versions == ["5", "6"]
        refused, listed = process.stdout.readline().split()[-1], pathlib.Path(file)

        def refusals():
            return re.findall(r"^triage_model_config_refused (\S+)", httpx.get(refused, trust_env=False).text, re.M)

        for damaged in ("model_config_list {", listed.read_text().replace(str(base), f"{base}-gone")):
            assert refusals() == ["0.0"]
            before = listed.read_text()
            listed.write_text(damaged)
            until(lambda: refusals() == ["1.0"])
            assert client.triage(smoker, model="adults").model_version == "5"  # nothing changes
            listed.write_text(before)
            until(lambda: refusals() == ["0.0"])
        with client.interview(model="adults") as interview:
            assert interview.present("fever").response.model_version == "5"
            infants = f'base_path: "{base}" model_version_policy {{ specific {{ versions: 3 }} }}'
            models_file(listed, contrary=f'base_path: "{contrary_version.parent}"', infants=infants)
            until(lambda: named(client, "infants"))
            assert client.triage(smoker, model="infants").model_version == "3"
            assert not named(client, "adults")
            assert interview.present("smoker").response.model_version == "5"  # it had begun
        assert client.triage(smoker).model_version == "6"  # of the first model now
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.slow
def test_a_remote_engine_may_come_later_than_the_server(start_server, model_base_path, config, watcher):
    with socket.socket() as taken:  # bound but not listening, so no other process answers on this port
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        options = ["--model-base-path", str(model_base_path), "--port", "0", "--poll-seconds", "0.1"]
        remote = ["--engine", "tensorflow-serving", "--tf-serving", f"127.0.0.1:{port}"]
        process = start_server(*options, *remote)
        line = process.stdout.readline()
    address = line.split()[2].rstrip(",")
    late = TriageServer(dataclasses.replace(config, port=port))
    assert "no model version" in line
    with channel_to(address) as channel, TriageClient(address, timeout_seconds=30.0) as client:
        with pytest.raises(TriageError) as error:
            client.triage(evidence_state(["fever"]))
        assert error.value.status is grpc.StatusCode.UNAVAILABLE
        changes = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(changes).status == NOT_SERVING
        late.start(watcher)
        assert next(changes).status == SERVING
        assert client.triage(evidence_state(["fever"])).model_version == "3"
        late.stop()
        assert next(changes).status == NOT_SERVING
        with pytest.raises(TriageError) as error:
            client.triage(evidence_state(["fever"]))
        assert error.value.status is grpc.StatusCode.UNAVAILABLE
        assert error.value.message.startswith(f"TensorFlow Serving at 127.0.0.1:{port} cannot be reached")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--model-base-path {models} --host ::", "--host ::: "),
        ("--model-base-path {models} --host :: --tokens tokens", "--host ::: "),
        ("--model-base-path {models} --tokens missing", "missing: "),
        ("--model-base-path {models} --tls-certificate a.pem --tls-key a.key", "--tls-certificate a.pem: "),
        ("--model-base-path {models} --version 7", "no version 7: "),
        ("--model-base-path {models} --http-port 0 --cds-codes codes.csv", "--cds-codes codes.csv: line 3: "),
        ("--model-config-file file --model-base-path m", "leave out --model-base-path"),
        ("--model-config-file file", "no version 7: "),
    ],
)
def test_what_cannot_be_served_ends_the_command_with_one_line(
    model_base_path, tmp_path, monkeypatch, capsys, options, complaint
):
    monkeypatch.chdir(tmp_path)
    policy = "model_version_policy { specific { versions: 7 } }"
    models_file(tmp_path / "file", adults=f'base_path: "{model_base_path}" {policy}')
    (tmp_path / "codes.csv").write_text("system,code,evidence\nurn:x,1,fever\nurn:x,2,fevr\n")
    given = options.format(models=model_base_path).split()
    assert triage_cli.main(["serve", "--port", "0", "--grace-seconds", "0", *given]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("triage serve: error: ")
    assert complaint in line


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([], None),
        (["--engine", "saved-model"], "--engine saved-model"),
        (["--engine", "tensorflow-serving", "--tf-serving", "host:1"], "--engine tensorflow-serving"),
        (["--audit-log", "log"], "--audit-log"),
        (["--model-base-path", "gs://bucket/models"], "--model-base-path gs://bucket/models"),
    ],
)
def test_without_tensorflow_each_option_that_needs_it_is_refused_with_the_extra(options, what, monkeypatch, capsys):
    monkeypatch.setattr(extras, "is_installed", lambda module: module not in ("tensorflow", "trainer"))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = parser.parse_args(["--model-base-path", "models", "--engine", "litert", *options])
    if what is None:
        command.check(arguments)
        assert not command.needs_tensorflow(arguments)
        return
    with pytest.raises(InputError) as error:
        command.check(arguments)
    assert str(error.value).startswith(f"{what} needs tensorflow: ")
    assert "'dyqn-triage-serving[tensorflow]'" in str(error.value)


@pytest.mark.parametrize("text", ["stable", "stable=", "=3", "stable=x", "stable=-1", "stable=²"])
def test_a_malformed_label_is_reported(text):
    with pytest.raises(InputError, match=f"--label {text}: .*NAME=VERSION"):
        parse_labels([text])
