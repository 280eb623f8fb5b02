#!/usr/bin/env python3
"""Times matrix products of transformer layers on a GPU: a table for `commlens calibrate`.

  time_products.py -o gemm.csv && commlens calibrate gemm.csv --machine hgx_h200 -o mine.json
Shapes are those of the four products of a layer and of their gradients, for hidden sizes, tensor ranks and tokens
drawn at random (--seed). A product [m, k] x [k, n] is timed by events around a CUDA graph of several launches, so that
the host's part does not count, on random data, with operands that alternate so that the cache does not hold them but for the smallest; the
median of --repeats counts. The table is written after every shape: a run that is stopped leaves what it had. fp8 products (torch._scaled_mm) need a Hopper GPU or later.
"""
import argparse
import random
import statistics
import time

import torch

HIDDEN = (1024, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384)
TENSOR_RANKS = (1, 2, 4, 8)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384)


def layer_products(hidden, ranks, tokens, gated):
    """(m, n, k) of a layer's products, forward, then of their gradients of inputs and of weights."""
    ffn = 7 * hidden // 2 if gated else 4 * hidden
    widths = [(3 * hidden // ranks, hidden), (hidden, hidden // ranks),
              ((2 if gated else 1) * ffn // ranks, hidden), (hidden, ffn // ranks)]
    for n, k in widths:
        yield from ((tokens, n, k), (tokens, k, n), (n, k, tokens))


def drawn_shapes(count, seed, most_flops):
    """So many different shapes; the products of a layer are all as likely."""
    generator = random.Random(seed)
    shapes = {}
    while len(shapes) < count:
        hidden, ranks = generator.choice(HIDDEN), generator.choice(TENSOR_RANKS)
        layer = list(layer_products(hidden, ranks, generator.choice(TOKENS), generator.random() < 0.5))
        m, n, k = generator.choice(layer)
        if 2 * m * n * k <= most_flops:
            shapes[m, n, k] = True
    return list(shapes)


def operands(shape, dtype, device):
    """Pairs of random matrices of more bytes together than a cache holds, but at most eight."""
    m, n, k = shape
    size = 1 if dtype == "fp8" else 2
    pairs = min(8, max(1, round(128e6 / (size * k * (m + n)))))
    made = []
    for _ in range(pairs):
        a = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=device, dtype=torch.bfloat16)  # as nn.Linear keeps its weight
        if dtype == "fp8":
            a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        made.append((a, b.t()))
    return made


def multiply(pair, dtype, scale):
    if dtype == "fp8":
        return torch._scaled_mm(*pair, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    return torch.mm(*pair)


def microseconds(shape, dtype, options):
    """The median time of one product, over launches that fill --milliseconds a repeat."""
    pairs = operands(shape, dtype, options.device)
    scale = torch.ones((), device=options.device)
    clock = Clock(options.device)
    for pair in pairs:
        multiply(pair, dtype, scale)
    first = max(clock.seconds(lambda: multiply(pairs[0], dtype, scale)), 1e-6)
    launches = max(len(pairs), min(200, round(options.milliseconds * 1e-3 / first)))

    def run():
        for launch in range(launches):
            multiply(pairs[launch % len(pairs)], dtype, scale)

    run()
    if options.device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        run = graph.replay
        run()
    return statistics.median(clock.seconds(run) for _ in range(options.repeats)) / launches * 1e6


class Clock:
    def __init__(self, device):
        self.is_cuda = device == "cuda"

    def seconds(self, work):
        if not self.is_cuda:
            begin = time.perf_counter()
            work()
            return time.perf_counter() - begin
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--dtypes", nargs="+", choices=("bf16", "fp8"), default=["bf16"])
    parser.add_argument("--shapes", type=int, nargs="+", default=[200], help="how many, of each type")
    parser.add_argument("--most-tflop", type=float, default=20, help="operations of the largest product, in 1e12")
    parser.add_argument("--milliseconds", type=float, default=20, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    return parser.parse_args()


def main():
    options = parsed()
    torch.manual_seed(options.seed)
    counts = options.shapes * len(options.dtypes) if len(options.shapes) == 1 else options.shapes
    with open(options.output, "w") as file:
        file.write("m,n,k,dtype,microseconds\n")
        for dtype, count in zip(options.dtypes, counts):
            for shape in drawn_shapes(count, options.seed, options.most_tflop * 1e12):
                m, n, k = shape
                file.write(f"{m},{n},{k},{dtype},{microseconds(shape, dtype, options):.4g}\n")
                file.flush()


if __name__ == "__main__":
    main()
