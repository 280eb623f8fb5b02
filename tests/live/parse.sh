#!/usr/bin/env bash
# parse.sh METRICS_PAGE: parsers that nobody here wrote read what `serve` tells Prometheus, and the rules for alerts:
# those of python3-prometheus-client, and promtool where it is installed. Exit 77: none of them is.
set -euo pipefail
page=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$page" prometheus >"$work/prometheus"
"$page" openmetrics >"$work/openmetrics"
read_by=0
if /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null; then
  /usr/bin/python3 - "$work" <<'PYTHON'
import sys
from prometheus_client import openmetrics, parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics

work = sys.argv[1]
pages = {
    "prometheus": list(parser.text_string_to_metric_families(open(f"{work}/prometheus", encoding="utf-8", newline="").read())),
    "openmetrics": list(of_openmetrics(open(f"{work}/openmetrics", encoding="utf-8", newline="").read())),
}
for kind, families in pages.items():
    calls = [s for f in families for s in f.samples if s.name == "commlens_calls_total"]
    # Ten names, of which one is empty and so counts as `other`; what is no text of UTF-8 is replaced, two control characters too.
    assert sum(s.value for s in calls) == 30, (kind, calls)
    names = {s.labels["op"] for s in calls}
    assert {"plain", 'quote"', "back\\slash", "line\nbreak", "}{,=# EOF", "\u20ac", "other"} <= names, (kind, names)
    buckets = [s for f in families for s in f.samples if s.name == "commlens_call_duration_seconds_bucket" and s.labels["op"] == "plain"]
    assert [s.value for s in buckets] == sorted(s.value for s in buckets) and buckets[-1].value == 3, (kind, buckets)
    print(f"{kind}: {len(families)} families, {sum(len(f.samples) for f in families)} samples")
PYTHON
  read_by=1
fi
if command -v promtool >/dev/null; then
  promtool check metrics <"$work/prometheus" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
  promtool check rules dashboards/commlens-rules.yml
  (cd dashboards && promtool test rules commlens-rules-test.yml)
  read_by=1
fi
if [ "$read_by" -eq 0 ]; then
  echo "skipped: neither python3-prometheus-client nor promtool is installed"
  exit 77
fi
