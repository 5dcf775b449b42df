"""`triage console` as a command."""

import html
import re
import shutil
import signal
import socket
import ssl

import httpx
import pytest
from starlette.testclient import TestClient

import triage_cli
from serving.commands import console as command
from trainer.export.signing import sign


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "either --model-base-path"),
        ("--server 127.0.0.1:1 --model-base-path .", "either --model-base-path"),
        ("--model-base-path nowhere", "nowhere: no such"),
        ("--server 127.0.0.1:1 --require-signature a", "--require-signature: needs --model-base-path"),
        ("--model-base-path . --require-signature nowhere", "--require-signature nowhere: "),
        ("--server 127.0.0.1:1 --port 65536", "--port 65536: "),
        ("--server 127.0.0.1:1 --host ::", "--host ::: "),
        ("--server 127.0.0.1:1 --host 192.0.2.77 --port 0", r"192\.0\.2\.77"),
        ("--server 127.0.0.1:1 --tls-certificate a --tls-key a", "and --host"),
        ("--server 127.0.0.1:1 --host 127.0.0.1 --tls-key a", "and --host"),
        ("--server 127.0.0.1:1 --host 127.0.0.1 --tls-certificate no --tls-key a", "--tls-certificate no: "),
        ("--server 127.0.0.1:1 --port 0 --timeout 0.5", "no server at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_shown_is_one_line(options, message, capsys):
    assert triage_cli.main(["console", "--no-open", *options.split()]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1


def test_a_taken_port_is_named_at_once(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert triage_cli.main(["console", "--no-open", "--server", "127.0.0.1:1", "--port", str(port)]) == 2
    assert f"--port: cannot listen on 127.0.0.1:{port}: " in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_serves_on_loopback_until_ctrl_c_and_logs_no_evidence(start, server):
    arguments = ("-m", "triage_cli", "console", "--server", server.address, "--port", "0", "--no-open")
    process = start(*arguments)
    assert process.stdout.readline() == "model version 3\n"
    url = re.fullmatch(r"console at (http://127\.0\.0\.1:\d+/) .*\n", process.stdout.readline())[1]
    form = {"do": "add present fever"}
    assert "Yellow" in httpx.post(url, data=form, timeout=30, trust_env=False, follow_redirects=True).text
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (output, errors) == ("", "triage console: interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_shared_console_interviews_whoever_has_its_link_and_nobody_else(
    start, asking_base_path, certificates, scheme
):
    address = "127.0.0.2" if scheme == "http" else "localhost"
    options = ["--model-base-path", str(asking_base_path), "--port", "0", "--host", address]
    if scheme == "https":
        options += ["--tls-certificate", certificates.server, "--tls-key", certificates.key(certificates.server)]
    process = start("-m", "triage_cli", "console", *options)
    assert process.stdout.readline() == "model version 1\n"
    pattern = rf"console at (({scheme}://[a-z0-9.]+:\d+/)\?token=[\w-]{{43}}) .*\n"
    link, url = re.fullmatch(pattern, process.stdout.readline()).groups()
    assert process.stdout.readline().startswith("anyone")
    assert scheme == "https" or "findings" in process.stdout.readline()
    trust = ssl.create_default_context(cafile=certificates.ca)
    connection = {"timeout": 30, "trust_env": False, "follow_redirects": True, "verify": trust}
    assert httpx.get(url, **connection).status_code == 403
    with httpx.Client(**connection, headers={"origin": url.rstrip("/")}) as browser:
        assert browser.get(link).url == url  # without the token
        page = browser.post(url, data={"do": "add present fever"}).text
        answers = 0
        while button := re.search('value="(answer absent [^"]+)"', page):
            case = html.unescape(re.search('name="case" value="([^"]*)"', page)[1])
            page = browser.post(url, data={"case": case, "do": button[1]}).text
            answers += 1
        assert (answers > 0, 'id="decision"' in page) == (True, True)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert (output, errors.splitlines()[-1]) == ("", "triage console: interrupted")


def test_a_required_signature_covers_what_is_loaded_and_the_model_card(
    model_base_path, signing_key, tmp_path, monkeypatch, capsys
):
    private, public = signing_key
    version = shutil.copytree(model_base_path / "3", tmp_path / "models" / "3")
    (version / "model_card.md").write_text("# Signed")
    options = ["--model-base-path", str(version.parent), "--require-signature", public]
    shown = []

    def visit(app, bound, tls):
        (version / "model_card.md").write_text("# Exchanged")
        shown.append(TestClient(app, base_url="http://127.0.0.1").get("/model").text)

    monkeypatch.setattr(command, "_serve", visit)  # a browser that comes once
    assert triage_cli.main(["console", "--no-open", "--port", "0", *options]) == 2
    assert f"{version}: is not signed" in capsys.readouterr().err
    sign(version, private)
    assert triage_cli.main(["console", "--no-open", "--port", "0", *options]) == 0
    [card] = shown
    assert "Signed" in card
    assert "Exchanged" not in card
    assert triage_cli.main(["console", "--no-open", "--port", "0", *options]) == 2
    assert f"{version / 'model_card.md'}: " in capsys.readouterr().err
