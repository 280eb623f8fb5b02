#!/usr/bin/env python3
"""Random jobs of PyTorch, recorded and predicted.

Draws case files (docs/formats/case.md) over the whole option space of torch-ddp, torch-fsdp, torch-tp and
torch-pipeline, runs a recorder of the real framework on each, compares the recording with the prediction call by
call, order included, and prints one line per case and a table at the end:

    torch_random.py --recorder 'PYTHON RECORD.PY' --commlens build/release/commlens --out DIR --count 100

The recorder is any command that takes `CASE.yaml --once -o DIR` (and --fake), writes DIR/calls.jsonl.gz and exits with
0 or 1 (recorded), 2 (not supported) or 3 (the framework refused). A case is the same for the same --seed, number and
--version; --again compares what DIR holds with another build of commlens, without recording anew. A case that
both sides refuse is right; so is one that commlens refuses by name, but it is counted apart, to be looked at.
"""
import argparse, collections, gzip, json, math, os, random, shlex, subprocess, sys, time

KINDS = {"ddp": 16, "join": 4, "fsdp1": 10, "fsdp2": 30, "replicate": 5, "hsdp": 10, "tp": 12, "tp_fsdp": 16, "cp": 4, "cp_fsdp": 5, "cp_tp": 4,
         "pp": 18, "pp_ddp": 6, "pp_fsdp": 18, "pp_tp": 6, "pp_tp_fsdp": 5, "fake": 6}


