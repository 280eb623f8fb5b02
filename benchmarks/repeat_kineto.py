#!/usr/bin/env python3
"""repeat_kineto.py TRACE.json[.gz] BYTES OUT.json: a trace of about BYTES, the events of TRACE again and again.

Each copy's correlation and event ids, times and profiler steps are shifted, so that it reads as one long run. The text of
the events stays as the profiler wrote it.
"""
import gzip
import json
import re
import sys

source, size, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with (gzip.open if source.endswith(".gz") else open)(source, "rt") as file:
    text = file.read()
first = text.index('"traceEvents": [') + len('"traceEvents": [')
count = len(json.loads(text)["traceEvents"])
decoder = json.JSONDecoder()
events, at = [], first
while len(events) < count:
    while text[at] in " \n\r\t,":
        at += 1
    _, end = decoder.raw_decode(text, at)
    events.append(text[at:end])
    at = end
body = ",\n".join(events)

shifts = [
    (re.compile(r'("correlation": |"External id": |"id": |"Ev Idx": |"Record function id": )(\d+)'), 1_000_000),
    (re.compile(r'("ts": )(\d+)'), 10_000_000),
    (re.compile(r"(ProfilerStep#)(\d+)"), 3),
]
copies = max(1, size // len(body))
with open(out, "w") as file:
    file.write(text[:first])
    for copy in range(copies):
        shifted = body
        for pattern, step in shifts if copy else []:
            shifted = pattern.sub(lambda found: found[1] + str(int(found[2]) + copy * step), shifted)
        file.write(",\n" * (copy > 0) + shifted)
    file.write(text[at:])
print(f"{copies} copies of {count} events")
