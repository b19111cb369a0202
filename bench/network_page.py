#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The page of scripts/netns_bench.sh: speed-up by size, from its JSON file. One file of HTML that asks for nothing.
#
#   python3 -B bench/network_page.py IN.json >OUT.html

import html
import json
import math
import pathlib
import sys

MIB = 1 << 20
NAMES = {
    "all_gather": "AllGather",
    "all_reduce": "AllReduce",
    "alltoall": "AlltoAll",
    "broadcast": "Broadcast",
    "reduce_scatter": "ReduceScatter",
    "sendrecv": "Send and Recv",
}
DATA = {
    "file:data/bf16.safetensors:ag.17.step199": "parameters",
    "file:data/bf16.safetensors:act.residual.1.step199": "activations",
    "file:data/bf16.safetensors:rs.1.step5": "gradients",
    "file:data/fp32.safetensors:rs.1.step5": "gradients widened to fp32",
    "normal:0.02": "Gaussian",
}
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1e24; --quiet: #5a6472; --line: #d8dde4; --panel: #f5f6f8;
  --s0: #1f66b0; --s1: #b45309; --s2: #0f766e; --s3: #9d2f6f; --s4: #6d4bc4; --s5: #4d6b12; --s6: #a3303a; --s7: #52606d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8ebef; --quiet: #a0a9b5; --line: #363d46;
  --panel: #1e2329; --s0: #6aa9ea; --s1: #e59a4f; --s2: #4fc3b5; --s3: #e287bd; --s4: #ab92f0; --s5: #a9c65b; --s6: #ee8a91;
  --s7: #aab4bf; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
h1, h2 { line-height: 1.25; } h1 { font-size: 1.7rem; margin: 0 0 .6rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .4rem; }
p { max-width: 46rem; margin: 0 0 1rem; } .quiet { color: var(--quiet); font-size: .9rem; }
svg { width: 100%; min-width: 34rem; height: auto; display: block; } text { fill: var(--quiet); font-size: 13px; }
.grid { stroke: var(--line); } .one { stroke: var(--ink); stroke-width: 1.5; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--quiet); font-weight: 600; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; padding: 0; margin: .5rem 0 1rem; }
.legend span { display: inline-block; width: 1.1rem; height: .3rem; margin-right: .5rem; vertical-align: middle; }
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 360, 44, 16, 14, 34


def words(text):
    return html.escape(str(text), quote=True)


def label(result):
    report = result["report"]
    source = report["data"]["source"]
    return f"{NAMES.get(report['collective'], report['collective'])}, {DATA.get(source, source)}"


def size_of(result):
    return result["report"]["results"][0]["sizeBytes"]


def size_text(size):
    return f"{size / MIB:g} MiB"


def grouped(results, key):
    groups = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups


class Scale:
    """From sizes and speed-ups to places in the picture."""

    def __init__(self, results):
        sizes = [math.log2(size_of(result)) for result in results]
        speedups = [result["speedup"][end] for result in results for end in ("lowerQuartile", "upperQuartile")]
        self.left, self.right = min(sizes), max(max(sizes), min(sizes) + 1)
        self.bottom = math.floor(min([*speedups, 1]) * 5 - 1e-9) / 5
        self.top = math.ceil(max([*speedups, 1]) * 5 + 1e-9) / 5

    def x(self, size):
        share = (math.log2(size) - self.left) / (self.right - self.left)
        return round(LEFT + 12 + share * (WIDTH - LEFT - RIGHT - 24), 1)

    def y(self, speedup):
        return round(TOP + (self.top - speedup) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self):
        step = 0.2 if self.top - self.bottom <= 2 else 0.5
        tick = math.ceil(self.bottom / step - 1e-9) * step
        while tick <= self.top + 1e-9:
            yield tick
            tick += step


