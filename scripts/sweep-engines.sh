#!/usr/bin/env bash
# Sweeps run by the engines that people have: the scripts of rigcast sweep --emit under GNU parallel,
# Snakemake and a Slurm of one node. Two shards are killed and run again, and all are merged: the bytes
# must be those of the sweep in one piece.
#
#   scripts/sweep-engines.sh [--program FILE] [--combinations N] [--shards N] [--fetch] [ENGINE...]
#
# ENGINE: parallel, snakemake, slurm; default: all. --fetch installs them from Debian's packages (needs root).
# Slurm runs with a configuration of its own in a temporary folder, and is stopped at the end.
# Ends with 77 if nothing failed and an engine could not run here, which it says.
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/release/rigcast combinations=4000 shards=8 fetch=0 engines=()
while (($#)); do
  case $1 in
    --program) program=$2 && shift 2 ;;
    --combinations) combinations=$2 && shift 2 ;;
    --shards) shards=$2 && shift 2 ;;
    --fetch) fetch=1 && shift ;;
    parallel | snakemake | slurm) engines+=("$1") && shift ;;
    *) echo "sweep-engines.sh: what is $1?" >&2 && exit 2 ;;
  esac
done
((${#engines[@]})) || engines=(parallel snakemake slurm)
program=$(realpath "$program")
folder=$(mktemp -d /tmp/rigcast-sweeps-XXXXXX)
daemons=() skipped=0
cleanup() {
  local pid
  for pid in "${daemons[@]}"; do kill "$pid" 2> /dev/null || true; done
  for pid in "${daemons[@]}"; do wait "$pid" || true; done
  rm -rf "$folder"
}
trap cleanup EXIT
export PATH=$(dirname "$program"):$PATH XDG_DATA_HOME=$folder/no-own-data

((!fetch)) || {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    parallel snakemake slurmctld slurmd slurm-client munge > /dev/null
}

skip() { # WHAT
  echo "sweep-engines.sh: SKIPPED: $1" >&2
  skipped=1
}

# Two keys, the combinations of the larger one; small pieces.
sweep() { # FLAG...
  rigcast sweep --gpu rtx-3060-12gb --model llama-3.2-1b --set model.quant=Q4_K_M,Q8_0 \
    --set "workload.depth=0..$((combinations / 2 - 1))" "$@"
}

# Kills the processes of a shard that has kept some work, all of which have our folder's name. The
# engine chooses which of them runs first. Prints its number.
kill_shard() { # NOT_THIS
  local i part shard
  for ((i = 0; i < 3000; ++i)); do
    for part in "$folder"/out.?*.csv.part; do
      shard=${part#"$folder"/out.} && shard=${shard%.csv.part}
      [ "$shard" != "${1:-}" ] && [ -e "$part" ] && (($(stat -c %s "$part") > 300)) &&
        pkill -KILL -f -- "--shard $shard/$shards .*-o $folder/out.$shard.csv" && echo "$shard" && return
    done
    sleep 0.01
  done
  echo "sweep-engines.sh: all shards ended before one was killed: more --combinations" >&2
  return 1
}

kill_two() { # prints both numbers, in order
  local first second
  first=$(kill_shard) && second=$(kill_shard "$first") && printf '%s\n' "$first" "$second" | sort -n
}

check() { # ENGINE
  rigcast sweep --merge "$folder"/out.?*.csv -o "$folder/merged.csv"
  cmp "$folder/whole.csv" "$folder/merged.csv"
  echo "$1: $combinations combinations in $shards shards, two killed and run again: the $(
    wc -c < "$folder/merged.csv") bytes of one piece"
  rm -f "$folder"/out.* "$folder/merged.csv"
}

run_parallel() {
  command -v parallel > /dev/null || { skip "GNU parallel is not installed (--fetch)" && return; }
  sweep --emit parallel --shards "$shards" -o "$folder/out.csv" > "$folder/parallel.sh"
  bash "$folder/parallel.sh" 2> "$folder/parallel.log" &
  local job=$!
  kill_two > /dev/null
  if wait "$job"; then echo "parallel: a killed shard went unnoticed" >&2 && return 1; fi
  bash "$folder/parallel.sh"
  cmp "$folder/whole.csv" "$folder/out.csv" # it merges by itself
  rm "$folder/out.csv"
  check parallel
}

run_snakemake() {
  command -v snakemake > /dev/null || { skip "Snakemake is not installed (--fetch)" && return; }
  local make=(snakemake -s "$folder/Snakefile" -d "$folder" --cores all --quiet --keep-going)
  sweep --emit snakemake --shards "$shards" -o "$folder/out.csv" > "$folder/Snakefile"
  "${make[@]}" > "$folder/snakemake.log" 2>&1 &
  local job=$!
  kill_two > /dev/null
  if wait "$job"; then echo "snakemake: a killed shard went unnoticed" >&2 && return 1; fi
  "${make[@]}" > "$folder/snakemake.log" 2>&1 || { cat "$folder/snakemake.log" >&2 && return 1; }
  cmp "$folder/whole.csv" "$folder/out.csv"
  rm "$folder/out.csv"
  check snakemake
}

# A Slurm of this node alone, as the user who runs this.
start_slurm() {
  local s=$folder/slurm host
  host=$(hostname -s)
  mkdir -p "$s/state" "$s/spool"
  dd if=/dev/urandom of="$s/munge.key" bs=1024 count=1 status=none
  chmod 700 "$s" && chmod 600 "$s/munge.key"
  munged --foreground --force --key-file="$s/munge.key" --socket="$s/munge.socket" \
    --pid-file="$s/munge.pid" --log-file="$s/munge.log" --seed-file="$s/munge.seed" \
    2> "$s/munge.err" &
  daemons+=($!)
  cat > "$s/slurm.conf" << CONF
ClusterName=rigcast
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$s/munge.socket
StateSaveLocation=$s/state
SlurmdSpoolDir=$s/spool
SlurmctldPidFile=$s/slurmctld.pid
SlurmdPidFile=$s/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF=$s/slurm.conf
  slurmctld -D > "$s/slurmctld.out" 2>&1 &
  daemons+=($!)
  slurmd -D > "$s/slurmd.out" 2>&1 &
  daemons+=($!)
  local i
  for ((i = 0; i < 60; ++i)); do
    [ "$(sinfo -h -o %T 2> /dev/null)" = idle ] && return
    sleep 0.5
  done
  tail -n 5 "$s"/munge.err "$s"/slurmctld.out "$s"/slurmd.out >&2
  return 1
}

run_slurm() {
  local tool job killed
  for tool in munged slurmctld slurmd sbatch; do
    PATH=$PATH:/usr/sbin command -v $tool > /dev/null ||
      { skip "Slurm: $tool is not installed (--fetch)" && return; }
  done
  PATH=$PATH:/usr/sbin
  start_slurm || { skip "Slurm does not start here" && return; }
  sweep --emit slurm --shards "$shards" --jobs 1 -o "$folder/out.csv" > "$folder/slurm.sh"
  local log=$folder/slurm/%a.log
  job=$(sbatch --parsable --output="$log" "$folder/slurm.sh")
  mapfile -t killed < <(kill_two)
  await "$job"
  if rigcast sweep --merge "$folder"/out.?*.csv > /dev/null 2> "$folder/refused"; then
    echo "slurm: killed shards went unnoticed" >&2 && return 1
  fi
  grep -q "2 of $shards shards are missing: ${killed[0]}/$shards, ${killed[1]}/$shards" "$folder/refused"
  job=$(sbatch --parsable --output="$log" --array="${killed[0]},${killed[1]}" "$folder/slurm.sh")
  await "$job"
  check slurm
}

await() { # JOB
  while [ -n "$(squeue -h -j "$1" 2> /dev/null)" ]; do sleep 0.2; done
}

sweep -o "$folder/whole.csv"
for engine in "${engines[@]}"; do "run_$engine"; done
exit $((skipped ? 77 : 0))
