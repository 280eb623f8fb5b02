#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/table.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// A key of the outputs, which has the same meaning in every verb and format (docs/output.md defines it),
/// with the unit, scope and title of its column.
struct OutputKey {
  std::string_view key;
  std::string_view title;
  ColumnUnit unit = ColumnUnit::text;
  ColumnScope scope = ColumnScope::none;
};

/// Every key that a column of a table or of a figure has.
std::span<const OutputKey> vocabulary();

/// The entry of `key`. Precondition: the vocabulary has it.
const OutputKey& output_key(std::string_view key);

/// The columns of a table: unit and scope of each key, and its title unless the table has one of its own.
std::vector<Column> columns(std::vector<ColumnUse> uses);

/// A column of CSV and JSON only.
Column data(std::string key, std::string json = {});

/// A column of one op: "OP_message_bytes_per_rank" as "all_reduce_message_bytes_per_rank".
Column column_of(CommKind op, std::string_view key);

}  // namespace commlens
