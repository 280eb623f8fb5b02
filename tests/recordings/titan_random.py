#!/usr/bin/env python3
"""Random configurations of torchtitan, recorded and predicted, in the way of torch_random.py (its options and verdicts):

    titan_random.py --recorder 'PYTHON RECORD.PY' --commlens build/release/commlens --out DIR --count 100

--version is that of torchtitan. Models are the debug flavours of its registry, with all their experts in balance or not.
"""
import sys

import torch_random as base

KINDS = {"dense": 20, "moe": 20, "tp": 16, "cp": 12, "pp": 20, "hsdp": 10, "checkpoint": 6, "fake": 14}
DENSE = (("llama3", "llama3_debugmodel"), ("llama3", "llama3_debugmodel_ce_loss"), ("qwen3", "qwen3_debugmodel"), ("qwen3", "qwen3_debugmodel_non_fused_qkv"))
MOE = (("deepseek_v3", "deepseek_v3_debugmodel"), ("deepseek_v3", "deepseek_v3_debugmodel"), ("gpt_oss", "gpt_oss_debugmodel_flex"), ("qwen3", "qwen3_moe_debug"))
LARGE = (("llama3", "llama3_8b"), ("llama3", "llama3_70b"), ("qwen3", "qwen3_14b"), ("qwen3", "qwen3_30b_a3b"), ("deepseek_v3", "deepseek_v3_16b"), ("qwen3", "qwen3_1_7b"))


