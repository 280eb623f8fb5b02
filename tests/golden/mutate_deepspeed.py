#!/usr/bin/env python3
"""Which recorded case proves each field of DeepSpeed's Behaviour?

    tests/golden/mutate_deepspeed.py [--field NAME]... [--keep DIR] [FOLDER]...

Builds the program of a copy of the sources, in a temporary directory, in which one field of
commlens/frameworks/deepspeed/behaviour.hpp can have another value than behaviour.cpp gives it: COMMLENS_FLIP="FIELD FROM TO"
does so for the releases whose value is FROM (index of an enumerator; 0 and 1 of a bool and of the default clipping).
Runs the recorded cases of the FOLDERs (default: tests/golden/deepspeed*) with every such change and looks for the first case
that notices: its calls, in their order, differ from the recording, or it is refused, or one is predicted that DeepSpeed
refused (refused.txt instead of calls). Where checkpoints are saved, barriers are counted too, which `compare` leaves out.

Prints for each value of each field the first case that notices its change, the row of the table in
docs/frameworks/deepspeed.md. A field `has_…` or `records_again` mostly says that a release knows a setting: then the value true is
enough, since a release without it has no such case. Exit 1 if a field has a value that no case proves, 2 if nothing
could be run.

It takes a build of the program (minutes, less with a warm ccache) and some thousands of short runs: a minute or two on
two cores. --field takes one field alone (again: several); --keep builds in DIR and leaves the build there for
the next time. Cases that are not exact without any change are named, and left out.
"""
import argparse, collections, concurrent.futures, glob, gzip, json, os, re, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACE = "commlens/frameworks/deepspeed/behaviour"
FOLDERS = "tests/golden/deepspeed*/"
SWITCH = '''
namespace {
/// The row with the value that COMMLENS_FLIP gives to one of its fields.
Behaviour flipped(Behaviour row) {
  const char* text = std::getenv("COMMLENS_FLIP");
  std::istringstream words(text == nullptr ? "" : text);
  std::string field;
  int from = 0;
  int to = 0;
  words >> field >> from >> to;
%s  return row;
}
}  // namespace

const Behaviour& behaviour(const Job& job) {
  static const auto rows = [] {
    std::vector<Behaviour> all;
    for (const Behaviour& row : k_behaviours) {
      all.push_back(flipped(row));
    }
    return all;
  }();
  const std::ptrdiff_t index = &recorded_behaviour(job) - k_behaviours.data();
  return rows.at(static_cast<std::size_t>(index));
}

std::vector<KnownVersion> known_versions()'''
RECORDED = '''
/// The row as it is written.
const Behaviour& recorded_behaviour(const Job& job) {
  const bool is_own = job.framework == k_name;
  const std::string_view named = is_own ? std::string_view(job.framework_version) : std::string_view(options(job).release);
  return k_behaviours.at(choose_version(versions_of(k_behaviours), k_newest, named).index);
}
'''


OTHERS = ("has_barriers_of_data_ranks", "has_gathered_check")  # of which older releases have cases


class Field:
    """A member of Behaviour: its type and the names of its values, whose indices COMMLENS_FLIP takes."""

    def __init__(self, kind, name, values):
        self.kind, self.name, self.values = kind, name, values
        self.is_setting = name.startswith("has_") and name not in OTHERS or name == "records_again"

    def changes(self):
        for start, value in enumerate(self.values):
            others = [i for i in range(len(self.values)) if i != start]
            if not (self.is_setting and value == "false"):
                yield value, [(start, other) for other in others]

    def code(self):
        return ("  if (field == \"%s\" && row.%s == static_cast<%s>(from)) {\n    row.%s = static_cast<%s>(to);\n  }\n"
                % (self.name, self.name, self.kind, self.name, self.kind))


