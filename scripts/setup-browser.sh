#!/usr/bin/env bash
# Installs what the browser tests of web/ need: Debian's chromium, and npm packages in
# tests/web/node_modules, which git ignores. Nothing of them is part of the program.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v chromium >/dev/null && [ -z "${CHROMIUM:-}" ]; then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
command -v npm >/dev/null || { echo "npm is missing: Node.js 20 or later" >&2; exit 3; }
cd tests/web
# Installed from the lock file, and again only when it changed.
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --no-audit --no-fund --loglevel=error >/dev/null
  cp package-lock.json node_modules/.installed
fi
