#!/usr/bin/env bash
# Makes web/vendor/d3.min.js from the npm packages that tests/web/package-lock.json names.
#   scripts/vendor-d3.sh          writes it
#   scripts/vendor-d3.sh --check  ends with 1 if the file is another one
# scripts/setup-browser.sh installs the packages, in the newest versions that have a file for each function:
# of later ones, which are one file, esbuild keeps twice as much.
set -euo pipefail
cd "$(dirname "$0")/.."
made=$(mktemp)
trap 'rm -f "$made"' EXIT

entry=tests/web/node_modules/.d3.js
echo 'export {scaleLinear, scaleLog} from "d3-scale"; export {line, area} from "d3-shape";' >"$entry"
{
  # The licence asks for its text in every copy, and so in every page.
  printf '/* d3-scale 4.0.2, d3-shape 3.2.0 and what they import:\n%s */\n' "$(cat web/vendor/LICENSE)"
  tests/web/node_modules/.bin/esbuild "$entry" --bundle --minify --format=iife --global-name=d3 \
    --target=es2022
} >"$made"
if [ "${1:-}" = --check ]; then
  cmp "$made" web/vendor/d3.min.js || {
    echo "web/vendor/d3.min.js is not what the npm packages make: scripts/vendor-d3.sh" >&2
    exit 1
  }
else
  cp "$made" web/vendor/d3.min.js
fi
