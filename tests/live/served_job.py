"""A real job that is served: two ranks that train over Open MPI, `commlens serve` beside them, and what tests of it need."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMLENS = os.environ.get("COMMLENS_BINARY", str(ROOT / "build/release/commlens"))


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def why_no_modules(*names):
    """Why a job over Open MPI with these modules cannot run here; empty: it can."""
    if not shutil.which("mpirun.openmpi"):
        return "no Open MPI (mpirun.openmpi) on the PATH"
    missing = [name for name in names if not (Path(COMMLENS).parent / f"libcommlens-{name}.so").exists()]
    return f"libcommlens-{missing[0]}.so was not built" if missing else ""


def free_port():
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        return any_free.getsockname()[1]


def fetched(url, headers=None):
    """The text of a page, by no proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers=headers or {}), timeout=10) as answer:
        return answer.read().decode("utf-8")


def until(look, what, seconds=60):
    """The first true value of `look`; ends the test where there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = look()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"never, in {seconds} s: {what}")


class Workplace:
    """A directory and processes that are gone when it is left."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="commlens-live-"))
        self.processes = []
        return self

    def __exit__(self, kind, error, trace):
        for process in reversed(self.processes):
            self.end(process)
        if kind is not None:
            for log in sorted(self.path.glob("*.log")):
                print(f"-- {log.name}\n" + log.read_text(errors="replace")[-3000:])
        shutil.rmtree(self.path, ignore_errors=True)

    def start(self, name, words, **settings):
        """A process, in a group of its own; what it says goes to NAME.log."""
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with open(self.path / f"{name}.log", "ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
                                       start_new_session=True, **settings)
        self.processes.append(process)
        return process

    @staticmethod
    def end(process, wait=10):
        """Asks it to end, then makes it; the rest of its group goes with it."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


class ServedJob:
    """The job, of which rank 1 can be stopped, and its server."""

    def __init__(self, place):
        self.place = place
        self.trace = place.path / "live-job"
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.job = place.start("job", [
            "timeout", "-k", "1", "240", "mpirun.openmpi", "--oversubscribe", "-n", "2", COMMLENS, "train", "19M", "--dp", "2",
            "--layers", "1", "--hidden", "64", "--heads", "2", "--seq", "32", "--vocab", "256", "--micro-batch", "1",
            "--iterations", "1000000", "--transport", "mpi", "-o", str(self.trace)])
        self.server = None

    def serve(self, *more):
        """Starts the server, at the same address each time, and waits until the job has begun."""
        self.server = self.place.start("serve", [COMMLENS, "serve", str(self.trace), "--listen", f"127.0.0.1:{self.port}",
                                                 "--interval", "200ms", "--hang-after", "8s", *more])
        until(lambda: re.search(r"^commlens_iterations_total\{.*\} [1-9]", fetched(f"{self.address}/metrics"), re.M),
              "iterations in /metrics", 180)

    def state(self, page):
        return json.loads(fetched(f"{self.address}/api/v1/{page}"))

    def signal_rank(self, rank, what):
        os.kill(next(row["pid"] for row in self.state("ranks") if row["rank"] == rank), what)
