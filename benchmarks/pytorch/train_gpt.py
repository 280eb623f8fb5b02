#!/usr/bin/env python3
"""The reference for our own trainer's speed: the same GPT-NeoX model in idiomatic PyTorch eager.

Trains on random tokens and prints one JSON line: the median time of a step, each step's, and the losses.
  train_gpt.py --layers 6 --hidden 512 --heads 8 --sequence 512 --batch 4 --dtype bf16 --threads 2
bf16 keeps fp32 master copies of the parameters, as `commlens train` does. --part modules times forward and
backward alone. Needs torch >= 1.13, --attention sdpa 2.0.
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Attention(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.heads = options.heads
        self.fused = options.attention == "sdpa"
        self.head_dim = options.hidden // options.heads
        self.rotary = int(self.head_dim * options.rotary_fraction) // 2 * 2
        self.qkv = nn.Linear(options.hidden, 3 * options.hidden)
        self.proj = nn.Linear(options.hidden, options.hidden)
        rates = 10000.0 ** -(torch.arange(0, self.rotary, 2).double() / self.rotary)
        angles = torch.outer(torch.arange(options.sequence).double(), rates)
        angles = torch.cat((angles, angles), dim=-1)
        mask = torch.ones(options.sequence, options.sequence, dtype=torch.bool).triu(1)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        self.register_buffer("mask", mask, persistent=False)

    def rotated(self, x):
        turning, rest = x[..., : self.rotary], x[..., self.rotary :]
        turned = turning * self.cos + rotate_half(turning) * self.sin
        return turned if rest.size(-1) == 0 else torch.cat((turned, rest), dim=-1)

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(x).view(batch, length, self.heads, 3 * self.head_dim).transpose(1, 2)
        query, key, value = qkv.chunk(3, dim=-1)  # [batch, heads, sequence, head_dim]
        query, key = self.rotated(query), self.rotated(key)
        if self.fused:
            context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.head_dim)
            shares = scores.masked_fill(self.mask, float("-inf")).softmax(dim=-1)
            context = torch.matmul(shares, value)
        return self.proj(context.transpose(1, 2).reshape(batch, length, hidden))


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.ln1 = nn.LayerNorm(options.hidden)
        self.attention = Attention(options)
        self.ln2 = nn.LayerNorm(options.hidden)
        self.fc1 = nn.Linear(options.hidden, 4 * options.hidden)
        self.fc2 = nn.Linear(4 * options.hidden, options.hidden)

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.wte = nn.Embedding(options.vocab, options.hidden)
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.hidden)
        self.head = nn.Linear(options.hidden, options.vocab, bias=False)
        self.apply(self.initialise)

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Trainer:
    """AdamW with clipping; in bf16 it works on fp32 master copies."""

    def __init__(self, model, options):
        self.parameters = list(model.parameters())
        self.has_masters = options.dtype == "bf16"
        self.masters = self.parameters
        if self.has_masters:
            self.masters = [p.detach().float().requires_grad_() for p in self.parameters]
            model.bfloat16()
        groups = [
            {"params": [p for p in self.masters if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in self.masters if p.dim() == 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), eps=1e-8)

    def step(self):
        if self.has_masters:
            for master, parameter in zip(self.masters, self.parameters):
                master.grad = parameter.grad.float()
                parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.has_masters:
            with torch.no_grad():
                for master, parameter in zip(self.masters, self.parameters):
                    parameter.copy_(master)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--rotary-fraction", type=float, default=1.0)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="eager",
                        help="sdpa: scaled_dot_product_attention, of torch >= 2.0")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--cold", type=int, default=2, help="first iterations left out of the median")
    parser.add_argument("--part", choices=("step", "modules"), default="step")
    return parser.parse_args()


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1234)
    model = Gpt(options)
    trainer = Trainer(model, options)
    if options.dtype == "bf16":  # registered buffers follow .bfloat16(): keep one conversion, outside the loop
        assert model.blocks[0].attention.cos.dtype == torch.bfloat16
    times, processor_times, losses = [], [], []
    for _ in range(options.iterations):
        tokens = torch.randint(0, options.vocab, (options.batch, options.sequence + 1))
        start, processor_start = time.perf_counter(), time.process_time()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        if options.part == "step":
            trainer.step()
        else:
            model.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
        processor_times.append(time.process_time() - processor_start)
    result = {
        "step_s": statistics.median(times[options.cold :]),
        "processor_s": statistics.median(processor_times[options.cold :]),
        "steps_s": times,
        "losses": losses,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
