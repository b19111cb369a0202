#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs `zipccl perf all_gather` as a user would, over the local transport: exit statuses, what stands on stdout
# and stderr, the JSON file, and planted faults that it must notice.

import argparse
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

SMALL = ["perf", "all_gather", "-b", "24K", "-e", "96K", "-f", "4", "-n", "3", "-w", "1"]


def run(*words, program=None, fault=None, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZIPCCL_")}
    if fault:
        environment["ZIPCCL_TEST_FAULT"] = fault
    environment.update(settings.pop("env", {}))
    return subprocess.run(
        [program or ARGUMENTS.zipccl, *words],
        stdin=subprocess.DEVNULL,
        stdout=settings.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        timeout=120,
        check=False,
        **settings,
    )


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def bfloat16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


class PerfTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_answers_questions(self):
        self.assertEqual(run("--version").stdout, f"zipccl {ARGUMENTS.version}\n")
        self.assertEqual(run("perf", "all_gather", "--help").returncode, 0)

    def test_every_collective(self):
        # How many elements of the size go into one count, and whether there is an in-place form.
        collectives = {
            "all_gather": (4, True),
            "all_reduce": (1, True),
            "alltoall": (4, False),
            "broadcast": (1, True),
            "gather": (4, True),
            "reduce_scatter": (4, True),
            "scatter": (4, True),
            "sendrecv": (1, False),
        }
        for name, (divisor, has_in_place) in collectives.items():
            with self.subTest(name):
                path = self.folder / f"{name}.json"
                ended = run("perf", name, "-b", "96K", "-e", "96K", "-n", "3", "-J", str(path))
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                (row,) = rows(ended.stdout)
                self.assertEqual(len(row), 23)
                self.assertEqual(row[:2], ["98304", str(98304 // 2 // divisor)])
                self.assertEqual((row[11], row[17]), ("0", "0" if has_in_place else "N/A"))
                self.assertEqual(row[21:], ["staged", "3"])
                self.assertGreater(float(row[19]), 1.2, "a ratio of bytes")
                report = json.loads(path.read_text())
                self.assertEqual(report["collective"], name)
                self.assertEqual(report["wrongElements"], 0)
                self.assertEqual(report["results"][0]["inPlace"] is None, not has_in_place)

    def test_reductions_tell_their_error(self):
        for operation in ("sum", "avg", "mulsum"):
            for data in ("normal:0.02", "widened:0.02"):
                with self.subTest(operation, data=data):
                    path = self.folder / "reduce.json"
                    ended = run(
                        *("perf", "reduce_scatter", "-b", "64K", "-e", "64K", "-n", "2", "--ranks", "3"),
                        *("--op", operation, "--data", data, "-J", str(path)),
                    )
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                    self.assertIn(f"perf reduce_scatter, {operation}: 3 ranks", ended.stdout)
                    error = json.loads(path.read_text())["results"][0]["errorAgainstFp64"]
                    # One order, one rounding: only the data of the calls differ.
                    self.assertAlmostEqual(error["native"], error["zipccl"], delta=1e-7 + 0.05 * error["native"])
                    if data.startswith("normal"):
                        self.assertGreater(error["native"], 0)
                    self.assertLess(error["native"], 0.01)

    def test_a_wrong_sum_is_noticed(self):
        ended = run(
            *("perf", "reduce_scatter", "-b", "64K", "-e", "64K", "-n", "2"),
            program=ARGUMENTS.faulty,
            fault="flip:1:1000",
        )
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        # One element in each of the four checked calls.
        self.assertIn("# wrong elements: 4, of them native: 2", ended.stdout)

    def test_uneven_splits(self):
        ended = run("perf", "alltoall", "-b", "1M", "-e", "1M", "-n", "2", "--splits", "zipf:1.2")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("perf alltoall, splits zipf:1.2: 4 ranks", ended.stdout)

    def test_splits_of_a_router(self):
        path = self.folder / "router.safetensors"
        # Four experts on four ranks, of which the third gets nothing.
        write_safetensors(path, {"counts": ("I32", [4], struct.pack("<4i", 100, 200, 0, 700))})
        report = self.folder / "out.json"
        splits = f"file:{path}:counts"
        ended = run(
            *("perf", "alltoall", "-b", "80000", "-e", "80000", "-n", "2", "-J", str(report)),
            *("--splits", splits, "--strategy", "native"),
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(rows(ended.stdout)[0][11], "0")
        result = json.loads(report.read_text())
        self.assertEqual(result["splits"], splits)
        # Every rank keeps its own part: all of one message, over the four ranks.
        self.assertEqual(result["results"][0]["nativeWireBytes"], 80000 * 3 / 4)

    def test_an_emulated_link_is_labelled_and_slow(self):
        path = self.folder / "link.json"
        ended = run(
            *("perf", "all_gather", "-b", "1M", "-e", "1M", "-n", "2", "--link", "100Mbit", "-J", str(path)),
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("EMULATED link of 100 Mbit/s", ended.stdout)
        report = json.loads(path.read_text())
        self.assertEqual(report["transport"]["emulatedLinkBytesPerSecond"], 12500000)
        self.assertIn("EMULATED", report["transport"]["label"])
        native = report["results"][0]["outOfPlace"]["native"]
        # Three shards of 256 KiB at 12.5 MB/s.
        self.assertGreater(native["timeUs"]["least"], 62000)
        self.assertLess(native["busbwGBs"], 0.0126)

    def test_wrong_choices_are_usage_errors(self):
        for words in (
            ("broadcast", "--root", "4"),
            ("all_reduce", "-d", "int32"),
            ("all_reduce", "--op", "max"),
            ("alltoall", "--splits", "even"),
            ("alltoall", "--splits", "file:missing:t"),
            ("all_gather", "--splits", "zipf:1"),
            ("all_gather", "--link", "fast"),
            ("all_gather", "--root", "0"),
        ):
            with self.subTest(words):
                ended = run("perf", *words, "-b", "4K", "-e", "4K", "-n", "1")
                self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)

    def test_a_sound_library_ends_with_zero(self):
        ended = run(*SMALL)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stderr, "")
        first, second = rows(ended.stdout)
        self.assertEqual(first[:3], ["24576", "3072", "bfloat16"])
        self.assertEqual(second[:3], ["98304", "12288", "bfloat16"])
        for row in (first, second):
            self.assertEqual(len(row), 23)
            self.assertEqual((row[11], row[17]), ("0", "0"))
            self.assertEqual(row[21:], ["staged", "3"])
            self.assertGreater(float(row[19]), 1.2)
            # The wire column counts what a rank sends to the three others.
            self.assertLess(int(row[20]), int(row[0]) * 3 / 4)

    def test_half_is_compressed_and_checked(self):
        ended = run(*SMALL, "-d", "half")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for row in rows(ended.stdout):
            self.assertEqual(row[2], "half")
            self.assertEqual((row[11], row[17]), ("0", "0"))
            self.assertEqual(row[21:], ["staged", "3"])
        # 14.3 bits for 16, headers aside.
        self.assertGreater(float(rows(ended.stdout)[-1][19]), 1.09)
        self.assertLess(float(rows(ended.stdout)[-1][19]), 1.13)

    def test_every_planted_wrong_bit_ends_with_one(self):
        for fault, places in (
            ("flip:0:1", "both"),
            ("flip:2:24576", "both"),
            ("lose:3:1", "out"),
            ("input:1:1", "both"),
        ):
            ended = run(*SMALL, program=ARGUMENTS.faulty, fault=fault)
            self.assertEqual(ended.returncode, 1, f"{fault}: {ended.stdout}{ended.stderr}")
            self.assertEqual(ended.stderr, "")
            self.assertIn("WRONG BITS", ended.stdout)
            last = rows(ended.stdout)[-1]
            # The element that is lost in place is rank 3's own, which stands there already.
            self.assertEqual(last[11], "1", fault)
            self.assertEqual(last[17], "1" if places == "both" else "0", fault)
            if fault == "flip:2:24576":
                self.assertEqual(rows(ended.stdout)[0][11], "0", "only the larger messages are faulty")

    def test_without_a_fault_the_faulty_program_is_sound(self):
        self.assertEqual(run(*SMALL, program=ARGUMENTS.faulty).returncode, 0)
        self.assertEqual(run(*SMALL, program=ARGUMENTS.faulty, fault="flip:9:1").returncode, 0)

    def test_unchecked_wrong_bits_are_not_called_right(self):
        ended = run(*SMALL, "-c", "0", program=ARGUMENTS.faulty, fault="flip:0:1")
        self.assertEqual(ended.returncode, 0)
        self.assertIn("nothing was checked", ended.stdout)
        self.assertNotIn("every bit", ended.stdout)
        self.assertEqual([row[11] for row in rows(ended.stdout)], ["N/A", "N/A"])

    def test_a_failing_call_ends_with_three_and_the_words_of_the_library(self):
        ended = run(*SMALL, program=ARGUMENTS.faulty, fault="error:2:1")
        self.assertEqual(ended.returncode, 3, ended.stdout)
        self.assertRegex(ended.stderr, r"\Azipccl: zipcclAllGather: .*sendbuff.*null.*\n\Z")
        self.assertEqual(rows(ended.stdout), [])

    def test_a_thread_that_cannot_be_started_ends_the_others(self):
        for thread in (0, 2, 3):
            ended = run(*SMALL, program=ARGUMENTS.faulty, fault=f"thread:{thread}:0")
            self.assertEqual(ended.returncode, 3, ended.stdout)
            self.assertRegex(ended.stderr, r"\Azipccl: Resource temporarily unavailable\n\Z")

    def test_a_bad_command_line_ends_with_two(self):
        for words in ([], ["perf"], ["perf", "all_gather", "-b", "12Q"], ["perf", "all_gather", "--ranks", "0"]):
            ended = run(*words)
            self.assertEqual(ended.returncode, 2, words)
            self.assertEqual(ended.stdout, "")
            self.assertIn("--help", ended.stderr)

    def test_stdout_that_takes_nothing_ends_with_three(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            ended = run(*SMALL, stdout=full)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("stdout", ended.stderr)

    def test_the_environment_can_switch_compression_off(self):
        ended = run(*SMALL, env={"ZIPCCL_DISABLE": "1"})
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for row in rows(ended.stdout):
            self.assertEqual(row[19], "1.000")
            self.assertEqual(row[21], "native")
        self.assertIn("# strategy: ", ended.stdout)

    def test_a_seed_repeats_the_data(self):
        wires = {}
        for seed in ("1", "1", "2"):
            ended = run(*SMALL, "--seed", seed)
            self.assertIn(f"seed {seed}\n", ended.stdout)
            wires.setdefault(seed, set()).add(tuple(row[20] for row in rows(ended.stdout)))
        self.assertEqual(len(wires["1"]), 1)
        seeds = {re.search(r"seed (\d+)", run(*SMALL).stdout).group(1) for _ in range(2)}
        self.assertEqual(len(seeds), 2, "a fresh seed each time")

    def test_tensors_of_a_file(self):
        numbers = random.Random(7)
        path = self.folder / "x.safetensors"
        content = bfloat16(numbers.gauss(0, 0.02) for _ in range(20000))
        write_safetensors(
            path,
            {
                "counts": ("I32", [4], struct.pack("<4i", 1, 2, 3, 4)),
                "zeros": ("BF16", [30000], bytes(60000)),
                "weights": ("BF16", [100, 200], content),
                "halves": ("F16", [8000], struct.pack("<8000e", *(numbers.gauss(0, 0.02) for _ in range(8000)))),
                "grads": ("F32", [5000], struct.pack("<5000f", *(numbers.gauss(0, 1) for _ in range(5000)))),
            },
        )
        alone = run(*SMALL, "--data", f"file:{path}")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertIn("2 tensors of", alone.stdout)
        self.assertNotIn("seed", alone.stdout)

        zeros = run(*SMALL, "--data", f"file:{path}:zeros")
        self.assertEqual(zeros.returncode, 0, zeros.stderr)
        weights = run(*SMALL, "--data", f"file:{path}:weights")
        self.assertGreater(float(rows(weights.stdout)[-1][19]), 1.3)
        self.assertGreater(float(rows(zeros.stdout)[-1][19]), float(rows(weights.stdout)[-1][19]))

        halves = run(*SMALL, "--data", f"file:{path}", "-d", "half")
        self.assertEqual(halves.returncode, 0, halves.stderr)
        self.assertEqual(rows(halves.stdout)[0][2], "half")
        self.assertGreater(float(rows(halves.stdout)[-1][19]), 1.09)
        floats = run(*SMALL, "--data", f"file:{path}", "-d", "float")
        self.assertEqual(rows(floats.stdout)[0][2], "float")
        counts = run(*SMALL, "--data", f"file:{path}:counts")
        self.assertEqual(counts.returncode, 0, counts.stderr)
        self.assertEqual(rows(counts.stdout)[0][21], "native")

        wrong = run(*SMALL, "--data", f"file:{path}:wieghts")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("weights (BF16)", wrong.stderr)

    def test_a_broken_file_ends_with_three(self):
        path = self.folder / "x.safetensors"
        write_safetensors(path, {"a": ("BF16", [4], bytes(8))})
        path.write_bytes(path.read_bytes()[:-1])
        ended = run(*SMALL, "--data", f"file:{path}")
        self.assertEqual(ended.returncode, 3)
        self.assertIn("is not a safetensors file: ", ended.stderr)

    def test_the_json_file(self):
        path = self.folder / "out.json"
        words = [*SMALL, "--seed", "5", "-c", "2", "-J", str(path)]
        ended = run(*words)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(path.read_text(encoding="ascii"))
        self.assertEqual(os.listdir(self.folder), ["out.json"])

        self.assertEqual(report["schema"], 1)
        self.assertEqual(report["collective"], "all_gather")
        self.assertEqual(report["argv"], [ARGUMENTS.zipccl, *words])
        self.assertEqual(report["version"], ARGUMENTS.version)
        self.assertRegex(report["startedAt"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        self.assertEqual(set(report["machine"]), {"cpuModel", "cores", "instructionSets", "system", "hostName"})
        self.assertEqual(report["machine"]["cores"], len(os.sched_getaffinity(0)))
        self.assertEqual(report["transport"]["name"], "local")
        self.assertIn("threads of one process", report["transport"]["label"])
        self.assertEqual((report["ranks"], report["strategy"], report["datatype"]), (4, "staged", "bfloat16"))
        self.assertEqual(report["data"]["seed"], 5)
        self.assertEqual((report["warmups"], report["checks"], report["wrongElements"]), (1, 2, 0))

        table = rows(ended.stdout)
        self.assertEqual(len(report["results"]), len(table))
        for result, row in zip(report["results"], table):
            self.assertEqual([str(result["sizeBytes"]), str(result["count"])], row[:2])
            self.assertEqual(f"{result['ratio']:.3f}", row[19])
            self.assertEqual(f"{result['zipcclWireBytes']:.0f}", row[20])
            # What native sends is known: a rank's part to each of the three others.
            self.assertEqual(result["nativeWireBytes"], result["sizeBytes"] * 3 / 4)
            for place in ("outOfPlace", "inPlace"):
                samples = result[place]["samples"]
                self.assertEqual(len(samples), 3)
                self.assertEqual([sample["nativeFirst"] for sample in samples], [True, False, True])
                ratios = sorted(sample["nativeUs"] / sample["zipcclUs"] for sample in samples)
                self.assertAlmostEqual(result[place]["speedup"]["median"], ratios[1])
                times = sorted(sample["zipcclUs"] for sample in samples)
                self.assertEqual(result[place]["zipccl"]["timeUs"]["median"], times[1])
                self.assertGreater(times[0], 0)
                self.assertEqual(result[place]["native"]["wrongElements"], 0)
                self.assertEqual({sample["strategy"] for sample in samples}, {"staged"})

    def test_called_bare_it_is_sensible_and_quick(self):
        ended = run("perf", "all_gather", "-n", "1", "-w", "1")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([row[0] for row in rows(ended.stdout)], ["1048576", "4194304", "16777216"])
        self.assertIn("4 ranks", ended.stdout)
        self.assertIn("Gaussian, sigma 0.02", ended.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    parser.add_argument("--faulty", required=True)
    parser.add_argument("--version", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
