#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/op_lanes.hpp"
#include "commlens/trace/table_limits.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Rows of strings: row in the file -> row of the trace.
template <typename Id>
struct StringRows {
  std::vector<Id> ids;
  std::unordered_set<std::uint32_t> seen;
};

/// Adds the rows of one file's tables to the tables of a trace. A row refers to earlier rows of its own file,
/// by their number there. Rows of a damaged file may be missing; those that refer to them are missing too.
class TableRows {
 public:
  /// Both outlive this. What is wrong with a row is kept in `fields`.
  TableRows(Trace& tables, JsonFields& fields) : tables_(tables), fields_(fields) {}

  void add_name(const nlohmann::json& row, const std::string& where);
  void add_tag(const nlohmann::json& row, const std::string& where);
  void add_rule(const nlohmann::json& row, const std::string& where);
  void add_group(const nlohmann::json& row, const std::string& where);
  void add_op(const nlohmann::json& row, const std::string& where);

  /// Groups are patterns of a mesh of three axes, as in commlens.trace/1.
  void set_version_1() { is_version_1_ = true; }

  /// From here on rows may be missing, whose numbers are below `most`.
  void set_damaged(std::int64_t most) { most_lost_ = most; }
  /// The next row of a kind ("name", "tag", "group" or "op") has this number, not below the number of rows of
  /// that kind; those between were lost.
  void skip_to(std::string_view kind, std::size_t number);
  std::size_t count(std::string_view kind) const;

  /// Row in the file -> row of the trace; k_lost_op where it was lost.
  std::vector<OpId> take_ops() { return std::move(ops_); }
  const std::vector<OpId>& ops() const { return ops_; }
  /// Of each op its lane (OpLanes), where no row is missing.
  const std::vector<std::uint32_t>& lanes() const { return op_lanes_; }

 private:
  Span span(const nlohmann::json& row, const std::string& where);
  void spans(const nlohmann::json& row, const std::string& where, GroupPattern& pattern);
  void spans_of_version_1(const nlohmann::json& row, const std::string& where, GroupPattern& pattern);
  void add_manner(const nlohmann::json& row, const std::string& where, CommOp& op);
  CommunicatorId communicator(const nlohmann::json& row, const std::string& where);
  GroupId listed_group(const nlohmann::json& row, const std::string& where, const Axis& axis);
  GroupId pattern_group(const nlohmann::json& row, const std::string& where, const Axis& axis);
  template <typename Id>
  Id row_of(const std::vector<Id>& rows, const nlohmann::json& row, const std::string& where, const char* key,
            std::optional<std::int64_t> usual = 0);

  Trace& tables_;
  JsonFields& fields_;
  StringRows<NameId> names_;
  StringRows<TagId> tags_;
  std::vector<RuleId> rules_;
  std::vector<GroupId> groups_;
  std::vector<OpId> ops_;
  OpLanes lanes_;
  std::vector<std::uint32_t> op_lanes_;
  bool is_version_1_ = false;
  std::int64_t most_lost_ = 0;
  bool refers_to_lost_ = false;  // the row at hand
};

}  // namespace commlens
