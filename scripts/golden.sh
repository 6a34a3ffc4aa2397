#!/usr/bin/env bash
# Shows what a change does to forecasts: runs every command of tests/golden/commands.txt with the
# program of a commit and with the one that is built here, and compares what they print byte by byte.
#
#   scripts/golden.sh COMMIT [PROGRAM]      (default: build/release/rigcast)
#
# The commit's program, tree and answers are kept in build/golden, where they are made once. Line N
# asks the same of both trees: new commands are appended, one whose files have moved is rewritten where
# it stands, and a line that begins with # asks nothing. Ends with 1 if an answer differs; build/golden/changes.diff says how.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 2; }
commit=$(git rev-parse --short=10 "$1^{commit}")
program=$(realpath "${2:-build/release/rigcast}")
golden=$PWD/build/golden
mkdir -p "$golden"

# An answer is a file with exit code, standard output and standard error.
answer() { # COMMAND, quoted as for a shell
  local number=${1%% *} command=${1#* } file status=0
  file=$ANSWERS/$number.txt
  eval "$PROGRAM $command" > "$file" 2> "$file.err" < /dev/null || status=$?
  { echo "exit $status" && cat "$file.err"; } >> "$file"
  sed -i "s#$PWD#TREE#g" "$file"  # trees lie in folders of their own
  rm "$file.err"
}
export -f answer

answer_all() { # TREE PROGRAM FOLDER
  rm -rf "$3" "$3.unfinished"
  mkdir "$3.unfinished"
  (cd "$1" && export PROGRAM=$2 ANSWERS=$3.unfinished &&
    awk '!/^#/ { printf "%04d %s\n", NR, $0 }' tests/golden/commands.txt |
    tr '\n' '\0' | xargs -0 -P "$(nproc)" -I{} bash -c 'answer "$1"' golden {})
  mv "$3.unfinished" "$3"
}

# Commits before the list of commands are asked today's commands.
build_commit() { # TREE
  git worktree prune
  [ -d "$1" ] || git worktree add --detach --quiet "$1" "$commit"
  [ -e "$1/tests/golden/commands.txt" ] ||
    { mkdir -p "$1/tests/golden" && cp tests/golden/commands.txt "$1/tests/golden/"; }
  (cd "$1" && cmake --preset release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target rigcast)
}

before=$golden/$commit
if [ ! -d "$before.answers" ]; then
  build_commit "$before.tree" > "$before.log" 2>&1 || { tail -20 "$before.log" >&2 && exit 3; }
  answer_all "$before.tree" "$before.tree/build/release/rigcast" "$before.answers"
fi
answer_all "$PWD" "$program" "$golden/now.answers"
# Commands that are no longer asked have answers of the commit alone.
unasked=$(awk '/^#/ { printf "-x %04d.txt ", NR }' tests/golden/commands.txt)
if diff -ru $unasked "$before.answers" "$golden/now.answers" > "$golden/changes.diff"; then
  echo "all $(wc -l < tests/golden/commands.txt) answers are those of $commit, byte by byte"
else
  changed=$(grep -c '^diff ' "$golden/changes.diff" || true)
  echo "$changed of $(wc -l < tests/golden/commands.txt) answers differ from those of $commit:"
  sed -n 's/^diff .*now.answers\/\([0-9]*\).txt$/\1/p' "$golden/changes.diff" | head -20 |
    while read -r n; do sed -n "$((10#$n))s/^/  $n  /p" tests/golden/commands.txt; done
  echo "  build/golden/changes.diff"
  exit 1
fi