def fields():
    text = open(os.path.join(ROOT, PLACE + ".hpp")).read()
    enums = {name: [v.split("=")[0].strip() for v in values.split(",") if v.strip()]
             for name, values in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", text)}
    body = text[text.index("struct Behaviour {"):text.index("\n};")]
    found = []
    for kind, name in re.findall(r"^  (\w+) (\w+) = [^;]+;", body, re.M):
        values = {"bool": ["false", "true"], "double": ["0.0", "1.0"]}.get(kind) or enums.get(kind)
        if not values:
            sys.exit("%s.hpp: %s is a %s, which this script cannot change; teach it (Field)" % (PLACE, name, kind))
        found.append(Field("Behaviour::" + kind if kind in enums else kind, name, values))
    return found


def is_newer(source, target):
    return not os.path.exists(target) or os.path.getmtime(source) > os.path.getmtime(target)


def build(folder, known):
    """A copy of the sources whose behaviour() listens to COMMLENS_FLIP; returns the program."""
    names = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard", ":!tests/golden"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = os.path.join(ROOT, name), os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.exists(source) and is_newer(source, target):
            shutil.copy2(source, target)
    path = os.path.join(folder, PLACE + ".cpp")
    text = open(os.path.join(ROOT, PLACE + ".cpp")).read()
    begin, end = text.index("\nconst Behaviour& behaviour("), text.index("\nstd::vector<KnownVersion> known_versions()")
    before, after = text[:begin], text[end + len("\nstd::vector<KnownVersion> known_versions()"):]
    close = before.rindex("}  // namespace")
    before = before[:close] + RECORDED + before[close:]
    before = before.replace("#include <array>", "#include <array>\n#include <cstdlib>\n#include <sstream>\n#include <string>\n#include <string_view>\n#include <vector>", 1)
    changed = before + SWITCH % "".join(f.code() for f in known) + after
    if open(path).read() != changed:
        open(path, "w").write(changed)
    environment = dict(os.environ, CCACHE_BASEDIR=folder)
    for command in (["cmake", "--preset", "core", "-DCOMMLENS_WEB=OFF"], ["ninja", "-C", "build/core", "commlens"]):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            print("cannot build the changed copy: %s\n%s" % (" ".join(command), (done.stdout + done.stderr)[-3000:]), file=sys.stderr)
            sys.exit(2)
    return os.path.join(folder, "build", "core", "commlens")


class Runner:
    def __init__(self, program, scratch):
        self.program, self.scratch, self.count = program, scratch, 0

    def commlens(self, flip, *arguments):
        environment = dict(os.environ, COMMLENS_FLIP=flip, NO_COLOR="1")
        return subprocess.run([self.program, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120).returncode

    def is_exact(self, case, flip):
        """Whether commlens does with this case what DeepSpeed did."""
        config = os.path.join(case, "case.yaml")
        if is_refused(case):
            return self.commlens(flip, "predict", config) != 0
        if self.commlens(flip, "compare", config, os.path.join(case, "calls.jsonl.gz"), "--order") != 0:
            return False
        return "save_checkpoint" not in open(config).read() or self.barriers(case, flip) == recorded_barriers(case)

    def barriers(self, case, flip):
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            calls = os.path.join(folder, "calls.jsonl")
            self.commlens(flip, "predict", os.path.join(case, "case.yaml"), "--calls", calls)
            return count_barriers(open(calls))


def count_barriers(lines):
    """How many of them each rank has in each iteration, those of the start left out."""
    calls = (json.loads(line) for line in lines if '"barrier"' in line)
    return collections.Counter((c["rank"], c["iteration"]) for c in calls if c.get("op") == "barrier" and c["iteration"] >= 0)


def recorded_barriers(case):
    with gzip.open(os.path.join(case, "calls.jsonl.gz"), "rt") as lines:
        return count_barriers(lines)


def is_refused(case):
    return not os.path.exists(os.path.join(case, "calls.jsonl.gz"))


def cases_in(folders):
    """Small ones first."""
    found = []
    for folder in folders:
        found += [os.path.dirname(path) for path in glob.glob(os.path.join(folder, "*", "case.yaml"))]
    return sorted(found, key=lambda case: (not is_refused(case) and os.path.getsize(os.path.join(case, "calls.jsonl.gz")), case))


def named(case):
    return "/".join(case.rstrip("/").split("/")[-2:])


def first_that_notices(pool, runner, cases, flip, width):
    for start in range(0, len(cases), width):
        some = cases[start:start + width]
        for case, exact in zip(some, pool.map(lambda c: runner.is_exact(c, flip), some)):
            if not exact:
                return case
    return None


def main():
    p = argparse.ArgumentParser(description="which recorded case proves each field of DeepSpeed's Behaviour?")
    p.add_argument("folders", nargs="*", metavar="FOLDER", help="folders of recorded cases (default: tests/golden/deepspeed*)")
    p.add_argument("--field", action="append", metavar="NAME", help="this field alone")
    p.add_argument("--keep", metavar="DIR", help="build here and leave it")
    o = p.parse_args()
    known = fields()
    wanted = [f for f in known if not o.field or f.name in o.field]
    cases = cases_in(o.folders or sorted(glob.glob(os.path.join(ROOT, FOLDERS))))
    if not cases or not wanted:
        print("no recorded case or no such field", file=sys.stderr)
        return 2
    width = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(width) as pool:
        folder = os.path.abspath(o.keep) if o.keep else os.path.join(scratch, "copy")
        runner = Runner(build(folder, known), scratch)
        exact = [c for c, is_exact in zip(cases, pool.map(lambda c: runner.is_exact(c, ""), cases)) if is_exact]
        for case in sorted(set(cases) - set(exact)):
            print("left out, since it is not exact: " + named(case))
        unproven = 0
        for field in wanted:
            for value, flips in field.changes():
                for start, other in flips:
                    case = first_that_notices(pool, runner, exact, "%s %d %d" % (field.name, start, other), width)
                    unproven += case is None
                    print("%-38s %-20s to %-20s %s" % (field.name, value, field.values[other], named(case) if case else "NOTHING NOTICES"), flush=True)
    print("%d fields, %d cases, %d changes that nothing notices" % (len(wanted), len(exact), unproven))
    return 1 if unproven else 0


if __name__ == "__main__":
    sys.exit(main())
