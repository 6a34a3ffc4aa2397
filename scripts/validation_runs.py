"""Reader of tests/validation: forecasts and the runs that followed, by machine, as `rigcast validate
--keep` left them and `--pack` packed them.

A machine is a packed file, or a folder with several of them; names that begin with fit have the runs on
which figures were fitted, those that begin with transformers have runs of that runtime, which
docs/scenarios.md shows.
"""
import gzip
import json
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field

from layout import ROOT, json_of

RUNS = ROOT / "tests" / "validation"
PACKED = ".jsonl.gz"
FIGURES = {"decode.tokens_per_s": "decode", "prefill_tokens_per_s": "prefill",
           "ttft.resident.total_s": "resident", "ttft.warm.total_s": "warm",
           "ttft.cold.total_s": "cold", "memory.0.total": "memory", "memory.vram": "vram",
           "memory.ram": "ram", "cliffs.0.at_tokens": "cliff",
           "serving.ttft_s.p50": "ttft50", "serving.ttft_s.p95": "ttft95",
           "serving.tpot_s.p50": "tpot50", "serving.tpot_s.p95": "tpot95",
           "serving.requests_per_s": "served",
           "paging.disk_bytes_per_token": "disk", "paging.swap_bytes_per_token": "swap"}


@dataclass
class Run:
    name: str
    regime: str
    counted: bool
    figures: dict  # by a name of FIGURES: "predicted", "measured" and "error" of the program
    forecast: dict
    measured: dict

    @property
    def scenario(self):
        return self.forecast["scenario"]

    @property
    def is_load(self):
        return bool(self.forecast.get("serving"))

    @property
    def kind(self):
        if self.is_load:
            return "loads"
        return "pressed" if self.forecast.get("paging") else "alone"


@dataclass
class Machine:
    name: str
    judged: dict  # the program's verdicts of bars, and errors by activity, on all runs
    rigs: list = field(default_factory=list)  # as probed, of every run
    runs: list = field(default_factory=list)
    times: list = field(default_factory=list)  # of every run

    @property
    def has_gpu(self):
        return bool(self.rigs[0]["gpu"])

    @property
    def counted(self):
        return [r for r in self.runs if r.counted]


def validate(program, files):
    """Forecasts as they were written beside their runs, and held to the bars."""
    return json_of(program, "validate", "--as-written", "--bars", RUNS / "bars.toml", "--format",
                   "json", "--replay", *files)


def runs_of(kept, rows):
    figures = defaultdict(dict)
    for row in rows:
        if row["metric"] in FIGURES:
            figures[row["id"]][FIGURES[row["metric"]]] = row
    first = {row["id"]: row for row in reversed(rows)}
    return [Run(k["name"], first[k["name"]]["regime"], first[k["name"]]["counted"],
                figures[k["name"]], k["forecast"], k["measured"]) for k in kept if k["times"]]


def suites_of(path):
    if path.is_dir():
        return sorted(path.glob("*" + PACKED), key=lambda p: p.name.removesuffix(PACKED))
    return [path] if path.name.endswith(PACKED) else []


def read_machine(path, program):
    machine = Machine(path.name.removesuffix(PACKED), validate(program, suites_of(path)))
    for suite in suites_of(path):
        with gzip.open(suite, "rt", encoding="utf-8") as lines:
            kept = [json.loads(line) for line in lines][1:]  # after a header
        machine.rigs += [tomllib.loads(k["rig"]) for k in kept if k["rig"]]
        machine.runs += runs_of(kept, validate(program, [suite])["rows"])
        machine.times += [{"run": k["name"], **k["times"]} for k in kept if k["times"]]
    return machine


def machines(program, runs=RUNS):
    """Those with a GPU first."""
    found = [p for p in sorted(runs.iterdir())
             if not p.name.startswith(("fit", "transformers")) and suites_of(p)]
    return sorted((read_machine(p, program) for p in found), key=lambda m: not m.has_gpu)
