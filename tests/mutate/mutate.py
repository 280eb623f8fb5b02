#!/usr/bin/env python3
"""Makes small changes to C++ sources, one at a time, and lists those that no test of their directory notices.

  mutate.py [--limit N] [--root DIR] [--build COMMAND --run COMMAND] [FILE...]

FILE: a source under commlens/ (no test); without one, those that differ from the last common commit with the main
branch. The test program of commlens/NAME is commlens_NAME_test of the preset `edit`; with --build and --run, what these
commands build and run is taken instead. Every file is put back as it was, also when the run is interrupted.

A change that survives is a missing test, or it makes no difference, or only tests of the whole (tests/golden and others)
notice it: look before writing one.

Exit 0: every change was noticed. 1: some were not. 2: wrong arguments, or the unchanged sources do not build or pass.
130: interrupted.
"""

import argparse
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from typing import NamedTuple

PRESET = "edit"
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHORTEST_LIMIT_S = 60  # for a run of the tests: ten times what they take unchanged, and at least this


class Mutation(NamedTuple):
    begin: int  # in the text of the file
    end: int
    text: str  # what replaces it


class Interrupted(BaseException):
    """A signal that ends the run."""


class Refused(Exception):
    """What cannot be done, and why."""


# ---- what can be changed -------------------------------------------------------------------------------------------

# What is blanked before mutations are looked for: comments, literals, and lines of the preprocessor. Digit separators
# (1'000) are no quotes.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*'
    r'|\bstatic_assert\s*\([^;]*;|\boperator\s*[<>=!+\-&|]+',
    re.DOTALL | re.MULTILINE)

# Between spaces, where clang-format puts binary operators and no bracket of a template.
OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "+=": "-=", "-=": "+=", "&&": "||", "||": "&&",
}
OPERATOR = re.compile(r"(?<=[ ])(?:[<>]=?|[=!]=|[+-]=?|&&|\|\|)(?=[ \n])")
TRUTH = re.compile(r"\b(?:true|false)\b")
INTEGER = re.compile(r"(?<![\w.'])(?P<digits>\d(?:'?\d)*)(?P<suffix>[uUlL]*)(?![\w.'])")
REAL = re.compile(r"(?<![\w.'])\d+\.\d+(?![\w.'])")
# if (CONDITION) { with nothing but a jump in it.
EARLY_EXIT = re.compile(r"\bif \((?P<condition>[^\n{}]*)\) \{\n\s*(?:return|continue|break)\b[^;{}]*;\s*\}")


def code_of(text: str) -> str:
    """The text with everything that is no code replaced by blanks of the same length."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def early_exits(code: str):
    for found in EARLY_EXIT.finditer(code):
        begin, end = found.span("condition")
        condition = found.group("condition")
        begin += condition.rfind(";") + 1  # after an initialiser
        rest = code[begin:end]
        if not re.search(r"[^=!<>]=[^=]", rest):  # a declaration is no condition to be joined with others
            yield Mutation(begin, end, f"{rest[:len(rest) - len(rest.lstrip())]}false && ({rest.strip()})")


def mutations_of(text: str) -> list:
    """Every mutation of a source, in the order of the text."""
    code = code_of(text)
    found = [Mutation(*at.span(), OPERATORS[at.group()]) for at in OPERATOR.finditer(code)]
    found += [Mutation(*at.span(), "false" if at.group() == "true" else "true") for at in TRUTH.finditer(code)]
    for at in INTEGER.finditer(code):
        value = int(at.group("digits").replace("'", ""))
        found.append(Mutation(*at.span(), f"{value + 1}{at.group('suffix')}"))
        if value > 0:
            found.append(Mutation(*at.span(), f"{value - 1}{at.group('suffix')}"))
    found += [Mutation(*at.span(), f"{float(at.group()) * 0.9:.6g}") for at in REAL.finditer(code)
              if float(at.group()) != 0]
    found += early_exits(code)
    return sorted(found)


def spread(mutations: list, limit: int) -> list:
    """At most `limit` of them, evenly over the file, the same ones each time."""
    if len(mutations) <= limit:
        return mutations
    return [mutations[at * len(mutations) // limit] for at in range(limit)]


def shown(path: str, text: str, mutation: Mutation) -> str:
    line = text.count("\n", 0, mutation.begin) + 1
    whole = text.splitlines()[line - 1].strip()
    return f"{path}:{line}: `{text[mutation.begin:mutation.end]}` -> `{mutation.text}` in `{whole}`"


# ---- trying one ----------------------------------------------------------------------------------------------------


class Commands:
    """Builds and runs the tests of one directory."""

    def __init__(self, root: pathlib.Path, build: list, run: list, environment: dict):
        self.root = root
        self.build_command = build
        self.run_command = run
        self.environment = environment
        self.limit_s = None
        self.output = ""

    def build(self) -> bool:
        return self._ends_well(self.build_command, None)

    def run(self) -> bool:
        return self._ends_well(self.run_command, self.limit_s)

    def check_unchanged(self):
        """Fails when the tests do not pass before anything is changed; sets how long they may take after."""
        if not self.build():
            raise Refused(f"the unchanged sources do not build:\n{self.output}")
        started = time.monotonic()
        if not self.run():
            raise Refused(f"the tests fail on the unchanged sources:\n{self.output}")
        self.limit_s = max(SHORTEST_LIMIT_S, 10 * (time.monotonic() - started))

    def _ends_well(self, command: list, limit_s) -> bool:
        # A session of its own, so that everything it started can be ended with it.
        with subprocess.Popen(command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                              text=True, errors="replace") as child:
            try:
                self.output, _ = child.communicate(timeout=limit_s)
                return child.returncode == 0
            except subprocess.TimeoutExpired:
                return False  # a change that makes a loop endless is noticed
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)


class Source:
    """A file that is changed and always put back."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.original = path.read_bytes()
        self.written = self.original

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.written == self.original:
            return
        if self.path.read_bytes() != self.written:
            print(f"mutate: {self.path} was edited meanwhile and is left alone; its last mutation is in it",
                  file=sys.stderr)
            return
        self._write(self.original)

    def put(self, mutation: Mutation):
        # Offsets are of the text; Python reads and writes it as UTF-8.
        text = self.original.decode()
        self._write((text[:mutation.begin] + mutation.text + text[mutation.end:]).encode())

    def _write(self, content: bytes):
        # A signal waits until what is in the file and what is known of it agree.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            self.path.write_bytes(content)
            self.written = content
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def try_each(source: Source, path: str, mutations: list, commands: Commands, counts: dict):
    text = source.original.decode()
    for mutation in mutations:
        source.put(mutation)
        result = "not compiled" if not commands.build() else "survived" if commands.run() else "noticed"
        counts[result] += 1
        if result == "survived":
            print(shown(path, text, mutation), flush=True)


