#!/usr/bin/env bash
# Pictures of pages, for documents and to look at: WebP, or with TYPE=png PNG.
#   scripts/screenshots.sh PROGRAM FOLDER [NAME:WIDTH:THEME[:HEIGHT]...]
# NAME: of scripts/pages.sh, or ui-STATE of tests/web/ui.mjs; HEIGHT: of what is shown, default: all.
# Default: those of README.md, docs/pages.md and docs/ui.md.
set -euo pipefail
program=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
scripts/setup-browser.sh
shots=("$@")
((${#shots[@]})) || shots=(simulate:1000:light:1150 capacity:1000:dark:1000 ui-forecast:1360:light:1040
                                 ui-users:1360:dark:1000)
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
mapfile -t names < <(printf '%s\n' "${shots[@]%%:*}" | sort -u | grep -v ^ui-)
((${#names[@]} == 0)) || scripts/pages.sh "$program" "$pages" "${names[@]}"
PROGRAM=$program PAGES=$pages node tests/web/screenshots.mjs "$folder" "${shots[@]}"
