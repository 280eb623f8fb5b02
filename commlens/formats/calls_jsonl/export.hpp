#pragma once
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::calls_jsonl {

/// Writes one JSON object per call per rank (docs/formats/calls.md), rank by rank, each in issue order.
void write(const Trace& trace, const CallSelection& selection, const TextSink& sink);

}  // namespace commlens::formats::calls_jsonl
