#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch with and without ZipCCL in front of NCCL: every collective that frameworks call, DDP and
# FSDP2 training, graph capture; with ZipCCL's defaults, with its collectives named, and with all calls
# compressed. Results are compared by their hashes, bit for bit, and steps are timed.
#
#   torch_check.py --preload libzipccl_preload.so [--link host|tcp|nvlink|shared] [--ranks 2] [--steps 30]
#   torch_check.py --preload libzipccl_preload.so --parts fsdp,ddp --settings auto --repeats 5
#
# Starts itself, a process for each rank and setting; with repeats again and again, since steps of two processes
# differ more than those of one. With the link "shared" all ranks use one GPU, each as a host of its own, and times
# measure no more than that. Status 1 when a hash differs, a process fails or has not loaded ZipCCL, or nothing was
# compressed where all calls should be.

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402 (the path first)

LINKS = {
    "nvlink": {},
    "host": {"NCCL_P2P_DISABLE": "1"},
    "tcp": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"},
    "shared": {"NCCL_NET": "Socket"},
}


def start_rank(arguments, rank, port, command, variables, **streams):
    """A process of the script that `command` begins with: a rank behind the preloaded library, on the chosen link."""
    environment = {
        **os.environ,
        **LINKS[arguments.link],
        "NCCL_NVLS_ENABLE": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(arguments.ranks),
        "LD_PRELOAD": arguments.preload,
        **variables,
    }
    if arguments.link == "shared":
        # NCCL refuses a second rank on a GPU of one host, and believes this about hosts.
        environment.update(NCCL_HOSTID=f"host-of-rank-{rank}", LOCAL_RANK="0")
    return subprocess.Popen([sys.executable, *command], env=environment, **streams)


def own_device():
    """In a rank: its device, made the current one."""
    import torch

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def expect_engine():
    """In a rank that has a communicator: calls go through ZipCCL, and are not merely compared with themselves."""
    if "1" in (os.environ.get("ZIPCCL_DISABLE"), os.environ.get("TORCH_NCCL_USE_COMM_NONBLOCKING")):
        return  # calls pass, also those of non-blocking communicators
    with open("/proc/self/maps", encoding="utf-8") as file:
        if "/libzipccl.so" not in file.read():
            sys.exit("libzipccl.so was not loaded, so nothing would be tested")


def compressed_calls(path):
    """Of each collective in a file of ZIPCCL_STATS."""
    with open(path, encoding="utf-8") as file:
        calls = json.load(file)["calls"]
    names = {call["collective"] for call in calls}
    return {name: sum(call["compressedCalls"] for call in calls if call["collective"] == name) for name in names}


def uneven_splits(rank, sizes):
    """What a rank sends to each rank, and receives from each: as many from it as to it."""
    return sizes[rank:] + sizes[:rank]


def run_setting(arguments, name, settings):
    """The results of all ranks, or None."""
    port = free_port()
    children = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(arguments.ranks):
            command = [__file__, "--worker", f"{folder}/{rank}.json", "--steps", str(arguments.steps)]
            command += ["--parts", arguments.parts, "--width", str(arguments.width)]
            variables = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "ZIPCCL_STATS": f"{folder}/{rank}.stats", **settings}
            children.append(start_rank(arguments, rank, port, command, variables))
        failed = False
        deadline = time.monotonic() + arguments.timeout
        for child in children:
            try:
                failed |= child.wait(timeout=max(1, deadline - time.monotonic())) != 0
            except subprocess.TimeoutExpired:
                print(f"{name}: timed out", flush=True)
                failed = True
                for each in children:
                    each.kill()
        results = []
        for rank in range(arguments.ranks):
            try:
                with open(f"{folder}/{rank}.json", encoding="utf-8") as file:
                    results.append(json.load(file))
                if name == "staged" and not any(compressed_calls(f"{folder}/{rank}.stats").values()):
                    print(f"{name}: rank {rank} compressed nothing", flush=True)
                    failed = True
            except OSError as error:
                print(f"{name}: rank {rank} left no results: {error}", flush=True)
                failed = True
        return None if failed else results


