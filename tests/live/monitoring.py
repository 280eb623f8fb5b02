#!/usr/bin/python3
"""monitoring.py [SECONDS]: a real Prometheus scrapes a real job, as OpenMetrics and as text 0.0.4, a real Alertmanager tells a
receiver who hangs, and every panel of the Grafana dashboard has data. SECONDS: for how long the job runs well, else 10.
Exit 77: skipped, with the reason."""

import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from served_job import ROOT, ServedJob, Workplace, fetched, free_port, skip, until, why_no_modules

UNPACKED = Path(os.environ.get("COMMLENS_UNPACKED", ROOT / "build/unpacked"))
# Where Debian's Alertmanager looks for its templates, whatever its options say.
TEMPLATES = b"/usr/share/prometheus/alertmanager"
OF_WATCHER = ("commlens_follow_", "commlens_alerts_")  # counters that begin with the watcher
SCRAPES = ("openmetrics", "text")


def program(name):
    """A program that is installed, else the one of its unpacked package."""
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED / "usr/bin"))


class TextOnly(BaseHTTPRequestHandler):
    """Hands /metrics on for a client that accepts the text format alone: Prometheus 2.42 always asks for OpenMetrics too."""
    server_address = ""
    types = set()

    def do_GET(self):
        text = fetched(self.server_address + self.path, {"Accept": "text/plain;version=0.0.4"})
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Receiver(BaseHTTPRequestHandler):
    """What Alertmanager posts to."""
    alerts = []

    def do_POST(self):
        self.alerts.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhook(BaseHTTPRequestHandler):
    """What `serve --webhook` posts to."""
    events = []

    def do_POST(self):
        self.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def listening(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Prometheus:
    """A Prometheus with the rules of dashboards/, and its Alertmanager."""

    def __init__(self, place, targets, receiver):
        self.place = place
        self.manager_port = free_port()
        self.start_alertmanager(receiver)
        scrapes = "".join(
            f"  - {{job_name: {name}, honor_labels: false, static_configs: [{{targets: ['{target}']}}]}}\n"
            for name, target in targets.items())
        (place.path / "prometheus.yml").write_text(
            "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}\n"
            f"rule_files: ['{ROOT}/dashboards/commlens-rules.yml']\n"
            f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{self.manager_port}']}}]}}]}}\n"
            f"scrape_configs:\n{scrapes}")
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        place.start("prometheus", [program("prometheus"), f"--config.file={place.path}/prometheus.yml",
                                   f"--storage.tsdb.path={place.path}/tsdb", f"--web.listen-address=127.0.0.1:{port}"])
        until(lambda: fetched(f"{self.address}/-/ready"), "Prometheus is ready")

    def start_alertmanager(self, receiver):
        binary, settings = program("prometheus-alertmanager"), {}
        if not Path(TEMPLATES.decode()).exists():
            # A copy that looks for them where it is started: ./././ of the same length.
            copy = self.place.path / "alertmanager"
            copy.write_bytes(Path(binary).read_bytes().replace(TEMPLATES, b"./" * (len(TEMPLATES) // 2)))
            copy.chmod(0o700)
            binary, settings = str(copy), {"cwd": UNPACKED / TEMPLATES.decode().lstrip("/")}
        (self.place.path / "alertmanager.yml").write_text(
            "route: {receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\n"
            f"receivers: [{{name: test, webhook_configs: [{{url: 'http://127.0.0.1:{receiver}/'}}]}}]\n")
        self.place.start("alertmanager", [
            binary, f"--config.file={self.place.path}/alertmanager.yml", f"--storage.path={self.place.path}/alerts",
            "--cluster.listen-address=", f"--web.listen-address=127.0.0.1:{self.manager_port}"], **settings)
        until(lambda: fetched(f"http://127.0.0.1:{self.manager_port}/-/ready"), "Alertmanager is ready")

    def ask(self, page, **query):
        answer = json.loads(fetched(f"{self.address}/api/v1/{page}?{urllib.parse.urlencode(query)}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, query):
        """Instant: [(labels, value)]."""
        return [(row["metric"], float(row["value"][1])) for row in self.ask("query", query=query)["result"]]

    def samples(self, query, seconds):
        """The samples as they were scraped: [(labels, [(time, value)])]."""
        rows = self.ask("query", query=f"{query}[{seconds:.0f}s]")["result"]
        return [(row["metric"], [(time, float(value)) for time, value in row["values"]]) for row in rows]


def check_scrapes(prometheus, seconds):
    """Every scrape of the last `seconds` came, and was understood."""
    for labels, samples in prometheus.samples("up", seconds):
        assert all(value == 1 for _, value in samples), (labels, samples)
        print(f"up == 1 in {len(samples)} scrapes in {seconds:.0f} s: {labels['job']}")
        assert len(samples) > 2, (labels, samples)
    targets = prometheus.ask("targets")["activeTargets"]
    assert len(targets) == len(SCRAPES) and all(target["lastError"] == "" for target in targets), targets
    own = fetched(f"{prometheus.address}/metrics")
    wrong = re.findall(r"^(prometheus_target_scrapes_(?:sample_\w+|exceeded_\w+|exemplar\w+)_total) (\S+)$", own, re.M)
    assert len(wrong) >= 3 and all(float(count) == 0 for _, count in wrong), wrong


def check_names(prometheus):
    """Both formats hold the same metrics, while these do not change."""
    names = [{labels["__name__"] for labels, _ in prometheus.series(f'{{__name__=~"commlens_.*", job="{job}"}}')}
             for job in SCRAPES]
    assert names[0] == names[1] and len(names[0]) > 15, names


def check_counters(prometheus, seconds, restarted_at):
    """None goes down, but those of the watcher where it began anew; how many were looked at."""
    looked = 0
    for labels, samples in prometheus.samples('{__name__=~"commlens_.*_(total|bucket|count|sum)"}', seconds):
        for (before, low), (after, high) in zip(samples, samples[1:]):
            is_new = labels["__name__"].startswith(OF_WATCHER) and before < restarted_at < after
            assert high >= low or is_new, (labels, low, high)
        looked += 1
    assert looked > 50, looked
    grown = prometheus.samples("commlens_iterations_total", seconds)
    assert all(samples[-1][1] > samples[0][1] for _, samples in grown), grown
    print(f"{looked} counters, none went down")


def expressions(dashboard):
    """(title, expression) of everything that the dashboard asks."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for note in dashboard["annotations"]["list"]:
        yield note["name"], note["expr"]


def check_dashboard(prometheus, seconds):
    """Every panel of it shows something of the job."""
    dashboard = json.loads((ROOT / "dashboards/grafana-commlens.json").read_text())
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert set(variables) == {"datasource", "job_id"}, variables
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables["job_id"]["definition"]).groups()
    jobs = {labels[label] for labels, _ in prometheus.series(metric)}
    assert jobs == {"live-job"}, jobs
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids), ids
    now, asked = time.time(), 0
    for title, expression in expressions(dashboard):
        query = expression.replace("$job_id", jobs.copy().pop()).replace("$__rate_interval", "10s")  # five scrapes
        assert "$" not in query and "live-job" in query, (title, query)
        shown = prometheus.ask("query_range", query=query, start=now - seconds, end=now, step="1s")["result"]
        assert shown, f"panel {title}: {query} has no series"
        asked += 1
    assert asked > 15, asked
    print(f"dashboard: {len(ids)} panels, {asked} expressions, each with data")


def told(status):
    """The alert that reached the receiver, of the rank that is stopped."""
    return next((alert for alert in Receiver.alerts if alert["labels"]["alertname"] == "CommlensHang"
                 and alert["labels"]["process"] == "stopped" and alert["status"] == status), None)


def check_honesty(job):
    """Nothing was told but what the server found. On a machine that is busy with others the job does stand still at times."""
    found = (job.place.path / "serve.log").read_text()
    for alert in Receiver.alerts:
        word = {"CommlensHang": "missing", "CommlensHangWithoutCulprit": "all inside"}.get(alert["labels"]["alertname"])
        assert word and re.search(rf"alert hang-\d+: {word}:", found), (alert, found)


def check_hang(job, prometheus):
    """Rank 1 is stopped: the receiver is told so; it goes on: the receiver is told that, too."""
    stopped_at = time.monotonic()
    job.signal_rank(1, signal.SIGSTOP)
    alert = until(lambda: told("firing"), "the alert of the hang")
    print(f"alert {time.monotonic() - stopped_at:.1f} s after the rank was stopped: {alert['annotations']['summary']}")
    labels = alert["labels"]
    assert (labels["rank"], labels["verdict"], labels["process"]) == ("1", "missing", "stopped"), labels
    assert labels["job_id"] == "live-job" and labels["severity"] == "critical", labels
    check_honesty(job)
    assert {labels["rank"] for labels, _ in prometheus.series("commlens_culprit")} == {"1"}
    time.sleep(3)  # for the panels
    job.signal_rank(1, signal.SIGCONT)
    until(lambda: told("resolved"), "that the hang is over")
    posted = until(lambda: [event for event in Webhook.events if event["alert"]["culprit_ranks"] == [1]][1:], "the webhook's recovery")
    first = Webhook.events[Webhook.events.index(posted[0]) - 1]
    assert (first["event"], posted[0]["event"], first["alert"]["id"]) == ("alert", "recovered", posted[0]["alert"]["id"]), Webhook.events


def monitored(place, well_for):
    job = ServedJob(place)
    url = place.path / "webhook"
    url.touch(mode=0o600)
    url.write_text(f"http://127.0.0.1:{listening(Webhook)}/")
    job.serve("--webhook", str(url))
    TextOnly.server_address = job.address
    prometheus = Prometheus(place, {"openmetrics": f"127.0.0.1:{job.port}", "text": f"127.0.0.1:{listening(TextOnly)}"},
                            listening(Receiver))
    until(lambda: len(prometheus.series("up == 1")) == len(SCRAPES), "a scrape of each format")
    began = time.monotonic()
    time.sleep(well_for)
    check_scrapes(prometheus, time.monotonic() - began)
    check_names(prometheus)
    check_honesty(job)
    check_hang(job, prometheus)
    check_scrapes(prometheus, time.monotonic() - began)
    job.place.end(job.server)
    restarted_at = time.time()
    job.serve()
    until(lambda: all(value == 1 for _, value in prometheus.series("up")), "scrapes of the new server")
    time.sleep(3)
    check_counters(prometheus, time.monotonic() - began, restarted_at)
    check_dashboard(prometheus, time.monotonic() - began)


def main():
    why = why_no_modules("live", "engine", "mpi-openmpi")
    for name in ("prometheus", "prometheus-alertmanager"):
        if not program(name):
            why = f"no {name} on the PATH nor in build/unpacked (./test unpacks it)"
    if why:
        skip(why)
    with Workplace() as place:
        monitored(place, float(sys.argv[1]) if len(sys.argv) > 1 else 10)


if __name__ == "__main__":
    main()
