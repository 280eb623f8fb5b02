#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// Which transport makes the calls of one kind, in a range of sizes, on groups of one size.
struct TransportEntry {
  CommKind kind = CommKind::all_reduce;  // send: of recv too
  Bytes least{0};                        // message bytes (comm/volume.hpp), both ends included
  Bytes most{std::numeric_limits<std::int64_t>::max()};
  std::int64_t ranks = 0;  // of the group; 0: any
  std::string transport;   // "mpi"
  std::string algorithm;   // of that transport's library; empty: its choice
  friend bool operator==(const TransportEntry&, const TransportEntry&) = default;
};

/// A table of transports. The first entry that fits a call counts; calls without one take the job's own
/// transport.
struct TransportTable {
  std::vector<TransportEntry> entries;
  std::vector<int> lines;  // of the file: where each entry stands; empty if it comes from none

  /// The entry's place; entries.size(): none fits.
  std::size_t place_of(CommKind kind, Bytes message, std::int64_t ranks) const;
  /// "line 3", or "entry 1" of a table that was not read.
  std::string where(std::size_t place) const;
};

/// Reads CSV with the columns op, min_bytes, max_bytes, ranks, transport and, if wanted, algorithm, in any
/// order; lines that start with # are comments. Sizes are numbers of bytes, or with a unit ("64KiB"); an
/// empty max_bytes is no limit, empty ranks are any. Fails, naming the line, on a column it does not know, on
/// a value that is none, and on an entry that an earlier one leaves nothing to.
Result<TransportTable> parse_transport_table(std::string_view text);

/// The same of a file; errors name it.
Result<TransportTable> read_transport_table(const std::filesystem::path& file);

/// The table as parse_transport_table() reads it. `comment`: lines of text to stand above it.
std::string transport_table_text(const TransportTable& table, std::string_view comment);

}  // namespace commlens
