"""What `rigcast validate --keep` has left in tests/validation: forecasts beside the runs that followed.

A machine is a folder with suite.toml, or one with several such folders; those called fit... hold the
runs that figures were fitted on.
"""
import csv
import io
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
    what: str
    regime: str
    counted: bool
    changed: float
    pairs: dict
    activities: list
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
    times: list  # rows of times.csv

    @property
    def has_gpu(self):
        return bool(self.rigs[0]["gpu"])

    @property
    def judged(self):
        return [r for r in self.runs if r.counted]


def own_bytes(device):
    return sum(device[k] for k in ("weights", "kv", "activations", "staging"))


def cliff_within(forecast):
    """Where speed is forecast to fall within the run, or None."""
    work = forecast["scenario"]["workload"]
    first = work["depth"] + work["prompt_tokens"]
    for cliff in forecast["cliffs"]:
        if cliff["axis"] == "position" and first < cliff["at_tokens"] <= first + work["output_tokens"]:
            return cliff["at_tokens"]
    return None


def pairs_of(forecast, measured):
    def pair(find, interval=None):
        try:
            predicted, real = find(forecast), find(measured)
        except (KeyError, TypeError):
            return None
        if not predicted or not real:
            return None
        bounds = forecast["interval"].get(interval) if interval else None
        return Pair(predicted, real, bounds[0] <= real <= bounds[1] if bounds else None)

    found = {
        "decode": pair(lambda r: r["decode"]["tokens_per_s"], "tokens_per_s"),
        "prefill": pair(lambda r: r["prefill_tokens_per_s"], "prefill_tokens_per_s"),
        "resident": pair(lambda r: r["ttft"]["resident"]["total_s"], "ttft_s"),
        "warm": pair(lambda r: r["ttft"]["warm"]["total_s"]),
        "cold": pair(lambda r: r["ttft"]["cold"]["total_s"]),
    }
    host = Pair(own_bytes(forecast["memory"][-1]), measured["memory"][-1]["total"])
    if len(forecast["memory"]) == 1:
        found["memory"] = host
    else:
        found["vram"] = Pair(own_bytes(forecast["memory"][0]), own_bytes(measured["memory"][0]))
        found["ram"] = host
    at, cliffs = cliff_within(forecast), measured["cliffs"]
    if at and cliffs:
        found["cliff"] = Pair(at, cliffs[0]["at_tokens"])
    return {key: value for key, value in found.items() if value and value.measured}


def replay(program, folder):
    done = subprocess.run([program, "validate", "--replay", folder, "--format", "csv"], cwd=ROOT,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} validate --replay {folder}: {done.stderr}")
    return list(csv.DictReader(io.StringIO(done.stdout)))


def read_suite(folder, program):
    suite = tomllib.loads((folder / "suite.toml").read_text())["run"]
    with open(folder / "times.csv", newline="") as file:
        times = {row["run"]: row for row in csv.DictReader(file)}
    now = defaultdict(list)
    for row in replay(program, folder):
        now[row["id"]].append(row)
    runs = []
    for i, entry in enumerate(suite, 1):
        name = entry["name"]
        if name not in times:
            continue
        part = lambda what: json.loads((folder / f"{i:02}.{what}.json").read_text())
        forecast, measured = part("forecast"), part("measured")
        own = now[name][0]
        runs.append(Run(name, own["what"], own["regime"], own["counted"] == "1",
                        float(times[name]["machine_changed"]), pairs_of(forecast, measured),
                        part("activities"), forecast, measured))
    return runs, list(times.values())


def suites_of(folder):
    return [folder] if (folder / "suite.toml").exists() else \
        sorted(p.parent for p in folder.glob("*/suite.toml"))


def read_machine(folder, program):
    rigs, runs, times = [], [], []
    for suite in suites_of(folder):
        rigs += [tomllib.loads(p.read_text()) for p in sorted(suite.glob("*.rig.toml"))]
        own_runs, own_times = read_suite(suite, program)
        runs += own_runs
        times += own_times
    return Machine(folder.name, rigs, runs, times)


def machines(program, runs=RUNS):
    """Those with a GPU first."""
    folders = [p for p in sorted(pathlib.Path(runs).iterdir())
               if not p.name.startswith("fit") and suites_of(p)]
    return sorted((read_machine(f, program) for f in folders), key=lambda m: not m.has_gpu)
