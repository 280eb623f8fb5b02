#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/table.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// A key of the outputs, which means the same in every verb and format (docs/output.md says what), and how
/// people see its numbers.
struct OutputKey {
  std::string_view key;
  std::string_view title;
  ColumnUnit unit = ColumnUnit::text;
  ColumnScope scope = ColumnScope::none;
};

/// Every key that a column of a table or of a figure has.
std::span<const OutputKey> vocabulary();

/// The entry of `key`, which the vocabulary has.
const OutputKey& output_key(std::string_view key);

/// The columns of a table: unit and scope of each key, and its title unless the table has one of its own.
std::vector<Column> columns(std::vector<Column> uses);

/// A column of CSV and JSON that people are not shown.
Column data(std::string key, std::string json = {});

/// A column of one op: "OP_message_bytes_per_rank" as "all_reduce_message_bytes_per_rank".
Column column_of(CommKind op, std::string_view key);

}  // namespace commlens
