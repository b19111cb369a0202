#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Random collectives of PyTorch, each made compressed and natively and compared by ZipCCL itself
# (ZIPCCL_VERIFY=1): kind, size, datatype, content, stream, in place or not, grouped or not.
#
#   torch_soak.py --preload libzipccl_preload.so [--link host|tcp|nvlink|shared] [--ranks 2] [--calls 10000] [--seed N]
#
# Status 1 on a mismatch, an error or a warning of ZipCCL, a collective that is never compressed though all should be,
# a process that does not end, or memory that grows: what the device, with all ranks on it, and the process hold at the
# end against after the first fifth. The largest calls come first, so that memory has what they need by then.

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

from torch_check import LINKS, compressed_calls, expect_engine, free_port, own_device, start_rank, uneven_splits

MOST_ELEMENTS = (1 << 21) + 8  # of a call, for each rank
MOST_GROWTH_MIB = 64
KINDS = ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "uneven", "broadcast", "batch", "coalesced"]


def resident_mib():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


class Soak:
    def __init__(self, seed):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.rank = int(os.environ["RANK"])
        self.device = own_device()
        dist.init_process_group("nccl", device_id=self.device)
        expect_engine()
        self.ranks = dist.get_world_size()
        halves = [dist.new_group(list(range(first, self.ranks, 2))) for first in (0, 1)]
        self.groups = [None, dist.new_group(), *([halves[self.rank % 2]] if self.ranks > 2 else [])]
        self.streams = [torch.cuda.Stream() for _ in range(3)]
        self.random = random.Random(seed)  # the same on all ranks
        generator = torch.Generator("cuda").manual_seed(seed + self.rank)
        most = MOST_ELEMENTS * self.ranks
        normal = torch.randn(most, generator=generator, device="cuda")
        scales = torch.logspace(-6, 1, 64, device="cuda").repeat_interleave(most // 64 + 1)[:most]
        bits = torch.randint(-(1 << 31), (1 << 31) - 1, (most,), generator=generator, device="cuda")
        self.contents = [normal * 0.02, normal * scales, torch.where(normal > 0, normal, 0.0)]
        self.raw = bits.to(torch.int32)
        self.buffers = [torch.empty(4 * most, dtype=torch.uint8, device="cuda") for _ in range(2)]

    def filled(self, buffer, count, dtype, may_add):
        """The first `count` elements of a buffer, with fresh content."""
        torch = self.torch
        view = self.buffers[buffer][: count * dtype.itemsize].view(dtype)
        at = self.random.randrange(MOST_ELEMENTS * self.ranks - count + 1)
        kind = self.random.randrange(5)
        if kind == 4 and not may_add:  # sums of NaNs have the bits of either
            view.view(torch.uint8).copy_(self.raw.view(torch.uint8)[: view.numel() * dtype.itemsize])
        else:
            view.copy_(self.contents[kind % 3][at : at + count])
        if kind == 3 and dtype == torch.float32:
            view.copy_(view.to(torch.bfloat16))
        return view

    def call_at_random(self):
        choose = self.random
        dtype = choose.choice([self.torch.bfloat16, self.torch.bfloat16, self.torch.float32, self.torch.float16])
        count = int(2 ** choose.uniform(0, 21)) + choose.choice([0, 0, 1, 7])
        self.call(choose.choice(KINDS), choose.choice(self.groups), dtype, count, choose.randint(1, 10))

    def call(self, kind, group, dtype, count, messages):
        torch, dist, choose = self.torch, self.dist, self.random
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        stream = choose.choice(self.streams)
        in_place = choose.random() < 0.5
        adds = kind in ("reduce_scatter", "all_reduce")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            first = self.filled(0, count * ranks, dtype, adds)
            second = self.buffers[1][: count * ranks * dtype.itemsize].view(dtype)
            mine, other = first[rank * count : (rank + 1) * count], second[:count]
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
                cuts = sorted(choose.randrange(ranks * count + 1) for _ in range(ranks - 1))
                sizes = [end - start for start, end in zip([0, *cuts], [*cuts, ranks * count])]
                splits = uneven_splits(rank, sizes)
                dist.all_to_all_single(second, first, splits, splits, group=group)
            elif kind == "broadcast":
                dist.broadcast(first, group=group, group_src=choose.randrange(ranks))
            elif kind == "batch":
                after, before, ops = (rank + 1) % ranks, (rank - 1) % ranks, []
                for i in range(messages):
                    size = max(1, count >> (i % 3))
                    ops.append(dist.P2POp(dist.isend, first[:size], group=group, group_peer=after))
                    ops.append(dist.P2POp(dist.irecv, second[:size], group=group, group_peer=before))
                for work in dist.batch_isend_irecv(ops):
                    work.wait()
            else:
                parts = [max(1, count >> i) for i in range(4)]
                with dist._coalescing_manager(group=group, device=self.device):
                    for size in parts:
                        dist.all_gather_into_tensor(second[: ranks * size], first[:size], group=group)
        torch.cuda.current_stream().wait_stream(stream)

    def run(self, calls):
        torch = self.torch
        held, started = None, time.monotonic()
        for kind in KINDS:
            for group in self.groups:
                self.call(kind, group, torch.float32, MOST_ELEMENTS, messages=10)
        for number in range(calls):
            self.call_at_random()
            if number % 50 == 49:
                torch.cuda.synchronize()
            if number == calls // 5 or number == calls - 1:
                torch.cuda.synchronize()
                free, total = torch.cuda.mem_get_info()
                now = ((total - free) >> 20, resident_mib())
                print(f"rank {self.rank}: {number + 1} calls, {now[0]} MiB of the device, {now[1]} MiB of the host, "
                      f"{time.monotonic() - started:.0f} s\n", end="", flush=True)  # fmt: skip
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
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        return Soak(arguments.seed).run(arguments.calls)

    if arguments.ranks < 2 or arguments.ranks % 2 != 0:
        parser.error(f"--ranks {arguments.ranks}: half of the ranks make a group, so their number is 2, 4, 6, ...")
    print(f"seed {arguments.seed}", flush=True)
    port, children = free_port(), []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(arguments.ranks):
            variables = {
                "ZIPCCL_STRATEGY": os.environ.get("ZIPCCL_STRATEGY", "staged"),
                "ZIPCCL_REDUCE": "on",
                "ZIPCCL_VERIFY": "1",
                "ZIPCCL_DEBUG": "WARN",
                "ZIPCCL_STATS": f"{folder}/{rank}.stats",
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
        for rank in range(arguments.ranks):
            if os.path.exists(f"{folder}/{rank}.stats"):
                compressed = compressed_calls(f"{folder}/{rank}.stats")
                if rank == 0:
                    print(f"compressed on rank 0: {compressed}")
                never = [name for name, calls in compressed.items() if calls == 0]
                if never and variables["ZIPCCL_STRATEGY"] == "staged":
                    faults.append(f"rank {rank} compressed no {', '.join(never)}")
            else:
                faults.append(f"rank {rank} left no statistics")
            if os.path.exists(f"{folder}/{rank}.log"):
                with open(f"{folder}/{rank}.log", encoding="utf-8") as file:
                    faults += [f"rank {rank} said: {line.strip()}" for line in file if line.strip()][:5]
    print("\n".join(faults))
    print(f"{arguments.link}: {arguments.calls} calls of {arguments.ranks} ranks verified, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
