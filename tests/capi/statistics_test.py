#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# ZIPCCL_STATS: what stands in the file, at an exit and on SIGTERM, and that SIGTERM does to a process what it did
# before. Each case is a Python process of its own with two ranks as threads.

import argparse
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--library", type=pathlib.Path, required=True, help="libzipccl.so")
ARGUMENTS, REST = parser.parse_known_args()

FLOAT32, BFLOAT16, INT32 = 7, 9, 2

PRELUDE = """
import ctypes, os, signal, sys, threading, time

zipccl = ctypes.CDLL(sys.argv[1])
comms = (ctypes.c_void_p * 2)()

def start():
    assert zipccl.zipcclCommInitAllLocal(comms, 2, None) == 0

def all_gather(count, datatype, size):
    def one(rank):
        send = ctypes.create_string_buffer(count * size)
        receive = ctypes.create_string_buffer(2 * count * size)
        assert zipccl.zipcclAllGather(send, receive, ctypes.c_size_t(count), datatype, ctypes.c_void_p(comms[rank]),
                                      None) == 0
    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

def ready():
    print("ready", flush=True)

def wait():
    ready()
    while True: time.sleep(0.05)
"""


class StatisticsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def begin(self, code, name="calls.json", **environment):
        variables = {key: value for key, value in os.environ.items() if not key.startswith("ZIPCCL_")}
        variables |= {"ZIPCCL_STATS": str(self.folder / name), "ZIPCCL_STRATEGY": "staged"} | environment
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(ARGUMENTS.library)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        output, errors = process.communicate(timeout=120)
        self.assertEqual(errors, "")
        return output

    def run_to_end(self, code, **settings):
        process = self.begin(code, **settings)
        output = self.end(process)
        self.assertEqual(process.returncode, 0)
        return process, output

    def terminate_when_ready(self, code, **settings):
        process = self.begin(code, **settings)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        return process, self.end(process)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def read(self, name="calls.json"):
        self.assertEqual(self.files(), [name])
        return json.loads((self.folder / name).read_text())

    def test_counts_by_collective_and_datatype(self):
        process, _ = self.run_to_end(
            f"""
            start()
            for i in range(3): all_gather(40000, {BFLOAT16}, 2)
            all_gather(5000, {FLOAT32}, 4)
            all_gather(7, {INT32}, 4)
            """
        )
        table = self.read()
        self.assertEqual(table["process"], process.pid)
        self.assertEqual(table["host"], socket.gethostname().split(".")[0])
        self.assertIn(table["rank"], (0, 1))
        self.assertEqual(table["ranks"], 2)
        rows = {row["datatype"]: row for row in table["calls"]}
        self.assertEqual(set(rows), {"bfloat16", "float32", "int32"})
        self.assertTrue(all(row["collective"] == "AllGather" for row in table["calls"]))
        compressed = rows["bfloat16"]
        self.assertEqual((compressed["calls"], compressed["compressedCalls"]), (6, 6))
        self.assertEqual(compressed["bytes"], 6 * 80000)
        self.assertEqual(compressed["encodedBytes"], 6 * 80000)
        self.assertEqual(compressed["strategy"], "staged")
        # Zeros: next to nothing is left of them.
        self.assertLess(compressed["wireBytes"], 6 * 80000)
        self.assertGreater(compressed["wireBytes"], 0)
        exact = compressed["encodedBytes"] / compressed["wireBytes"]
        self.assertTrue(exact - 0.0011 < compressed["ratio"] <= exact + 1e-9, compressed)
        self.assertEqual(compressed["estimatedSavedUs"], 0)
        native = rows["int32"]
        self.assertEqual((native["calls"], native["compressedCalls"], native["bytes"]), (2, 0, 56))
        self.assertEqual((native["strategy"], native["ratio"]), ("native", None))

    def test_names_take_host_process_and_rank(self):
        process, _ = self.run_to_end("start()", name="%h.%p.%r.json")
        host = socket.gethostname().split(".")[0]
        (name,) = self.files()
        # Of its two ranks that which came first.
        self.assertRegex(name, rf"^{re.escape(host)}\.{process.pid}\.[01]\.json$")
        self.assertEqual(self.read(name)["calls"], [])

    def test_without_a_communicator_there_is_no_file(self):
        self.run_to_end("zipccl.zipcclGetErrorString(0)")
        self.assertEqual(self.files(), [])

    def test_a_file_that_cannot_be_written_is_a_warning(self):
        process = self.begin("start()", name="absent/calls.json")
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(errors.count("ZIPCCL_STATS: cannot write"), 1)

    def test_sigterm_writes_and_ends_as_it_did(self):
        process, _ = self.terminate_when_ready(f"start(); all_gather(5000, {BFLOAT16}, 2); wait()")
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(self.read()["calls"][0]["calls"], 2)

    def test_sigterm_in_the_middle_of_calls(self):
        for _ in range(5):
            process = self.begin(f"start(); ready()\nwhile True: all_gather(3000, {BFLOAT16}, 2)")
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(random.random() * 0.3)
            process.send_signal(signal.SIGTERM)
            self.end(process)
            self.assertEqual(process.returncode, -signal.SIGTERM)
            self.read()

    def test_the_handler_of_before_is_called(self):
        process, output = self.terminate_when_ready(
            f"""
            def on_terminate(number, frame):
                os.write(1, b"handled %d\\n" % number)  # print() may be interrupted while it writes
                os._exit(7)
            signal.signal(signal.SIGTERM, on_terminate)
            start()
            all_gather(5000, {BFLOAT16}, 2)
            wait()
            """
        )
        self.assertEqual((process.returncode, output), (7, "handled 15\n"))
        self.assertEqual(self.read()["calls"][0]["calls"], 2)

    def test_a_program_that_lives_on_writes_again_at_its_exit(self):
        process, _ = self.terminate_when_ready(
            f"""
            received = []
            signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
            start()
            all_gather(5000, {BFLOAT16}, 2)
            ready()
            while not received: time.sleep(0.01)
            all_gather(5000, {BFLOAT16}, 2)
            """
        )
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.read()["calls"][0]["calls"], 4)

    def test_a_later_handler_replaces_this_one(self):
        process, _ = self.terminate_when_ready(
            f"""
            start()
            all_gather(5000, {BFLOAT16}, 2)
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(9))
            wait()
            """
        )
        self.assertEqual(process.returncode, 9)
        self.assertEqual(self.read()["calls"][0]["calls"], 2)

    def test_an_ignored_sigterm_stays_ignored(self):
        process = self.begin(
            """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            start()
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
            ready()
            time.sleep(0.5)
            """
        )
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        self.end(process)
        self.assertEqual(process.returncode, 0)
        self.read()

    def test_children_write_nothing(self):
        process, _ = self.run_to_end(
            f"""
            start()
            all_gather(5000, {BFLOAT16}, 2)
            child = os.fork()
            if child == 0:
                ctypes.CDLL(None).exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert not os.path.exists(os.environ["ZIPCCL_STATS"])
            child = os.fork()
            if child == 0:
                while True: time.sleep(1)
            os.kill(child, signal.SIGTERM)
            assert os.waitpid(child, 0)[1] == signal.SIGTERM
            assert not os.path.exists(os.environ["ZIPCCL_STATS"])
            """
        )
        self.assertEqual(self.read()["process"], process.pid)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