def picture(runs, title):
    results = [result for each in runs.values() for result in each]
    scale = Scale(results)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words(title)}">']
    for tick in scale.ticks():
        y = scale.y(tick)
        kind = "one" if abs(tick - 1) < 1e-6 else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:.1f}</text>')
    for size in sorted({size_of(result) for result in results}):
        parts.append(f'<text x="{scale.x(size)}" y="{HEIGHT - 10}" text-anchor="middle">{size_text(size)}</text>')
    for number, run in enumerate(runs.values()):
        colour = f"var(--s{number % 8})"
        points = [(scale.x(size_of(result)), result["speedup"]) for result in run]
        path = " ".join(f"{x},{scale.y(speedup['median'])}" for x, speedup in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for x, speedup in points:
            low, high = scale.y(speedup["lowerQuartile"]), scale.y(speedup["upperQuartile"])
            parts.append(f'<line x1="{x}" x2="{x}" y1="{low}" y2="{high}" stroke="{colour}"/>')
            parts.append(f'<circle cx="{x}" cy="{scale.y(speedup["median"])}" r="4" fill="{colour}"/>')
    return "".join([*parts, "</svg>"])


def legend(runs):
    items = (
        f'<li><span style="background: var(--s{number % 8})"></span>{words(name)}</li>' for number, name in enumerate(runs)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def table(runs):
    heads = ("call", "size", "encoding off, ms", "MPI's best, ms", "its algorithm", "ZipCCL, ms", "speed-up", "quartiles",
             "bytes saved", "strategy", "cores idle")
    rows = []
    for name, run in runs.items():
        for result in run:
            perf = result["report"]["results"][0]
            own = result["nativeUs"].get("MPI")
            speedup = result["speedup"]
            cells = (
                name,
                size_text(size_of(result)),
                f"{result['nativeUs']['zipccl with encoding off'] / 1000:.2f}",
                f"{own / 1000:.2f}" if own else "-",
                result["algorithm"] if own else "-",
                f"{result['zipcclUs'] / 1000:.2f}",
                f"{speedup['median']:.2f}",
                f"{speedup['lowerQuartile']:.2f} to {speedup['upperQuartile']:.2f}",
                f"{perf['ratio'] or 1:.2f} x",
                perf["strategy"],
                f"{result['machine']['cores']['idle']:.0%}",
            )
            rows.append("<tr>" + "".join(f"<td>{words(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f'<th scope="col">{words(each)}</th>' for each in heads)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def section(document, place, results):
    hosts, gigabits, strategy = place
    runs = grouped(results, label)
    link = next(each for each in document["links"] if each["gigabits"] == gigabits)
    choice = "every call compressed" if strategy == "staged" else "each call as the policy decides"
    title = f"{hosts} hosts, {gigabits:g} Gbit/s: {choice}"
    return (
        f"<section><h2>{words(title)}</h2>"
        f'<p class="quiet">Over such a link one TCP connection carries {link["streamGigabits"]:.2f} Gbit/s of payload here. '
        f"Speed-up by size; above 1 ZipCCL is faster. Bars are quartiles.</p>"
        f"<div class=\"scroll\" tabindex=\"0\">{picture(runs, 'Speed-up by size, ' + title)}</div>{legend(runs)}{table(runs)}</section>"
    )


def page(document):
    machine = document["results"][0]["report"]["machine"] if document["results"] else {"cpuModel": "-", "cores": 0}
    places = grouped(
        document["results"],
        lambda result: (result["network"]["hosts"], result["network"]["gigabits"], result["report"]["strategy"]),
    )
    sections = "".join(section(document, place, results) for place, results in places.items())
    wrong = sum(result["report"]["wrongElements"] for result in document["results"])
    bits = "Every bit was compared, and arrived as it was sent." if wrong == 0 else f"{wrong} elements ARRIVED WRONG."
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>ZipCCL between hosts</title><style>{STYLE}</style></head><body>
<h1>Collectives between hosts, compressed against native</h1>
<p>Hosts are network namespaces of one machine, each with one rank of an OpenMPI job and a link whose speed the kernel
holds, over TCP. Native is the faster of MPI's own collective, by the fastest algorithm that OpenMPI has, and the library's
exchange with encoding off, in the same rounds. {words(bits)}</p>
<p class="quiet">{words(machine["cpuModel"])}, {machine["cores"]} cores for all ranks and the network; {words(document["system"])};
{words(document["startedAt"])}.</p>
{sections}
</body></html>
"""


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(pathlib.Path(sys.argv[1]).read_text())))
