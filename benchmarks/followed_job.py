#!/usr/bin/env python3
"""followed_job.py pairs JOB [--pairs N] [--runs N] [--ring] | calls JOB [--ring]: what a job loses while it is followed.

JOB is own_calls_openmpi, which makes small all_reduces as fast as it can. `pairs`: `commlens watch --interval 100ms` of its
recording is stopped and goes on in turns of 0.7 s, in an order that alternates; prints the calls of a turn with the follower
over those of the turn beside it without, their median and quartiles over all pairs, and the same of as many pairs in which
neither has it. The job has one processor and the follower another. With --ring a pair in which the job waited for its
processor for more than 4 % of the time, since other programs were there, counts as none and is made again; `nice -n -20`
makes that rare. Without it the recording grows by some 0.3 GB a second: a run ends when TMPDIR has less than 8 GB left.
`calls`: the system calls of the job, by strace, with and without a follower. COMMLENS_BINARY names the program, else
build/release/commlens.
"""
import argparse
import mmap
import os
import shutil
import signal
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMLENS = os.environ.get("COMMLENS_BINARY", str(ROOT / "build/release/commlens"))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WINDOW_S = 0.7
INTERVAL = "100ms"
ENDLESS = 10**15
MOST_WAITING = 0.04  # of a turn
LEAST_ROOM = 8e9  # bytes, for a recording that grows
MOST_PAIRS = 3  # as many times the wanted ones, however busy the machine is
PROCESSORS = sorted(os.sched_getaffinity(0))
OF_JOB, OF_FOLLOWER = (["taskset", "-c", str(PROCESSORS[place])] for place in (0, -1))


class Job:
    """A recorded job in a directory that goes with it."""

    def __init__(self, program, calls=ENDLESS, ring=False, before=()):
        self.place = tempfile.TemporaryDirectory(prefix="commlens-followed-")
        path = Path(self.place.name)
        self.trace = path / "trace"
        counter = path / "counter"
        counter.write_bytes(bytes(24))
        with open(counter, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 24)
        command = [COMMLENS, "record", "--no-summary", *(["--ring"] if ring else []), "-o", str(self.trace), "--",
                   "mpirun.openmpi", "-n", "1", *OF_JOB, *before, program, str(counter), str(calls)]
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def calls(self):
        return struct.unpack_from("q", self.shared, 0)[0]

    def pid(self):
        return struct.unpack_from("q", self.shared, 16)[0]

    def wait_for_calls(self):
        end = time.monotonic() + 60
        while self.calls() == 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit("the job makes no calls")
            time.sleep(0.05)

    def end(self):
        struct.pack_into("q", self.shared, 8, 1)
        self.process.wait()
        self.place.cleanup()


def follower(trace):
    return subprocess.Popen([*OF_FOLLOWER, COMMLENS, "watch", str(trace), "--interval", INTERVAL, "--json", "--until-end"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Turns:
    """Turns of one job, with and without its follower."""

    def __init__(self, job, watch, most_waiting):
        self.job, self.watch, self.most_waiting = job, watch, most_waiting

    def waited(self):
        """For how many seconds the job was ready and had no processor."""
        return int(Path(f"/proc/{self.job.pid()}/schedstat").read_text().split()[1]) / 1e9

    def turn(self, is_followed):
        """Calls a second, and the part of the time in which the job had no processor."""
        self.watch.send_signal(signal.SIGCONT if is_followed else signal.SIGSTOP)
        began, first, waited = time.monotonic(), self.job.calls(), self.waited()
        time.sleep(WINDOW_S)
        last, length = self.job.calls(), time.monotonic() - began
        return (last - first) / length, (self.waited() - waited) / length

    def pair(self, turns):
        """The rates of two turns; None where the job waited for too long."""
        made = [self.turn(is_followed) for is_followed in turns]
        return None if max(waiting for _, waiting in made) > self.most_waiting else [rate for rate, _ in made]


def measured_run(program, pairs, ring):
    """Ratios of followed pairs, those of pairs that are not, calls a second without the follower, and how many pairs count
    as none."""
    job = Job(program, ring=ring)
    job.wait_for_calls()
    watch = follower(job.trace)
    followed, neither, rates, busy = [], [], [], 0
    try:
        time.sleep(1)
        turns = Turns(job, watch, MOST_WAITING if ring else 1)
        for made in range(pairs * MOST_PAIRS):
            has_room = ring or shutil.disk_usage(job.trace).free > LEAST_ROOM
            if (len(followed) >= pairs and len(neither) >= pairs) or not has_room:
                break
            with_first = made % 2 == 1
            both = turns.pair([with_first, not with_first])
            none = turns.pair([False, False])
            busy += (both is None) + (none is None)
            if both:
                with_it, without = both if with_first else reversed(both)
                followed.append(with_it / without)
                rates.append(without)
            if none:
                neither.append(none[0] / none[1])
    finally:
        watch.send_signal(signal.SIGCONT)
        watch.terminate()
        watch.wait()
        job.end()
    return followed, neither, rates, busy


def quartiles(ratios):
    if len(ratios) < 2:
        return f"{len(ratios)} pairs"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"median {middle:.4f}, quartiles {low:.4f} to {high:.4f}, of {len(ratios)} pairs"


def measure_pairs(options):
    every, every_neither = [], []
    for run in range(options.runs):
        followed, neither, rates, busy = measured_run(options.job, options.pairs, options.ring)
        every += followed
        every_neither += neither
        cost = f"{1e9 / statistics.median(rates):.0f} ns a call" if rates else "never calm"
        print(f"run {run + 1}: {cost}; {busy} pairs left out, as the job waited; load {os.getloadavg()[0]:.1f}")
        print(f"  followed / not: {quartiles(followed)}")
        print(f"  not / not:      {quartiles(neither)}", flush=True)
    print(f"all runs, followed / not: {quartiles(every)}")
    print(f"all runs, not / not:      {quartiles(every_neither)}")


def system_calls(program, ring, is_followed, calls=20_000_000):
    """How often the job made each system call."""
    with tempfile.NamedTemporaryFile() as counts:
        job = Job(program, calls, ring, before=["strace", "-c", "-f", "-o", counts.name])
        watch = follower(job.trace) if is_followed else None
        job.process.wait()
        if watch:
            watch.wait()
        job.place.cleanup()
        lines = Path(counts.name).read_text().splitlines()
    fields = [line.split() for line in lines if line[:1] == " " and not line.endswith("total")]
    return {field[-1]: int(field[3]) for field in fields if field[0][0].isdigit()}


def show_system_calls(options):
    alone = system_calls(options.job, options.ring, False)
    followed = system_calls(options.job, options.ring, True)
    print("system call  without a follower  with one")
    for name in sorted(alone.keys() | followed.keys()):
        print(f"{name}  {alone.get(name, 0)}  {followed.get(name, 0)}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=["pairs", "calls"])
parser.add_argument("job", type=os.path.abspath)
parser.add_argument("--pairs", type=int, default=30)
parser.add_argument("--runs", type=int, default=1)
parser.add_argument("--ring", action="store_true")
chosen = parser.parse_args()
if chosen.what == "pairs":
    measure_pairs(chosen)
else:
    show_system_calls(chosen)
