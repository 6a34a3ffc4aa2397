#!/usr/bin/env python3
"""Fits the rigcast profile's figures of CPUs, or of GPUs, on runs that `rigcast validate` has kept.

Usage: scripts/fit_engine.py [--gpu] [--runs FILE ...] [--build build/release] [--write]
Every run is forecast anew on the rig that was probed before it; the figures below move until speeds
and times by activity agree best. With --write they go into runtimes/rigcast.toml, and the runs'
configurations into its `fitted_on`: `rigcast validate` counts those in no summary.
"""
import argparse
import csv
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy
from scipy.optimize import least_squares

from validation_runs import kept_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROFILE = ROOT / "runtimes" / "rigcast.toml"
KEPT = ROOT / "tests" / "validation"
RUNS = [KEPT / "fit.jsonl.gz"]
GPU_RUNS = [KEPT / "fit-h200.jsonl.gz", KEPT / "fit-h200-studied" / "gpu-resident.jsonl.gz"]
SIMD = "avx512-vnni"

# Table, key, least, most. Figures start where the profile has them, and are held there by a weak
# preference: what no run tells stays as it is.
FIGURES = [
    ("cpu", "read", 0.95, 1.0),
    ("cpu", "unoverlapped_share", 0.001, 1),
    ("cpu", "one_token", 0.01, 4),
    ("cpu", "cache", 0.01, 4),
    ("cpu", "cache_element", 0.01, 100),
    ("cpu", "cache_element_quant", 0.01, 100),
    ("cpu", "kv_unoverlapped_share", 0.001, 1),
    ("cpu", "barrier_time", 0.01, 20),  # us
    ("cpu", "element", 0.001, 10),       # ns
    ("cpu", "attention", 0.01, 4),
    ("cpu", "score", 1, 5000),
    ("cpu", "half_rate_batch", 0.1, 1000),
    ("cpu.int8_share", SIMD, 0.05, 2),
    ("format.q8", "cpu", 0.05, 20),
    ("format.q8", "cpu_batch", 0.05, 20),
    ("format.q4", "cpu", 0.05, 20),
    ("format.q4", "cpu_batch", 0.05, 20),
    ("format.q5", "cpu", 0.05, 20),
    ("format.q5", "cpu_batch", 0.05, 20),
    ("format.q5_k", "cpu", 0.05, 20),
    ("format.q5_k", "cpu_batch", 0.05, 20),
    ("format.q6_k", "cpu", 0.05, 20),
    ("format.q6_k", "cpu_batch", 0.05, 20),
    ("format.float", "cpu", 0.05, 20),
    ("format.float", "cpu_batch", 0.01, 20),
]
GPU_FIGURES = [
    ("gpu.default", "read", 0.8, 1.0),
    ("gpu.default", "kv_read", 0.5, 1.0),
    ("gpu.default", "launch", 0.5, 10),
    ("gpu.default", "cycles", 0.001, 1),
    ("gpu.default", "gemm", 0.1, 1.3),
    ("gpu.default", "tiles", 0.02, 1),
    ("gpu.default", "attention", 0.01, 1),
    ("batch", "tile_half_rate_batch", 1, 1000),
    ("batch", "expand", 0.05, 1),
    ("batch", "experts", 0.05, 4),
    ("blocks", "token_idle", 0.01, 1),
    ("blocks", "launch", 0.5, 20),
    ("blocks", "tile_start", 0.1, 100),  # us
    ("blocks", "vector_bytes", 0.1, 100),
    ("blocks", "attention_key", 0.1, 1000),  # ns
    ("blocks", "attention_step", 0.01, 10),  # ns
    ("blocks", "quantized_cache", 0.05, 4),
    ("blocks", "quantized_start", 0.01, 100),  # us
    ("kernels", "moe", 1, 40),
    ("format.q8", "cycles", 0.01, 4),
    ("format.float", "cycles", 0.01, 4),
    ("decode", "stream_share", 0.8, 1.0),
    ("decode", "token", 1, 60),  # us
    ("decode", "kv_cycles", 0.0005, 0.5),
]
# Half of the runs are off by less than this, however good the model: what a machine with neighbours
# repeats to.
NOISE = 0.03
CALM = 0.1
PREFERENCE = 1.0  # a factor of e costs as much as one figure that is off by NOISE
METRICS = ["decode.tokens_per_s", "prefill_tokens_per_s", "activities.prefill.attention",
           "activities.prefill.ffn", "activities.decode.attention", "activities.decode.ffn",
           "activities.decode.head"]
