#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that are not alike: one has no ZipCCL in front of its NCCL, other settings, or no way to the others beside NCCL.
# Each rank is a Python process on the fake NCCL, with the interposer preloaded and the engine beside it, where it comes
# to NCCL as programs that are linked against it do, or as Python's extensions do, by RTLD_LOCAL.

import argparse
import ctypes
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--preload", type=pathlib.Path, required=True, help="the interposer beside the engine")
parser.add_argument("--fake", type=pathlib.Path, required=True, help="the fake libnccl.so.2")
parser.add_argument("--device", type=pathlib.Path, required=True, help="libzipccl_fake_device.so")
parser.add_argument("--lonely", type=pathlib.Path, required=True, help="a folder to put an interposer without engine")
ARGUMENTS, REST = parser.parse_known_args()

RANKS = 3
REMOTE_ERROR = 6

# One rank: says what it finds in lines of JSON, and goes on when it is told to.
RANK = """
import array, ctypes, json, os, sys, time

class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]

plan = json.loads(sys.argv[1])
rank, ranks = plan["rank"], plan["ranks"]
if plan["way"] == "linked":
    nccl = ctypes.CDLL(None)
else:
    local = ctypes.CDLL(plan["fake"], os.RTLD_LOCAL | os.RTLD_NOW)
    nccl = ctypes.CDLL(None) if plan["hasInterposer"] else local
device = ctypes.CDLL(plan["device"])
nccl.ncclGetLastError.restype = ctypes.c_char_p
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
unique, comm = UniqueId(), ctypes.c_void_p()
ctypes.memmove(ctypes.byref(unique), bytes.fromhex(plan["id"]), 128)
kept = []

def tell(**found):
    print(json.dumps(found), flush=True)

def init():
    start = time.monotonic()
    assert nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank) == 0
    return time.monotonic() - start

def values(of):
    # bf16 of a few exponents, any mantissa.
    return array.array("H", (0x3B00 + (i * 2654435761 + of * 40503) % 0x300 for i in range(plan["count"])))

def all_gather():
    # The result, and whether all bits are right once the stream has come to its end.
    send = values(rank)
    receive = array.array("H", bytes(2 * ranks * plan["count"]))
    kept.append((send, receive))
    result = nccl.ncclAllGather(*(ctypes.c_void_p(each.buffer_info()[0]) for each in (send, receive)),
                                ctypes.c_size_t(plan["count"]), 9, comm, None)
    def is_right():
        device.fakeStreamSynchronize(None)
        return receive == sum(map(values, range(ranks)), array.array("H"))
    return result, is_right

def async_error():
    error = ctypes.c_int(-1)
    assert nccl.ncclCommGetAsyncError(comm, ctypes.byref(error)) == 0
    return error.value

def wait_to_go():
    assert sys.stdin.readline() == "go\\n"
"""

# As a program that meets an error.
MEETS_ERROR = """
took = init()
first, _ = all_gather()
second, _ = all_gather()
tell(took=took, results=[first, second], error=async_error(), words=(nccl.ncclGetLastError(comm) or b"").decode())
wait_to_go()
assert nccl.ncclCommAbort(comm) == 0
"""

# As a program that meets none.
WORKS = """
init()
for _ in range(plan["calls"]):
    result, is_right = all_gather()
    assert result == 0 and is_right()
tell(error=async_error())
assert nccl.ncclCommDestroy(comm) == 0
"""

CALLS_AT_ONCE = """
init()
all_gather()
tell()
wait_to_go()
assert nccl.ncclCommAbort(comm) == 0
"""

CALLS_NOTHING = """
init()
tell()
wait_to_go()
assert nccl.ncclCommAbort(comm) == 0
"""


