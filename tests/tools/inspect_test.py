#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs `zipccl inspect` as a user would: the table and the JSON, what the flags do, how much memory it takes, and what
# it says of hostile files.

import argparse
import contextlib
import json
import math
import os
import pathlib
import pty
import random
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from hostile_files import INDEXES, SAFETENSORS, one, safetensors, with_length
from perf_test import bfloat16, rows, write_safetensors

MOST_MEMORY_BYTES = 200 << 20
ELEMENTS, DTYPE, SIGMA, INSIDE, BITS, RATIO, LIMIT, TILES, RAW, EMPTY, ZERO = range(11)


class Ended:
    def __init__(self, status, out, error, memory_bytes):
        self.returncode, self.stdout, self.stderr, self.memory_bytes = status, out, error, memory_bytes


def run(*words, stderr=None, stdout=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZIPCCL_")}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        process = subprocess.Popen(
            [ARGUMENTS.zipccl, "inspect", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=stdout or out,
            stderr=stderr or error,
            env=environment,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        error.seek(0)
        return Ended(process.returncode, out.read().decode("ascii"), error.read().decode("ascii"),
                     usage.ru_maxrss * 1024)


def report(*words):
    ended = run(*words, "--json", "-")
    if ended.returncode != 0:
        raise AssertionError(ended.stderr)
    return json.loads(ended.stdout)


class InspectTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = pathlib.Path(ARGUMENTS.data)

    def path(self, name, content=None):
        path = self.folder / name
        if content is not None:
            path.write_bytes(content)
        return path

    def assert_refused(self, path, words, *flags):
        ended = run(path, *flags)
        self.assertEqual(ended.returncode, 3, (path, ended.stdout, ended.stderr))
        self.assertEqual(ended.stdout, "")
        self.assertRegex(ended.stderr, r"\Azipccl: [ -~]*\n\Z")
        self.assertIn(words, ended.stderr)
        self.assertLess(len(ended.stderr), 1000)
        if not ARGUMENTS.sanitized:
            self.assertLess(ended.memory_bytes, MOST_MEMORY_BYTES)

    # ---- What it says ----

    def test_the_sample_tensors(self):
        ended = run(self.data / "bf16.safetensors", self.data / "fp32.safetensors")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        table = rows(ended.stdout)
        self.assertEqual(
            [row[-1] for row in table],
            ["ag.17.step199", "rs.1.step5", "rs.17.step199", "act.residual.1.step199", "act.mlp_in.1.step5",
             "actgrad.mlp_out.1.step199", "rs.1.step5", "rs.13.step119", "rs.10.step119", "router_counts.0.step119"])
        parameters = table[0]
        self.assertEqual((parameters[ELEMENTS], parameters[DTYPE], parameters[TILES]), ("131072", "BF16", "128"))
        self.assertLess(float(parameters[BITS]), 11.4)
        self.assertLess(10.4, float(parameters[LIMIT]))
        self.assertLess(float(parameters[LIMIT]), float(parameters[BITS]))
        self.assertAlmostEqual(float(parameters[RATIO]), 16 / float(parameters[BITS]), delta=0.001)
        self.assertLess(97, float(parameters[INSIDE]))
        # Gradients of the embedding: half of the rows are zero.
        self.assertGreater(int(table[2][EMPTY]), 30)
        # fp32 whose low halves are zero, and fp32 that uses them.
        self.assertLess(float(table[6][BITS]), 11.9)
        self.assertLess(27, float(table[8][BITS]))
        self.assertEqual(table[9][:-1], ["16", "I32", *["-"] * 9])
        totals = [line.split() for line in ended.stdout.splitlines() if line.startswith("# ") and " of them, " in line]
        self.assertEqual([total[2] for total in totals], ["F32", "BF16", "I32"])

    def test_the_json_is_the_table_unrounded(self):
        path = self.data / "fp32.safetensors"
        file = self.path("out.json")
        ended = run(path, "--json", file, "--sort", "ratio")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["out.json"])
        read = json.loads(file.read_text(encoding="ascii"))
        self.assertEqual((read["tool"], read["schema"], read["files"]), ("zipccl inspect", 1, [str(path)]))
        self.assertEqual(read["version"], ARGUMENTS.version)
        for tensor, row in zip(read["tensors"], rows(ended.stdout), strict=True):
            self.assertEqual(tensor["name"], row[-1])
            self.assertEqual(str(tensor["elements"]), row[ELEMENTS])
            if not tensor["encoded"]:
                continue
            self.assertEqual(f"{tensor['bitsPerValue']:.3f}", row[BITS])
            self.assertEqual(f"{tensor['ratio']:.3f}", row[RATIO])
            self.assertEqual(f"{tensor['entropyLimitBits']:.3f}", row[LIMIT])
            self.assertEqual(f"{100 * tensor['insideShare']:.2f}", row[INSIDE])
            self.assertEqual(f"{tensor['sigma']:.4g}", row[SIGMA])
            self.assertEqual(tensor["bytes"], 4 * math.prod(tensor["shape"]))
            self.assertAlmostEqual(tensor["bitsPerValue"], 8 * tensor["frameBytes"] / tensor["elements"])
        self.assertEqual(read["bytes"], sum(tensor["bytes"] for tensor in read["tensors"]))
        wire = sum(tensor.get("frameBytes", tensor["bytes"]) for tensor in read["tensors"])
        self.assertEqual(read["wireBytes"], wire)
        self.assertEqual(sum(total["wireBytes"] for total in read["totals"]), wire)

    def test_its_bits_are_those_that_perf_codec_measures(self):
        path, name = self.data / "bf16.safetensors", "act.mlp_in.1.step5"
        file = self.path("perf.json")
        subprocess.run(
            [ARGUMENTS.zipccl, "perf", "codec", "--device", "host", "--data", f"file:{path}:{name}", "-b", "256K", "-e",
             "256K", "-n", "1", "--rotate", "1M", "-J", str(file)],
            stdout=subprocess.DEVNULL, check=True)
        measured = json.loads(file.read_text(encoding="ascii"))["results"][0]
        tensor = report(path, "--match", name)["tensors"][0]
        self.assertAlmostEqual(tensor["bitsPerValue"], measured["steadyBitsPerValue"], places=9)
        self.assertAlmostEqual(tensor["firstCallBitsPerValue"], measured["bitsPerValue"], places=9)

    def test_a_gaussian_of_known_sigma(self):
        numbers = random.Random(11)
        path = self.path("gauss.bin", bfloat16(numbers.gauss(0, 0.02) for _ in range(200_000)))
        tensor = report(path, "--dtype", "bf16")["tensors"][0]
        self.assertEqual((tensor["name"], tensor["dtype"], tensor["elements"]), ("gauss.bin", "BF16", 200_000))
        self.assertAlmostEqual(tensor["sigma"], 0.02, delta=0.0003)
        self.assertAlmostEqual(tensor["mean"], 0.0, delta=0.0003)
        self.assertAlmostEqual(tensor["meanMagnitude"], 0.02 * math.sqrt(2 / math.pi), delta=0.0002)
        # docs/theory.md sections 3 and 7: 0.02 is 2^-6 times 1.28.
        self.assertAlmostEqual(tensor["insideShare"], 0.9787, delta=0.002)
        self.assertAlmostEqual(tensor["bitsPerValue"], 11.22, delta=0.03)

    def test_a_dump_says_the_same_as_the_file_it_came_from(self):
        numbers = random.Random(12)
        content = bfloat16(numbers.gauss(0, 3) for _ in range(30_000))
        write_safetensors(self.path("x.safetensors"), {"t": ("BF16", [30_000], content)})
        left = report(self.path("x.safetensors"))["tensors"][0]
        right = report(self.path("x.bin", content), "--dtype", "bfloat16")["tensors"][0]
        for field in set(left) - {"name", "file"}:
            self.assertEqual(left[field], right[field], field)

    def test_an_index_says_the_same_as_its_files(self):
        numbers = random.Random(13)
        shards = {}
        for number in (1, 2):
            tensors = {f"layer.{number}.{name}": ("BF16", [5000], bfloat16(numbers.gauss(0, 1) for _ in range(5000)))
                       for name in ("up", "down")}
            shards[f"model-{number}-of-2.safetensors"] = tensors
            write_safetensors(self.path(f"model-{number}-of-2.safetensors"), tensors)
        index = {"metadata": {"total_size": 40_000},
                 "weight_map": {tensor: name for name, tensors in shards.items() for tensor in tensors}}
        path = self.path("model.safetensors.index.json", json.dumps(index).encode())
        by_index, by_files = report(path), report(*(self.path(name) for name in shards))
        self.assertEqual(by_index["tensors"], by_files["tensors"])
        self.assertEqual(by_index["files"], by_files["files"])
        self.assertEqual(len(by_index["tensors"]), 4)

    def test_match_and_sort(self):
        path = self.data / "bf16.safetensors"

        def names(*flags):
            return [row[-1] for row in rows(run(path, *flags).stdout)]

        self.assertEqual(names("--match", "act.*"), ["act.residual.1.step199", "act.mlp_in.1.step5"])
        self.assertEqual(names("--match", "mlp", "--match", "ag."),
                         ["ag.17.step199", "act.mlp_in.1.step5", "actgrad.mlp_out.1.step199"])
        self.assertIn("; 4 left out", run(path, "--match", "act.*").stdout)
        self.assertEqual(names("--sort", "name"), sorted(names()))
        self.assertEqual(names("-r"), names()[::-1])
        tensors = {tensor["name"]: tensor for tensor in report(path)["tensors"]}
        for key, field in (("sigma", "sigma"), ("inside", "insideShare"), ("bits", "bitsPerValue"),
                           ("ratio", "ratio"), ("limit", "entropyLimitBits")):
            expected = sorted(tensors, key=lambda name: -tensors[name][field])
            self.assertEqual(names("--sort", key), expected, key)
            self.assertEqual(names("--sort", key, "--reverse"), expected[::-1], key)

    def test_threads_change_nothing(self):
        numbers = random.Random()
        content = b"".join(struct.pack("<f", numbers.gauss(0, 1)) for _ in range(600_000))
        path = self.path("x.bin", content)
        first, *others = (report(path, "--dtype", "fp32", "--threads", threads) for threads in (1, 2, 5))
        for other in others:
            self.assertEqual(other["tensors"], first["tensors"])

    def test_zstd(self):
        path = self.data / "bf16.safetensors"
        ended = run(path, "--zstd")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        read = report(path, "--zstd")
        for row, tensor in zip(rows(ended.stdout), read["tensors"], strict=True):
            if ARGUMENTS.zstd:
                self.assertEqual(row[ZERO + 1], f"{tensor['bytes'] / tensor['zstdBytes']:.3f}")
                self.assertLess(1.05, tensor["bytes"] / tensor["zstdBytes"])
            else:
                self.assertEqual((row[ZERO + 1], tensor["zstdBytes"]), ("-", None))
        if not ARGUMENTS.zstd:
            self.assertIn("built without it", ended.stdout)
        self.assertIsNone(report(path)["tensors"][0]["zstdBytes"])

    def test_small_and_odd_tensors(self):
        odd = {"empty": ("BF16", [0, 7], b""), "scalar": ("F32", [], struct.pack("<f", 2.5)),
               "nan": ("F16", [3], struct.pack("<3H", 0x7E00, 0xFC00, 0x3C00)), "flags": ("BOOL", [3], b"\1\0\1")}
        write_safetensors(self.path("odd.safetensors"), odd)
        ended = run(self.path("odd.safetensors"))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        table = {row[-1]: row for row in rows(ended.stdout)}
        self.assertEqual(table["empty"][:-1], ["0", "BF16", *["-"] * 9])
        self.assertEqual(table["scalar"][:3] + table["scalar"][TILES:TILES + 1], ["1", "F32", "0", "0"])
        self.assertEqual(table["nan"][SIGMA], "0")
        self.assertIn("# 2 values are infinite or no number", ended.stdout)
        unknown = self.path("f4.safetensors", one("F4", [7], 0, 4, b"1234"))
        self.assertEqual(rows(run(unknown).stdout), [["7", "F4", *["-"] * 9, "a"]])
        none = run(self.path("none.safetensors", safetensors("{}")))
        self.assertEqual((none.returncode, rows(none.stdout)), (0, []))

    def test_names_are_printed_as_they_are_no_threat(self):
        path = self.path("x.safetensors", safetensors(
            '{"\\u001b[2J\\n\\u00e9":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"))
        self.assertEqual(rows(run(path).stdout)[0][-1], "\\x1b[2J\\x0a\\xc3\\xa9")
        self.assertEqual(report(path)["tensors"][0]["name"], "\x1b[2J\n\u00e9")

    # ---- How it ends ----

    def test_a_bad_command_line_ends_with_two(self):
        path = self.data / "bf16.safetensors"
        for words in ([], [path, "--sort", "weight"], [path, "--threads", "0"], [path, "--threads", "1025"],
                      [path, "--dtype", "bf17"], [path, "--match", "nothing.like.it"], [path, "--nonsense"]):
            ended = run(*words)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), (words, ended.stderr))
            self.assertRegex(ended.stderr, r"\Azipccl: [^\n]*\nTry: zipccl inspect --help\n\Z")

    def test_what_cannot_be_written_ends_with_three(self):
        path = self.data / "bf16.safetensors"
        with open("/dev/full", "w", encoding="ascii") as full:
            self.assertEqual(run(path, stdout=full).returncode, 3)
        ended = run(path, "--json", self.path("missing/out.json"))
        self.assertEqual((ended.returncode, ended.stdout), (3, ""))
        self.assertIn("--json: cannot write", ended.stderr)

    # ---- Hostile and large files ----

    def test_hostile_files(self):
        self.assertGreaterEqual(len(SAFETENSORS) + len(INDEXES), 30)
        for name, (content, words) in SAFETENSORS.items():
            with self.subTest(name):
                self.assert_refused(self.path(f"{name}.safetensors", content), words)
        for name, (content, words) in INDEXES.items():
            with self.subTest(name):
                self.assert_refused(self.path(f"{name}.json", content), words)

    def test_a_hostile_shard_of_a_sound_index(self):
        self.path("bad.safetensors", one("U8", [3], 0, 3, b"xy"))
        index = self.path("m.index.json", b'{"weight_map":{"a":"bad.safetensors"}}')
        self.assert_refused(index, "bad.safetensors is not a safetensors file")
        os.mkfifo(self.path("pipe.safetensors"))
        self.path("m.index.json", b'{"weight_map":{"a":"pipe.safetensors"}}')
        self.assert_refused(index, "not a regular file")

    def test_what_is_no_file(self):
        os.mkfifo(self.path("pipe"))
        for path, words in ((self.path("pipe"), "not a regular file"), (self.folder, "not a regular file"),
                            (self.path("missing"), "No such file"), ("/dev/zero", "not a regular file")):
            for flags in ([], ["--dtype", "bf16"]):
                self.assert_refused(path, words, *flags)
        self.assert_refused(self.path("odd.bin", b"123"), "no multiple of the 2 bytes", "--dtype", "fp16")

    def test_a_header_beyond_the_limit_is_not_read(self):
        for length in (100_000_001, 1 << 40):
            path = self.path("huge.safetensors", with_length(length))
            try:
                os.truncate(path, length + 8)
            except OSError:
                continue
            self.assert_refused(path, "longer than 100000000 bytes")
        index = self.path("huge.json", b"{")
        os.truncate(index, 100_000_001)
        self.assert_refused(index, "longer than 100000000 bytes")

    def test_more_tensors_than_any_model_has(self):
        entries = ",".join(f'"{n}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for n in range(250_001))
        self.assert_refused(self.path("many.safetensors", safetensors("{" + entries + "}")), "more than 250000 entries")
        entries = ",".join(f'"{n}":"f"' for n in range(250_001))
        self.assert_refused(self.path("many.json", ('{"weight_map":{' + entries + "}}").encode()),
                            "more than 250000 tensors")

    def test_a_file_of_5_gib_takes_little_memory_and_shows_how_far_it_is(self):
        path = self.path("sparse.bin", b"")
        os.truncate(path, 5 << 30)
        master, slave = pty.openpty()
        pieces = []

        def read_terminal():
            # Linux ends it with an error when the last writer has gone.
            with contextlib.suppress(OSError):
                while piece := os.read(master, 4096):
                    pieces.append(piece)

        reader = threading.Thread(target=read_terminal)
        reader.start()
        ended = run(path, "--dtype", "bf16", stderr=slave)
        os.close(slave)
        reader.join()
        os.close(master)
        shown = b"".join(pieces).decode()
        self.assertEqual(ended.returncode, 0)
        self.assertRegex(shown, r"inspecting: \d+ % of 5 GiB, [\d.]+ GB/s")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown[-40:])
        row = rows(ended.stdout)[0]
        self.assertEqual(row[TILES], row[EMPTY])
        self.assertEqual(row[TILES], str((5 << 30) // 2048))
        if not ARGUMENTS.sanitized:
            self.assertLess(ended.memory_bytes, MOST_MEMORY_BYTES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--zstd", action="store_true")
    parser.add_argument("--sanitized", action="store_true")
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
