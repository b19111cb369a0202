#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs `zipccl perf codec` as a user would, on the host: exit statuses, what stands on stdout and stderr, the
# JSON file, and planted faults that it must notice. Where there is no GPU, also what it says of that.

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

from perf_test import bfloat16, rows, write_safetensors

HOST = ["perf", "codec", "--device", "host", "--rotate", "1M"]
SMALL = [*HOST, "-b", "24K", "-e", "96K", "-f", "4", "-n", "3"]

# Places of cells in a row; each of the two spreads is three words.
DEVICE, SIZE, TYPE, LAYOUT, BLOCKS, MEMCPY, ENCODE, DECODE, FIRST, STEADY, WRONG, ROUNDS, DATA = (
    *range(7), 10, 15, 16, 17, 18, 19)


def run(*words, program=None, fault=None, env=None, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZIPCCL_")}
    if fault:
        environment["ZIPCCL_TEST_FAULT"] = fault
    environment.update(env or {})
    return subprocess.run(
        [program or ARGUMENTS.zipccl, *words],
        stdin=subprocess.DEVNULL,
        stdout=settings.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        timeout=240,
        check=False,
        **settings,
    )


class PerfCodecTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_sound_codec_ends_with_zero(self):
        ended = run(*SMALL)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stderr, "")
        for row, size in zip(rows(ended.stdout), ("24576", "98304")):
            self.assertEqual(row[: MEMCPY], ["host", size, "bfloat16", "narrow", "-"])
            self.assertEqual(row[WRONG:], ["0", "3", "normal:0.02"])
            for place in (MEMCPY, ENCODE, DECODE):
                self.assertGreater(float(row[place]), 0)
            # The header alone makes small frames larger; no layout of a Gaussian is below its 11 bits.
            self.assertLess(11.0, float(row[STEADY]))
            self.assertLessEqual(float(row[STEADY]), float(row[FIRST]))
            self.assertLess(float(row[FIRST]), 11.8)
        self.assertIn("every bit came back", ended.stdout)

    def test_every_planted_fault_ends_with_one(self):
        for fault, words in (
            ("flip:1", "WRONG BITS"),
            ("flip:98304", "WRONG BITS"),
            ("lose:1", "WRONG BITS"),
            ("source:1", "WRONG BITS"),
            ("status:1", "a frame was rejected: "),
            ("header:1", "a frame was rejected: "),
        ):
            ended = run(*SMALL, program=ARGUMENTS.faulty, fault=fault)
            self.assertEqual(ended.returncode, 1, f"{fault}: {ended.stdout}{ended.stderr}")
            self.assertEqual(ended.stderr, "")
            self.assertIn(words, ended.stdout, fault)
            last = rows(ended.stdout)[-1]
            if fault.startswith(("flip", "lose")):
                self.assertGreaterEqual(int(last[WRONG]), 1, fault)
            if fault == "flip:98304":
                self.assertEqual(rows(ended.stdout)[0][WRONG], "0", "only the larger inputs are faulty")

    def test_without_a_fault_the_faulty_program_is_sound(self):
        self.assertEqual(run(*SMALL, program=ARGUMENTS.faulty).returncode, 0)
        self.assertEqual(run(*SMALL, program=ARGUMENTS.faulty, fault="flip:98305").returncode, 0)

    def test_unchecked_wrong_bits_are_not_called_right(self):
        ended = run(*SMALL, "-c", "0", program=ARGUMENTS.faulty, fault="flip:1")
        self.assertEqual(ended.returncode, 0)
        self.assertIn("nothing was checked", ended.stdout)
        self.assertNotIn("every bit", ended.stdout)
        self.assertEqual([row[WRONG] for row in rows(ended.stdout)], ["N/A", "N/A"])

    def test_a_bad_command_line_ends_with_two(self):
        for words in (
            ["-b", "12Q"],
            ["-b", "2M", "-e", "1M"],
            ["-b", "0"],
            ["-b", "3T"],
            ["--data", "nothing"],
            ["--data", "zeros:2"],
            ["--data", "widened", "-d", "bf16"],
            ["--layout", "wide"],
            ["-d", "int32"],
            ["--device", "tpu"],
            ["--against", "zstd"],
            ["--ranks", "2"],
        ):
            ended = run(*HOST, *words)
            self.assertEqual(ended.returncode, 2, (words, ended.stdout, ended.stderr))
            self.assertEqual(ended.stdout, "")
            self.assertRegex(ended.stderr, r"\Azipccl: .*\nTry: zipccl perf codec --help\n\Z")

    def test_stdout_that_takes_nothing_ends_with_three(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            ended = run(*SMALL, stdout=full)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("stdout", ended.stderr)

    def test_inputs_that_exceed_memory_end_with_three(self):
        ended = run(*HOST, "-b", "2T")
        self.assertEqual(ended.returncode, 3)
        self.assertIn("GiB of memory", ended.stderr)

    def test_data_sets_are_what_their_names_say(self):
        sets = ("normal:3", "zeros:1", "zeros:0.4", "random-bits", "uniform-exponent", "widened")
        ended = run(*HOST, "-b", "256K", "-e", "256K", "-n", "1", *(f"--data={name}" for name in sets))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        table = {row[DATA]: row for row in rows(ended.stdout)}
        self.assertEqual(tuple(table), sets)
        bits = {name: float(row[STEADY]) for name, row in table.items()}
        self.assertLess(bits["normal:3"], 11.4)
        # Empty tiles keep their record; there are no escapes.
        self.assertLess(bits["zeros:1"], 11.1)
        self.assertLess(bits["zeros:0.4"], 11.4)
        self.assertGreater(bits["random-bits"], 15.9)
        # 9 of 16 octaves are escapes, a byte each.
        self.assertAlmostEqual(bits["uniform-exponent"], 11 + 8 * 9 / 16, delta=0.4)
        self.assertEqual(table["widened"][TYPE : LAYOUT + 1], ["float", "narrow"])
        self.assertLess(bits["widened"], 11.5)

    def test_datatype_and_layout(self):
        wide = run(*SMALL, "-d", "float")
        self.assertEqual(rows(wide.stdout)[0][TYPE : LAYOUT + 1], ["float", "wide"])
        narrow = run(*SMALL, "-d", "float", "--layout", "narrow")
        self.assertEqual(rows(narrow.stdout)[0][TYPE : LAYOUT + 1], ["float", "narrow"])
        for ended in (wide, narrow):
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertLess(27.0, float(rows(ended.stdout)[1][STEADY]))

    def test_a_seed_repeats_the_data(self):
        bits = {}
        for seed in ("1", "1", "2"):
            ended = run(*SMALL, "--seed", seed, "-J", str(self.folder / "out.json"))
            self.assertIn(f"seed {seed}\n", ended.stdout)
            report = json.loads((self.folder / "out.json").read_text(encoding="ascii"))
            bits.setdefault(seed, set()).add(tuple(row["steadyBitsPerValue"] for row in report["results"]))
        self.assertEqual([len(values) for values in bits.values()], [1, 1])
        self.assertNotEqual(bits["1"], bits["2"])

    def test_tensors_of_a_file(self):
        numbers = random.Random(7)
        path = self.folder / "x:y.safetensors"
        content = bfloat16(numbers.gauss(0, 0.02) for _ in range(20000))
        write_safetensors(path, {"a:b": ("BF16", [100, 200], content), "i": ("I32", [1], struct.pack("<i", 1))})
        ended = run(*SMALL, "--data", f"file:{path}:a:b")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertNotIn("seed", ended.stdout)
        self.assertEqual(rows(ended.stdout)[0][DATA], f"file:{path}:a:b")
        self.assertEqual(run(*SMALL, "--data", f"file:{path}:i").returncode, 2)
        self.assertEqual(run(*SMALL, "--data", f"file:{path}:x").returncode, 2)

    def test_the_json_file(self):
        path = self.folder / "out.json"
        words = [*SMALL, "--seed", "5", "-J", str(path)]
        ended = run(*words)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads(path.read_text(encoding="ascii"))
        self.assertEqual(os.listdir(self.folder), ["out.json"])
        self.assertEqual(report["argv"], [ARGUMENTS.zipccl, *words])
        self.assertEqual((report["tool"], report["version"]), ("zipccl perf codec", ARGUMENTS.version))
        self.assertRegex(report["startedAt"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        self.assertEqual(set(report["machine"]), {"cpuModel", "cores", "instructionSets", "system", "hostName"})
        self.assertIsNone(report["gpu"])
        self.assertEqual((report["seed"], report["isRight"], report["wrongElements"]), (5, True, 0))
        table = rows(ended.stdout)
        for result, row in zip(report["results"], table):
            self.assertEqual(str(result["inputBytes"]), row[SIZE])
            self.assertEqual(f"{result['bitsPerValue']:.3f}", row[FIRST])
            self.assertGreaterEqual(result["sets"] * result["inputBytes"], 1 << 20)
            memcpy = result["memcpy"]["samplesUs"]
            for name in ("memcpy", "encode", "decode", "encodeAndDecode"):
                samples = result[name]["samplesUs"]
                self.assertEqual(len(samples), 3)
                ratios = sorted(copy / own for copy, own in zip(memcpy, samples))
                self.assertAlmostEqual(result[name]["speedToMemcpy"]["median"], ratios[1])
                self.assertEqual(result[name]["timeUs"]["median"], sorted(samples)[1])
                self.assertGreater(min(samples), 0)

    def test_calls_go_through_more_bytes_than_caches_hold(self):
        path = self.folder / "out.json"
        ended = run("perf", "codec", "--device", "host", "-b", "1M", "-e", "1M", "-n", "1", "-J", str(path))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        result = json.loads(path.read_text(encoding="ascii"))["results"][0]
        self.assertEqual((result["sets"], result["inputBytes"]), (128, 1 << 20))

    def test_called_bare_it_says_what_it_could_not_measure(self):
        ended = run("perf", "codec", "-n", "1", "-w", "0", "-e", "1M", "--rotate", "1M")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        hosts = [row for row in rows(ended.stdout) if row[DEVICE] == "host"]
        self.assertEqual([row[SIZE] for row in hosts], ["1048576"])
        if len(hosts) == len(rows(ended.stdout)):
            self.assertEqual(ended.stdout.count("# gpu: not measured, "), 1)
            wanted = run("perf", "codec", "--device", "gpu")
            self.assertEqual((wanted.returncode, wanted.stdout), (3, ""))
            self.assertRegex(wanted.stderr, r"\Azipccl: --device gpu: there is none to measure: .*\n\Z")
            rival = run("perf", "codec", "--against", "nvcomp")
            self.assertEqual((rival.returncode, rival.stdout), (3, ""))
            self.assertRegex(rival.stderr, r"\Azipccl: nvCOMP .*\n\Z")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    parser.add_argument("--faulty", required=True)
    parser.add_argument("--version", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