class Worker:
    def __init__(self, steps, width):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.steps, self.width = torch, dist, steps, width
        self.rank = int(os.environ["RANK"])
        self.device = own_device()
        torch.use_deterministic_algorithms(True)
        dist.init_process_group("nccl", device_id=self.device)
        expect_engine()
        self.ranks = dist.get_world_size()
        self.hashes, self.times = {}, {}

    def normal(self, count, dtype, salt=0):
        generator = self.torch.Generator("cuda").manual_seed(1000 * self.rank + salt)
        values = self.torch.randn(count, generator=generator, device="cuda") * 0.02
        return values.to(self.torch.bfloat16).to(dtype) if dtype != self.torch.int32 else values.to(dtype)

    def note(self, name, *tensors):
        self.torch.cuda.synchronize()
        digest = hashlib.sha256()
        for tensor in tensors:
            digest.update(tensor.detach().contiguous().view(self.torch.uint8).cpu().numpy().tobytes())
        self.hashes[name] = digest.hexdigest()[:16]

    def collectives(self):
        torch, dist = self.torch, self.dist
        count = 8 * 1024 * 1024 + 1024 * 3
        for dtype in (torch.bfloat16, torch.float32, torch.float16, torch.int32):
            tag = str(dtype).split(".")[-1]
            mine = self.normal(count, dtype)
            whole = torch.empty(self.ranks * count, dtype=dtype, device="cuda")
            for i in range(3):
                dist.all_gather_into_tensor(whole, mine + i)
            self.note(f"all_gather {tag}", whole)
            place = whole[self.rank * count : (self.rank + 1) * count]
            place.copy_(mine)
            dist.all_gather_into_tensor(whole, place)
            self.note(f"all_gather in place {tag}", whole)
            out = torch.empty(self.ranks * count, dtype=dtype, device="cuda")
            dist.all_to_all_single(out, whole)
            self.note(f"all_to_all {tag}", out)
            splits = uneven_splits(self.rank, [count // 3, *[count] * (self.ranks - 2), 2 * count - count // 3])
            uneven = torch.empty(sum(splits), dtype=dtype, device="cuda")
            dist.all_to_all_single(uneven, whole, splits, splits)
            self.note(f"all_to_all uneven {tag}", uneven)
            if dtype != torch.int32:
                part = torch.empty(count, dtype=dtype, device="cuda")
                for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
                    for _ in range(2):
                        dist.reduce_scatter_tensor(part, out, op=op)
                    self.note(f"reduce_scatter {tag} {op}", part)
                total = mine.clone()
                dist.all_reduce(total)
                self.note(f"all_reduce {tag}", total)
            dist.broadcast(whole, 1)
            self.note(f"broadcast {tag}", whole)
            after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
            got = torch.empty_like(mine)
            for work in dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, got, before)]
            ):
                work.wait()
            self.note(f"batch_isend_irecv {tag}", got)
            if self.rank == 0:
                dist.send(mine, after)
                dist.recv(got, before)
            else:
                dist.recv(got, before)
                dist.send(mine, after)
            self.note(f"send and recv {tag}", got)

    def coalesced(self):
        torch, dist = self.torch, self.dist
        shards = [self.normal(1_000_000 + 100_000 * i, torch.bfloat16, i) for i in range(6)]
        wholes = [torch.empty(self.ranks * len(shard), dtype=shard.dtype, device="cuda") for shard in shards]
        with dist._coalescing_manager(device=self.device):
            for whole, shard in zip(wholes, shards):
                dist.all_gather_into_tensor(whole, shard)
        self.note("coalesced all_gather", *wholes)
        parts = [torch.empty_like(shard) for shard in shards]
        with dist._coalescing_manager(device=self.device):
            for whole, part in zip(wholes, parts):
                dist.reduce_scatter_tensor(part, whole)
        self.note("coalesced reduce_scatter", *parts)

    def groups_and_streams(self):
        torch, dist = self.torch, self.dist
        group = dist.new_group()
        mine = self.normal(3_000_000, torch.bfloat16, 50)
        outs = [torch.empty(self.ranks * len(mine), dtype=mine.dtype, device="cuda") for _ in range(8)]
        streams = [torch.cuda.Stream() for _ in range(4)]
        for i, out in enumerate(outs):
            streams[i % 4].wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(streams[i % 4]):
                dist.all_gather_into_tensor(out, mine * (i + 1), group=group if i % 2 else None)
        torch.cuda.synchronize()
        self.note("streams and a second group", *outs)
        halves = [dist.new_group(list(range(first, self.ranks, 2))) for first in (0, 1)]
        own = halves[self.rank % 2]
        size = dist.get_world_size(own)
        outs = [torch.empty(size * len(mine), dtype=mine.dtype, device="cuda") for _ in range(3)]
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, mine * (i + 1), group=own)
            dist.barrier()
        self.note("a group of every second rank", *outs)

    def capture(self):
        torch, dist = self.torch, self.dist
        mine = self.normal(2_000_000, torch.bfloat16, 60)
        whole = torch.empty(self.ranks * len(mine), dtype=mine.dtype, device="cuda")
        dist.all_gather_into_tensor(whole, mine)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_gather_into_tensor(whole, mine)
        mine.mul_(3)
        whole.zero_()
        graph.replay()
        self.note("captured all_gather", whole)

    def model(self):
        nn = self.torch.nn
        self.torch.manual_seed(0)
        width = self.width
        blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(6)]
        return nn.Sequential(*blocks).cuda()

    def train(self, name, model):
        torch = self.torch
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses, times = [], []
        for step in range(self.steps):
            generator = torch.Generator("cuda").manual_seed(77 + 10 * step + self.rank)
            inputs = torch.randn(2048, self.width, generator=generator, device="cuda")
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = model(inputs).float().pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
            losses.append(loss.detach())
        parameters = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
        self.note(name, torch.stack(losses), *parameters)
        self.times[name] = sorted(times[2:])[len(times[2:]) // 2] * 1000

    def fsdp(self):
        torch = self.torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        for reduce in (torch.bfloat16, torch.float32):
            model = self.model()
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
            for block in model:
                fully_shard(block, mp_policy=policy)
            fully_shard(model, mp_policy=policy)
            self.train(f"FSDP2, reduced in {str(reduce).split('.')[-1]}", model)

    def ddp(self):
        from torch.nn.parallel import DistributedDataParallel

        self.train("DDP", DistributedDataParallel(self.model(), device_ids=[self.device]))

    def run(self, path, parts):
        for part in parts:
            getattr(self, part)()
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"hashes": self.hashes, "times": self.times}, file)
        self.dist.destroy_process_group()


