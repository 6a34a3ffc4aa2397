#!/usr/bin/env bash
# Clients that others wrote, against `rigcast serve`: OpenAI's own library and the load generator
# autocannon, both from npm. Needs node 20 or later.
#
#   scripts/serve-clients.sh URL MODEL [API_KEY]      URL: http://127.0.0.1:8080
#
# Fetches both into a folder of the cache, once. Ends with 77 where they cannot be fetched, and with 1
# where one of them does not get what it should.
set -euo pipefail
sources=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 2; }
url=$1 model=$2 key=${3:-none}
packages=(openai@7.59.0 autocannon@9.0.0)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rigcast/serve-clients-1

skip() { echo "skipped: no npm clients: $1" && exit 77; }
command -v node > /dev/null && command -v npm > /dev/null || skip "node and npm are missing"
if [ ! -d "$folder" ]; then
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && echo '{"private": true}' > package.json &&
    npm install --silent --no-audit --no-fund --ignore-scripts --fetch-retries 1 "${packages[@]}" > log 2>&1) ||
    skip "${packages[*]} cannot be fetched"
  cp "$sources"/tests/peers/serve_clients/*.mjs "$work"
  mv "$work" "$folder" # whole or not at all
fi
cp "$sources"/tests/peers/serve_clients/*.mjs "$folder"
cd "$folder"
node openai.mjs "$url" "$model" "$key"
node load.mjs "$url" "$model" "$key"
