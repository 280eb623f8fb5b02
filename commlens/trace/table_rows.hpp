#pragma once
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

constexpr std::int64_t k_largest_tables = std::int64_t{1} << 30;  // bytes of a file of rows

/// Rows of strings: row in the file -> row of the trace.
template <typename Id>
struct StringRows {
  std::vector<Id> ids;
  std::unordered_set<std::uint32_t> seen;
};

/// Adds the rows of one file's tables to the tables of a trace. A row refers to earlier rows of its own file,
/// by their number there.
class TableRows {
 public:
  /// Both outlive this. What is wrong with a row is kept in `fields`.
  TableRows(Trace& tables, JsonFields& fields) : tables_(tables), fields_(fields) {}

  void add_name(const nlohmann::json& row, const std::string& where);
  void add_tag(const nlohmann::json& row, const std::string& where);
  void add_rule(const nlohmann::json& row, const std::string& where);
  void add_group(const nlohmann::json& row, const std::string& where);
  void add_op(const nlohmann::json& row, const std::string& where);

  /// Row in the file -> row of the trace.
  std::vector<OpId> take_ops() { return std::move(ops_); }

 private:
  Span span(const nlohmann::json& row, const std::string& where, const char* key, std::int64_t positions);
  CommunicatorId communicator(const nlohmann::json& row, const std::string& where);
  GroupId listed_group(const nlohmann::json& row, const std::string& where, Axis axis);
  GroupId pattern_group(const nlohmann::json& row, const std::string& where, Axis axis);
  template <typename Id>
  Id row_of(const std::vector<Id>& rows, const nlohmann::json& row, const std::string& where,
            const char* key);

  Trace& tables_;
  JsonFields& fields_;
  StringRows<NameId> names_;
  StringRows<TagId> tags_;
  std::vector<RuleId> rules_;
  std::vector<GroupId> groups_;
  std::vector<OpId> ops_;
};

}  // namespace commlens
