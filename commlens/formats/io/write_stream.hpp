#pragma once
#include <functional>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"

namespace commlens::formats {

/// Runs `write` into `destination`: "-" is standard output, a name ending in .gz is compressed, a file
/// appears whole or not at all. Throws SystemError when it cannot be written.
void write_stream(const std::string& destination, const std::function<void(const TextSink&)>& write);

/// The same of a `write` that may fail; then a file is left as it was.
Result<void> try_write_stream(const std::string& destination,
                              const std::function<Result<void>(const TextSink&)>& write);

}  // namespace commlens::formats
