"""The Node client: made from the same .proto files, and answered as the Python client is."""

import json
import pathlib
import re
import subprocess
import sys

import grpc
import pytest
from google.protobuf import json_format

import triage_client
from serving.config.settings import ServeConfig
from serving.server.triage_server import TriageServer
from triage_client import evidence_state

pytestmark = pytest.mark.slow  # installs and compiles with npm

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "node"
README = (CLIENT / "README.md").read_text(encoding="utf-8")
EXAMPLES = [each for each in re.findall(r"```js\n(.*?)```", README, re.DOTALL) if "createInterface" not in each]
SECONDS = 300
HEADER = """
import * as triage from "dyqn-triage-client";
const { evidenceState, TriageClient, TriageResponse } = triage;
const [server, ...rest] = process.argv.slice(2);
const outcome = async (call) => {
  try {
    return await call();
  } catch (error) {
    const { name, status, message, fieldViolations, retryAfterMs } = error;
    return { name, status, message, fieldViolations, retryAfterMs };
  }
};
const print = (value) => console.log(JSON.stringify(value));
const client = server && new TriageClient(server, { timeoutMs: 60000 });
"""
FOOTER = "client?.close();\n"


@pytest.fixture(scope="module")
def node(node_package):
    """Runs a JavaScript module in the package's folder, or in `folder`, and returns what it prints."""

    def run(code, *arguments, folder=node_package, header=HEADER, footer=FOOTER):
        # The module's path decides what the package's name means; its working directory has ca.pem.
        path = node_package / "module.mjs"
        path.write_text(header + code + footer, encoding="utf-8")
        ran = subprocess.run(
            ["node", path, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=SECONDS
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def close(expected):
    """Compares messages as JSON; a float of 32 bits is printed with all its digits by one side, few by the other."""
    if isinstance(expected, dict):
        return {key: close(value) for key, value in expected.items()}
    if isinstance(expected, list):
        return [close(value) for value in expected]
    return pytest.approx(expected, rel=1e-6) if isinstance(expected, float) else expected


def as_json(message):
    return close(json_format.MessageToDict(message))


def test_both_clients_get_the_same_answers(node, server):
    printed = node(
        """
const states = [
  evidenceState({ present: ["fever"], absent: ["chest_pain"], questionsAsked: 1 }),
  evidenceState({ present: new Set(["chest_pain"]) }),
  evidenceState({ present: ["fever"], noMoreEvidence: true }),
  evidenceState({ present: ["fever", "headache"], maxQuestions: 2, questionsAsked: 2 }),
];
const settings = { allowUnknownCodes: true };
print({
  single: await Promise.all(states.map(async (state) => TriageResponse.toJSON(await client.triage(state, settings)))),
  batch: (await client.batchTriage(states, settings)).map((response) => TriageResponse.toJSON(response)),
  info: triage.GetModelInfoResponse.toJSON(await client.modelInfo()),
  vocabulary: triage.GetVocabularyResponse.toJSON(await client.vocabulary()),
});
""",
        server.address,
    )
    states = [
        evidence_state(["fever"], ["chest_pain"], questions_asked=1),
        evidence_state(["chest_pain"]),
        evidence_state(["fever"], no_more_evidence=True),
        evidence_state(["fever", "headache"], max_questions=2, questions_asked=2),
    ]
    with triage_client.TriageClient(server.address, timeout_seconds=60.0) as client:
        answers = [client.triage(state, allow_unknown_codes=True) for state in states]
        info, vocabulary = client.model_info(), client.vocabulary()
    answers_json = [as_json(answer) for answer in answers]
    assert json.loads(printed) == {
        "single": answers_json,
        "batch": answers_json,
        "info": as_json(info),
        "vocabulary": as_json(vocabulary),
    }
    # and these are the answers of the model in conftest.py, not two empty messages
    assert [answer["action"].removeprefix("TRIAGE_ACTION_") for answer in answers_json] == [
        "ASK", "RED", "YELLOW", "YELLOW",
    ]  # fmt: skip
    assert answers_json[3]["unknownCodes"] == ["headache"]


def test_an_interview_says_what_cannot_be_said(node, server):
    """`loops_test.py` has whole interviews."""
    printed = node(
        """
const interview = client.interview({ maxQuestions: 2, canMeasure: true });
const first = interview.present("fever", "chest_pain");
const said = [await outcome(() => interview.notKnown())];
await first;
said.push(await outcome(() => interview.answer({})));
const { ended } = await interview.noMoreEvidence();
said.push(await outcome(() => interview.absent("chest_pain")));
print({ said: said.map(({ message }) => message), ended });
""",
        server.address,
    )
    heard = json.loads(printed)
    for named, said in zip(("await", "present", "ended"), heard["said"], strict=True):
        assert named in said
    assert heard["ended"]


def test_a_refusal_has_its_class_and_the_servers_words(node, server):
    printed = node(
        """
print([
  await outcome(() => client.triage(evidenceState({ present: ["fevr"] }))),
  await outcome(() => client.batchTriage([evidenceState({ present: ["fevr"] })])),
  await outcome(() => client.interview().present("fevr")),
]);
""",
        server.address,
    )
    for refusal, state in zip(json.loads(printed), ("state", "states[0]", "state"), strict=True):
        assert (refusal["name"], refusal["status"]) == ("InvalidArgumentError", "INVALID_ARGUMENT")
        [violation] = refusal["fieldViolations"]
        assert (violation["field"], violation["reason"]) == (f"{state}.evidence[0].code", "UNKNOWN_CODE")
        assert (violation["nearestCodes"], "'fevr'" in refusal["message"]) == (["fever"], True)


def test_each_call_names_its_model(node, server):
    printed = node(
        """
const state = evidenceState({ present: ["fever"] });
const ask = (model) => [
  () => client.triage(state, { model }),
  () => client.batchTriage([state], { model }),
  () => client.modelInfo({ model }),
  () => client.vocabulary({ model }),
  async () => {
    const interview = client.interview({ model });
    try {
      return await interview.present("fever");
    } finally {
      interview.close();
    }
  },
];
print(await Promise.all(ask("adults").map(outcome)));
print((await Promise.all(ask("triage").map((call) => call()))).length);
""",
        server.address,
    )
    refusals, answers = map(json.loads, printed.splitlines())
    assert [refusal["name"] for refusal in refusals] == ["NotFoundError"] * 5
    assert all("'adults'" in refusal["message"] for refusal in refusals)
    assert answers == 5


def test_the_details_of_a_refusal_name_its_fields(node, detailed):
    code = """
print(await Promise.all([outcome(() => client.triage(evidenceState({}))), outcome(() => client.batchTriage([]))]));
"""
    refused, garbled = json.loads(node(code, detailed))
    faults = [(each["field"], each["description"]) for each in refused["fieldViolations"]]
    assert faults == [("state.evidence[0].code", "unknown"), ("state.questions_asked", "negative")]
    assert refused["retryAfterMs"] == 1500
    assert (garbled["name"], garbled["message"]) == ("InvalidArgumentError", "see the details")
    assert garbled["fieldViolations"] == []


def test_deadlines_hold_for_calls_and_for_each_answer_of_an_interview(node):
    printed = node(
        """
import net from "node:net";
const silent = net.createServer(() => {}).listen(0, "127.0.0.1"); // takes connections and says nothing
await new Promise((resolve) => silent.once("listening", resolve));
const hasty = new TriageClient(`127.0.0.1:${silent.address().port}`, { timeoutMs: 200 });
const state = evidenceState({ present: ["fever"] });
const controller = new AbortController();
const aborted = outcome(() => hasty.triage(state, { signal: controller.signal, timeoutMs: 60000 }));
controller.abort();
print([
  await outcome(() => hasty.triage(state)),
  await outcome(() => hasty.triage(state, { timeoutMs: 100 })),
  await outcome(() => hasty.interview().present("fever")),
  await aborted,
  await outcome(() => hasty.triage(state, { timeoutMs: 0 })),
]);
process.exit(0);
""",
    )
    names = [each["name"] for each in json.loads(printed)]
    assert names == ["DeadlineExceededError"] * 3 + ["CallCancelledError", "RangeError"]


def test_a_call_is_tried_again_while_the_server_is_unavailable_and_no_other_failure_is(node, scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.RESOURCE_EXHAUSTED] + [grpc.StatusCode.UNAVAILABLE] * 2
    printed = node(
        """
const state = evidenceState({ present: ["fever"] });
print([await outcome(() => client.batchTriage([state])), (await client.triage(state)).modelVersion]);
""",
        address,
    )
    refused, answered = json.loads(printed)
    assert answered == "scripted"
    assert (refused["name"], refused["message"]) == ("ResourceExhaustedError", "as scripted")
    assert dict(service.calls) == {"Triage": 3, "BatchTriage": 1}


def test_tls_a_client_certificate_and_a_token_get_in_and_nothing_less_does(node, certificates, server, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("right\n")
    config = ServeConfig(
        port=0,
        grace_seconds=0,
        tls_certificate=str(certificates / "server.pem"),
        tls_key=str(certificates / "server.key"),
        tls_client_ca=str(certificates / "ca.pem"),
        tokens=str(tokens),
    )
    closed = TriageServer(config)
    closed.start(*server.models)  # the same model
    try:
        printed = node(
            """
const trusted = { rootCertificates: "ca.pem", certificate: "client.pem", privateKey: "client.key" };
const state = evidenceState({ present: ["chest_pain"] });
const ask = (files, token) => outcome(async () => {
  const credentials = files && triage.tlsCredentials(files);
  const client = new TriageClient(server, { timeoutMs: 60000, credentials, token });
  try {
    return triage.triageActionToJSON((await client.triage(state)).action);
  } finally {
    client.close();
  }
});
print([
  await ask(trusted, "right"),
  await ask(trusted, "wrong"),
  await ask(trusted),
  await ask({ ...trusted, rootCertificates: "other_ca.pem" }, "right"),
  await ask(undefined, "right"),
]);
print([
  await outcome(() => new TriageClient("triage.example.org:8500", { token: "right" })),
  await outcome(() => new TriageClient(server, { token: "no token" })),
  await outcome(() => triage.tlsCredentials({ rootCertificates: "ca.key" })),
]);
""",
            closed.address,
            folder=certificates,
        )
    finally:
        closed.stop()
    called, refused = map(json.loads, printed.splitlines())
    assert called[0] == "TRIAGE_ACTION_RED"
    assert [each["name"] for each in called[1:]] == [
        "UnauthenticatedError", "UnauthenticatedError", "UnavailableError", "UnavailableError",
    ]  # fmt: skip
    for refusal, named in zip(refused, ("triage.example.org:8500", "token", "ca.key"), strict=True):
        assert named in refusal["message"]


def test_a_wrong_argument_is_reported_before_anything_is_sent(node):
    printed = node(
        """
const state = evidenceState({});
const interview = client.interview();
print([
  await outcome(() => evidenceState({ questionsAsked: 2 ** 31 })),
  await outcome(() => evidenceState({ present: "fever" })),
  await outcome(() => evidenceState({ absent: [7] })),
  await outcome(() => client.triage(state, { notToAsk: "fever" })),
  await outcome(() => interview.answer({ notKnown: "fever" })),
  await outcome(() => new TriageClient("https://triage.example.org")),
  await outcome(() => evidenceState({ presnt: ["fever"] })),
  await outcome(() => interview.answer({ presnt: ["fever"], absent: ["chest_pain"] })),
  await outcome(() => client.triage({ presnt: ["fever"] })),
  await outcome(() => client.triage(state, { presnt: 0.9 })),
  await outcome(() => client.batchTriage([state, { presnt: ["fever"] }])),
  await outcome(() => client.modelInfo({ presnt: "adults" })),
  await outcome(() => client.interview({ presnt: 3 })),
  await outcome(() => new TriageClient("127.0.0.1:1", { presnt: "secret" })),
  await outcome(() => triage.tlsCredentials({ presnt: "ca.pem" })),
]);
interview.close();
""",
        "127.0.0.1:1",
    )
    number, *others = json.loads(printed)
    assert number["name"] == "RangeError"
    assert {each["name"] for each in others} == {"TypeError"}
    misspelt = [each["message"] for each in others if "presnt" in each["message"]]
    assert len(misspelt) == 9
    assert all("secret" not in message for message in misspelt)
    for message, named in zip(misspelt, ["maxQuestions", "notKnown", "evidence", "notToAsk"], strict=False):
        assert named in message


def test_null_is_nothing_in_each_option_and_in_its_type(node, node_package, server):
    """`Required` leaves no option out, and the compiler refuses null where a type does not allow it."""
    (node_package / "nulls.ts").write_text(
        """
import * as triage from "dyqn-triage-client";

const [server = ""] = process.argv.slice(2);
const known: Required<triage.Known> = {
  present: null, absent: null, questionsAsked: null, noMoreEvidence: null, maxQuestions: null,
};
const call: Required<triage.CallSettings> = { timeoutMs: null, signal: null, model: null };
const batch: Required<triage.TriageSettings> = {
  ...call, allowUnknownCodes: null, questions: null, deferBelow: null, canMeasure: null,
};
const single: Required<triage.StateSettings> = { ...batch, notToAsk: null, explain: null };
const interview: Required<triage.InterviewOptions> = {
  maxQuestions: null, allowUnknownCodes: null, questions: null, deferBelow: null, canMeasure: null, model: null,
  timeoutMs: null,
};
const said: Required<triage.Said> = { present: ["fever"], absent: null, notKnown: null };
const files: Required<triage.TlsFiles> = { rootCertificates: null, certificate: null, privateKey: null };
const options: Required<triage.ClientOptions> = {
  timeoutMs: null, credentials: null, token: null, insecure: null, httpProxy: null,
};

triage.tlsCredentials(files);
new triage.TriageClient(server, options).close();
const client = new triage.TriageClient(server, { ...options, timeoutMs: 60000 });
const state = triage.evidenceState(known);
const begun = client.interview(interview);
console.log(JSON.stringify([
  (await client.triage(state, single)).action === (await client.triage(state)).action,
  (await client.batchTriage([state], batch)).length,
  (await client.modelInfo(call)).modelVersion,
  (await client.vocabulary(call)).entries.length,
  (await begun.answer(said)).ended,
]));
begun.close();
client.close();
""",
        encoding="utf-8",
    )
    compiled = subprocess.run(
        ["npx", "tsc", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "nulls.ts"],
        cwd=node_package, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stdout
    assert json.loads(node('await import("./nulls.js");', server.address)) == [True, 1, "7", 2, False]


@pytest.mark.parametrize("example", EXAMPLES, ids=["one state", "errors", "tls"])
def test_an_example_of_the_readme_runs(node, example, server, encrypted, certificates):
    addresses = {"127.0.0.1:8500": server.address, "127.0.0.1:8501": encrypted[1]}
    code = re.sub(r'"(127[.:\d]+)"', lambda match: f'"{addresses[match[1]]}"', example)
    assert code != example
    # A busy machine takes longer than the default deadline; nothing else is changed.
    code = re.sub(r"new TriageClient\((\"[^\"]+\")\)", r"new TriageClient(\1, { timeoutMs: 60000 })", code)
    code = code.replace("token: ", "timeoutMs: 60000, token: ")
    output = node(code, folder=certificates, header="", footer="")
    if "questionsAsked" in example:
        assert output == "TRIAGE_ACTION_ASK TRIAGE_ACTION_YELLOW\n"
    elif "fevr" in example:
        assert re.search("'fevr'.*\\[ 'fever' \\]", output)
    else:
        assert encrypted[0].tokens == ["Bearer TOKEN"]


def test_the_generated_code_is_not_stale(node_package, tmp_path):
    out = tmp_path / "generated"
    # In a separate process: the compiler and TensorFlow each bring a protobuf in C++, and together they crash.
    subprocess.run([sys.executable, node_package / "generate.py", out], check=True, timeout=SECONDS)
    committed = CLIENT / "src" / "generated"
    written = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.ts")}
    assert len(written) == 3
    assert written == {path.relative_to(committed): path.read_bytes() for path in committed.rglob("*.ts")}, (
        "npm ci, then python generate.py, both in clients/node"
    )


def test_the_package_holds_what_was_compiled_and_nothing_else(node_package):
    packed = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--ignore-scripts"],
        cwd=node_package, capture_output=True, text=True, check=True, timeout=SECONDS,
    )  # fmt: skip
    [content] = json.loads(packed.stdout)
    names = {each["path"] for each in content["files"]}
    assert {name for name in names if not name.startswith("dist/")} == {"LICENSE", "README.md", "package.json"}
    compiled = {f"dist/{path.relative_to(CLIENT / 'src').with_suffix('')}" for path in CLIENT.glob("src/**/*.ts")}
    assert {name for name in names if name.startswith("dist/")} == {
        f"{name}{ending}" for name in compiled for ending in (".js", ".d.ts")
    }


def test_the_lock_file_names_no_place_that_packages_came_from():
    packages = json.loads((CLIENT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    installed = [entry for name, entry in packages.items() if name]
    assert len(installed) > 20
    assert not [entry for entry in installed if "resolved" in entry]
    assert all(entry["integrity"].startswith("sha512-") for entry in installed)
