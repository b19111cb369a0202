#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the results of the collectives in docs/performance.md against the measurements from which they were
# written: every row is what the JSON file gives, and nothing that was measured is left out.

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/performance.md"
MEASUREMENTS = ROOT / "docs/measurements/collectives.json"
CELLS = 7  # of these tables, and of no other


def milliseconds(us):
    return f"{us / 1000:.3g}" if us < 100_000 else f"{us / 1000:.0f}"


def spread(value):
    return f"{value['median']:.2f} ({value['lowerQuartile']:.2f} to {value['upperQuartile']:.2f})"


def where(report):
    speed = report["transport"]["emulatedLinkBytesPerSecond"]
    if speed:
        return f"emulated {speed * 8 / 1e9:g} Gbit/s"
    return {"local": "shared memory", "mpi": "MPI, one host"}[report["transport"]["name"]]


def perf_rows(report):
    data = report["data"]["source"].removeprefix("file:data/")
    for result in report["results"]:
        place = result["outOfPlace"]
        native, zipccl = place["native"], place["zipccl"]
        own = place.get("plainMpi")
        yield (
            where(report),
            f"{report['collective']} {result['sizeBytes'] / 2**20:g} MiB `{data}`",
            result["strategy"],
            milliseconds(native["timeUs"]["median"])
            + (f", MPI's own {milliseconds(own['timeUs']['median'])}" if own else ""),
            milliseconds(zipccl["timeUs"]["median"]),
            spread(place["speedup"]),
            f"{native['cores']['median']:.2f}, {zipccl['cores']['median']:.2f}",
        )


def late_row(report):
    return (
        "MPI, one host",
        f"alltoall of {report['partBytes'] / 2**20:g} MiB a pair",
        f"{min(sample['earlyDecodes'] for sample in report['samples'])} of {report['earlyFrames']}",
        milliseconds(report["punctualUs"]["median"]),
        milliseconds(report["lateUs"]["median"]),
        spread(report["lateOverPunctual"]),
        spread(report["sizesFirstOverLate"]),
    )


def expected_rows(measurements):
    rows = set()
    for run in measurements["runs"]:
        report = run["report"]
        rows |= {late_row(report)} if report["tool"] == "late_rank_bench" else set(perf_rows(report))
    return rows


def document_rows(text):
    rows = set()
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if len(cells) == CELLS and " to " in cells[5]:
            rows.add(cells)
    return rows


def wrong(report):
    return report.get("wrongElements", 0) + report.get("wrongBytes", 0)


def main():
    text = DOCUMENT.read_text()
    measurements = json.loads(MEASUREMENTS.read_text())
    expected = expected_rows(measurements)
    if sys.argv[1:] == ["--print"]:
        for run in measurements["runs"]:
            report = run["report"]
            rows = [late_row(report)] if report["tool"] == "late_rank_bench" else perf_rows(report)
            for row in rows:
                print("| " + " | ".join(row) + " |")
        return 0
    failed = sorted(expected ^ document_rows(text))
    for row in failed:
        print(f"{row}: {'missing' if row in expected else 'not measured'}")
    for run in measurements["runs"]:
        if wrong(run["report"]):
            failed.append(run["name"])
            print(f"{run['name']}: bits arrived wrong")

    # That a changed figure and a row too few would be seen.
    first = min(document_rows(text), default=("",) * CELLS)
    changed = text.replace(first[5], first[5].replace("0", "9", 1), 1)
    fewer = "\n".join(line for line in text.splitlines() if first[5] not in line)
    for name, planted in {"a figure": changed, "a row too few": fewer}.items():
        if document_rows(planted) == expected:
            failed.append(name)
            print(f"not seen: {name}")

    print(f"{len(expected)} rows, {len(failed)} faults")
    return 1 if failed or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