def median(values):
    return sorted(values)[len(values) // 2]


def compare(results, ranks):
    """What differs from the native results, and how many were compared with them."""
    compared = 0
    faults = [f"{name} failed" for name, result in results.items() if result is None]
    for name, result in results.items():
        if name == "native" or result is None or results["native"] is None:
            continue
        for rank in range(ranks):
            for what, digest in results["native"][rank]["hashes"].items():
                # NCCL rounds its smallest fp16 numbers once where PreMulSum's documented order does twice.
                if name == "staged" and what == "reduce_scatter float16 RedOpType.AVG":
                    continue
                # Forced, sums of more than two ranks are added in another order than NCCL's.
                if name == "staged" and ranks > 2 and any(word in what for word in ("reduce", "FSDP", "DDP")):
                    continue
                compared += 1
                if result[rank]["hashes"].get(what) != digest:
                    faults.append(f"{name}: rank {rank}: {what} differs")
    return faults, compared


def main():
    parser = argparse.ArgumentParser(description="Compares PyTorch with and without ZipCCL.")
    parser.add_argument("--preload", default="libzipccl_preload.so")
    parser.add_argument("--link", choices=sorted(LINKS), default="host")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=2048, help="of the model that is trained")
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--parts", default="collectives,coalesced,groups_and_streams,capture,fsdp,ddp")
    parser.add_argument("--settings", help="some of auto,named,staged, beside native")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--worker")
    arguments = parser.parse_args()
    if arguments.worker:
        Worker(arguments.steps, arguments.width).run(arguments.worker, arguments.parts.split(","))
        return 0

    if arguments.ranks < 2:
        parser.error(f"--ranks {arguments.ranks}: there are two at least")
    settings = {
        "native": {"ZIPCCL_DISABLE": "1"},
        "auto": {},
        "named": {"ZIPCCL_COLLS": "AllGather,AllReduce,AlltoAll,Broadcast,ReduceScatter,SendRecv"},
        "staged": {"ZIPCCL_STRATEGY": "staged"},
    }
    if arguments.settings:
        settings = {name: settings[name] for name in ["native", *arguments.settings.split(",")]}
    faults, compared, times = [], 0, {}
    for _ in range(arguments.repeats):
        results = {name: run_setting(arguments, name, variables) for name, variables in settings.items()}
        new_faults, count = compare(results, arguments.ranks)
        faults += new_faults
        compared += count
        for name, result in results.items():
            for what, ms in (result[0]["times"] if result else {}).items():
                times.setdefault((name, what), []).append(ms)
    for (name, what), ours in times.items():
        native = times.get(("native", what))
        if name == "native" or not native:
            continue
        ratio = median(native) / median(ours)
        spread = ", ".join(f"{low:.2f} to {high:.2f}" for low, high in [(min(native), max(native)), (min(ours), max(ours))])
        print(
            f"{arguments.link} {name} {what}: {median(native):.2f} ms native, {median(ours):.2f} ms, "
            f"ratio {ratio:.3f} ({len(ours)} processes: {spread})"
        )
    print("\n".join(faults))
    print(f"{arguments.link}: {compared} results compared, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