# ---- which files, which commands -----------------------------------------------------------------------------------


def output_of(root: pathlib.Path, *command: str) -> list:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def is_product_source(path: str) -> bool:
    name = pathlib.PurePath(path)
    return (len(name.parts) > 2 and name.parts[0] == "commlens" and name.suffix in (".cpp", ".hpp") and
            not name.stem.endswith("_test") and name.name not in ("main.cpp", "test_support.hpp"))


def changed_files(root: pathlib.Path) -> list:
    base = "HEAD"
    for branch in ("main", "origin/main"):
        if common := output_of(root, "git", "merge-base", branch, "HEAD"):
            base = common[0]
            break
    paths = output_of(root, "git", "diff", "--name-only", "--diff-filter=d", base)
    paths += output_of(root, "git", "ls-files", "--others", "--exclude-standard")
    return sorted(path for path in set(paths) if is_product_source(path))


def named_files(root: pathlib.Path, names: list) -> list:
    paths = []
    for name in names:
        path = os.path.relpath(pathlib.Path(name).resolve(), root)
        if not (root / path).is_file():
            raise Refused(f"there is no file {name}")
        if not is_product_source(path):
            raise Refused(f"{name} is no source of the product: name a .cpp or .hpp under commlens/, no test")
        if path not in paths:
            paths.append(path)
    return paths


def preset_commands(root: pathlib.Path, path: str) -> Commands:
    """Of the test program of the directory of commlens/ that a file lies in. The preset must be configured."""
    directory = pathlib.PurePath(path).parts[1]
    build_directory = root / "build" / PRESET
    target = f"commlens_{directory}_test"
    if not output_of(root, "ninja", "-C", str(build_directory), "-t", "query", target):
        raise Refused(f"commlens/{directory} has no test program ({target})")
    return Commands(root, ["cmake", "--build", str(build_directory), "-j", str(os.cpu_count()), "--target", target],
                    [str(build_directory / target), "--gtest_brief=1", "--gtest_fail_fast"],
                    dict(os.environ, COMMLENS_SOURCE_DIR=str(root)))


def configure(root: pathlib.Path):
    done = subprocess.run(["cmake", "--preset", PRESET], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"cmake --preset {PRESET} fails:\n{done.stdout}{done.stderr}")


# ---- the command line ----------------------------------------------------------------------------------------------


def mutate(arguments) -> int:
    root = arguments.root.resolve()
    paths = named_files(root, arguments.files) if arguments.files else changed_files(root)
    if not paths:
        print("no source under commlens/ differs from the main branch; name files to mutate them")
        return 0
    if arguments.run is None:
        configure(root)
    counts = {"noticed": 0, "survived": 0, "not compiled": 0}
    for path in paths:
        commands = (preset_commands(root, path) if arguments.run is None else
                    Commands(root, shlex.split(arguments.build), shlex.split(arguments.run), dict(os.environ)))
        with Source(root / path) as source:
            every = mutations_of(source.original.decode())
            some = spread(every, arguments.limit)
            print(f"{path}: tries {len(some)} of {len(every)} mutations; these survive:", flush=True)
            if some:
                commands.check_unchanged()
            try_each(source, path, some, commands, counts)
    print(f"mutations: {counts['noticed']} noticed by the tests of their directory, {counts['survived']} survived (above), "
          f"{counts['not compiled']} did not compile")
    return 1 if counts["survived"] else 0


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=positive, default=20, help="mutations per file, spread evenly (20)")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="the repository")
    parser.add_argument("--build", help="builds the tests, instead of the preset")
    parser.add_argument("--run", help="runs them")
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    if (arguments.build is None) != (arguments.run is None):
        parser.error("--build and --run go together")

    def end(number, _):
        raise Interrupted(number)

    for number in ENDING_SIGNALS:
        signal.signal(number, end)
    try:
        return mutate(arguments)
    except Refused as refused:
        print(f"mutate: {refused}", file=sys.stderr)
        return 2
    except Interrupted:
        print("mutate: interrupted; the file is as it was", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
