#!/usr/bin/env python3
"""What one model's run on a machine cannot say of another model: kOtherModels of perfmodel/cost/correction.hpp.

Of every machine, regime and source in what `rigcast calibrate` left, each row corrects each row of
another model as `rigcast calibrate --own` would. Forecasts saw no row of the chip; machines weigh
alike.
"""
import collections
import csv
import math

import left_out

NORMAL_80, RUN_NOISE = 1.2816, 0.05  # as in perfmodel/cost/correction.hpp


def quantile(weighted, share):
    weighted = sorted(weighted)
    wanted, reached = share * sum(w for _, w in weighted), 0.0
    for value, weight in weighted:
        reached += weight
        if reached >= wanted:
            return value
    return weighted[-1][0]


def rows_by_machine(metric):
    with left_out.MEASUREMENTS.open(encoding="utf-8", newline="") as file:
        source = {row["id"]: row["source"] for row in csv.DictReader(file)}
    machines = collections.defaultdict(list)
    with left_out.LEFT_OUT.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == metric:
                error = math.log(float(row["measured"]) / float(row["left_out"]))
                machines[row["rig"], row["regime"], source.get(row["id"])].append(
                    (error, row["model"]))
    return machines


def main():
    for metric, kind in left_out.METRICS.items():
        machines = rows_by_machine(metric).values()
        prior = (quantile([(abs(e), 1 / len(m)) for m in machines for e, _ in m], 0.8)
                 / NORMAL_80) ** 2
        weight = prior / (prior + RUN_NOISE**2)
        before, after, used = [], [], 0
        for machine in machines:
            pairs = [(a, b) for a, of in machine for b, other in machine if of != other]
            used += bool(pairs)
            before += [(abs(b), 1 / len(pairs)) for _, b in pairs]
            after += [(abs(b - weight * a), 1 / len(pairs)) for a, b in pairs]
        known = 1 / (1 / prior + 1 / RUN_NOISE**2)
        rest = (quantile(after, 0.8) / NORMAL_80) ** 2 - known
        print(f"{kind}: {used} machines with several models; median |log error| "
              f"{quantile(before, 0.5):.3f} -> {quantile(after, 0.5):.3f}, four of five within "
              f"{quantile(before, 0.8):.3f} -> {quantile(after, 0.8):.3f}; "
              f"other models {math.sqrt(max(0.0, rest)):.3f}")


if __name__ == "__main__":
    main()
