#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the tables of docs/performance.md against the measurements from which they were written: every figure
# is what the JSON file gives, rounded as it stands there, and nothing that was measured is left out.

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/performance.md"
MEASUREMENTS = ROOT / "docs/measurements/gpu_codec_h200.json"
FRAMES = ROOT / "docs/measurements/gpu_frames_h200.json"


def rounded(value, decimals):
    return f"{value:.{decimals}f}"


def expected_rows(report, frames):
    """What each row must say, by its place: a table's name and the cells that identify the row."""
    rows = {}
    for result in frames["decodeReduce"]:
        elapsed = result["decodeReduce"]["timeUs"]
        count = f"{result['frames']} frames of {result['frameBytes'] >> 20} MiB"
        moved = rounded(result["movedBytes"] / elapsed * 1e-3, 0)
        speed = rounded(result["decodeReduce"]["speedToMemcpy"], 3)
        rows[("reduce", result["data"], count)] = [rounded(elapsed, 1), moved, speed]
    for result in frames["batch"]:
        count = f"{result['frames']} frame{'s' if result['frames'] > 1 else ''}"
        names = ("encodeOne", "encodeBatch", "decodeOne", "decodeBatch")
        speeds = [rounded(result[name]["speedToMemcpy"], 3) for name in names]
        rows[("batch", count, f"{result['totalBytes'] >> 20} MiB")] = speeds
    for result in report["codec"]:
        size = f"{result['inputBytes'] >> 20} MiB"
        speeds = [rounded(result[name]["speedToMemcpy"]["median"], 3) for name in ("encode", "decode")]
        if result["maxBlocks"] != 0:
            rates = [rounded(result[name]["inputGBs"], 0) for name in ("encode", "decode")]
            rows[("blocks", f"{result['maxBlocks']} blocks")] = rates
            continue
        bits = [rounded(result["bitsPerValue"], 3), rounded(result["steadyBitsPerValue"], 3)]
        # The same case may be measured twice; the document tells the first.
        rows.setdefault(("data", f"`{result['data']}`", size), speeds + bits)
    for result in report["traffic"]:
        read, written = result["readQuarters"], result["writtenQuarters"]
        speed = result["kernel"]["speedToMemcpy"]["median"]
        moved = speed * (read + written) / 8
        place = (f"{result['inputBytes'] >> 20} MiB", f"{read}/4", f"{written}/4", str(result["blocks"]))
        rows[("traffic",) + place] = [rounded(speed, 3), rounded(moved, 3)]
    return rows


def document_rows(text):
    """The same, as the document says it."""
    rows = {}
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[1].startswith("`"):
            rows[("data", cells[1], cells[2])] = cells[3:]
        elif len(cells) == 5 and re.fullmatch(r"\d+ frames of \d+ MiB", cells[1]):
            rows[("reduce", cells[0], cells[1])] = cells[2:]
        elif len(cells) == 6 and re.fullmatch(r"\d+ frames?", cells[0]):
            rows[("batch", cells[0], cells[1])] = cells[2:]
        elif len(cells) == 3 and re.fullmatch(r"\d+ blocks", cells[0]):
            rows[("blocks", cells[0])] = cells[1:]
        elif len(cells) == 6 and re.fullmatch(r"\d/4", cells[1]):
            rows[("traffic",) + tuple(cells[:4])] = cells[4:]
    return rows


def faults(report, frames, text):
    expected = expected_rows(report, frames)
    found = document_rows(text)
    for place in sorted(expected.keys() | found.keys()):
        if place[0] == "traffic" and place not in found:
            continue  # the document shows some of them
        if expected.get(place) != found.get(place):
            yield f"{place}: the document says {found.get(place)}, measured was {expected.get(place)}"


def main():
    text = DOCUMENT.read_text()
    report = json.loads(MEASUREMENTS.read_text())
    frames = json.loads(FRAMES.read_text())
    failed = list(faults(report, frames, text))
    for fault in failed:
        print(fault)

    # That each kind of fault would be seen.
    planted = {
        "a figure": text.replace("| 1.141 |", "| 1.151 |", 1),
        "a row too few": "\n".join(line for line in text.splitlines() if "`random`" not in line),
        "a row too many": text + "\n| x | `zeros:0.5` | 1 MiB | 1 | 1 | 1 | 1 |\n",
        "a rate": text.replace("| 343 |", "| 344 |", 1),
        "decode-reduce": text.replace("| 0.896 |", "| 0.906 |", 1),
        "a batch": text.replace("| 0.981 |", "| 0.991 |", 1),
        "traffic": text.replace("| 1.084 |", "| 1.094 |", 1),
    }
    for name, changed in planted.items():
        if changed == text or not list(faults(report, frames, changed)):
            failed.append(name)
            print(f"not seen: {name}")

    rows = len(document_rows(text))
    print(f"{rows} rows, {len(failed)} faults")
    return 1 if failed or rows == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
