#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What PyTorch's watchdog makes of ranks that die or stay away, with ZipCCL in front of NCCL and without: the survivor
# has to end in about the time that it takes natively, whatever its calls were waiting for.
#
#   torch_faults.py --preload libzipccl_preload.so [--link host|tcp|nvlink|shared] [--ranks 2]
#
# Status 1 where a process does not start, or does not end.

import argparse
import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time

from torch_check import LINKS, expect_engine, free_port, own_device, start_rank

WATCHDOG_SECONDS = 8
# Ranks are told to go on by the first line of their standard input, so that all faults come after what they wait for.
FAULTS = {
    "a rank killed while compressed calls run": "killed busy",
    "a rank killed between calls": "killed idle",
    "a rank that stays away": "away",
    "a rank that stays away, of large random bits": "away raw",
}


def work(fault):
    import datetime

    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = own_device()
    limit = datetime.timedelta(seconds=WATCHDOG_SECONDS)
    dist.init_process_group("nccl", device_id=device, timeout=limit)
    count = 8 << 20
    if fault == "away raw":
        mine = torch.randint(-(1 << 15), 1 << 15, (count,), device="cuda").to(torch.int16).view(torch.bfloat16)
    else:
        mine = (torch.randn(count, device="cuda") * 0.02).to(torch.bfloat16)
    whole = torch.empty(dist.get_world_size() * count, dtype=mine.dtype, device="cuda")
    for _ in range(10):
        dist.all_gather_into_tensor(whole, mine)
    torch.cuda.synchronize()
    expect_engine()
    print("ready", flush=True)
    # A rank that is through may still have to send what another waits for.
    sys.stdin.readline()
    if fault == "killed busy":
        while True:
            for _ in range(5):
                dist.all_gather_into_tensor(whole, mine)
                dist.all_to_all_single(whole, whole.clone())
            torch.cuda.synchronize()
    if rank == 1:
        if fault == "killed idle":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)
    while True:
        dist.all_gather_into_tensor(whole, mine)
        torch.cuda.synchronize()


def run(arguments, fault, settings):
    """Seconds until rank 0 ended after the fault, or None; and its status."""
    port, children = free_port(), []
    for rank in range(arguments.ranks):
        variables = {
            "TORCH_NCCL_ENABLE_MONITORING": "0",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
            "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1000",
            **settings,
        }
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        children.append(start_rank(arguments, rank, port, [__file__, "--worker", fault], variables, **streams))
    deadline = threading.Timer(arguments.timeout, lambda: [child.kill() for child in children])
    deadline.start()
    try:
        for child in children:
            if child.stdout.readline().strip() != "ready":
                return None, "has a rank that did not start"
        deadline.cancel()
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        if fault == "killed busy":
            time.sleep(1)
            children[1].kill()
        started = time.monotonic()
        status = children[0].wait(timeout=arguments.timeout)
        return time.monotonic() - started, status
    except subprocess.TimeoutExpired:
        return None, "has rank 0 still there"
    finally:
        deadline.cancel()
        for child in children:
            child.kill()
            child.wait()


def main():
    parser = argparse.ArgumentParser(description="Ranks that die or stay away, with and without ZipCCL.")
    parser.add_argument("--preload", default="libzipccl_preload.so")
    parser.add_argument("--link", choices=sorted(LINKS), default="host")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=90)
    parser.add_argument("--worker")
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker)
    if arguments.ranks < 2:
        parser.error(f"--ranks {arguments.ranks}: there are two at least")
    # All at once, or few where they share a GPU: what each of them waits for is time.
    forms = {"natively": {"ZIPCCL_DISABLE": "1"}, "compressed": {"ZIPCCL_STRATEGY": "staged"}}
    at_once = 4 if arguments.link == "shared" else len(FAULTS) * len(forms)
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        ends = {
            (words, form): pool.submit(run, arguments, fault, settings)
            for words, fault in FAULTS.items()
            for form, settings in forms.items()
        }
    failed = 0
    for words in FAULTS:
        said = []
        for form in forms:
            seconds, status = ends[words, form].result()
            said.append(f"{form} {status if seconds is None else f'ended after {seconds:.1f} s, status {status}'}")
        print(f"{words}: {'; '.join(said)}")
        failed += any(ends[words, form].result()[0] is None for form in forms)
    print(f"{arguments.link}: {len(FAULTS)} faults, {failed} without an end")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
