#!/usr/bin/env bash
# Fuzzes everything that is parsed, under sanitizers: installs clang where it is missing, builds the
# preset `fuzz` and runs every target for its share of the time, short inputs first.
#
#   scripts/fuzz.sh MINUTES [TARGET...]      targets: those of tests/fuzz/*_fuzz.cpp, without _fuzz
#
# What it learns stays in build/fuzz/corpus, for the next time; seeds are in tests/fuzz/corpus, an
# archive for each target, and in tests/data. Ends with 1 and names the input if one crashes, takes 5 s or 1.5 GB; with 0 otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=8:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}

# The longest input in bytes, for the first half of the time and for the second.
lengths_of() {
  case $1 in
    gguf) echo 400 6000 ;;
    toml | json | serving) echo 200 4000 ;;
    forward) echo 100 400 ;;
    *) echo 160 1000 ;;
  esac
}

# Prints the number of executed inputs; other output goes to the log.
run() { # TARGET SECONDS LENGTH LOG
  local target=$1 log=$4 folder options=() seeds=()
  [ ! -e "tests/fuzz/$target.dict" ] || options+=("-dict=tests/fuzz/$target.dict")
  [ "$target" != forward ] || options+=(-len_control=0) # short inputs change nothing of a model
  for folder in "build/fuzz/seeds/$target" "tests/data/$target"; do
    [ ! -d "$folder" ] || seeds+=("$folder")
  done
  "build/fuzz/tests/fuzz/${target}_fuzz" -max_total_time="$2" -max_len="$3" -timeout=5 \
    -rss_limit_mb=1500 -entropic=0 -reload=0 -print_final_stats=1 "${options[@]}" \
    -artifact_prefix="build/fuzz/findings/$target-" "build/fuzz/corpus/$target" \
    "${seeds[@]}" > "$log" 2>&1 < /dev/null || true
  sed -n 's/^stat::number_of_executed_units: *//p' "$log"
}

fuzz() { # TARGET SECONDS
  local target=$1 half=$((($2 + 1) / 2)) log=build/fuzz/logs/$1 executed=0 begun found length count
  begun=$(date +%s)
  mkdir -p "build/fuzz/corpus/$target" "build/fuzz/seeds/$target"
  tar -xzf "tests/fuzz/corpus/$target.tar.gz" -C "build/fuzz/seeds/$target"
  for length in $(lengths_of "$target"); do
    count=$(run "$target" "$half" "$length" "$log.$length.txt")
    [ -n "$count" ] || cp "$log.$length.txt" "build/fuzz/findings/$target-ended-early.txt"
    executed=$((executed + ${count:-0}))
  done
  found=$(find build/fuzz/findings -name "$target-*" -newer build/fuzz/begun | wc -l)
  printf '%-12s %12d %14d %9s %9d\n' "$target" "$executed" \
    $((executed / ($(date +%s) - begun + 1))) \
    "$(grep -o 'cov: [0-9]*' "$log.$length.txt" | tail -1 | cut -c6-)" "$found"
}

[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" && exit 2; }
minutes=$1
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" _fuzz.cpp)"); done
fi
scripts/setup.sh fuzz
cmake --build --preset fuzz
mkdir -p build/fuzz/findings build/fuzz/logs
touch build/fuzz/begun
printf '%-12s %12s %14s %9s %9s\n' target executions executions/s coverage findings
for target in "${targets[@]}"; do fuzz "$target" $((minutes * 60 / ${#targets[@]})); done

findings=$(find build/fuzz/findings -type f -newer build/fuzz/begun)
if [ -n "$findings" ]; then
  printf '\nwhat went wrong is in build/fuzz/logs; inputs:\n%s\n' "$findings"
  exit 1
fi
