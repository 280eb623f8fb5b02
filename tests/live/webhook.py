#!/usr/bin/python3
"""webhook.py FAULTS: `--webhook` with real receivers: one that fails first, one that sends elsewhere, one that does not answer,
none. FAULTS: tests/capture/faults_openmpi. Exit 77: skipped, with the reason."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time

from served_job import COMMLENS, Workplace, free_port, skip, until, why_no_modules


class Receiver:
    """Answers each POST with the next of `statuses`, the last one for ever; None: not at all."""

    def __init__(self, *statuses):
        self.posts = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append((self.path, self.headers["Content-Type"], body))
                status = statuses[min(len(receiver.posts), len(statuses)) - 1]
                while status is None:
                    time.sleep(1)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()


class Case:
    """`watch` of the job that hung, and a file with the URL of its webhook."""

    def __init__(self, place, name, port):
        self.out, self.err = place.path / f"{name}.out.log", place.path / f"{name}.err.log"
        self.url = place.path / f"{name}.url"
        self.url.write_text(f"http://127.0.0.1:{port}/hook-k3y\n")
        self.url.chmod(0o600)
        self.place = place

    def start(self, *options):
        words = [COMMLENS, "watch", str(self.place.path / "trace"), "--interval", "100ms", "--webhook", str(self.url), *options]
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with open(self.out, "w") as out, open(self.err, "w") as err:
            process = subprocess.Popen(words, stdout=out, stderr=err, env=environment, start_new_session=True)
        self.place.processes.append(process)
        return process

    def said(self):
        text = self.out.read_text() + self.err.read_text()
        assert "k3y" not in text, f"the secret address is in {text}"
        return text


def make_trace(place, faults):
    """A job of four ranks that waited for rank 2 when it was killed."""
    job = place.start("job", ["timeout", "-k", "1", "60", COMMLENS, "record", "--no-summary", "-o", str(place.path / "trace"), "--",
                              "mpirun.openmpi", "--oversubscribe", "-n", "4", faults, "pause"], cwd=place.path)
    until((place.path / "faulty").exists, "the fault", 180)
    time.sleep(1)  # the others come to wait
    place.end(job)


def check_failing_first(place):
    receiver = Receiver(500, 503, 200)
    case = Case(place, "failing", receiver.port)
    assert case.start("--until-end").wait(120) == 1, case.said()
    assert "HTTP 50" in case.said(), case.said()
    assert len(receiver.posts) == 3 and len(set(receiver.posts)) == 1, receiver.posts
    path, kind, body = receiver.posts[0]
    event = json.loads(body)
    assert (path, kind) == ("/hook-k3y", "application/json"), receiver.posts
    assert event["event"] == "alert" and event["alert"]["culprit_ranks"] == [2], event


def check_single_look(place):
    receiver = Receiver(204)
    case = Case(place, "single", receiver.port)
    assert case.start("--once").wait(60) == 1, case.said()
    assert [json.loads(body)["alert"]["verdict"] for _, _, body in receiver.posts] == ["missing"], receiver.posts


def check_redirect(place):
    receiver = Receiver(307)
    case = Case(place, "redirect", receiver.port)
    assert case.start("--until-end").wait(60) == 1, case.said()
    assert [path for path, _, _ in receiver.posts] == ["/hook-k3y"], receiver.posts
    assert "messages that did not arrive at the webhook: 1; HTTP 307" in case.said(), case.said()


def check_no_answer(place):
    """Neither a receiver that is silent nor one that is not there stops the polls, nor SIGTERM."""
    silent = Receiver(None)
    for name, port in (("silent", silent.port), ("dead", free_port())):
        case = Case(place, name, port)
        process = case.start("--json")
        until(lambda: '"event": "alert"' in case.said() or '"event":"alert"' in case.said(), f"{name}: the alert")
        polls = len(case.out.read_text().splitlines())
        until(lambda: len(case.out.read_text().splitlines()) > polls + 20, f"{name}: twenty more polls")
        if name == "dead":
            until(lambda: "the webhook does not answer well" in case.said(), "why it was not told")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1, case.said()
    assert len(silent.posts) == 1, silent.posts


def check_refusals(place):
    for name, text, mode in (("shared", "http://127.0.0.1/k3y", 0o644), ("scheme", "file:///etc/k3y", 0o600)):
        case = Case(place, name, 1)
        case.url.write_text(text)
        case.url.chmod(mode)
        assert case.start("--until-end").wait(60) == 2, case.said()
        assert f"{name}.url" in case.said(), case.said()


def main():
    faults = sys.argv[1]
    if why := why_no_modules("live", "capture-mpi-openmpi"):
        skip(why)
    with Workplace() as place:
        make_trace(place, faults)
        check_failing_first(place)
        check_single_look(place)
        check_redirect(place)
        check_no_answer(place)
        check_refusals(place)


if __name__ == "__main__":
    main()
