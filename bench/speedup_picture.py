#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The picture of README: how much faster collectives are with ZipCCL, from the measurements in docs/measurements/. Prints
# docs/speedup.svg, which is held to what this prints by a test; readable in the light and in the dark.
#
#   python3 -B bench/speedup_picture.py >docs/speedup.svg

import html
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEASUREMENTS = ROOT / "docs/measurements"

WIDTH, LEFT, RIGHT, HEAD, ROW, GAP = 860, 330, 70, 34, 25, 14
STYLE = """
text { font: 15px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #1a1e24; }
.title { font-weight: 650; } .quiet { fill: #5a6472; font-size: 13px; } .value { font-weight: 650; }
.bar { fill: #2b6cb0; } .one { stroke: #1a1e24; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) { text { fill: #e8ebef; } .quiet { fill: #a0a9b5; } .bar { fill: #5b9bdf; }
  .one { stroke: #e8ebef; } }
""".strip()

NCCL_CASES = [
    ("AllGather", "bfloat16", "ag.17.step199", "AllGather, parameters"),
    ("AlltoAll", "bfloat16", "act.residual.1.step199", "AlltoAll, activations"),
    ("ReduceScatter", "bfloat16", "rs.1.step5", "ReduceScatter, bf16 gradients"),
    ("ReduceScatter", "float", "rs.1.step5", "ReduceScatter, fp32 gradients"),
]
LINK_CASES = [
    ("all_gather", "file:data/bf16.safetensors:ag.17.step199", "AllGather, parameters"),
    ("reduce_scatter", "file:data/bf16.safetensors:rs.1.step5", "ReduceScatter, bf16 gradients"),
    ("reduce_scatter", "file:data/fp32.safetensors:rs.1.step5", "ReduceScatter, fp32 gradients"),
]
LINK_BYTES_PER_SECOND = 250_000_000


def only(values, what):
    values = list(values)
    if len(values) != 1:
        sys.exit(f"{what}: {len(values)} measurements instead of one")
    return values[0]


def link_rows():
    document = json.loads((MEASUREMENTS / "collectives.json").read_text())
    for collective, data, label in LINK_CASES:
        report = only(
            (
                run["report"]
                for run in document["runs"]
                if run["name"] == "link"
                and (run["report"]["collective"], run["report"]["data"]["source"]) == (collective, data)
                and run["report"]["transport"]["emulatedLinkBytesPerSecond"] == LINK_BYTES_PER_SECOND
            ),
            label,
        )
        yield label, report["results"][0]["outOfPlace"]["speedup"]["median"]


def nccl_rows():
    document = json.loads((MEASUREMENTS / "nccl_collectives_h200.json").read_text())
    for collective, datatype, data, label in NCCL_CASES:
        result = only(
            (
                result
                for result in document["results"]
                if (result["collective"], result["datatype"], result["data"]) == (collective, datatype, data)
                and (result["link"], result["megabytes"]) == ("host_auto", 64)
            ),
            label,
        )
        yield label, result["ratio"]


def groups():
    return [
        ("4 ranks, links of 2 Gbit/s", "EMULATED, codec on two cores of a Xeon, 64 MiB a rank", list(link_rows())),
        ("2 H200, NCCL over host memory", "each call as the policy decides, 64 MiB a rank", list(nccl_rows())),
    ]


def picture():
    most = max(value for _, _, rows in groups() for _, value in rows)
    scale = (WIDTH - LEFT - RIGHT) / most
    parts, y = [], 0
    for title, note, rows in groups():
        parts.append(f'<text class="title" x="0" y="{y + 16}">{html.escape(title)}</text>')
        parts.append(f'<text class="quiet" x="{LEFT}" y="{y + 16}">{html.escape(note)}</text>')
        y += HEAD
        for label, value in rows:
            parts.append(f'<text x="{LEFT - 14}" y="{y + 14}" text-anchor="end">{html.escape(label)}</text>')
            parts.append(f'<rect class="bar" x="{LEFT}" y="{y + 1}" width="{value * scale:.1f}" height="17" rx="2"/>')
            parts.append(f'<text class="value" x="{LEFT + value * scale + 8:.1f}" y="{y + 14}">{value:.2f} x</text>')
            y += ROW
        bottom = y - ROW + 22
        at = f"{LEFT + scale:.1f}"
        parts.append(f'<line class="one" x1="{at}" x2="{at}" y1="{bottom - len(rows) * ROW}" y2="{bottom}"/>')
        y += GAP
    parts.append(f'<text class="quiet" x="{LEFT + scale:.1f}" y="{y + 6}" text-anchor="middle">1: native</text>')
    height = y + 14
    told = "; ".join(
        f"{title}: " + ", ".join(f"{label} {value:.2f}" for label, value in rows) for title, _, rows in groups()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>Times as fast as native. {html.escape(told)}</title>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    sys.stdout.write(picture())
