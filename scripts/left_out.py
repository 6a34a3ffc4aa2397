"""Reader of <profile>.left-out.csv, which `rigcast calibrate` writes, and statistics of its errors.

Shared by accuracy.py, which writes docs/accuracy.md, and accuracy_guard.py, a test.
"""
import csv
import math
import pathlib
import tomllib
from collections import Counter
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASUREMENTS = ROOT / "runtimes" / "measurements" / "benchmarks.csv"
LEFT_OUT = ROOT / "runtimes" / "fitted" / "llama.cpp.left-out.csv"
CALIBRATE = "rigcast calibrate --against runtimes/measurements/benchmarks.csv"

METRICS = {"tg_tps": "decode", "pp_tps": "prefill"}
REGIMES = ["CPU only", "unified memory", "KV in RAM", "experts in RAM", "layer split",
           "several GPUs", "resident"]  # as core/scenario/regime.cpp names them
TAIL = 0.10  # on either side of an 80 % interval
BEYOND = 0.5  # chips: the next one may lie outside those seen, either way
ROUNDING = 1e-12  # sums of weights that should be equal differ in their last bits
ENOUGH_CHIPS = 8  # for a bar to apply


@dataclass(frozen=True)
class Row:
    """A measured figure and its forecasts in the metric's unit."""
    id: str
    chip: str
    rig: str
    model: str
    quant: str
    regime: str
    deep: bool
    quantized_kv: bool
    ram_known: bool
    metric: str
    measured: float
    fitted: float
    left_out: float


@dataclass(frozen=True)
class Bar:
    """How far off forecasts of one kind may be, as shares of what was measured."""
    name: str
    metric: str
    median: float
    p90: float
    regimes: tuple = ()  # none: every one
    deep: bool = False
    ram_known: bool = False

    def rows(self, rows):
        return [r for r in rows if r.metric == self.metric
                and (not self.regimes or r.regime in self.regimes)
                and (r.deep or not self.deep) and (r.ram_known or not self.ram_known)]


with open(ROOT / "tests" / "validation" / "bars.toml", "rb") as bars:
    BARS = [Bar(**bar) for bar in tomllib.load(bars)["left_out"]]


def read_rows(path):
    def row(r):
        return Row(r["id"], r["chip"], r["rig"], r["model"], r["quant"], r["regime"],
                   r["deep"] == "1", r["quantized_kv"] == "1", r["ram_known"] == "1", r["metric"],
                   float(r["measured"]), float(r["fitted"]), float(r["left_out"]))

    with open(path, newline="", encoding="utf-8") as file:
        return [row(r) for r in csv.DictReader(file)]


def read_usable(path):
    """Decode and prefill rows of the measurements that are not marked as doubtful, by id."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {r["id"]: r for r in rows if r["metric"] in METRICS
            and not any(mark in r["notes"] for mark in ("SUSPECT", "CAUTION"))}


def chip_weights(rows):
    """Chips count alike, however many rows they have."""
    count = Counter(r.chip for r in rows)
    return [1 / count[r.chip] for r in rows]


def row_weights(rows):
    return [1.0] * len(rows)


def quantile(values, weights, share, beyond=0.0):
    """The smallest value that at least `share` of the weight does not exceed.

    beyond: weight that is thought to lie outside the values, on either side."""
    ordered = sorted(zip(values, weights))
    wanted = share * (sum(w for _, w in ordered) + 2 * beyond) * (1 - ROUNDING)
    reached = beyond
    for value, weight in ordered:
        reached += weight
        if reached >= wanted:
            return value
    return ordered[-1][0]


def errors(rows, forecasts):
    return [abs(f / r.measured - 1) for r, f in zip(rows, forecasts)]


def median_and_p90(rows, forecasts, weigh=chip_weights):
    sizes, weights = errors(rows, forecasts), weigh(rows)
    return quantile(sizes, weights, 0.5), quantile(sizes, weights, 0.9)


def bias(rows):
    weights = chip_weights(rows)
    return sum(w * (r.left_out / r.measured - 1) for r, w in zip(rows, weights)) / sum(weights)


def share_inside(rows):
    """Of the 80 % interval that the errors of the group's other chips give; None: no other chip."""
    ratio = [math.log(r.measured / r.left_out) for r in rows]
    weights = chip_weights(rows)
    chips = {r.chip for r in rows}
    if len(chips) < 2:
        return None
    inside = 0.0
    for chip in sorted(chips):
        others = [i for i, r in enumerate(rows) if r.chip != chip]
        values, of = [ratio[i] for i in others], [weights[i] for i in others]
        low = quantile(values, of, TAIL, BEYOND)
        high = quantile(values, of, 1 - TAIL, BEYOND)
        inside += sum(weights[i] for i, r in enumerate(rows)
                      if r.chip == chip and low <= ratio[i] <= high)
    return inside / len(chips)


def chips(rows):
    return len({r.chip for r in rows})
