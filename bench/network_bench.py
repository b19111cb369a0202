#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What scripts/netns_bench.sh does once everything is built: collectives between hosts of bench/network.py, measured by
# `zipccl perf --transport mpi`, beside the best that MPI has. For each collective and speed every algorithm that OpenMPI has
# for it is tried first, and the fastest is what compressed calls are then compared with.

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import network
import network_page

SKIPPED = 77
MIB = 1 << 20

# Of OpenMPI's component `tuned`, by the numbers that its parameters have. Of some only two ranks know.
ALGORITHMS = {
    "all_gather": ("allgather", {1: "linear", 2: "bruck", 3: "recursive doubling", 4: "ring", 5: "neighbour", 6: "two"}),
    "all_reduce": ("allreduce", {2: "non-overlapping", 3: "recursive doubling", 4: "ring", 5: "segmented ring",
                                 6: "rabenseifner"}),
    "alltoall": ("alltoall", {1: "linear", 2: "pairwise", 3: "modified bruck", 4: "linear, synchronised", 5: "two"}),
    "broadcast": ("bcast", {1: "linear", 3: "pipeline", 5: "binary tree", 6: "binomial", 8: "scatter, recursive doubling",
                            9: "scatter, ring"}),
    "reduce_scatter": ("reduce_scatter", {1: "non-overlapping", 2: "recursive halving", 3: "ring", 4: "butterfly"}),
}
ONLY_TWO_RANKS = {"two"}
MOST_TWO_RANKS = 2

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARAMETERS = "file:data/bf16.safetensors:ag.17.step199"
ACTIVATIONS = "file:data/bf16.safetensors:act.residual.1.step199"
GRADIENTS = "file:data/bf16.safetensors:rs.1.step5"
WIDENED = "file:data/fp32.safetensors:rs.1.step5"
GAUSSIAN = "normal:0.02"

# Bytes as `zipccl perf` counts them, all ranks' together for those that gather or scatter; timed pairs of each.
SLOW_SWEEP = {4 * MIB: 9, 64 * MIB: 5, 256 * MIB: 3}
FAST_SWEEP = {1 * MIB: 21, 16 * MIB: 11, 128 * MIB: 7}
SHORT_SWEEP = {1 * MIB: 3}
# The size for which algorithms are tried, once after a round that warms up; the best one stands for all sizes.
TUNING_BYTES = 16 * MIB


@dataclasses.dataclass(frozen=True)
class Run:
    """One collective on one kind of data, over a range of sizes."""

    hosts: int
    gigabits: int
    collective: str
    data: str
    strategy: str
    sweep: dict = dataclasses.field(compare=False)

    @property
    def name(self):
        source = self.data.removeprefix("file:data/").replace(".safetensors", "")
        return f"{self.gigabits}gbit-{self.hosts}-{self.strategy}-{self.collective}-{source}"


def all_runs():
    mixed = [
        ("all_gather", PARAMETERS),
        ("alltoall", ACTIVATIONS),
        ("reduce_scatter", GAUSSIAN),
        ("reduce_scatter", GRADIENTS),
        ("reduce_scatter", WIDENED),
    ]
    more = [("all_reduce", GRADIENTS), ("broadcast", PARAMETERS), ("sendrecv", ACTIVATIONS)]
    runs = [Run(4, 1, collective, data, "staged", SLOW_SWEEP) for collective, data in mixed]
    runs += [Run(2, 10, collective, data, "auto", FAST_SWEEP) for collective, data in mixed + more]
    # What auto forgoes there.
    runs += [Run(2, 10, collective, data, "staged", FAST_SWEEP) for collective, data in mixed[:2]]
    return runs


def short_runs():
    return [Run(2, 1, "all_gather", PARAMETERS, "staged", SHORT_SWEEP)]


