"""Reader of tests/validation: forecasts and the runs that followed, by machine, as `rigcast validate
--keep` left them and `--pack` packed them.

A machine is a packed file, or a folder with several of them; names that begin with fit have the runs on
which figures were fitted.
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "tests" / "validation"
MIB = 2**20
PACKED = ".jsonl.gz"
BARS = RUNS / "bars.toml"
FIGURES = {"decode.tokens_per_s": "decode", "prefill_tokens_per_s": "prefill",
           "ttft.resident.total_s": "resident", "ttft.warm.total_s": "warm",
           "ttft.cold.total_s": "cold", "memory.0.total": "memory", "memory.vram": "vram",
           "memory.ram": "ram", "cliffs.0.at_tokens": "cliff"}


@dataclass
class Pair:
    predicted: float
    measured: float
    inside: bool | None = None

    @property
    def error(self):
        return self.predicted / self.measured - 1


@dataclass
class Run:
    name: str
    regime: str
    counted: bool
    pairs: dict
    forecast: dict
    measured: dict

    @property
    def scenario(self):
        return self.forecast["scenario"]


@dataclass
class Machine:
    name: str
    rigs: list  # as probed, of every run
    runs: list
    times: list  # of every run
    bars: list  # verdicts of `rigcast validate --bars` on forecasts as they were written
    activities: list  # errors by activity, of the same

    @property
    def has_gpu(self):
        return bool(self.rigs[0]["gpu"])

    @property
    def judged(self):
        return [r for r in self.runs if r.counted]


def validate(program, files):
    """Forecasts as they were written beside their runs, and held to the bars. Exit code 1: a bar is
    missed, which the document shows."""
    done = subprocess.run([program, "validate", "--as-written", "--bars", BARS, "--format", "json",
                           "--replay", *files], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{program} validate --replay {files}: {done.stderr}")
    return json.loads(done.stdout)


def kept_runs(file):
    """Lines of JSON after a header."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][1:]


def read_suite(kept, file, program):
    rows = defaultdict(dict)
    for row in validate(program, [file])["rows"]:
        rows[row["id"]][row["metric"]] = row
    runs = []
    for run in kept:
        if not run["times"]:
            continue
        own = rows[run["name"]]
        pairs = {key: Pair(own[m]["predicted"], own[m]["measured"], own[m]["inside"])
                 for m, key in FIGURES.items() if m in own}
        first = next(iter(own.values()))
        runs.append(Run(run["name"], first["regime"], first["counted"], pairs, run["forecast"],
                        run["measured"]))
    return runs


def stem_of(path):
    return path.name.removesuffix(PACKED)


def suites_of(path):
    return sorted(path.glob("*" + PACKED), key=stem_of) if path.is_dir() else \
        [path] if path.name.endswith(PACKED) else []


def read_machine(path, program):
    rigs, runs, times = [], [], []
    for suite in suites_of(path):
        kept = kept_runs(suite)
        rigs += [tomllib.loads(run["rig"]) for run in kept if run["rig"]]
        runs += read_suite(kept, suite, program)
        times += [{"run": run["name"], **run["times"]} for run in kept if run["times"]]
    whole = validate(program, suites_of(path))
    return Machine(stem_of(path), rigs, runs, times, whole["bars"], whole["activity_summary"])


def machines(program, runs=RUNS):
    """Those with a GPU first."""
    found = [p for p in sorted(pathlib.Path(runs).iterdir())
               if not p.name.startswith("fit") and suites_of(p)]
    return sorted((read_machine(p, program) for p in found), key=lambda m: not m.has_gpu)
