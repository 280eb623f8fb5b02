#pragma once
#include <string>

#include "commlens/formats/formats.hpp"

namespace commlens::formats {

/// Writes the trace to `destination`: a file (.gz compresses streams; "-" is standard output, streams only)
/// or a directory. It appears whole or not at all. Fails when the exporter does, when one that writes a file
/// or a directory is sent to standard output or to a name ending in .gz, and when there is a directory at the
/// destination of a directory in which anything else is than an earlier export of the same names. Throws
/// SystemError when it cannot be written.
Result<void> write_export(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                          const std::string& destination);

}  // namespace commlens::formats
