#!/usr/bin/env bash
# Checks web/, the pages that --html writes and that of `rigcast ui`: types, layout, the vendored d3,
# and pages in a browser.
#   scripts/browser-test.sh [--short] [PROGRAM]     PROGRAM: default build/release/rigcast
# --short: a page of each kind, each in one of light and dark, screen and phone (a minute and a half);
# scripts/test.sh runs it after ctest. Needs Node.js; scripts/setup-browser.sh installs the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
short=0
[ "${1:-}" = --short ] && short=1 && shift
program=$(realpath "${1:-build/release/rigcast}")
[ -x "$program" ] || { echo "no program $program: build it, or name another" >&2; exit 3; }
scripts/setup-browser.sh

tests/web/node_modules/.bin/tsc -p web
tests/web/node_modules/.bin/prettier --print-width 100 --log-level warn --check \
  "web/*.{js,ts}" "web/{app,charts,panels,views}/*.js" "tests/web/*.mjs"
scripts/vendor-d3.sh --check
names=()
((short)) && names=(capacity compare hostile misfit plan simulate sweep sweep-map validate)
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
nice scripts/pages.sh "$program" "$pages" "${names[@]}"
SHORT=$short PAGES=$pages PROGRAM=$program nice node --test --test-concurrency=1 --test-reporter="${REPORTER:-dot}" \
  tests/web/*.test.mjs
