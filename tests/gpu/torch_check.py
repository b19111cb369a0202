#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch on two GPUs with and without ZipCCL in front of NCCL: every collective that frameworks call, DDP and
# FSDP2 training, graph capture; with ZipCCL's defaults, with its collectives named, and with all calls
# compressed. Results are compared by their hashes, bit for bit, and steps are timed.
#
#   torch_check.py --preload libzipccl_preload.so [--link host|tcp|nvlink] [--steps 30]
#   torch_check.py --preload libzipccl_preload.so --parts fsdp,ddp --settings auto --repeats 5
#
# Starts itself, two processes for each setting; with repeats again and again, since steps of two processes
# differ more than those of one. Status 1 when a hash differs or a process fails.

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
}
RANKS = 2


def start_rank(arguments, rank, port, command, variables, **streams):
    """A process of the script that `command` begins with: a rank behind the preloaded library, on the chosen link."""
    environment = {
        **os.environ,
        **LINKS[arguments.link],
        "NCCL_NVLS_ENABLE": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "LD_PRELOAD": arguments.preload,
        **variables,
    }
    return subprocess.Popen([sys.executable, *command], env=environment, **streams)


def run_setting(arguments, name, settings):
    """The results of both ranks, or None."""
    port = free_port()
    children = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(RANKS):
            command = [__file__, "--worker", f"{folder}/{rank}.json", "--steps", str(arguments.steps)]
            command += ["--parts", arguments.parts]
            variables = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", **settings}
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
        for rank in range(RANKS):
            try:
                with open(f"{folder}/{rank}.json", encoding="utf-8") as file:
                    results.append(json.load(file))
            except OSError:
                failed = True
        return None if failed else results


class Worker:
    def __init__(self, steps):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.steps = torch, dist, steps
        self.rank = int(os.environ["RANK"])
        torch.cuda.set_device(self.rank)
        torch.use_deterministic_algorithms(True)
        dist.init_process_group("nccl", device_id=torch.device("cuda", self.rank))
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
            whole = torch.empty(RANKS * count, dtype=dtype, device="cuda")
            for i in range(3):
                dist.all_gather_into_tensor(whole, mine + i)
            self.note(f"all_gather {tag}", whole)
            place = whole[self.rank * count : (self.rank + 1) * count]
            place.copy_(mine)
            dist.all_gather_into_tensor(whole, place)
            self.note(f"all_gather in place {tag}", whole)
            out = torch.empty(RANKS * count, dtype=dtype, device="cuda")
            dist.all_to_all_single(out, whole)
            self.note(f"all_to_all {tag}", out)
            splits = [count // 3, 2 * count - count // 3]
            sends = splits if self.rank == 0 else splits[::-1]
            # Rank 1's list is rank 0's backwards, so each receives as many as it sends.
            uneven = torch.empty(sum(sends), dtype=dtype, device="cuda")
            dist.all_to_all_single(uneven, whole, sends, sends)
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
            peer = 1 - self.rank
            got = torch.empty_like(mine)
            for work in dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, got, peer)]
            ):
                work.wait()
            self.note(f"batch_isend_irecv {tag}", got)
            if self.rank == 0:
                dist.send(mine, 1)
                dist.recv(got, 1)
            else:
                dist.recv(got, 0)
                dist.send(mine, 0)
            self.note(f"send and recv {tag}", got)

    def coalesced(self):
        torch, dist = self.torch, self.dist
        shards = [self.normal(1_000_000 + 100_000 * i, torch.bfloat16, i) for i in range(6)]
        wholes = [torch.empty(RANKS * len(shard), dtype=shard.dtype, device="cuda") for shard in shards]
        with dist._coalescing_manager(device=torch.device("cuda", self.rank)):
            for whole, shard in zip(wholes, shards):
                dist.all_gather_into_tensor(whole, shard)
        self.note("coalesced all_gather", *wholes)
        parts = [torch.empty_like(shard) for shard in shards]
        with dist._coalescing_manager(device=torch.device("cuda", self.rank)):
            for whole, part in zip(wholes, parts):
                dist.reduce_scatter_tensor(part, whole)
        self.note("coalesced reduce_scatter", *parts)

    def groups_and_streams(self):
        torch, dist = self.torch, self.dist
        group = dist.new_group([0, 1])
        mine = self.normal(3_000_000, torch.bfloat16, 50)
        outs = [torch.empty(RANKS * len(mine), dtype=mine.dtype, device="cuda") for _ in range(8)]
        streams = [torch.cuda.Stream() for _ in range(4)]
        for i, out in enumerate(outs):
            streams[i % 4].wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(streams[i % 4]):
                dist.all_gather_into_tensor(out, mine * (i + 1), group=group if i % 2 else None)
        torch.cuda.synchronize()
        self.note("streams and a second group", *outs)

    def capture(self):
        torch, dist = self.torch, self.dist
        mine = self.normal(2_000_000, torch.bfloat16, 60)
        whole = torch.empty(RANKS * len(mine), dtype=mine.dtype, device="cuda")
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
        width = 2048
        blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(6)]
        return nn.Sequential(*blocks).cuda(), width

    def train(self, name, model, width):
        torch = self.torch
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses, times = [], []
        for step in range(self.steps):
            generator = torch.Generator("cuda").manual_seed(77 + 10 * step + self.rank)
            inputs = torch.randn(2048, width, generator=generator, device="cuda")
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
            model, width = self.model()
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
            for block in model:
                fully_shard(block, mp_policy=policy)
            fully_shard(model, mp_policy=policy)
            self.train(f"FSDP2, reduced in {str(reduce).split('.')[-1]}", model, width)

    def ddp(self):
        from torch.nn.parallel import DistributedDataParallel

        model, width = self.model()
        self.train("DDP", DistributedDataParallel(model, device_ids=[self.rank]), width)

    def run(self, path, parts):
        for part in parts:
            getattr(self, part)()
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"hashes": self.hashes, "times": self.times}, file)
        self.dist.destroy_process_group()


