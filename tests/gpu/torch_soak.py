#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Random collectives of PyTorch on two GPUs, each made compressed and natively and compared by ZipCCL itself
# (ZIPCCL_VERIFY=1): kind, size, datatype, content, stream, in place or not, grouped or not.
#
#   torch_soak.py --preload libzipccl_preload.so [--link host|tcp|nvlink] [--calls 10000] [--seed N]
#
# Status 1 on a mismatch, an error or a warning of ZipCCL, a process that does not end, or memory that grows: what the
# device and the process hold at the end against after the first fifth.

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

from torch_check import LINKS, RANKS, free_port, start_rank

MOST_ELEMENTS = 1 << 22
MOST_GROWTH_MIB = 64


def resident_mib():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


class Soak:
    def __init__(self, seed):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.rank = int(os.environ["RANK"])
        torch.cuda.set_device(self.rank)
        dist.init_process_group("nccl", device_id=torch.device("cuda", self.rank))
        self.groups = [None, dist.new_group([0, 1])]
        self.streams = [torch.cuda.Stream() for _ in range(3)]
        self.random = random.Random(seed)  # the same on all ranks
        generator = torch.Generator("cuda").manual_seed(seed + self.rank)
        normal = torch.randn(2 * MOST_ELEMENTS, generator=generator, device="cuda")
        scales = torch.logspace(-6, 1, 64, device="cuda").repeat_interleave(2 * MOST_ELEMENTS // 64)
        bits = torch.randint(-(1 << 31), (1 << 31) - 1, (2 * MOST_ELEMENTS,), generator=generator, device="cuda")
        self.contents = [normal * 0.02, normal * scales, torch.where(normal > 0, normal, 0.0)]
        self.raw = bits.to(torch.int32)
        self.buffers = [torch.empty(4 * MOST_ELEMENTS * RANKS, dtype=torch.uint8, device="cuda") for _ in range(2)]

    def filled(self, buffer, count, dtype, may_add):
        """The first `count` elements of a buffer, with fresh content."""
        torch = self.torch
        view = self.buffers[buffer][: count * dtype.itemsize].view(dtype)
        at = self.random.randrange(2 * MOST_ELEMENTS - count + 1) if count <= 2 * MOST_ELEMENTS else 0
        kind = self.random.randrange(5)
        if kind == 4 and not may_add:  # sums of NaNs have the bits of either
            view.view(torch.uint8).copy_(self.raw.view(torch.uint8)[: view.numel() * dtype.itemsize])
        else:
            view.copy_(self.contents[kind % 3][at : at + count])
        if kind == 3 and dtype == torch.float32:
            view.copy_(view.to(torch.bfloat16))
        return view

    def call(self):
        torch, dist, choose = self.torch, self.dist, self.random
        dtype = choose.choice([torch.bfloat16, torch.bfloat16, torch.float32, torch.float16])
        count = int(2 ** choose.uniform(0, 21)) + choose.choice([0, 0, 1, 7])
        group = choose.choice(self.groups)
        kind = choose.choice(
            ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "uneven", "broadcast", "batch", "coalesced"]
        )
        stream = choose.choice(self.streams)
        in_place = choose.random() < 0.5
        adds = kind in ("reduce_scatter", "all_reduce")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            first = self.filled(0, count * RANKS, dtype, adds)
            second = self.buffers[1][: count * RANKS * dtype.itemsize].view(dtype)
            mine, other = first[self.rank * count : (self.rank + 1) * count], second[:count]
            op = choose.choice([dist.ReduceOp.SUM, dist.ReduceOp.AVG])
            if kind == "all_gather":
                dist.all_gather_into_tensor(first if in_place else second, mine, group=group)
            elif kind == "reduce_scatter":
                dist.reduce_scatter_tensor(mine if in_place else other, first, op=op, group=group)
            elif kind == "all_reduce":
                dist.all_reduce(first, op=op, group=group)
            elif kind == "all_to_all":
                dist.all_to_all_single(second, first, group=group)
            elif kind == "uneven":
                cut = choose.randrange(2 * count + 1)
                splits = [cut, 2 * count - cut] if self.rank == 0 else [2 * count - cut, cut]
                dist.all_to_all_single(second, first, splits, splits, group=group)
            elif kind == "broadcast":
                dist.broadcast(first, choose.randrange(RANKS), group=group)
            elif kind == "batch":
                peer, ops = 1 - self.rank, []
                for i in range(choose.randint(1, 10)):
                    size = max(1, count >> (i % 3))
                    ops.append(dist.P2POp(dist.isend, first[:size], peer, group))
                    ops.append(dist.P2POp(dist.irecv, second[:size], peer, group))
                for work in dist.batch_isend_irecv(ops):
                    work.wait()
            else:
                parts = [max(1, count >> i) for i in range(4)]
                with dist._coalescing_manager(group=group, device=torch.device("cuda", self.rank)):
                    for size in parts:
                        dist.all_gather_into_tensor(second[: RANKS * size], first[:size], group=group)
        torch.cuda.current_stream().wait_stream(stream)

    def run(self, calls):
        torch = self.torch
        held, started = None, time.monotonic()
        for number in range(calls):
            self.call()
            if number % 50 == 49:
                torch.cuda.synchronize()
            if number == calls // 5 or number == calls - 1:
                torch.cuda.synchronize()
                free, total = torch.cuda.mem_get_info()
                now = ((total - free) >> 20, resident_mib())
                print(f"rank {self.rank}: {number + 1} calls, {now[0]} MiB of the device, {now[1]} MiB of the host, "
                      f"{time.monotonic() - started:.0f} s", flush=True)  # fmt: skip
                grew = held is not None and any(b - a > MOST_GROWTH_MIB for a, b in zip(held, now))
                held = held or now
        self.dist.barrier()
        torch.cuda.synchronize()
        self.dist.destroy_process_group()
        return 1 if grew else 0


def main():
    parser = argparse.ArgumentParser(description="Random collectives, verified.")
    parser.add_argument("--preload", default="libzipccl_preload.so")
    parser.add_argument("--link", choices=sorted(LINKS), default="host")
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        return Soak(arguments.seed).run(arguments.calls)

    print(f"seed {arguments.seed}", flush=True)
    port, children = free_port(), []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(RANKS):
            variables = {
                "ZIPCCL_STRATEGY": os.environ.get("ZIPCCL_STRATEGY", "staged"),
                "ZIPCCL_REDUCE": "on",
                "ZIPCCL_VERIFY": "1",
                "ZIPCCL_DEBUG": "WARN",
                "ZIPCCL_DEBUG_FILE": f"{folder}/{rank}.log",
            }
            command = [__file__, "--worker", "--calls", str(arguments.calls), "--seed", str(arguments.seed)]
            children.append(start_rank(arguments, rank, port, command, variables))
        deadline, faults = time.monotonic() + arguments.timeout, []
        for rank, child in enumerate(children):
            try:
                status = child.wait(timeout=max(1, deadline - time.monotonic()))
                if status != 0:
                    faults.append(f"rank {rank} ended with status {status}")
            except subprocess.TimeoutExpired:
                faults.append(f"rank {rank} did not end in {arguments.timeout} s")
                for each in children:
                    each.kill()
        for rank in range(RANKS):
            if os.path.exists(f"{folder}/{rank}.log"):
                with open(f"{folder}/{rank}.log", encoding="utf-8") as file:
                    faults += [f"rank {rank} said: {line.strip()}" for line in file if line.strip()][:5]
    print("\n".join(faults))
    print(f"{arguments.link}: {arguments.calls} calls verified, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
