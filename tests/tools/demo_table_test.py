#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The table of scripts/demo.sh, from small runs of the command: a row for each tensor, with the figures of the JSON files,
# and a sentence that is true of them.

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "scripts/lib/demo_table.py"
SMALL = ["--ranks", "2", "-b", "64K", "-e", "64K", "-n", "3"]
CALLS = [("all_gather", "bf16.safetensors:ag.17.step199"), ("reduce_scatter", "fp32.safetensors:rs.1.step5")]


class DemoTableTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        number = 100
        for collective, tensor in CALLS:
            for flags in (["--link", "100Mbit"], ["--strategy", "auto"]):
                number += 1
                words = [ARGUMENTS.zipccl, "perf", collective, "--data", f"file:{ROOT}/data/{tensor}", *SMALL, *flags]
                subprocess.run([*words, "-J", str(cls.folder / f"{number}.json")], check=True, stdout=subprocess.DEVNULL)

    def reports(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def table(self, folder):
        ended = subprocess.run([sys.executable, "-B", str(TABLE), str(folder)], stdout=subprocess.PIPE, text=True, check=True)
        return ended.stdout

    def test_rows_are_the_reports(self):
        text = self.table(self.folder)
        emulated = self.reports()[0::2]
        for report, words in zip(emulated, ("AllGather ", "widened from bf16 (fp32)"), strict=True):
            line = next(line for line in text.splitlines() if words in line)
            self.assertIn(f"{report['results'][0]['outOfPlace']['speedup']['median']:.2f}", line)
            self.assertIn(f"{report['results'][0]['ratio']:.2f}", line)
            self.assertTrue(line.endswith("native"), line)
        self.assertIn("EMULATED 0.1 Gbit/s", text)
        self.assertIn("every bit arrived as it was sent", text)
        self.assertIn("it leaves calls as they are", text)

    def test_wrong_bits_and_another_choice_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, report in enumerate(self.reports()):
                if number == 1:
                    report["wrongElements"] = 3
                    report["results"][0]["strategy"] = "staged"
                pathlib.Path(folder, f"{100 + number}.json").write_text(json.dumps(report))
            text = self.table(folder)
        self.assertIn("3 elements ARRIVED WRONG", text)
        self.assertNotIn("it leaves calls as they are", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