def median(values):
    return sorted(values)[len(values) // 2]


def faults_of(results):
    faults = [f"{name} failed" for name, result in results.items() if result is None]
    for name, result in results.items():
        if name == "native" or result is None or results["native"] is None:
            continue
        for rank in range(RANKS):
            for what, digest in results["native"][rank]["hashes"].items():
                # NCCL rounds its smallest fp16 numbers once where PreMulSum's documented order does twice.
                if name == "staged" and what == "reduce_scatter float16 RedOpType.AVG":
                    continue
                if result[rank]["hashes"].get(what) != digest:
                    faults.append(f"{name}: rank {rank}: {what} differs")
    return faults


def main():
    parser = argparse.ArgumentParser(description="Compares PyTorch with and without ZipCCL.")
    parser.add_argument("--preload", default="libzipccl_preload.so")
    parser.add_argument("--link", choices=sorted(LINKS), default="host")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--parts", default="collectives,coalesced,groups_and_streams,capture,fsdp,ddp")
    parser.add_argument("--settings", help="some of auto,named,staged, beside native")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--worker")
    arguments = parser.parse_args()
    if arguments.worker:
        Worker(arguments.steps).run(arguments.worker, arguments.parts.split(","))
        return 0

    settings = {
        "native": {"ZIPCCL_DISABLE": "1"},
        "auto": {},
        "named": {"ZIPCCL_COLLS": "AllGather,AllReduce,AlltoAll,Broadcast,ReduceScatter,SendRecv"},
        "staged": {"ZIPCCL_STRATEGY": "staged"},
    }
    if arguments.settings:
        settings = {name: settings[name] for name in ["native", *arguments.settings.split(",")]}
    faults, times = [], {}
    for _ in range(arguments.repeats):
        results = {name: run_setting(arguments, name, variables) for name, variables in settings.items()}
        faults += faults_of(results)
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
    compared = len(results["native"][0]["hashes"]) if results["native"] else 0
    print("\n".join(faults))
    print(f"{arguments.link}: {compared} results compared, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
