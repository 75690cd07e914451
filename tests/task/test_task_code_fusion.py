"""SandboxFusion as the code verifier's back end."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from code_problems import SMALL, SUM, fenced, problem

from scalerl.errors import UserError
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.fusion import FusionRunner


@pytest.fixture
def fusion():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = self.answer(body)
            self.send_response(500 if reply is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def answer(self, body):
            assert self.path == "/run_code"
            assert body["language"] == "python"
            if "boom" in body["code"]:
                return None
            if "sick" in body["code"]:
                return {"status": "SandboxError", "message": "no", "run_result": None}
            if "slow" in body["code"]:
                return {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "stdout": ""}}
            total = str(sum(map(int, body["stdin"].split())))
            done = {"status": "Finished", "return_code": 0, "stdout": total + "\n", "stderr": ""}
            return {"status": "Success", "run_result": done}

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_fusion_back_end(fusion):
    verifier = CodeVerifier(FusionRunner(fusion), workers=2)
    judged = verifier([problem(SUM)] * 4, [fenced(t) for t in ("add", "slow", "sick", "boom")])
    assert [j.passed if j else None for j in judged] == [True, False, None, None]


def test_fusion_that_is_not_there_fails_and_bad_address_is_refused():
    gone = FusionRunner("http://127.0.0.1:9")
    assert gone.run("x", b"", SMALL).ending == "failed"
    with pytest.raises(UserError, match="fusion_url"):
        FusionRunner("file:///etc/passwd")
