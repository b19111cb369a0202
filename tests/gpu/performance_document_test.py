#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the tables of docs/performance.md that are of the GPU against the measurements from which they were written: every figure
# is what a JSON file gives, rounded as it stands there, and nothing that was measured is left out.

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/performance.md"
MEASUREMENTS = sorted((ROOT / "docs/measurements").glob("gpu_*_h200.json"))


def rounded(value, decimals):
    return f"{value:.{decimals}f}"


def megabytes(result):
    return f"{result['inputBytes'] >> 20} MiB"


def codec_row(result):
    """The place and the cells of a result of `zipccl perf codec`."""
    if result["maxBlocks"] != 0:
        rates = [rounded(result[name]["inputGBs"], 0) for name in ("encode", "decode")]
        return ("blocks", f"{result['maxBlocks']} blocks"), rates
    name = f"`{result['data']}`" + (" as float" if result["layout"] == "wide" else "")
    if "rival" in result:
        rival = result["rival"]
        faster = [rounded(rival[way]["median"], 2) for way in ("encodeSpeedup", "decodeSpeedup")]
        speeds = [rounded(rival[way]["inputGBs"], 0) for way in ("encode", "decode")]
        bits = [rounded(result["steadyBitsPerValue"], 3), rounded(rival["bitsPerValue"], 3)]
        return ("rival", name), faster + speeds + bits
    speeds = [rounded(result[way]["speedToMemcpy"]["median"], 3) for way in ("encode", "decode")]
    bits = [rounded(result["bitsPerValue"], 3), rounded(result["steadyBitsPerValue"], 3)]
    return ("data", name, megabytes(result)), speeds + bits


def traffic_row(result):
    read, written = result["readQuarters"], result["writtenQuarters"]
    speed = result["kernel"]["speedToMemcpy"]["median"]
    moved = speed * (read + written) / 8
    place = ("traffic", megabytes(result), f"{read}/4", f"{written}/4", str(result["blocks"]))
    return place, [rounded(speed, 3), rounded(moved, 3)]


def reduce_row(result):
    elapsed = result["decodeReduce"]["timeUs"]
    count = f"{result['frames']} frames of {result['frameBytes'] >> 20} MiB"
    moved = rounded(result["movedBytes"] / elapsed * 1e-3, 0)
    speed = rounded(result["decodeReduce"]["speedToMemcpy"], 3)
    return ("reduce", result["data"], count), [rounded(elapsed, 1), moved, speed]


def batch_row(result):
    count = f"{result['frames']} frame{'s' if result['frames'] > 1 else ''}"
    names = ("encodeOne", "encodeBatch", "decodeOne", "decodeBatch")
    speeds = [rounded(result[name]["speedToMemcpy"], 3) for name in names]
    return ("batch", count, f"{result['totalBytes'] >> 20} MiB"), speeds


ROWS = {"results": codec_row, "traffic": traffic_row, "decodeReduce": reduce_row, "batch": batch_row}


def expected_rows(reports):
    """What each row must say, by its place: a table's name and the cells that identify the row."""
    rows = {}
    for report in reports:
        for name, row in ROWS.items():
            rows.update(row(result) for result in report.get(name, []))
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
        elif len(cells) == 7 and cells[0].startswith("`"):
            rows[("rival", cells[0])] = cells[1:]
        elif len(cells) == 5 and re.fullmatch(r"\d+ frames of \d+ MiB", cells[1]):
            rows[("reduce", cells[0], cells[1])] = cells[2:]
        elif len(cells) == 6 and re.fullmatch(r"\d+ frames?", cells[0]):
            rows[("batch", cells[0], cells[1])] = cells[2:]
        elif len(cells) == 3 and re.fullmatch(r"\d+ blocks", cells[0]):
            rows[("blocks", cells[0])] = cells[1:]
        elif len(cells) == 6 and re.fullmatch(r"\d/4", cells[1]):
            rows[("traffic",) + tuple(cells[:4])] = cells[4:]
    return rows


def faults(reports, text):
    expected = expected_rows(reports)
    found = document_rows(text)
    for report in reports:
        if not report.get("isRight", True):
            yield f"{report['tool']}: what was measured was wrong"
    for place in sorted(expected.keys() | found.keys()):
        if place[0] == "traffic" and place not in found:
            continue  # the document shows some of them
        if expected.get(place) != found.get(place):
            yield f"{place}: the document says {found.get(place)}, measured was {expected.get(place)}"


def changed(text, place):
    """The document with another figure in the last cell of that row."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if place in document_rows(line):
            cells = line.rstrip().rstrip("|").split("|")
            cells[-1] = " 0.12345 "
            lines[number] = "|".join(cells) + "|"
            break
    return "\n".join(lines)


def without(text, place):
    return "\n".join(line for line in text.splitlines() if place not in document_rows(line))


def main():
    text = DOCUMENT.read_text().split("\n# The codec on the host\n")[0]
    reports = [json.loads(path.read_text()) for path in MEASUREMENTS]
    failed = list(faults(reports, text))
    for fault in failed:
        print(fault)

    # That each kind of fault would be seen.
    rows = document_rows(text)
    planted = {"a row too many": text + "\n| x | `zeros:0.5` | 1 MiB | 1 | 1 | 1 | 1 |\n"}
    for kind in ("data", "rival", "blocks", "reduce", "batch", "traffic"):
        place = next((place for place in rows if place[0] == kind), None)
        if place is None:
            failed.append(kind)
            print(f"no table of {kind}")
            continue
        planted[f"a figure of {kind}"] = changed(text, place)
        if kind != "traffic":
            planted[f"a row too few of {kind}"] = without(text, place)
    for name, wrong in planted.items():
        if wrong == text or not list(faults(reports, wrong)):
            failed.append(name)
            print(f"not seen: {name}")

    print(f"{len(reports)} reports, {len(rows)} rows, {len(failed)} faults")
    return 1 if failed or not rows or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
