#pragma once
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::calls_csv {

/// The table of calls JSON Lines as CSV with a header line; groups as "0 1 2".
void write(const Trace& trace, const CallSelection& selection, const TextSink& sink);

}  // namespace commlens::formats::calls_csv