class Bench:
    """Runs `zipccl perf` on the hosts of a network, whose links have one speed."""

    def __init__(self, build, hosts):
        self._build = build
        self._network = hosts
        self._best = {}  # (hosts, collective, is fp32) -> its tuning

    def perf(self, run, size, pairs, algorithm, *flags):
        """The JSON report of one size, and what the machine did meanwhile."""
        with tempfile.TemporaryDirectory(dir=network.STATE) as folder:
            out = pathlib.Path(folder, "out.json")
            # From ROOT, where it runs: the report holds its words.
            words = [os.path.relpath(self._build / "bin/zipccl", ROOT), "perf", run.collective, "--transport", "mpi", "--data", run.data]
            words += ["-b", str(size), "-e", str(size), "-n", str(pairs), "-J", str(out), *flags]
            line = self._network.mpirun(
                words,
                run.hosts,
                [("ZIPCCL_PLUGIN_DIR", self._build / "lib")],
                parameters_of(run.collective, algorithm),
            )
            cores, sent_again = core_seconds(), self._network.retransmitted()
            # Where the tensors are, whatever the caller's folder.
            ended = subprocess.run(
                line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=ROOT
            )
            # Both the command, when bits arrived wrong, and mpirun, when there was no command, end with 1.
            if ended.returncode not in (0, 1) or not out.exists():
                raise RunFailed(f"{' '.join(words)} ended with status {ended.returncode}:\n{ended.stderr or ended.stdout}")
            busy = {name: after - cores[name] for name, after in core_seconds().items()}
            machine = {
                "cores": {name: round(seconds / sum(busy.values()), 4) for name, seconds in busy.items()},
                "retransmittedSegments": self._network.retransmitted() - sent_again,
            }
            return json.loads(out.read_text()), machine

    def tune(self, run):
        """MPI's algorithms in their times, the fastest first; 0 is what MPI chooses by itself."""
        key = (run.hosts, run.collective, run.data == WIDENED)
        if key not in self._best:
            size = min(TUNING_BYTES, max(run.sweep))
            tried = []
            for algorithm in algorithms_of(run.collective, run.hosts):
                report, _ = self.perf(run, size, 1, algorithm, "-c", "0", "--strategy", "native")
                own = report["results"][0]["outOfPlace"].get("plainMpi")
                if own is None:
                    return None
                tried.append({"number": algorithm, "name": algorithm_name(run.collective, algorithm),
                              "us": own["timeUs"]["median"]})
            self._best[key] = {"sizeBytes": size, "algorithms": sorted(tried, key=lambda each: each["us"])}
        return self._best[key]

    def measure(self, run):
        tuning = self.tune(run)
        for size, pairs in run.sweep.items():
            best = tuning["algorithms"][0]["number"] if tuning else 0
            report, machine = self.perf(run, size, pairs, best, "--strategy", run.strategy)
            result = {
                "name": run.name,
                "network": {"hosts": run.hosts, "gigabits": run.gigabits},
                "tuning": tuning,
                "algorithm": algorithm_name(run.collective, best),
                **summary(report["results"][0]["outOfPlace"]),
                "machine": machine,
                "report": report,
            }
            say(row(result))
            yield result


class RunFailed(Exception):
    """A measurement that did not come to its end."""


def say(text):
    print(text, flush=True)


def algorithms_of(collective, hosts):
    _, names = ALGORITHMS.get(collective, ("", {}))
    return [0, *(number for number, name in names.items() if hosts == MOST_TWO_RANKS or name not in ONLY_TWO_RANKS)]


def algorithm_name(collective, number):
    return ALGORITHMS[collective][1][number] if number else "default"


def parameters_of(collective, algorithm):
    if algorithm == 0:
        return []
    return [
        ("coll_tuned_use_dynamic_rules", "1"),
        (f"coll_tuned_{ALGORITHMS[collective][0]}_algorithm", algorithm),
    ]


def summary(place):
    """Which native way is the faster one, and how compressed calls stand against it, in the pairs of each round."""
    ways = {"zipccl with encoding off": "nativeUs"}
    if "plainMpi" in place:
        ways["MPI"] = "plainMpiUs"
    times = {way: statistics.median(sample[key] for sample in place["samples"]) for way, key in ways.items()}
    fastest = min(times, key=times.get)
    ratios = sorted(sample[ways[fastest]] / sample["zipcclUs"] for sample in place["samples"])
    return {
        "nativeUs": times,
        "fastestNative": fastest,
        "zipcclUs": statistics.median(sample["zipcclUs"] for sample in place["samples"]),
        "speedup": spread(ratios),
    }


def spread(values):
    """As `zipccl perf` has it: quartiles between the values beside them."""
    values = sorted(values)

    def at(share):
        place = share * (len(values) - 1)
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return values[low] + (place - low) * (values[high] - values[low])

    return {"median": at(0.5), "lowerQuartile": at(0.25), "upperQuartile": at(0.75), "least": values[0], "most": values[-1]}


