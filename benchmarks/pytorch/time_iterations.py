#!/usr/bin/env python3
"""Times training iterations of GPTs and Llamas in plain PyTorch on one device, one configuration a line of a table.

  time_iterations.py iterations.csv -o measured.csv --device-name H200 --trace llama3-8 --trace-directory traces
The output is a table of training runs, as `commlens simulate --rows` takes it: the input's columns, what the device is,
seconds_per_iteration (the median, of --iterations after --warm ones), the fastest and slowest, and bytes allocated at
most. `parameters` says how they are kept: bf16 (all of the training in bf16), masters (fp32 copies, that AdamW updates
and that are copied back) or autocast (fp32, cast by torch.autocast). recompute is none or full
(torch.utils.checkpoint around every layer). global_batch over micro_batch are micro-batches whose gradients add up.
A configuration named by --trace is also written as a torch.profiler trace with shapes, of --traced iterations.
Needs torch >= 2.5.
"""
import argparse
import csv
import gc
import os
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    """A layer of GPT-2 (LayerNorm, biases, GELU) or of Llama (RMSNorm, rotary positions, SwiGLU, grouped keys)."""

    def __init__(self, run):
        super().__init__()
        hidden, self.head_dim = run["hidden"], run["head_dim"]
        self.heads, self.kv_heads, self.is_llama = run["heads"], run["kv_heads"], run["family"] == "llama"
        make_norm = nn.RMSNorm if self.is_llama else nn.LayerNorm
        bias = not self.is_llama
        self.norm1, self.norm2 = make_norm(hidden), make_norm(hidden)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=bias)
        self.proj = nn.Linear(self.heads * self.head_dim, hidden, bias=bias)
        self.fc1 = nn.Linear(hidden, (2 if self.is_llama else 1) * run["ffn"], bias=bias)
        self.fc2 = nn.Linear(run["ffn"], hidden, bias=bias)

    def attention(self, x, positions):
        batch, length, _ = x.shape
        widths = [heads * self.head_dim for heads in (self.heads, self.kv_heads, self.kv_heads)]
        query, key, value = (part.view(batch, length, -1, self.head_dim).transpose(1, 2)
                             for part in self.qkv(x).split(widths, dim=-1))
        if self.is_llama:
            query, key = rotated(query, *positions), rotated(key, *positions)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True,
                                                 enable_gqa=self.kv_heads != self.heads)
        return self.proj(context.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x, positions):
        x = x + self.attention(self.norm1(x), positions)
        inner = self.fc1(self.norm2(x))
        if self.is_llama:
            gate, up = inner.chunk(2, dim=-1)
            return x + self.fc2(F.silu(gate) * up)
        return x + self.fc2(F.gelu(inner, approximate="tanh"))


class Model(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.is_llama, self.repeats = run["family"] == "llama", run["recompute"] == "full"
        self.wte = nn.Embedding(run["vocab"], run["hidden"])
        self.wpe = None if self.is_llama else nn.Embedding(run["seq"], run["hidden"])
        self.blocks = nn.ModuleList(Block(run) for _ in range(run["layers"]))
        self.norm = (nn.RMSNorm if self.is_llama else nn.LayerNorm)(run["hidden"])
        self.head = nn.Linear(run["hidden"], run["vocab"], bias=False)
        half = run["head_dim"] // 2
        angles = torch.outer(torch.arange(run["seq"]).float(), 10000.0 ** -(torch.arange(half).float() / half))
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        if self.wpe is not None:
            x = x + self.wpe.weight
        positions = (self.cos.to(x.dtype), self.sin.to(x.dtype))
        for block in self.blocks:
            x = checkpoint(block, x, positions, use_reentrant=False) if self.repeats else block(x, positions)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, run, device):
        self.run, self.device = run, device
        kept = run["parameters"]
        torch.set_default_dtype(torch.float32 if kept == "autocast" else torch.bfloat16)
        with torch.device(device):
            self.model = Model(run)
        torch.set_default_dtype(torch.float32)
        self.parameters = list(self.model.parameters())
        self.updated = self.parameters
        if kept == "masters":
            self.updated = [p.detach().float().requires_grad_() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(self.updated, lr=1e-4, fused=True)
        shape = (run["micro_batch"], run["seq"] + 1)
        self.micro_batches = run["global_batch"] // run["micro_batch"]
        self.tokens = [torch.randint(0, run["vocab"], shape, device=device) for _ in range(self.micro_batches)]

    def iteration(self):
        for tokens in self.tokens:
            with torch.autocast(self.device, torch.bfloat16, enabled=self.run["parameters"] == "autocast"):
                loss = self.model(tokens[:, :-1], tokens[:, 1:])
            (loss / self.micro_batches).backward()
        if self.updated is not self.parameters:
            for master, parameter in zip(self.updated, self.parameters):
                master.grad = parameter.grad.float()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.updated is not self.parameters:
            for parameter in self.parameters:
                parameter.grad = None
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.updated)
        return loss


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(trainer, count):
    times = []
    for _ in range(count):
        synchronize(trainer.device)
        begin = time.perf_counter()
        trainer.iteration()
        synchronize(trainer.device)
        times.append(time.perf_counter() - begin)
    return times


def write_trace(trainer, path, iterations):
    activities = [torch.profiler.ProfilerActivity.CPU]
    if trainer.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=iterations, repeat=1)
    with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=True,
                                on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
        for _ in range(iterations + 1):
            trainer.iteration()
            synchronize(trainer.device)
            profiler.step()


def read_runs(file):
    texts = {"id", "family", "recompute", "parameters"}
    with open(file) as table:
        return [{key: value if key in texts else int(value) for key, value in row.items()}
                for row in csv.DictReader(table)]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--only", nargs="+", help="ids of rows")
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--trace", nargs="*", default=[], help="ids of rows")
    parser.add_argument("--traced", type=int, default=4, help="iterations of a trace")
    parser.add_argument("--trace-directory", default=".")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--device-name", default="", help="column gpu (default: what the driver calls it)")
    return parser.parse_args()


def measured(run, options):
    trainer = Trainer(run, options.device)
    seconds_of(trainer, options.warm)
    times = seconds_of(trainer, options.iterations)
    if run["id"] in options.trace:
        write_trace(trainer, os.path.join(options.trace_directory, f"{run['id']}.pt.trace.json.gz"), options.traced)
    most = torch.cuda.max_memory_allocated() if options.device == "cuda" else 0
    return {"seconds_per_iteration": f"{statistics.median(times):.5g}", "fastest": f"{min(times):.5g}",
            "slowest": f"{max(times):.5g}", "allocated_bytes": most}


def main():
    options = parsed()
    torch.manual_seed(1)
    name = options.device_name or (torch.cuda.get_device_name() if options.device == "cuda" else "cpu")
    fixed = {"gpu": name, "gpus": 1, "precision": "bf16", "flash_attention": 1, "dp_kind": "ddp",
             "framework": "plain PyTorch"}
    runs = [run for run in read_runs(options.table) if not options.only or run["id"] in options.only]
    results = ["seconds_per_iteration", "fastest", "slowest", "allocated_bytes"]
    with open(options.output, "w", newline="") as file:
        writer = csv.DictWriter(file, [*runs[0], *fixed, *results])
        writer.writeheader()
        for run in runs:
            try:
                writer.writerow({**run, **fixed, **measured(run, options)})
            except torch.cuda.OutOfMemoryError:
                print(f"{run['id']}: does not fit, left out", flush=True)
            file.flush()
            gc.collect()
            if options.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
