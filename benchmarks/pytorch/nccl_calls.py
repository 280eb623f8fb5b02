#!/usr/bin/env python3
"""Calls NCCL through torch.distributed a known number of times, to check what a recorder says of them.

  RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 nccl_calls.py -o expected.json
Each rank makes --iterations rounds of: all_reduce, all_gather, reduce_scatter and broadcast of each of --elements bf16
elements (of a rank), with several ranks also a message around the ring and all_to_all; or of the --calls named. Rank 0 writes the calls of a
round with their bytes and the median time between events around each; --profile FILE also the trace of torch.profiler,
whose kernels are timed by the driver.
Several processes share one GPU if each has an NCCL_HOSTID of its own: NCCL then takes them for hosts that it connects
by sockets. Needs torch >= 2.1.
"""
import argparse
import contextlib
import json
import statistics

import torch
import torch.distributed as dist


def calls_of(elements, rank, ranks):
    """(name, bytes of the input of one rank, function)"""
    part = torch.randn(elements, device="cuda", dtype=torch.bfloat16)
    whole = torch.randn(elements * ranks, device="cuda", dtype=torch.bfloat16)
    received = torch.empty_like(part)
    calls = [
        ("all_reduce", 2 * elements, lambda: dist.all_reduce(part)),
        ("all_gather", 2 * elements, lambda: dist.all_gather_into_tensor(whole, part)),
        ("reduce_scatter", 2 * elements * ranks, lambda: dist.reduce_scatter_tensor(received, whole)),
        ("broadcast", 2 * elements, lambda: dist.broadcast(part, 0)),
    ]
    if ranks > 1:
        exchanged = torch.empty_like(whole)

        def message():
            sends = [dist.P2POp(dist.isend, part, (rank + 1) % ranks),
                     dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]
            for work in dist.batch_isend_irecv(sends):
                work.wait()

        calls += [("message", 2 * elements, message),
                  ("all_to_all", 2 * elements * ranks, lambda: dist.all_to_all_single(exchanged, whole))]
    return calls


def timed(call):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--elements", type=int, nargs="+", default=[1024, 1048576, 33554432])
    parser.add_argument("--calls", nargs="+", default=["all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                       "message", "all_to_all"])
    parser.add_argument("--profile", help="where rank 0 writes a trace of torch.profiler")
    options = parser.parse_args()
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    calls = [call for elements in options.elements for call in calls_of(elements, rank, ranks)
             if call[0] in options.calls]
    profiler = torch.profiler.profile() if options.profile and rank == 0 else contextlib.nullcontext()
    with profiler:
        times = [[timed(call) for _, _, call in calls] for _ in range(options.iterations)]
    if options.profile and rank == 0:
        profiler.export_chrome_trace(options.profile)
    if rank == 0:
        rows = [{"call": name, "input_bytes": size, "us": statistics.median(row[index] for row in times)}
                for index, (name, size, _) in enumerate(calls)]
        with open(options.output, "w") as file:
            json.dump({"ranks": ranks, "iterations": options.iterations, "torch": torch.__version__,
                       "nccl": ".".join(map(str, torch.cuda.nccl.version())), "calls": rows}, file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
