#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the tables of docs/performance_nccl.md against the measurements from which they were written: each result
# stands there, as often as it was measured, and no other.

import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows(measured):
    for r in measured["results"]:
        spread = f"{r['ratioLow']:.2f} to {r['ratioHigh']:.2f}"
        if r["link"].startswith("host_chunks_"):
            chunks = r["link"].removeprefix("host_chunks_")
            yield f"| {r['collective']} | {chunks} | {r['oursUs']:.0f} | {r['ratio']:.2f} |"
        else:
            data = f"{r['datatype']} `{r['data']}`"
            times = f"{r['nativeUs']:.0f} | {r['oursUs']:.0f}"
            yield f"| {r['collective']} | {data} | {r['megabytes']} | {times} | {r['ratio']:.2f} | {spread} |"
    for t in measured["training"]:
        ratio = t["nativeMs"] / t["oursMs"]
        yield f"| {t['program']} | {t['strategy']} | {t['nativeMs']:.2f} | {t['oursMs']:.2f} | {ratio:.2f} |"


def main():
    measured = json.loads((ROOT / "docs/measurements/nccl_collectives_h200.json").read_text())
    document = (ROOT / "docs/performance_nccl.md").read_text()
    wanted = collections.Counter(rows(measured))
    table = [line for line in document.splitlines() if line.startswith("| ") and any(c.isdigit() for c in line)]
    there = collections.Counter(line for line in table if not line.startswith("| collective"))
    faults = [f"missing: {line}" for line in wanted - there] + [f"not measured: {line}" for line in there - wanted]
    faults += [f"wrong bytes: {r}" for r in measured["results"] if r["wrongBytes"] != 0]
    faults += [f"the document does not say {word}" for word in (measured["date"], measured["nccl"]) if word not in document]
    print("\n".join(faults))
    print(f"{sum(wanted.values())} results, {len(faults)} faults")
    return 1 if faults or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