# What a token takes of a traced GPU is not what it takes without marks.
GPU_METRICS = METRICS[:4] + ["activities.prefill.experts"]
UNITS = {"barrier_time": "us", "element": "ns", "attention_key": "ns", "attention_step": "ns",
         "token": "us", "tile_start": "us", "quantized_start": "us"}


def number_of(text):
    found = re.search(r'value = "?([0-9.e+-]+)', text) or re.match(r'"?([0-9.e+-]+)', text)
    return float(found.group(1))


class Profile:
    """The file's lines, of which some hold figures that move."""

    def __init__(self):
        self.lines = PROFILE.read_text().splitlines()
        self.places = {}
        table = ""
        for i, line in enumerate(self.lines):
            if heading := re.match(r"\[([^\[\]]+)\]$", line):
                table = heading.group(1)
            elif entry := re.match(r"([\w-]+) = (.*)$", line):
                self.places[table, entry.group(1)] = i

    def value(self, table, key):
        line = self.lines[self.places[table, key]]
        return number_of(line.split(" = ", 1)[1])

    def fitted_on(self):
        found = re.search(r"^fitted_on = \[\n(.*?)^\]", "\n".join(self.lines), re.S | re.M)
        return re.findall(r'"(.*)",', found.group(1)) if found else []

    def with_values(self, values, source=None):
        lines = list(self.lines)
        for (table, key, _, _), value in zip(figures, values):
            unit = UNITS.get(key)
            text = f'"{value:.3g} {unit}"' if unit else f"{value:.3g}"
            if source:
                text = f'{{ value = {text}, kind = "fitted", source = "{source}" }}'
            lines[self.places[table, key]] = f"{key} = {text}"
        return "\n".join(lines) + "\n"


class Replays:
    """Forecasts of the kept runs with a changed profile. Runs in which the machine itself changed
    tell nothing."""

    def __init__(self, program, runs, gpu):
        self.program, self.runs, self.gpu = program, runs, gpu
        self.calm = set()
        for file in runs:
            self.calm |= {run["name"] for run in kept_runs(file)
                          if run["times"] and run["times"]["machine_changed"] < CALM}

    def rows(self, profile_text):
        with tempfile.TemporaryDirectory() as data:
            data = pathlib.Path(data)
            for name in ("hwprofiles", "models"):
                (data / name).symlink_to(ROOT / name)
            shutil.copytree(ROOT / "runtimes", data / "runtimes",
                            ignore=shutil.ignore_patterns("measurements"))
            (data / "runtimes" / "rigcast.toml").write_text(profile_text)
            rows = []
            for folder in self.runs:
                done = subprocess.run(
                    [self.program, "validate", "--replay", folder, "--format", "csv"],
                    capture_output=True, text=True, env={**os.environ, "RIGCAST_DATA": str(data)})
                if done.returncode != 0:
                    sys.exit(f"{self.program}: {done.stderr}")
                rows += csv.DictReader(io.StringIO(done.stdout))
        return [r for r in rows if r["metric"] in metrics and r["id"] in self.calm
                and (not self.gpu or is_of_gpu(r))]


# What the host's memory or cores take part in says nothing of the GPU, nor of the link.
def is_of_gpu(row):
    if row["regime"] == "resident":
        return True
    return row["metric"] in METRICS[:2] and re.search(r"KV (stream|paged)", row["what"])


def errors(rows):
    return numpy.array([math.log(float(r["predicted"]) / float(r["measured"])) for r in rows])