class Rank:
    """A process, with what it says."""

    def __init__(self, rank, unique_id, script, way, interposer, environment):
        plan = {
            "rank": rank, "ranks": RANKS, "way": way, "hasInterposer": interposer is not None, "id": unique_id,
            "fake": str(ARGUMENTS.fake), "device": str(ARGUMENTS.device), "count": 20000, "calls": 3,
        }  # fmt: skip
        preloads = [interposer] if interposer else []
        if way == "linked":
            # Behind the interposer in the order of look-ups, as the NCCL that a program is linked against.
            preloads.append(ARGUMENTS.fake)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZIPCCL_", "LD_", "NCCL_"))}
        variables = {"LD_PRELOAD": ":".join(map(str, preloads)), "ZIPCCL_STRATEGY": "staged", "FAKE_NCCL_TIME_LIMIT_MS": "60000"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK + script, json.dumps(plan)],
            env={**clean, **variables, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hear(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        """What it wrote to standard error."""
        _, errors = self.process.communicate(timeout=120)
        return errors


class RanksTest(unittest.TestCase):
    def start(self, scripts, way="linked", without=None, lonely=None, environments=None, **everywhere):
        """Ranks of `scripts`; `without` has no interposer, `lonely` one without an engine."""
        nccl = ctypes.CDLL(str(ARGUMENTS.fake), os.RTLD_LOCAL | os.RTLD_NOW)
        unique = ctypes.create_string_buffer(128)
        self.assertEqual(nccl.ncclGetUniqueId(unique), 0)
        ranks = []
        for rank, script in enumerate(scripts):
            interposer = None if rank == without else ARGUMENTS.preload if rank != lonely else self.lonely_interposer()
            environment = {**everywhere, **(environments or {}).get(rank, {})}
            ranks.append(Rank(rank, unique.raw.hex(), script, way, interposer, environment))
            self.addCleanup(ranks[-1].process.kill)
        return ranks

    def lonely_interposer(self):
        ARGUMENTS.lonely.mkdir(parents=True, exist_ok=True)
        lonely = ARGUMENTS.lonely / "libzipccl_preload.so"
        lonely.write_bytes(ARGUMENTS.preload.read_bytes())
        return lonely

    def check_others_end(self, other_calls, words, way, **differs):
        """The last rank is the one that differs: the others have an error that stays, in time, and say why once."""
        others = CALLS_AT_ONCE if other_calls else CALLS_NOTHING
        ranks = self.start([MEETS_ERROR] * (RANKS - 1) + [others], way, ZIPCCL_TIMEOUT="2", **differs)
        start = time.monotonic()
        said = [rank.hear() for rank in ranks[:-1]]
        self.assertLess(time.monotonic() - start, 30)
        for rank in ranks:
            rank.go()
        errors = [rank.end() for rank in ranks]
        for heard, error in zip(said, errors):
            self.assertIsNotNone(heard, error)
            self.assertNotEqual(heard["error"], 0, error)
            self.assertEqual(heard["results"], [heard["error"]] * 2)
            self.assertRegex(heard["words"], words)
            self.assertEqual(error.count("the handshake failed: "), 1, error)
            self.assertEqual(error.count("ZIPCCL WARN"), 1, error)
        return said, errors

    def check_without(self, way):
        said, errors = self.check_others_end(False, "a rank without ZipCCL never answers", way, without=RANKS - 1)
        for heard in said:
            self.assertEqual(heard["error"], REMOTE_ERROR)
            self.assertLess(heard["took"], 12, "the limit is 2 s")
        self.assertNotIn("ZIPCCL", errors[-1])
        # Its calls meet the others' handshake.
        self.check_others_end(True, "ZipCCL: ", way, without=RANKS - 1)

    def test_a_rank_without_zipccl_linked(self):
        self.check_without("linked")

    def test_a_rank_without_zipccl_local(self):
        self.check_without("local")

    def test_a_rank_that_is_switched_off_or_lacks_its_engine(self):
        words = "a rank without ZipCCL never answers"
        self.check_others_end(False, words, "linked", environments={RANKS - 1: {"ZIPCCL_DISABLE": "1"}})
        _, errors = self.check_others_end(False, words, "local", lonely=RANKS - 1)
        self.assertEqual(errors[-1].count("the engine cannot be loaded"), 1, errors[-1])

    def check_native(self, words, warner, way="linked", **differs):
        """All bits are right, nothing was compressed, and `warner` alone says why, once."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = self.start([WORKS] * RANKS, way, ZIPCCL_STATS=f"{folder}/%r.json", **differs)
            errors = [rank.end() for rank in ranks]
            for rank, error in zip(ranks, errors):
                self.assertEqual(rank.process.returncode, 0, error)
            tables = [json.loads(pathlib.Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)]
        for rank, error in enumerate(errors):
            self.assertEqual(error.count("ZIPCCL WARN"), 1 if rank == warner else 0, error)
        self.assertRegex(errors[warner], words)
        self.assertEqual([row for table in tables for row in table["calls"] if row["compressedCalls"] != 0], [])

    def test_settings_that_differ_leave_all_native(self):
        for name, value, words in (
            ("ZIPCCL_STRATEGY", "native", "strategy is staged on ranks 0 and 2, native on rank 1"),
            ("ZIPCCL_MIN_BYTES", "7", r"the minimum of bytes is \d+ on ranks 0 and 2, 7 on rank 1"),
            ("ZIPCCL_MAX_SCRATCH", "1M", r"the bound of scratch is .* on ranks 0 and 2, .* on rank 1"),
            ("ZIPCCL_COLLS", "AllGather", "the set of collectives to compress is .* on ranks 0 and 2, AllGather on rank 1"),
            ("ZIPCCL_REDUCE", "off", "the mode of reductions is auto on ranks 0 and 2, off on rank 1"),
            ("ZIPCCL_VERIFY", "5", "of which one is verified is 0 on ranks 0 and 2, 5 on rank 1"),
        ):
            with self.subTest(name):
                way = random.choice(("linked", "local"))
                self.check_native("because they differ: .*" + words, 0, way, environments={1: {name: value}})

    def test_a_wrong_interface_on_one_rank_leaves_all_native(self):
        rank = random.randrange(RANKS)
        self.check_native("cannot reach the others beside NCCL, .*NCCL_SOCKET_IFNAME", rank,
                          environments={rank: {"NCCL_SOCKET_IFNAME": "=nonsense0"}})

    def test_ranks_that_are_alike_compress(self):
        with tempfile.TemporaryDirectory() as folder:
            for way in ("linked", "local"):
                ranks = self.start([WORKS] * RANKS, way, ZIPCCL_STATS=f"{folder}/%r.json")
                for rank in ranks:
                    self.assertEqual((rank.end(), rank.process.returncode), ("", 0))
                for rank in range(RANKS):
                    (row,) = json.loads(pathlib.Path(folder, f"{rank}.json").read_text())["calls"]
                    self.assertEqual((row["collective"], row["datatype"]), ("AllGather", "bfloat16"))
                    self.assertEqual((row["calls"], row["compressedCalls"]), (3, 3))
                    self.assertEqual((row["bytes"], row["encodedBytes"]), (120000, 120000))
                    self.assertTrue(0 < row["wireBytes"] < 120000, row)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