def row(result):
    report = result["report"]
    own = result["nativeUs"].get("MPI")
    cores = result["machine"]["cores"]
    return (
        f"{result['name']:<64} {report['results'][0]['sizeBytes'] / MIB:>6g} MiB  "
        f"encoding off {result['nativeUs']['zipccl with encoding off'] / 1000:>8.2f} ms  "
        + (f"MPI {own / 1000:>8.2f} ms ({result['algorithm']})  " if own else "")
        + f"zipccl {result['zipcclUs'] / 1000:>8.2f} ms  {result['speedup']['median']:.2f} "
        f"({result['speedup']['lowerQuartile']:.2f} to {result['speedup']['upperQuartile']:.2f})  "
        f"wire {report['results'][0]['ratio'] or 1:.2f}  {report['results'][0]['strategy']}  idle {cores['idle']:.0%}  "
        f"wrong {report['wrongElements']}"
    )


def core_seconds():
    """What the machine's cores have spent on what, since it started."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    values = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1 : 1 + len(names)]
    ticks = dict(zip(names, map(int, values), strict=True))
    ticks["user"] += ticks.pop("nice")
    ticks["idle"] += ticks.pop("iowait")
    ticks["softirq"] += ticks.pop("irq")
    return {name: count / os.sysconf("SC_CLK_TCK") for name, count in ticks.items()}


def measure_all(runs, build, earlier):
    """The document, one result for each run and size, beside what an earlier document has of other runs."""
    names = [run.name for run in all_runs()]
    measured = {run.name for run in runs}
    document = {
        "schema": 1,
        "tool": "scripts/netns_bench.sh",
        "startedAt": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "argv": sys.argv,
        "tcp": {"congestionControl": network.CONGESTION_CONTROL, **network.TCP_MEMORY},
        "queueBytes": network.QUEUE_BYTES,
        "system": f"{platform.system()} {platform.release()}",
        "definitions": {
            "network": "hosts are network namespaces of one machine, a rank on each; both ends of each link are shaped by tbf",
            "nativeUs": "medians of MPI's own collective by its fastest algorithm, and of the library's exchange with "
                        "encoding off",
            "speedup": "time of the faster of these over zipccl's, in each round; out of place",
            "machine": "shares of the time of all cores while the run lasted, its setup included",
        },
        "links": list(earlier["links"]),
        "results": [result for result in earlier["results"] if result["name"] not in measured],
    }
    hosts = network.Network(max(run.hosts for run in runs))
    for gigabits in sorted({run.gigabits for run in runs}):
        hosts.shape(gigabits)
        payload = hosts.stream_gigabits()
        say(f"{gigabits} Gbit/s: one connection carries {payload:.2f} Gbit/s of payload")
        document["links"] = [link for link in document["links"] if link["gigabits"] != gigabits]
        document["links"].append({"gigabits": gigabits, "streamGigabits": payload})
        bench = Bench(build, hosts)
        for run in runs:
            if run.gigabits == gigabits:
                document["results"].extend(bench.measure(run))
    # In their usual order; a sort keeps that of sizes.
    document["results"].sort(key=lambda result: names.index(result["name"]) if result["name"] in names else len(names))
    return document


def chosen(arguments):
    runs = short_runs() if arguments.short else all_runs()
    if not arguments.runs:
        return runs
    wanted = [run for run in runs if any(run.name.startswith(name) for name in arguments.runs)]
    if not wanted:
        raise network.Missing(f"no run begins with {' or '.join(arguments.runs)}; --list names them")
    return wanted


def paths_of(out):
    base = pathlib.Path(out)
    base = base.with_suffix("") if base.suffix in (".json", ".html") else base
    return base.with_name(base.name + ".json"), base.with_name(base.name + ".html")


def write(document, paths):
    paths[0].write_text(json.dumps(document, indent=1) + "\n")
    paths[1].write_text(network_page.page(document))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?")
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--build", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--list", action="store_true")
    # A test wants to know what is missing apart from what is wrong.
    parser.add_argument("--skip", action="store_true")
    arguments = parser.parse_intermixed_args()
    if arguments.list:
        print("\n".join(run.name for run in all_runs()))
        return 0
    if arguments.out is None:
        parser.error("OUT is missing")
    try:
        runs = chosen(arguments)
        paths = paths_of(arguments.out)
        earlier = {"links": [], "results": []}
        if arguments.runs and paths[0].exists():
            earlier = json.loads(paths[0].read_text())
        network.enter()
        document = measure_all(runs, arguments.build, earlier)
    except network.Missing as missing:
        print(f"{'skipped: ' if arguments.skip else ''}{missing}", file=sys.stderr)
        return SKIPPED if arguments.skip else 2
    except RunFailed as failed:
        print(failed, file=sys.stderr)
        return 3
    write(document, paths)
    say("Wrote " + " and ".join(map(str, paths)))
    return 1 if any(result["report"]["wrongElements"] for result in document["results"]) else 0


if __name__ == "__main__":
    sys.exit(main())