# Shares of little time count little.
def weights(rows):
    longest = {}
    for r in rows:
        phase = r["metric"].rsplit(".", 1)[0]
        longest[r["id"], phase] = longest.get((r["id"], phase), 0) + float(r["measured"])
    def weight(r):
        if not r["metric"].startswith("activities."):
            return 1.0
        return math.sqrt(float(r["measured"]) / longest[r["id"], r["metric"].rsplit(".", 1)[0]])
    return numpy.array([weight(r) for r in rows])


def fit(profile, replays):
    start = numpy.array([profile.value(t, k) for t, k, _, _ in figures])
    low = numpy.log([f[2] for f in figures])
    high = numpy.log([f[3] for f in figures])
    start = numpy.clip(start, numpy.exp(low) * 1.0001, numpy.exp(high) * 0.9999)

    def residuals(x):
        rows = replays.rows(profile.with_values(numpy.exp(x)))
        own = errors(rows) * weights(rows) / NOISE
        return numpy.concatenate([own, (x - numpy.log(start)) / PREFERENCE])

    def jacobian(x):
        step = 0.02
        sides = [numpy.where(numpy.arange(len(x)) == i, -step if x[i] + step > high[i] else step, 0)
                 for i in range(len(x))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            base, *moved = pool.map(residuals, [x] + [x + s for s in sides])
        return numpy.stack([(m - base) / s.sum() for m, s in zip(moved, sides)], axis=1)

    found = least_squares(residuals, numpy.log(start), jac=jacobian, bounds=(low, high),
                          loss="soft_l1", x_scale=1.0, ftol=1e-4, xtol=1e-3, max_nfev=25, verbose=1)
    return numpy.exp(found.x)


def configurations(rows):
    return sorted({r["what"] for r in rows})


def date_of(runs):
    return next(r["times"]["run_started"] for r in kept_runs(runs) if r["times"])[:10]


def write(profile, values, rows, runs, gpu):
    files = [pathlib.Path(r).resolve() for r in runs]
    places = " and ".join(str(f.relative_to(ROOT)) if f.is_relative_to(ROOT) else f.name
                          for f in files)
    source = f"scripts/fit_engine.py on {places} of {date_of(files[0])}"
    text = profile.with_values(values, source)
    others = [n for n in profile.fitted_on() if ("GPU" in n) != gpu]
    names = "".join(f"  {json.dumps(n)},\n" for n in sorted({*others, *configurations(rows)}))
    entry = f"fitted_on = [\n{names}]\n"
    text, replaced = re.subn(r"fitted_on = \[\n.*?\]\n", lambda _: entry, text, flags=re.S)
    if not replaced:
        text = text.replace("kv_policies = ", entry + "kv_policies = ", 1)
    PROFILE.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--runs", action="append")
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    global figures, metrics
    figures, metrics = (GPU_FIGURES, GPU_METRICS) if options.gpu else (FIGURES, METRICS)
    options.runs = options.runs or [str(r) for r in (GPU_RUNS if options.gpu else RUNS)]
    profile = Profile()
    replays = Replays(str(pathlib.Path(options.build) / "rigcast"), options.runs, options.gpu)
    values = fit(profile, replays)
    rows = replays.rows(profile.with_values(values))
    for (table, key, _, _), value in zip(figures, values):
        print(f"{table + '.' + key:32} {profile.value(table, key):10.4g} -> {value:10.4g}")
    for metric in metrics:
        own = [abs(math.expm1(e)) for r, e in zip(rows, errors(rows)) if r["metric"] == metric]
        if own:
            print(f"{metric:32} median {100 * numpy.median(own):5.1f} %  worst {100 * max(own):5.1f} %")
    for r, e in sorted(zip(rows, errors(rows)), key=lambda p: -abs(p[1]))[:12]:
        print(f"  {r['id']:34} {r['metric']:30} {100 * math.expm1(e):+6.1f} %")
    if options.write:
        write(profile, values, rows, options.runs, options.gpu)


if __name__ == "__main__":
    main()
