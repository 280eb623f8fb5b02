#pragma once
#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::perfetto {

/// Chrome's trace event JSON (docs/formats/perfetto.md): opens in ui.perfetto.dev and chrome://tracing. One
/// process per rank, one track per axis and one of computing, arrows from sends to their receives. Fails on
/// more than 30 million slices.
Result<void> write(const Trace& trace, const CallSelection& selection, const TextSink& sink);

}  // namespace commlens::formats::perfetto
