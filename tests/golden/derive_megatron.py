#!/usr/bin/env python3
"""Calls of Megatron releases that cannot be recorded, derived from recordings of other releases.

    tests/golden/derive_megatron.py

The packages of core 0.10 to 0.16 have no megatron.training. What its releases sent otherwise was read in their sources and,
as far as recordings reach, is in tests/golden/megatron_versions. Writes tests/golden/megatron_derived/NAME from the recordings
named below; the calls that are changed are in the functions, each with its source. No rule of commlens is used.
"""
import gzip, json, os

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "#: "


def read(case):
    with gzip.open(os.path.join(HERE, case, "calls.jsonl.gz"), "rt") as lines:
        return [json.loads(line) for line in lines]


def write(name, source, calls, head, change_text):
    text = "".join(line for line in open(os.path.join(HERE, source, "case.yaml")) if not line.startswith("#"))
    folder = os.path.join(HERE, "megatron_derived", name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "case.yaml"), "w") as out:
        out.write("".join(MARK + line + "\n" for line in ["derived by derive_megatron.py from " + source] + head) + change_text(text))
    body = "".join(json.dumps(call, separators=(",", ":")) + "\n" for call in calls)
    with open(os.path.join(folder, "calls.jsonl.gz"), "wb") as out:
        out.write(gzip.compress(body.encode(), 9, mtime=0))


def without_stamps(calls):
    """training/training.py:1138 of 0.16.0 added a second minimum of start times and a gather of ten timers (40 bytes)."""
    kept, minima = [], {}
    for call in calls:
        if call["iteration"] == -1 and call["dtype"] == "fp64":
            minima[call["rank"]] = minima.get(call["rank"], 0) + 1
            if minima[call["rank"]] == 2:
                continue
        if call["iteration"] == -1 and call["op"] == "all_gather" and call["input_bytes"] == 40:
            continue
        kept.append(call)
    return kept


def with_timers(calls):
    """training/training.py before 0.16.0: 24 timers at the end of each logged iteration, whatever the timing level."""
    out = []
    for at, call in enumerate(calls):
        out.append(call)
        is_last = at + 1 == len(calls) or (calls[at + 1]["rank"], calls[at + 1]["iteration"]) != (call["rank"], call["iteration"])
        if is_last and call["iteration"] >= 0:
            world = sorted({c["rank"] for c in calls})
            out.append({"rank": call["rank"], "iteration": call["iteration"], "phase": "other", "op": "all_gather", "dtype": "fp32", "input_bytes": 96,
                        "output_bytes": 96 * len(world), "group": world, "group_name": "default_pg", "site": "timers.py"})
    return out


def without_packings(calls):
    """training/utils.py of 0.16.0 and 0.17.x alone broadcast the length and the content of an empty description of packed sequences."""
    sizes = {("int64", 8), ("int32", 0)}
    return [c for c in calls if not (c["op"] == "broadcast" and c["iteration"] >= 0 and (c["dtype"], c["input_bytes"]) in sizes)]


def with_positions_second(calls):
    """get_batch_on_this_tp_rank before 0.16.0: a stage with multi-token prediction sends tokens, positions, labels, loss mask;
    later releases tokens, labels, loss mask, positions."""
    out = list(calls)
    for at in range(len(out) - 1):
        this, after = out[at], out[at + 1]
        if this["op"] == after["op"] == "broadcast" and this["iteration"] >= 0 and (this["dtype"], after["dtype"]) == ("fp32", "int64"):
            out[at], out[at + 1] = after, this
    return out


def is_metric(call):
    """Reductions of core/transformer/moe/moe_utils.py, one fp32 value a layer."""
    return call["op"] == "all_reduce" and call["iteration"] >= 0 and call["site"].startswith(("moe_utils.py", "megatron/core/transformer/moe/moe_utils.py"))


def averaged_over_all(calls):
    """core/transformer/moe/moe_utils.py of 0.14 and 0.15 averages each metric over data and context ranks at last, whatever group it
    was summed over; 0.16 and 0.17 over data ranks, those whose group has none. A metric begins with its sum over stages."""
    out = []
    for call in calls:
        if not is_metric(call):
            out.append(call)
        elif call.get("reduce_op") != "avg":
            out.append(call)
    averaged = []
    for at, call in enumerate(out):
        averaged.append(call)
        after = out[at + 1] if at + 1 < len(out) else None
        same = after is not None and is_metric(after) and (after["rank"], after["iteration"]) == (call["rank"], call["iteration"])
        if is_metric(call) and not (same and after["group_name"] != "PIPELINE_MODEL_PARALLEL_GROUP"):
            averaged.append(dict(call, reduce_op="avg", group=sorted({c["rank"] for c in calls}), group_name="DATA_PARALLEL_GROUP_WITH_CP"))
    return averaged


def of_decoder_layers(calls, layers):
    """track_moe_metrics before 0.17.0 made a metric that no layer had recorded of num_layers values, without those of
    multi-token prediction."""
    return [dict(c, input_bytes=4 * layers, output_bytes=4 * layers) if is_metric(c) else c for c in calls]


def metrics_of_experts():
    source = "megatron_recorded/0.17.1_ep2_coefficients"
    calls = averaged_over_all(with_timers(without_packings(without_stamps(read(source)))))
    write("0.15.3_ep2_coefficients", source, calls, ["start without stamps, no empty packings, gathers of timers, metrics averaged over all ranks"],
          lambda text: text.replace('"0.17.1"', '"0.15.3"'))


def idle_metrics_beside_predicted_tokens():
    source = "megatron_recorded/0.17.1_mtp_moe"
    calls = of_decoder_layers(averaged_over_all(with_timers(without_packings(without_stamps(read(source))))), 2)
    write("0.15.3_mtp_moe", source, calls, ["start without stamps, no empty packings, gathers of timers, metrics of 2 layers averaged over all ranks"],
          lambda text: text.replace('"0.17.1"', '"0.15.3"'))


def mtp_of_two_stages():
    source = "megatron_recorded/0.17.1_t2p2_mtp"
    calls = with_positions_second(with_timers(without_packings(without_stamps(read(source)))))
    write("0.15.3_t2p2_mtp", source, calls, ["start without stamps, no empty packings, gathers of timers, positions ahead of labels"],
          lambda text: text.replace('"0.17.1"', '"0.15.3"'))


def every_second_iteration_logged():
    """training_log of 0.15 prints in iterations that the log interval divides; from 0.16.0 on in the first one too."""
    source = "megatron_versions/0.15.3_d2"
    calls = [c for c in read(source) if not (c["iteration"] >= 0 and c["iteration"] % 2 == 0 and c["op"] == "all_gather" and c["input_bytes"] == 96)]
    write("0.15.3_d2_log2", source, calls, ["no gathers of timers in the first and the third iteration"],
          lambda text: text.replace("log-interval: 1\n", "log-interval: 2\n"))


mtp_of_two_stages()
every_second_iteration_logged()
metrics_of_experts()
idle_metrics_beside_predicted_tokens()