class Draw:
    def __init__(self, seed, version):
        self.r = random.Random(seed)
        self.release = tuple(int(x) for x in version.split(".")[:2])

    def one(self, *items):
        return self.r.choice(items)

    def chance(self, p):
        return self.r.random() < p

    # ------------------------------------------------------------------ models
    def llama(self, tp=1, layers=None):
        kv = self.one(1, 2, 3) * tp
        heads = kv * self.one(1, 1, 2, 3)
        head_dim = self.one(2, 4, 6, 8, 14)
        hidden = self.one(30, 33, 48, 50, 64, 126)
        ffn = self.one(64, 85, 90, 129)
        vocab = self.one(97, 128, 251, 300)
        if tp > 1 and self.chance(0.95):
            ffn = -(-ffn // tp) * tp
        return {"family": "llama", "layers": layers or self.r.randint(1, 5), "hidden": hidden, "heads": heads, "kv_heads": kv, "head_dim": head_dim,
                "ffn_hidden": ffn, "vocab": vocab, "sequence": self.one(8, 12, 16), "tied_embeddings": self.chance(0.1)}

    def gpt(self):
        heads = self.one(1, 2, 3)
        return {"family": "gpt", "layers": self.r.randint(1, 4), "hidden": heads * self.one(10, 16, 21), "heads": heads, "sequence": self.one(8, 12),
                "vocab": self.one(97, 128, 251), "positions": "learned", "tied_embeddings": self.chance(0.4)}

    def pattern(self, model):
        layer = self.r.randrange(model["layers"])
        llama = ("*attention.wq*", "*feed_forward*", "layers.%d.feed_forward.w2.weight" % layer, "layers.%d.attention.*" % layer)
        gpt = ("*bias", "*.qkv.*", "layers.%d.fc1.weight" % layer, "*ln1*")
        return self.one("tok_embeddings.*", "layers.%d.*" % layer, "layers.0.*", "norm.*", "*norm.weight", "output.weight",
                        self.one(*(llama if model["family"] == "llama" else gpt)))

    def odd_parts(self, model, frozen=0.15, unused=0.15):
        if self.chance(frozen):
            model["frozen"] = sorted({self.pattern(model) for _ in range(self.one(1, 1, 2, 3))})
        if self.chance(unused) and model["layers"] > 1:
            names = ["layers.%d" % n for n in range(model["layers"])]
            if model["family"] == "llama":
                names += [n + ".feed_forward" for n in names]
            model["unused"] = sorted(set(self.r.sample(names, self.one(1, 1, 2))))
        return model

    # ------------------------------------------------------------------ sections
    def case(self, framework, model, layout, **more):
        dims = ("pipeline", "data_replicate", "data_shard", "context", "tensor")
        layout = {d: layout.get(d, 1) for d in dims}
        case = {"framework": framework, "ranks": math.prod(layout.values()), "iterations": self.one(3, 4), "precision": "fp32", "model": model, "layout": layout,
                "micro_batch": self.one(1, 2, 3), "micro_batches": self.one(1, 1, 1, 2, 3)}
        case.update(more)
        return case

    def trainer(self, checkpoint=True, optimizer=False):
        t = {}
        if self.chance(0.4):
            t["clip"] = 1.0
            if self.chance(0.3):
                t["norm_full_tensor"] = True
        if checkpoint and self.chance(0.2):
            t["activation_checkpoint"] = "full"
        if optimizer:
            t["optimizer"] = self.one("adamw", "adamw_foreach", "sgd")
        return t

    def fsdp2(self, hybrid=1, shard=1, tp=1, context=1, model=None):
        units = [u for u, p in (("embedding", 0.4), ("blocks", 0.85), ("head_with_norm", 0.4)) if self.chance(p)]
        if model and model["family"] == "llama" and self.chance(0.1) and "blocks" in units:
            units[units.index("blocks")] = "block_pairs"
        if model and model["tied_embeddings"] and model["family"] != "pipeline":
            units = [u for u in units if u not in ("embedding", "head_with_norm")]
            if self.chance(0.5):
                units.append("embedding_with_head")
        elif self.chance(0.07):
            units = [u for u in units if u not in ("embedding", "head_with_norm")] + ["embedding_with_head"]
        if self.chance(0.2):
            self.r.shuffle(units)
        f = {"version": 2, "units": units + ["root"]}
        size = shard * context
        parts = [k for k in range(2, size) if size % k == 0]
        x = self.r.random()
        if x < 0.15:
            f["reshard_after_forward"] = True
        elif x < 0.35:
            f["reshard_after_forward"] = False
        elif x < 0.5 and parts and (tp == 1 or self.chance(0.1)):
            f["reshard_after_forward"] = self.one(*parts)
        elif x < 0.6:
            f["reshard_after_forward"] = "auto"
        if self.chance(0.4):
            f["param_dtype"] = self.one("bf16", "bf16", "bf16", "fp32", "fp16")
        if self.chance(0.35):
            f["reduce_dtype"] = self.one("fp32", "bf16", "fp16")
        if self.chance(0.25):
            f["divide_factor"] = self.one(1.0, 2.0, float(shard), float(shard * hybrid), 3.0, 8.0)
        for key, p in (("forward_prefetch", 0.15), ("backward_prefetch", 0.2)):
            if self.chance(p):
                f[key] = self.one(1, 2, 3)
        if self.chance(0.08) and self.release >= (2, 13):
            f["reduce_scatter_unused_params"] = True
        if self.chance(0.1):
            f["offload"] = "cpu"
        return f

    def flags(self, case):
        if case["micro_batches"] == 1:
            return
        f = case["fsdp"]
        for key, p in (("sync_each_micro_batch", 0.4), ("all_reduce_each_micro_batch", 0.3), ("reshard_after_backward", 0.35)):
            if self.chance(p):
                f[key] = False

    # ------------------------------------------------------------------ kinds
    def ddp(self):
        model = self.odd_parts(self.gpt() if self.chance(0.3) else self.llama())
        if model["family"] == "llama" and self.chance(0.25):
            model["buffers"] = "batch_norm"
        if self.chance(0.15):
            model["fp32_patterns"] = self.one(["*norm*"], ["output.weight"], ["layers.0.*"], ["tok*", "*norm.weight"])
        ddp = {}
        x = self.r.random()
        if x < 0.5:
            ddp["bucket_cap_mb"] = self.one(1, 0.02, 0.05, 0.1, 0.25, 25)
        elif x < 0.6 and self.release >= (2, 11):
            ddp["bucket_cap_mb_list"] = self.one([0.02, 0.1], [0.05], [0.01, 0.02, 0.2], [1, 2])
        if self.chance(0.8 if model.get("unused") else 0.15):
            ddp["find_unused_parameters"] = True
        if self.chance(0.25):
            ddp["static_graph"] = True
        if self.chance(0.15):
            ddp["broadcast_buffers"] = False
        if self.chance(0.1) and self.release >= (2, 7):
            ddp["init_sync"] = False
        if self.chance(0.1):
            ddp["gradient_as_bucket_view"] = True
        if self.chance(0.1) and self.release >= (2, 8):
            ddp["skip_all_reduce_unused_params"] = True
        if self.chance(0.15):
            ddp["hook"] = self.one("allreduce_hook", "fp16_compress_hook", "bf16_compress_hook")
        elif self.chance(0.1):
            ddp["mixed_precision"] = self.one({"param_dtype": "bf16", "reduce_dtype": "fp32"}, {"param_dtype": "bf16", "reduce_dtype": "bf16"},
                                              {"param_dtype": "bf16"}, {"reduce_dtype": "bf16"})
        if self.chance(0.5):
            ddp["accumulation_sync"] = self.chance(0.3)
        case = self.case("torch-ddp", model, {"data_replicate": self.one(2, 2, 3, 4)}, ddp=ddp)
        case["iterations"] = 5
        case["precision"] = self.one("fp32", "fp32", "bf16")
        if self.chance(0.2):
            case["trainer"] = {"clip": 1.0}
        return case

    def join(self):
        case = self.ddp()
        case["model"].pop("unused", None)
        for key in ("find_unused_parameters", "static_graph", "skip_all_reduce_unused_params", "mixed_precision", "hook", "accumulation_sync"):
            if self.chance(0.8):
                case["ddp"].pop(key, None)
        inputs = [self.r.randint(1, 4) for _ in range(case["ranks"])]
        case["ddp"]["join"] = {"inputs": inputs}
        case["iterations"] = max(inputs) + 1
        case["micro_batches"] = 1       # a recording counts an iteration for each forward pass that a joined rank follows
        return case

    def fsdp1(self):
        strategy = self.one("FULL_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
        layout = {"data_shard": self.one(2, 2, 3, 4)} if "HYBRID" not in strategy else {"data_replicate": 2, "data_shard": 2}
        model = self.gpt() if self.chance(0.4) else self.llama()
        f = {"version": 1, "strategy": strategy, "units": ["blocks", "root"]}
        if self.chance(0.5):
            f["use_orig_params"] = True
        model = self.odd_parts(model, 0.1 if f.get("use_orig_params") else 0, 0.05)
        if self.chance(0.3):
            f["sync_module_states"] = True
        if self.chance(0.4):
            f["param_dtype"] = self.one("bf16", "bf16", "fp16", "fp32")
            if self.chance(0.6):
                f["reduce_dtype"] = self.one("fp32", "bf16")
        case = self.case("torch-fsdp", model, layout, fsdp=f)
        if case["micro_batches"] > 1 and self.chance(0.5):
            f["sync_each_micro_batch"] = False
        if self.chance(0.4):
            case["trainer"] = {"clip": 1.0}
        return case

    def sharded(self, layout, framework="torch-fsdp", **more):
        model = self.odd_parts(self.gpt() if self.chance(0.25) else self.llama())
        f = self.fsdp2(layout.get("data_replicate", 1), layout.get("data_shard", 1), model=model)
        case = self.case(framework, model, layout, fsdp=f, **more)
        case["precision"] = self.one("fp32", "fp32", "fp32", "bf16")
        if self.chance(0.06):
            model["fp32_patterns"] = self.one(["*norm*"], ["output.weight"], ["tok*"])
        elif self.chance(0.06):
            model["fp32_patterns"] = ["*norm*"]
            model["frozen"] = ["*norm*"]
        if model["family"] == "llama" and self.chance(0.06):
            model["buffers"] = "batch_norm"
        case["trainer"] = self.trainer()
        self.flags(case)
        return case

    def fsdp2_case(self):
        return self.sharded({"data_shard": self.one(1, 2, 2, 3, 4, 4)})

    def hsdp(self):
        return self.sharded(dict(zip(("data_replicate", "data_shard"), self.one((2, 2), (2, 2), (3, 1), (2, 1), (2, 3)))))

    def replicate(self):
        case = self.sharded({"data_replicate": self.one(2, 3)})
        case["fsdp"]["api"] = "replicate"
        for key in ("reshard_after_forward", "offload"):
            case["fsdp"].pop(key, None)
        return case

    def tensor(self, tp):
        t = {"style": "dtensor", "sequence_parallel": self.chance(0.65), "loss_parallel": self.chance(0.4)}
        if self.chance(0.7):
            t["init_from_rank0"] = self.chance(0.4)
        return t

    def tp(self, shard=1, replicas=1, context=1, tp=None):
        tp = tp or self.one(2, 2, 3, 4 if shard * replicas == 1 else 2)
        model = self.odd_parts(self.llama(tp), 0.15, 0.1)
        model["sequence"] = tp * context * 2 * self.one(2, 3)
        if self.chance(0.7):
            model["vocab"] = -(-model["vocab"] // tp) * tp
        t = self.tensor(tp)
        if self.chance(0.6) or not t["sequence_parallel"] and self.chance(0.9):
            model["tied_embeddings"] = False
        if model.get("tied_embeddings") and self.chance(0.9):
            t["init_from_rank0"] = True
        layout = {"data_replicate": replicas, "data_shard": shard, "context": context, "tensor": tp}
        data = shard * replicas * context
        case = self.case("torch-fsdp" if data > 1 else "torch-tp", model, layout, tensor_parallel=t)
        case["trainer"] = self.trainer(optimizer=data == 1)
        if not t["sequence_parallel"] and self.chance(0.9):
            case["trainer"].pop("clip", None)
        if data > 1:
            case["fsdp"] = self.fsdp2(replicas, shard, tp, context, model)
            self.flags(case)
        return case

    def context(self, case):
        case["context_parallel"] = {"method": self.one("ring_all_gather", "ring_all_to_all"), "load_balance": self.chance(0.5)}
        case["model"]["sequence"] = 2 * case["layout"]["context"] * case["layout"]["tensor"] * self.one(2, 3)
        return case

    def cp(self, shard=1):
        model = self.odd_parts(self.llama(), 0.1, 0.1)
        case = self.case("torch-fsdp", model, {"data_shard": shard, "context": self.one(2, 2, 3, 4) if shard == 1 else 2})
        case["fsdp"] = self.fsdp2(1, shard, context=case["layout"]["context"], model=model)
        case["trainer"] = self.trainer()
        self.flags(case)
        return self.context(case)

    def pipeline(self, tp=1, shard=1, replicas=1, ddp=False):
        schedule = self.one("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
        if schedule == "DualPipeV" and self.release < (2, 9):
            schedule = "1F1B"
        p = self.one(2, 2, 3, 4) if tp * shard * replicas == 1 else self.one(2, 2, 3) if tp * shard * replicas == 2 else 2
        single = schedule in ("GPipe", "1F1B")
        v = 1 if single else 2 if schedule in ("ZBVZeroBubble", "DualPipeV") else self.one(2, 2, 3)
        m = self.one(p, p + 1, p + 2, 2 * p, 1) if single else p * self.one(1, 2) if self.chance(0.8) else self.one(1, p + 1, 2 * p + 1)
        if schedule == "DualPipeV":
            m = 2 * p + self.one(0, 1, 2)
        model = self.llama(tp, p * v * self.one(1, 1, 2))
        model["tied_embeddings"] = False
        model["sequence"] = tp * self.one(4, 6)
        if tp > 1:
            model["vocab"] = -(-model["vocab"] // tp) * tp
        case = self.case("torch-pipeline", model, {"pipeline": p, "data_shard": shard, "data_replicate": replicas, "tensor": tp})
        case["micro_batches"] = m
        case["iterations"] = 3
        pipe = {"schedule": schedule, "stages_per_rank": v}
        if self.chance(0.5 if tp == 1 else 0.0):
            pipe["shapes"] = self.one("static", "dynamic")
        case["pipeline"] = pipe
        if ddp:
            case["ddp"] = self.one({}, {}, {"bucket_cap_mb": 0.05}, {"bucket_cap_mb": 0.02}, {"static_graph": True}, {"find_unused_parameters": True})
        elif shard * replicas > 1:
            f = self.fsdp2(replicas, shard, tp)
            f["units"] = [u for u in f["units"] if u != "embedding_with_head"]
            for key in ("offload", "reduce_scatter_unused_params"):
                f.pop(key, None)
            if f.get("param_dtype") == "fp16" or pipe.get("shapes") == "static":
                f.pop("param_dtype", None)
            case["fsdp"] = f
        if tp > 1:
            case["tensor_parallel"] = self.tensor(tp)
            case["tensor_parallel"]["init_from_rank0"] = True
            case["tensor_parallel"]["loss_parallel"] = False
        return case

    def fake(self):
        layers, hidden, heads, kv, ffn, vocab = self.one((16, 2048, 32, 8, 8192, 128256), (28, 3072, 24, 8, 8192, 128256), (32, 4096, 32, 32, 11008, 32000),
                                                         (24, 2304, 24, 24, 6144, 50257))
        layers = self.one(layers, 4, 8)
        tp, cp = self.one((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2))
        shard, replicas = self.one((8, 1), (6, 1), (16, 1), (4, 2), (24, 1)) if cp == 1 else (self.one(4, 8), 1)
        model = {"family": "llama", "layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv, "head_dim": hidden // heads, "ffn_hidden": ffn,
                 "vocab": vocab, "sequence": self.one(1024, 2048, 4096), "tied_embeddings": False}
        case = self.case("torch-fsdp", model, {"data_shard": shard, "data_replicate": replicas, "context": cp, "tensor": tp})
        case["micro_batch"] = self.one(1, 2)
        case["fsdp"] = self.fsdp2(replicas, shard, tp, cp, model)
        case["fsdp"].pop("offload", None)
        case["trainer"] = {"optimizer": "sgd"}
        if self.chance(0.3):
            case["trainer"]["activation_checkpoint"] = "full"
        if cp > 1:
            case["context_parallel"] = {"method": self.one("ring_all_gather", "ring_all_to_all")}
        if tp > 1:
            case["tensor_parallel"] = {"style": "dtensor", "sequence_parallel": True, "loss_parallel": self.chance(0.5)}
        case["ranks_recorded"] = [0, case["ranks"] - 1]
        return case

    def draw(self, kind):
        makers = {"ddp": self.ddp, "join": self.join, "fsdp1": self.fsdp1, "fsdp2": self.fsdp2_case, "hsdp": self.hsdp, "replicate": self.replicate, "tp": self.tp,
                  "tp_fsdp": lambda: self.tp(*self.one((2, 1), (2, 1), (3, 1), (1, 2), (2, 2))), "cp": self.cp, "cp_fsdp": lambda: self.cp(2),
                  "cp_tp": lambda: self.context(self.tp(self.one(1, 2), 1, 2, 2)), "pp": self.pipeline, "pp_ddp": lambda: self.pipeline(1, 1, 2, True),
                  "pp_fsdp": lambda: self.pipeline(1, *self.one((2, 1), (2, 1), (3, 1), (1, 2), (2, 2))), "pp_tp": lambda: self.pipeline(2),
                  "pp_tp_fsdp": lambda: self.pipeline(2, 2), "fake": self.fake}
        return makers[kind]()


def text_of(case, version):
    lines = ["%s: %s" % (key, json.dumps(value)) for key, value in case.items()]
    return "\n".join([lines[0], 'framework_version: "%s"' % version] + lines[1:]) + "\n"


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("NOTE", "W1", "[W", "[rank"))]
    return lines[-1][:220] if lines else ""


def record(options, path, folder, kind):
    """0 recorded, 1 recorded with a remark, 2 not supported, 3 refused by the framework; and what it said."""
    status = os.path.join(folder, "recorder.txt")
    if not os.path.exists(status):
        if options.again:
            return None, "not recorded"
        command = shlex.split(options.recorder) + [path, "--once", "-o", folder, "--timeout", str(options.timeout * (8 if kind == "fake" else 1))] + (["--fake"] if kind == "fake" else [])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20 * options.timeout)
            code, said = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            code, said = 4, "the recorder did not end in time"
        with open(status, "w") as out:
            out.write("%d\n%s" % (code, said))
    with open(status) as stored:
        code = int(stored.readline())
        return code, stored.read()


def compare(options, path, folder):
    """0 equal, 1 different, 2 refused, as commlens says it; an iteration that only one side has is a difference."""
    calls = os.path.join(folder, "calls.jsonl.gz")
    with gzip.open(calls, "rt") as recorded:
        count = sum(1 for line in recorded if '"barrier"' not in line and '"random"' not in line)
    if count == 0:        # nothing was sent: there is no trace to compare with
        done = subprocess.run([options.commlens, "predict", path, "--calls", "-"], capture_output=True, text=True, timeout=60)
        return (1 if done.stdout else done.returncode), "nothing was sent; " + done.stdout[:200] + done.stderr
    done = subprocess.run([options.commlens, "compare", "--order", path, calls], capture_output=True, text=True, timeout=60)
    if done.returncode == 0 and not done.stdout.startswith("equal: %d of " % count):
        return 1, "of %d recorded calls: %s" % (count, done.stdout)
    return done.returncode, done.stdout + done.stderr


def verdict_of(options, path, folder, kind):
    code, said = record(options, path, folder, kind)
    if code is None:
        return "not recorded", ""
    if code in (0, 1):
        answer, text = compare(options, path, folder)
        remark = " (remark: %s)" % next((line for line in said.splitlines() if line.startswith("PROBLEM")), "") if code == 1 else ""
        if answer == 0:
            return "equal", remark
        return ("different", text.strip().replace("\n", " | ")[:options.width] + remark) if answer == 1 else ("only commlens refuses", last_line(text))
    done = subprocess.run([options.commlens, "predict", path], capture_output=True, text=True, timeout=60)
    if "within the time limit" in said or code == 4 or "by peer" in said or "Read error" in said:
        return "no end in time", ""         # or a connection of the machine was lost
    if code == 2 or "by signal" in said:
        return "not recordable", last_line(said)
    if done.returncode == 0:
        return "only the recorder refuses", last_line(said)
    return "both refuse", "%s <> %s" % (last_line(done.stderr), last_line(said))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--recorder", default="", help="the command that records a case, for example 'python3 record.py'")
    p.add_argument("--commlens", required=True, help="the program under test")
    p.add_argument("--out", required=True, help="a folder for cases and recordings")
    p.add_argument("--version", default="2.15.0", help="the PyTorch release of the recorder")
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--first", type=int, default=0, help="number of the first case")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="", help="kinds, separated by commas: %s" % " ".join(KINDS))
    p.add_argument("--again", action="store_true", help="compare what is recorded, record nothing")
    p.add_argument("--bad", action="store_true", help="print only what is neither equal nor refused by both")
    p.add_argument("--timeout", type=float, default=40, help="seconds per recording, for the recorder")
    p.add_argument("--width", type=int, default=300)
    options = p.parse_args()
    kinds = options.only.split(",") if options.only else list(KINDS)
    table = collections.defaultdict(collections.Counter)
    for number in range(options.first, options.first + options.count):
        chosen = random.Random("kind %d %d" % (options.seed, number)).choices(kinds, [KINDS[k] for k in kinds])[0]
        case = Draw("%d %d" % (options.seed, number), options.version).draw(chosen)
        folder = os.path.join(options.out, "%05d_%s" % (number, chosen))
        path = os.path.join(options.out, "%05d_%s.yaml" % (number, chosen))
        os.makedirs(folder, exist_ok=True)
        if not (options.again and os.path.exists(path)):
            with open(path, "w") as out:
                out.write(text_of(case, options.version))
        start = time.time()
        verdict, said = verdict_of(options, path, folder, chosen)
        table[chosen][verdict] += 1
        if not (options.bad and verdict in ("equal", "both refuse", "not recorded", "no end in time")):
            print("%05d_%-10s %-24s %4.0f s  %s" % (number, chosen, verdict, time.time() - start, said), flush=True)
    verdicts = sorted({v for row in table.values() for v in row})
    print("%-12s" % "kind" + "".join("%28s" % v for v in verdicts))
    for kind in list(table) + ["all"]:
        row = sum(table.values(), collections.Counter()) if kind == "all" else table[kind]
        print("%-12s" % kind + "".join("%28d" % row[v] for v in verdicts))
    total = sum(table.values(), collections.Counter())
    return 1 if total["different"] or total["only the recorder refuses"] else 0


if __name__ == "__main__":
    sys.exit(main())
