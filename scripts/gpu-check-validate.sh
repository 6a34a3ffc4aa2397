#!/usr/bin/env bash
# Probes this machine twice, or forecasts and runs one suite of examples/suites; what it leaves is raw
# runs, for tests/validation.
#
#   scripts/gpu-check-validate.sh PROGRAM probes|SUITE OUT SCRATCH
#
# SECONDS_LEFT (540): how long it may take in all. A suite that is not over then, or in which a run
# ended the program, goes on where it was when it is called again with the same KEPT (OUT, if unset).
set -uo pipefail

program=$1 part=$2 out=$3 scratch=$4
limit=${SECONDS_LEFT:-540}
kept=${KEPT:-$out}
mkdir -p "$scratch"

probes() {
  local i
  for i in 1 2; do
    "$program" probe -o "$out/probe-$i.toml" --scratch "$scratch" > "$out/probe-$i.txt" 2>&1 ||
      { cat "$out/probe-$i.txt" && return 1; }
  done
  sed -n '1,60p' "$out/probe-2.txt"
  "$(dirname "$0")/probes_agree.py" "$out/probe-1.toml" "$out/probe-2.toml"
}

# The program's own libraries are not for the Python that it runs.
python=()
if [ "$part" = transformers ]; then
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec python3 "$@"\n' "${LIBRARY_PATH_BEFORE:-}" \
    > "$scratch/python3"
  chmod +x "$scratch/python3"
  python=(--python "$scratch/python3")
fi

# What runs llama.cpp was packed beside the program.
libraries= llama_cpp=()
case $part in
  llama-cpp-gpu-*) libraries=cuda ;;
  llama-cpp-*) libraries=cpu ;;
esac
[ -z "$libraries" ] || llama_cpp=(--runtime llama.cpp --llama-bench
  "$(dirname "$program")/llama.cpp-$libraries/llama-bench")

# A try of a run, with its weights, in seconds: llama.cpp runs many of one file together.
per_run=90
[ -z "$libraries" ] || per_run=300

# Exit code 3: a run ended the program, or the time was over; the suite continues with the others. 0
# or 1: all runs were tried.
suite() {
  local code=3 left calls
  for calls in 1 2 3 4 5; do
    left=$((limit - SECONDS))
    [ $left -gt 30 ] || break
    code=0
    timeout -s INT -k 20 $left "$program" validate --suite "$part" --keep "$kept/$part" --resume \
      --scratch "$scratch" "${python[@]}" "${llama_cpp[@]}" --repeat 2 --time-limit $per_run \
      > "$out/$part.txt" 2> "$out/$part.err" ||
      code=$?
    cat "$out/$part.err"
    [ $code = 3 ] || [ $code -gt 123 ] || break
  done
  grep -A 200 -E '^  decode .*median|^  nothing is counted' "$out/$part.txt"
  echo "$part: $(find "$kept/$part" -name '*.measured.json' | wc -l) runs in $SECONDS s"
  return $code
}

if [ "$part" = probes ]; then probes; else suite; fi
