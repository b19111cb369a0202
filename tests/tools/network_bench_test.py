#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs bench/network_bench.py in its short form: hosts in network namespaces, their links as fast as was said, bits
# compared, and nothing left when it ends, however it ends. Skipped, counted, where a machine allows no namespaces.

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench/network_bench.py"
SKIPPED = 77
MARK = "ZIPCCL_TEST_NETWORK"

sys.path.insert(0, str(ROOT / "bench"))
import network  # noqa: E402 (the path first)
import network_bench  # noqa: E402


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZIPCCL_")}
    return {**kept, **more}


def start(*words, **more):
    return subprocess.Popen(
        [sys.executable, "-B", str(BENCH), *words, "--build", ARGUMENTS.build, "--short", "--skip"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
    )


def processes(mark):
    """Those that were started with a variable of this value, zombies left out, which have no environment."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass  # it ended
    return found


def names():
    folder = pathlib.Path("/run/netns")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def links():
    return sorted(path.name for path in pathlib.Path("/sys/class/net").iterdir())


class NetworkBenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.before = names(), links()
        self.mounts = pathlib.Path("/proc/self/mounts").read_text()

    def assert_nothing_is_left(self, mark):
        end = time.monotonic() + 20
        while processes(mark) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(processes(mark), [])
        self.assertEqual((names(), links()), self.before)
        self.assertEqual(pathlib.Path("/proc/self/mounts").read_text(), self.mounts)

    def test_short_run(self):
        mark = uuid.uuid4().hex
        bench = start(str(self.folder / "out.json"), **{MARK: mark})
        out, error = bench.communicate(timeout=240)
        self.assertEqual(bench.returncode, 0, out + error)
        self.assert_nothing_is_left(mark)

        document = json.loads((self.folder / "out.json").read_text())
        for link in document["links"]:
            # A core that is busy elsewhere makes it slower, nothing makes it faster; the burst counts for little.
            self.assertGreater(link["streamGigabits"], 0.1 * link["gigabits"])
            self.assertLess(link["streamGigabits"], 1.02 * link["gigabits"])
        self.assertEqual(len(document["results"]), sum(len(run.sweep) for run in network_bench.short_runs()))
        for result in document["results"]:
            report = result["report"]
            perf = report["results"][0]
            self.assertEqual((report["ranks"], report["transport"]["hosts"]), (2, 2))
            self.assertEqual(report["wrongElements"], 0)
            self.assertTrue(perf["checked"])
            # Wire bytes cannot pass faster than the link: half of the message comes from the other host.
            seconds = result["nativeUs"]["zipccl with encoding off"] * 1e-6
            self.assertGreater(seconds, 0.8 * perf["nativeWireBytes"] * 8 / (result["network"]["gigabits"] * 1e9))
            tried = [each["us"] for each in result["tuning"]["algorithms"]]
            self.assertEqual(tried, sorted(tried))
            self.assertGreater(len(tried), 3)
            self.assertAlmostEqual(sum(result["machine"]["cores"].values()), 1, delta=0.01)
        page = (self.folder / "out.html").read_text(encoding="ascii")
        self.assertIn("AllGather, parameters", page)
        self.assertIn(f"{document['results'][0]['speedup']['median']:.2f}", page)

    def test_nothing_is_left_of_one_that_was_killed(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                mark = uuid.uuid4().hex
                bench = start(str(self.folder / "out"), **{MARK: mark})
                self.addCleanup(bench.kill)
                # The network is there, and the first ranks are about to start.
                self.assertIn("Gbit/s", bench.stdout.readline())
                self.assertGreater(len(processes(mark)), 1)
                bench.send_signal(number)
                bench.communicate(timeout=30)
                self.assertEqual(bench.returncode, -number if number == signal.SIGKILL else 128 + number)
                self.assert_nothing_is_left(mark)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_run_that_fails_ends_with_three(self):
        mark = uuid.uuid4().hex
        bench = start(str(self.folder / "out"), **{MARK: mark, "OMPI_MCA_coll": "none"})
        out, error = bench.communicate(timeout=120)
        self.assertEqual(bench.returncode, 3, out + error)
        self.assertIn("ended with status", error)
        self.assert_nothing_is_left(mark)


class RefusalTest(unittest.TestCase):
    """What it does not find it names, before it changes anything."""

    def refusal_as(self, user, path):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.environ["PATH"] = path
            os.setuid(user)
            os.write(write, str(network.refusal()).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with os.fdopen(read) as words:
            return words.read()

    def test_refusals(self):
        path = os.environ["PATH"]
        self.assertEqual(self.refusal_as(65534, path), "network namespaces need root")
        self.assertEqual(self.refusal_as(0, "/nowhere"), "there is no `ip` (Debian: iproute2)")
        self.assertEqual(self.refusal_as(0, path), "None")

    def test_a_run_that_is_not_there(self):
        ended = subprocess.run(
            [sys.executable, "-B", str(BENCH), "out", "2gbit", "--build", ARGUMENTS.build],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(ended.returncode, 2)
        self.assertIn("no run begins with 2gbit; --list names them", ended.stderr)


def missing():
    """Why there are no such hosts here, found by making some."""
    child = subprocess.run(
        [sys.executable, "-B", "-c", "import network\nnetwork.enter()\nnetwork.Network(2).shape(1)"],
        cwd=ROOT / "bench",
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if child.returncode == 0 else (child.stderr.strip().splitlines() or ["no reason was given"])[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