class Draw(base.Draw):
    def option(self, name, value):
        return ["--" + name, str(value)]

    def degree(self, name, value):
        return self.option("parallelism.%s_degree" % name, value)

    def common(self, batch=None):
        args = ["--training.disable_cuda_graphs"] + self.option("training.local_batch_size", batch or self.one(1, 2, 3)) + self.option("training.seq_len", 128)
        if self.chance(0.85):
            args += self.option("debug.seed", 1)
        if self.chance(0.3):
            args += self.option("metrics.log_freq", self.one(1, 2, 3, 10))
        if self.chance(0.3):
            args += self.option("parallelism.fsdp_reshard_after_forward", self.one("always", "never"))
        if self.chance(0.15):
            args += self.option("training.mixed_precision_param", "float32")
        if self.chance(0.1):
            args += self.option("training.dtype", "bfloat16")
        return args

    def case(self, model, ranks, args, recompute=None, **more):
        recompute = recompute or self.one("", "", "none", "selective", "full")
        args = args + (["activation-checkpoint:" + recompute] if recompute else [])
        return dict({"framework": "torchtitan", "ranks": ranks, "iterations": self.one(3, 3, 4), "torchtitan": {"module": model[0], "config": model[1], "args": args}}, **more)

    def degrees(self, shard=1, replicas=1, tp=1, cp=1, ep=1, pp=1):
        args = self.degree("data_parallel_shard", shard)
        for name, value in (("data_parallel_replicate", replicas), ("tensor_parallel", tp), ("context_parallel", cp), ("expert_parallel", ep), ("pipeline_parallel", pp)):
            if value > 1:
                args += self.degree(name, value)
        if tp > 1 and self.chance(0.35):
            args.append("--parallelism.no-enable-sequence-parallel")
        return args

    def balance(self, force=None):
        return ["--debug.moe_force_load_balance"] if force or (force is None and self.chance(0.6)) else []

    def dense(self):
        shard = self.one(1, 2, 3, 4)
        args = self.common() + self.degrees(shard)
        if self.chance(0.3):
            batch = int(args[args.index("--training.local_batch_size") + 1])
            args += self.option("training.global_batch_size", batch * shard * self.one(1, 2, 3))
        return self.case(self.one(*DENSE), shard, args)

    def moe(self):
        shard, tp = self.one((2, 1), (4, 1), (2, 2), (1, 2), (4, 1), (2, 2))
        ep = self.one(*[e for e in (1, 2, 4, shard * tp) if shard * tp % e == 0])
        return self.case(self.one(*MOE), shard * tp, self.common(self.one(1, 2)) + self.degrees(shard, 1, tp, 1, ep) + self.balance())

    def tp(self):
        shard, tp = self.one((1, 2), (2, 2), (1, 4), (3, 2))
        return self.case(self.one(*DENSE), shard * tp, self.common() + self.degrees(shard, 1, tp))

    def cp(self):
        model = self.one(*(DENSE + MOE[:2]))
        shard, cp, tp = self.one((1, 2, 1), (2, 2, 1), (1, 4, 1), (1, 2, 2))
        ep = self.one(1, 2, cp * shard * tp) if model in MOE else 1
        return self.case(model, shard * cp * tp, self.common(self.one(1, 2)) + self.degrees(shard, 1, tp, cp, ep) + (self.balance(True) if model in MOE else []))

    def hsdp(self):
        model = self.one(*(DENSE + MOE[:2]))
        shard, replicas, tp = self.one((2, 2, 1), (1, 2, 1), (1, 3, 1), (1, 2, 2), (2, 2, 1))
        ep = self.one(1, 2) if model in MOE and shard * tp > 1 else 1
        return self.case(model, shard * replicas * tp, self.common() + self.degrees(shard, replicas, tp, 1, ep) + (self.balance() if model in MOE else []))

    def pp(self):
        model = self.one(*(DENSE[:2] + DENSE[:1] + MOE[:2]))
        shard, tp, pp = self.one((1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 1, 4), (2, 1, 2), (1, 1, 3))
        schedule = self.one("1F1B", "1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
        single = schedule in ("1F1B", "GPipe")
        micro = self.one(1, 1, 2)
        batch = micro * pp * self.one(1, 2, 3)
        args = self.common(batch) + self.degrees(shard, 1, tp, 1, self.one(1, 2) if model in MOE and shard * tp > 1 else 1, pp)
        args += self.option("parallelism.pipeline_parallel_schedule", schedule) + self.option("parallelism.pipeline_parallel_microbatch_size", micro)
        if self.chance(0.25):
            args += self.option("training.global_batch_size", batch * shard * 2)
        if self.chance(0.2):
            args += self.option("parallelism.pipeline_parallel_%s_stage_less_layers" % self.one("first", "last"), self.one(0, 2))
        split = schedule in ("InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
        return self.case(model, shard * tp * pp, args + (self.balance(True) if model in MOE else []), "none" if split and self.chance(0.9) else self.one("none", "selective", "full") if single else None)

    def checkpoint(self):
        shard, replicas, tp = self.one((2, 1, 1), (2, 1, 2), (1, 2, 1), (2, 2, 1))
        args = self.common(1) + self.degrees(shard, replicas, tp) + ["--checkpoint.enable"] + self.option("checkpoint.interval", self.one(1, 2, 3, 500))
        return self.case(self.one(*(DENSE + MOE[:1])), shard * replicas * tp, args)

    def fake(self):
        model = self.one(*LARGE)
        shard, replicas, tp, cp = self.one((8, 1, 1, 1), (64, 1, 1, 1), (16, 1, 4, 1), (8, 4, 1, 1), (8, 1, 8, 1), (8, 1, 2, 4), (32, 1, 1, 2), (128, 1, 1, 1))
        has_experts = model[1] in ("qwen3_30b_a3b", "deepseek_v3_16b")
        ep = self.one(*[e for e in (1, 4, 8, 32) if shard * tp * cp % e == 0]) if has_experts else 1
        args = self.option("debug.seed", 1) + ["--training.disable_cuda_graphs"] + self.option("training.local_batch_size", self.one(1, 2))
        args += self.degrees(shard, replicas, tp, cp, ep) + (self.balance(True) if has_experts else [])
        ranks = shard * replicas * tp * cp
        return self.case(model, ranks, args, None, ranks_recorded=[0, ranks - 1])

    def draw(self, kind):
        return getattr(self, kind)()


if __name__ == "__main__":
    base.KINDS, base.Draw, base.__doc__ = KINDS, Draw, __doc__
    if "--version" not in sys.argv:
        sys.argv += ["--version", "0.3.0"]
    sys.exit(base.main())
