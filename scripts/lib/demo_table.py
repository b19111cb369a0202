#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The table of scripts/demo.sh: one row for each tensor, from the JSON files of `zipccl perf` in a folder, in the order of
# their names. A tensor's run over an emulated link is followed by its run over shared memory.

import json
import pathlib
import sys

COLLECTIVES = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "alltoall": "AlltoAll"}
TENSORS = {
    "ag.17.step199": "parameters",
    "rs.1.step5": "gradients",
    "rs.17.step199": "gradients of an embedding",
    "rs.10.step119": "gradients, two batches added",
    "rs.13.step119": "gradients of an embedding, widened",
    "act.residual.1.step199": "activations, residual stream",
    "act.mlp_in.1.step5": "activations, input of an MLP",
    "actgrad.mlp_out.1.step199": "gradients of activations",
}
# Both files have a tensor of this name.
WIDENED = "gradients, widened from bf16"
DATATYPES = {"bfloat16": "bf16", "half": "fp16", "float": "fp32"}


def name_of(report):
    tensor = report["data"]["source"].rpartition(":")[2]
    if tensor == "rs.1.step5" and report["datatype"] == "float":
        return WIDENED
    return TENSORS[tensor]


def time_of(place, way):
    milliseconds = place[way]["timeUs"]["median"] / 1000
    return f"{milliseconds:.1f}" if milliseconds >= 10 else f"{milliseconds:.2f}"


def times_of(report):
    place = report["results"][0]["outOfPlace"]
    speedup = place["speedup"]["median"]
    return time_of(place, "native"), time_of(place, "zipccl"), speedup


def row_of(emulated, memory):
    result = emulated["results"][0]
    native, ours, speedup = times_of(emulated)
    native_memory, ours_memory, memory_speedup = times_of(memory)
    return (
        COLLECTIVES[emulated["collective"]],
        f"{name_of(emulated)} ({DATATYPES[emulated['datatype']]})",
        f"{result['ratio']:.2f}",
        native,
        ours,
        f"{speedup:.2f}",
        native_memory,
        ours_memory,
        f"{memory_speedup:.2f}",
        memory["results"][0]["strategy"],
    )


def table(heads, rows):
    lines = [*heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(rows[0]))]
    for line in lines:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def meaning(rows, emulated, memory):
    gains = sorted(float(row[5]) for row in rows)
    gigabits = emulated[0]["transport"]["emulatedLinkBytesPerSecond"] * 8 / 1e9
    wrong = sum(report["wrongElements"] for report in [*emulated, *memory])
    bits = "every bit arrived as it was sent" if wrong == 0 else f"{wrong} elements ARRIVED WRONG"
    left_alone = all(report["results"][0]["strategy"] == "native" for report in memory)
    shared = (
        "over shared memory, where a copy is faster than any codec, it leaves calls as they are"
        if left_alone
        else "over shared memory see its choice in the last column"
    )
    return (
        f"Over links of {gigabits:g} Gbit/s these calls are {gains[0]:.2f} to {gains[-1]:.2f} times as fast with ZipCCL as "
        f"natively, and {bits}; {shared}."
    )


def main():
    reports = [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))]
    emulated, memory = reports[0::2], reports[1::2]
    rows = [row_of(*pair) for pair in zip(emulated, memory, strict=True)]
    gigabits = emulated[0]["transport"]["emulatedLinkBytesPerSecond"] * 8 / 1e9
    machine = emulated[0]["machine"]
    megabytes = emulated[0]["results"][0]["sizeBytes"] / 2**20
    print(
        f"{emulated[0]['ranks']} ranks, threads of one process; {megabytes:g} MiB a call; medians of "
        f"{emulated[0]['results'][0]['pairs']} pairs or more"
    )
    print(f"{machine['cpuModel']}, {machine['cores']} cores, {emulated[0]['startedAt']}")
    print()
    link = f"EMULATED {gigabits:g} Gbit/s"
    heads = [
        ("", "", "bytes", link, "", "", "memory", "", "", ""),
        ("collective", "tensor", "fewer x", "native ms", "zipccl ms", "faster x", "native ms", "zipccl ms", "faster x", "auto"),
    ]
    print("\n".join(table(heads, rows)))
    print()
    print(meaning(rows, emulated, memory))


if __name__ == "__main__":
    main()
