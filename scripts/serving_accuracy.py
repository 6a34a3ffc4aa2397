"""Errors of forecasts of servers under load, by engine and chip: a table of docs/accuracy.md."""
import csv
import tempfile
from collections import defaultdict

from layout import ROOT, json_of, table

LOADS = ROOT / "runtimes" / "measurements" / "serving" / "serving.csv"
LEFT_OUT = ROOT / "runtimes" / "fitted" / "vllm.left-out.csv"
# Allowed medians and 90th percentiles, of chips that the fit has seen and of others.
METRICS = {"output_tps": ("tokens/s", (0.04, 0.10), (0.08, 0.20)),
           "tpot_p50_s": ("TPOT p50", (0.04, 0.10), (0.08, 0.20)),
           "tpot_p99_s": ("TPOT p99", (0.08, 0.20), (0.15, 0.35)),
           "ttft_p50_s": ("TTFT p50", (0.10, 0.25), (0.15, 0.40)),
           "ttft_p99_s": ("TTFT p99", (0.15, 0.35), (0.20, 0.45)),
           "kv_tokens": ("KV tokens", (0.02, 0.05), (0.03, 0.08))}
# Names of the catalogue, of GPUs that the measurements call otherwise.
CHIPS = {"Radeon AI PRO R9700": "radeon-ai-pro-r9700-32gb", "RTX 3090": "rtx-3090", "RTX 4090": "rtx-4090",
         "RTX 5090": "rtx-5090"}
# Sequences in lockstep have no arrivals: their tokens/s are those of a busy server.
ALIASES = {"tg_tps": "output_tps"}
# Arrivals of which a server computes as much as it can.
BUSY = ("closed", "all at once", "lockstep")


def nearest_rank(errors, share):
    return sorted(errors)[max(0, -(-len(errors) * share // 100) - 1)]


def cell(errors, bar):
    if not errors:
        return ""
    figures = []
    for share, allowed in zip((50, 90), bar):
        error = nearest_rank(errors, share)
        text = f"{100 * error:.0f}"
        figures.append(f"**{text}**" if error > allowed else text)
    return " / ".join(figures)


def lines_of(groups, bar_of):
    """A line for each engine and chip: how many runs, then every metric."""
    lines = []
    for (engine, chip), errors in sorted(groups.items()):
        runs = max(len(of_metric) for of_metric in errors.values())
        lines.append([engine, chip, runs, *(cell(errors.get(metric), bar_of(engine, bars))
                                            for metric, (_, *bars) in METRICS.items())])
    return lines


def measured():
    with LOADS.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def states_cache(run):
    """One run of each server whose log tells the tokens of its KV cache."""
    return "KV capacity" in run["settings"] and run["request_rate"] == "1.0"


def forecasts(build, runs):
    """What `rigcast validate` says of these runs."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(runs[0]))
        writer.writeheader()
        writer.writerows(runs)
        file.flush()
        return json_of(build / "rigcast", "validate", "--against", file.name, "--format", "json")


def errors_of_others(build, groups):
    """Of engines to which nothing is fitted, and of the tokens of vLLM's cache."""
    runs = measured()
    chosen = [run for run in runs.values() if run["engine"] != "vllm" or states_cache(run)]
    for row in forecasts(build, chosen)["rows"]:
        run = runs[row["id"]]
        metric = ALIASES.get(row["metric"], row["metric"])
        is_idle = metric == "output_tps" and run["arrival"] not in BUSY
        of_others = run["engine"] != "vllm" and not is_idle
        if row["counted"] and metric in METRICS and (of_others or metric == "kv_tokens"):
            groups[run["engine"], chip_of(run["gpu"])][metric].append(abs(row["error"]))


def chip_of(gpu):
    return CHIPS.get(gpu, gpu)


def fitted_errors(column):
    """Of vLLM's profile as it is shipped ("error"), or fitted without the chip ("left_out_error")."""
    groups = defaultdict(lambda: defaultdict(list))
    with LEFT_OUT.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] in METRICS:
                groups["vllm", row["chip"]][row["metric"]].append(abs(float(row[column])))
    return groups


def serving_tables(build):
    header = ["engine", "GPU", "runs", *(name for name, *_ in METRICS.values())]
    shipped = fitted_errors("error")
    errors_of_others(build, shipped)
    shipped = lines_of(shipped, lambda engine, bars: bars[0 if engine == "vllm" else 1])
    unseen = lines_of(fitted_errors("left_out_error"), lambda engine, bars: bars[1])
    return {"serving": table(header, shipped, right=range(2, 9)),
            "serving_left_out": table(header, unseen, right=range(2, 9))}
