"""Commands on `gs://` through TensorFlow's own client, which a Cloud Storage of this machine answers."""

import http.server
import json
import os
import re
import ssl
import threading
import urllib.parse

import pytest

from tests.certificates import write_certificates

SMALL = ["--environments", "8", "--networks", "2",
         "--hidden-sizes", "8", "--batch-size", "8", "--memory-capacity", "100", "--burn-in-steps", "20",
         "--steps", "60", "--checkpoint-interval", "30",
         "--evaluation-interval", "30", "--schedule", "constant"]  # fmt: skip


class _CloudStorage(http.server.BaseHTTPRequestHandler):
    """A proxy that answers for Google's hosts itself: the calls that TensorFlow makes, and no others."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        self._answer(200)
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def do_GET(self):
        path, query = self._asked()
        if self.headers["Host"].startswith("storage."):
            self._download("/".join(path.split("/")[1:]))
        elif match := re.fullmatch(r"/storage/v1/b/([^/]+)/o", path):
            self._list(f"{match[1]}/", query)
        elif match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/(.+)", path):
            self._stat(f"{match[1]}/{match[2]}")
        else:
            self._answer(200, {"location": "EU"})  # of a bucket

    def do_POST(self):
        path, query = self._asked()
        self._body()
        bucket = re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", path)[1]
        session = urllib.parse.quote(f"{bucket}/{query['name']}", safe="")
        self._answer(200, Location=f"https://www.googleapis.com/session/{session}")

    def do_PUT(self):
        name = self._asked()[0].removeprefix("/session/")
        content = self._body()
        # An empty object has no range, and a question about the upload so far has one without bytes.
        if not self.headers.get("Content-Range", "").startswith("bytes */"):
            self.server.objects[name] = content
        self._answer(200, {})

    def do_DELETE(self):
        bucket, name = re.fullmatch(r"/storage/v1/b/([^/]+)/o/(.+)", self._asked()[0]).groups()
        self._answer(404 if self.server.objects.pop(f"{bucket}/{name}", None) is None else 204)

    def _download(self, name):
        content = self.server.objects.get(name)
        if content is None:
            return self._answer(404)
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        return self._answer(206, content[first : last + 1]) if first < len(content) else self._answer(416)

    def _stat(self, name):
        if name not in self.server.objects:
            return self._answer(404)
        size = str(len(self.server.objects[name]))
        return self._answer(200, {"size": size, "generation": "1", "updated": "2026-01-01T00:00:00.000Z"})

    def _list(self, bucket, query):
        start, delimiter = bucket + query.get("prefix", ""), query.get("delimiter")
        items, folders = [], set()
        for name in sorted(name for name in self.server.objects if name.startswith(start)):
            rest = name[len(start) :]
            if delimiter and delimiter in rest:
                folders.add((start + rest.partition(delimiter)[0] + delimiter).removeprefix(bucket))
            else:
                items.append({"name": name.removeprefix(bucket)})
        self._answer(200, {"items": items[: int(query.get("maxResults", 1000))], "prefixes": sorted(folders)})

    def _asked(self):
        """The path and the query, both decoded."""
        parts = urllib.parse.urlsplit(self.path)
        return urllib.parse.unquote(parts.path), dict(urllib.parse.parse_qsl(parts.query))

    def _body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _answer(self, status, body=b"", **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            if self.command != "CONNECT":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


class CloudStorage:
    def __init__(self, server, certificate):
        self._server = server
        self.environment = {
            "https_proxy": f"http://127.0.0.1:{server.server_port}",
            "CURL_CA_BUNDLE": str(certificate),
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "anybody",
            "NO_GCE_CHECK": "true",
        }

    @property
    def objects(self):
        """The content of each object, by bucket and name."""
        return self._server.objects


@pytest.fixture
def cloud_storage(tmp_path):
    """What Google's hosts are for a process with its `environment`."""
    folder = write_certificates(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _CloudStorage)
    server.daemon_threads, server.objects = True, {}
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(folder / "server.pem", folder / "server.key")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield CloudStorage(server, folder / "ca.pem")
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow  # which it does for only 90 steps, but in the time of those that do
def test_the_client_that_tensorflow_brings_for_cloud_storage_does_what_is_asked_of_it(
    cloud_storage, data_directory, python
):
    """The client is TensorFlow's, and so are its calls; only who answers them is not Google."""
    for name in ("vignettes.jsonl", "vocabulary.csv"):
        cloud_storage.objects[f"bucket/raw/{name}"] = (data_directory.parent / name).read_bytes()
    cloud_storage.objects["bucket/cases/a.jsonl"] = b'{"vignette_id": "a", "present": []}\n'
    commands = [
        ["prepare", "--vignettes", "gs://bucket/raw/vignettes.jsonl", "--vocabulary", "gs://bucket/raw/vocabulary.csv",
         "--out", "gs://bucket/data", "--test-fraction", "0.2"],
        ["train", "--data", "gs://bucket/data", "--job-dir", "gs://bucket/runs/job", *SMALL],
        ["train", "--data", "gs://bucket/data", "--job-dir", "gs://bucket/runs/job", *SMALL, "--steps", "150",
         "--model-dir", "gs://bucket/model"],
        ["evaluate", "--job-dir", "gs://bucket/runs/job", "--data", "gs://bucket/data", "--orders", "2",
         "--json", "gs://bucket/figures.json"],
        ["export", "--job-dir", "gs://bucket/runs/job", "--model-base-path", "gs://bucket/models"],
        ["export", "--job-dir", "gs://bucket/runs/job", "--push-to", "gs://bucket/models", "--data", "gs://bucket/data",
         "--orders", "2", "--margin", "1", "--allow-small-test"],
        ["score", "--model", "gs://bucket/models", "--input", "gs://bucket/cases", "--output", "gs://bucket/answers",
         "--runner", "DirectRunner"],
        ["tflite", "--model", "gs://bucket/models", "--out", "gs://bucket/phones/triage.tflite", "--states", "50"],
    ]  # fmt: skip
    code = "import json, sys, triage_cli\nfor each in json.loads(sys.argv[1]): assert triage_cli.main(each) == 0, each"
    environment = os.environ | cloud_storage.environment
    finished = python.run("-c", code, json.dumps(commands), env=environment, timeout=500)
    assert finished.returncode == 0, finished.stderr
    assert "resumed at step 60 from gs://bucket/runs/job/checkpoints/ckpt-60" in finished.stderr
    assert "wrote version 1 to gs://bucket/models/1\n" in finished.stdout
    there = cloud_storage.objects
    assert json.loads(there["bucket/data/stats.json"])["splits"]["test"]["vignettes"] == 10
    assert [name for name in there if name.startswith("bucket/runs/job/checkpoints/") and name.endswith("index")] == [
        f"bucket/runs/job/checkpoints/ckpt-{step}.index" for step in (90, 120, 150)
    ]
    assert json.loads(there["bucket/model/manifest.json"])["training"]["steps"] == 150
    assert [json.loads(line)["step"] for line in there["bucket/runs/job/evaluations.jsonl"].splitlines()] == [
        30, 60, 90, 120, 150,
    ]  # fmt: skip
    figures = json.loads(there["bucket/figures.json"])
    assert (figures["job_dir"], figures["data"]) == ("gs://bucket/runs/job", "gs://bucket/data")
    assert there["bucket/models/1/assets/vocabulary.csv"]
    assert there["bucket/models/2/saved_model.pb"]
    assert json.loads(there["bucket/phones/triage.tflite.json"])["model_version"] == "2"
    assert there["bucket/phones/triage.tflite"][4:8] == b"TFL3"
    assert not [name for name in there if "exporting-" in name or name.endswith("lock")]
    assert json.loads(there["bucket/answers/a.jsonl"])["vignette_id"] == "a"
    assert any(name.startswith("bucket/runs/job/logs/events") for name in there)
