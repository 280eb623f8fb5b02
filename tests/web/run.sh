#!/usr/bin/env bash
# run.sh COMMAND…: runs it where the tools of the page's tests are there; exit 77 (skipped), with the reason, where not.
# COMMLENS_WEB names the build's copy of web/.
set -euo pipefail
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  echo "skipped: no node and npm on the PATH (apt-get install nodejs npm)"
  exit 77
fi
if [ ! -e "${COMMLENS_WEB:?}/dist/report.js" ] || [ ! -d "$COMMLENS_WEB/node_modules/playwright-core" ]; then
  echo "skipped: the page of the report was not built: $(cat "$COMMLENS_WEB/failed" 2>/dev/null || echo "see cmake")"
  exit 77
fi
COMMLENS_CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$COMMLENS_CHROMIUM" ]; then
  echo "skipped: no chromium on the PATH (apt-get install chromium)"
  exit 77
fi
export COMMLENS_CHROMIUM COMMLENS_WEB_DIST=$COMMLENS_WEB/dist
exec "$@"
