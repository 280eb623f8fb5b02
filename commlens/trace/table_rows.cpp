#include "commlens/trace/table_rows.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "commlens/trace/manifest.hpp"
#include "commlens/trace/manifest_names.hpp"

namespace commlens {
namespace {

using nlohmann::json;

constexpr std::int64_t k_most_elements = std::int64_t{1} << 50;
template <typename Id>
constexpr Id k_lost_row{UINT32_MAX};
static_assert(k_lost_row<OpId> == k_lost_op);

template <typename Names>
std::optional<std::size_t> index_of(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional<std::size_t>(found - names.begin());
}

/// Adds a string to rows whose first is empty and that hold no string twice.
template <typename Id>
void add_string(const json& row, const std::string& where, JsonFields& fields, StringRows<Id>& rows,
                StringTable<Id>& table) {
  if (!row.is_string()) {
    fields.fail(where, "must be a string");
    return;
  }
  const Id id = table.intern(row.get<std::string>());
  if (rows.ids.empty() && id != Id{}) {
    fields.fail(where, "must be the empty string");
  }
  if (!rows.seen.insert(static_cast<std::uint32_t>(id)).second) {
    fields.fail(where, "is in the table twice");
  }
  rows.ids.push_back(id);
}

}  // namespace

void TableRows::add_name(const json& row, const std::string& where) {
  const auto number = static_cast<std::uint32_t>(names_.ids.size());
  add_string(row, where, fields_, names_, tables_.names);
  if (names_.ids.size() > number && names_.ids.back() != k_lost_row<NameId>) {
    lanes_.set_name(number, tables_.names.text(names_.ids.back()));
  }
}

void TableRows::add_tag(const json& row, const std::string& where) {
  add_string(row, where, fields_, tags_, tables_.tags);
}

void TableRows::add_rule(const json& row, const std::string& where) {
  Rule rule;
  rule.name = fields_.text(row, where, "name");
  rule.source = fields_.text(row, where, "source");
  rule.verified = fields_.flag(row, where, "verified", true);
  rules_.push_back(tables_.intern(rule));
  if (rules_.size() == 1 && rules_.front() != RuleId{0}) {
    fields_.fail(where, "must be the empty rule");
  }
}

void TableRows::add_group(const json& row, const std::string& where) {
  const Axis axis = fields_.word(row, where, "axis", Axis::from);
  refers_to_lost_ = false;
  const bool is_listed = row.is_object() && (row.contains("ranks") || row.contains("ranks_of"));
  groups_.push_back(is_listed ? listed_group(row, where, axis) : pattern_group(row, where, axis));
}

Span TableRows::span(const json& row, const std::string& where) {
  Span result;
  result.shape = static_cast<Span::Shape>(
      fields_.word(row, where, "shape", [](std::string_view name) { return index_of(k_span_names, name); }));
  result.step = fields_.number(row, where, "step", {1, k_max_ranks}, 1);
  return result;
}

void TableRows::spans(const json& row, const std::string& where, GroupPattern& pattern) {
  const auto view_named = [&](std::string_view name) { return tables_.groups.mesh()->find_view(name); };
  pattern.view = fields_.word(row, where, "view", view_named);
  if (pattern.shape != GroupPattern::Shape::mesh) {
    pattern.along = fields_.word(row, where, "along", Axis::from);
    return;
  }
  const json& rows = fields_.array(row, where, "spans");
  for (std::size_t at = 0; at < rows.size() && !fields_.error; ++at) {
    const std::string place = fmt::format("{}.spans[{}]", where, at);
    const Axis axis = fields_.word(rows[at], place, "axis", Axis::from);
    pattern.spans.push_back({axis, span(rows[at], place)});
  }
}

void TableRows::spans_of_version_1(const json& row, const std::string& where, GroupPattern& pattern) {
  if (pattern.shape != GroupPattern::Shape::mesh) {
    pattern.along = Axis::pp;
    return;
  }
  constexpr std::array<std::pair<const char*, Axis>, 3> keys = {
      {{"pipeline", Axis::pp}, {"data", Axis::dp}, {"tensor", Axis::tp}}};
  for (const auto& [key, axis] : keys) {
    if (const json* const found = fields_.find(row, where, key, false); found != nullptr) {
      pattern.spans.push_back({axis, span(*found, fmt::format("{}.{}", where, key))});
    }
  }
}

CommunicatorId TableRows::communicator(const json& row, const std::string& where) {
  return row.contains("communicator") ? fields_.word(row, where, "communicator", communicator_from)
                                      : k_no_communicator;
}

GroupId TableRows::listed_group(const json& row, const std::string& where, const Axis& axis) {
  if (!row.contains("ranks")) {
    const GroupId alike = row_of(groups_, row, where, "ranks_of");
    if (refers_to_lost_) {
      return k_lost_row<GroupId>;
    }
    if (groups_.empty() || fields_.error || tables_.groups.pattern(alike) != nullptr) {
      fields_.fail(where, "\"ranks_of\" must be an earlier row with \"ranks\"");
      return {};
    }
    return tables_.groups.intern(tables_.groups.members(alike, Rank{0}), axis, communicator(row, where));
  }
  std::vector<Rank> members;
  for (const json& member : fields_.array(row, where, "ranks")) {
    const bool fits = member.is_number_unsigned() && member.get<std::uint64_t>() < std::uint64_t{k_max_ranks};
    if (!fits) {
      fields_.fail(where, fmt::format("\"ranks\" must be integers from 0 to {}", k_max_ranks - 1));
      break;
    }
    members.push_back(Rank{member.get<std::int64_t>()});
  }
  const std::int64_t size = fields_.number(row, where, "size", {0, k_max_ranks}, 0);
  if (members.empty() && size > 0) {
    const bool is_named = row.contains("name");
    return tables_.groups.intern_hidden(size, is_named ? fields_.text(row, where, "name") : "", axis);
  }
  return tables_.groups.intern(members, axis, communicator(row, where));
}

GroupId TableRows::pattern_group(const json& row, const std::string& where, const Axis& axis) {
  const std::optional<Mesh>& mesh = tables_.groups.mesh();
  if (!mesh) {
    fields_.fail(where, "is a pattern, but the manifest has no \"mesh\"");
    return {};
  }
  GroupPattern pattern;
  pattern.axis = axis;
  pattern.shape = static_cast<GroupPattern::Shape>(
      fields_.word(row, where, "shape", [](std::string_view name) { return index_of(k_shape_names, name); }));
  is_version_1_ ? spans_of_version_1(row, where, pattern) : spans(row, where, pattern);
  if (fields_.error) {
    return {};
  }
  const Result<GroupPattern> fits = checked(*mesh, std::move(pattern));
  if (!fits) {
    fields_.fail(where, fits.error().message);
    return {};
  }
  return tables_.groups.intern(*fits);
}

template <typename Id>
Id TableRows::row_of(const std::vector<Id>& rows, const json& row, const std::string& where, const char* key,
                     std::optional<std::int64_t> usual) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t least = usual ? 0 : -1;  // without rows there is nothing that must be named
  const std::int64_t last = std::max({count - 1, most_lost_ - 1, least});
  const std::int64_t index = fields_.number(row, where, key, {0, last}, usual);
  const bool is_there = index < count;
  const bool is_nothing = !is_there && most_lost_ == 0;
  const Id id = is_there ? rows[static_cast<std::size_t>(index)] : is_nothing ? Id{} : k_lost_row<Id>;
  refers_to_lost_ = refers_to_lost_ || id == k_lost_row<Id>;
  return id;
}

void TableRows::skip_to(std::string_view kind, std::size_t number) {
  if (kind == "name") {
    names_.ids.resize(number, k_lost_row<NameId>);
  } else if (kind == "tag") {
    tags_.ids.resize(number, k_lost_row<TagId>);
  } else if (kind == "group") {
    groups_.resize(number, k_lost_row<GroupId>);
  } else if (kind == "op") {
    ops_.resize(number, k_lost_op);
    op_lanes_.resize(number, k_no_lane);
  }
}

std::size_t TableRows::count(std::string_view kind) const {
  return kind == "name"    ? names_.ids.size()
         : kind == "tag"   ? tags_.ids.size()
         : kind == "group" ? groups_.size()
                           : ops_.size();
}

/// How the call is made, as far as the row says it.
void TableRows::add_manner(const json& row, const std::string& where, CommOp& op) {
  const auto has = [&](const char* key) { return row.is_object() && row.contains(key); };
  if (has("match")) {
    op.match = fields_.word(row, where, "match", match_from);
  } else if (fields_.flag(row, where, "data_dependent", false)) {  // as written before `match`
    op.match = Match::count;
  }
  if (has("reduce_op")) {
    op.reduction = fields_.word(row, where, "reduce_op", reduction_from);
  }
  if (has("algorithm")) {
    op.algorithm = fields_.word(row, where, "algorithm", algorithm_from);
  }
  if (has("protocol")) {
    op.protocol = fields_.word(row, where, "protocol", protocol_from);
  }
  if (has("blocking")) {
    op.blocking = fields_.flag(row, where, "blocking", false);
  }
}

void TableRows::add_op(const json& row, const std::string& where) {
  refers_to_lost_ = false;
  CommOp op;
  op.kind = fields_.word(row, where, "op", comm_kind_from);
  op.dtype = fields_.word(row, where, "dtype", dtype_from);
  op.phase = phase_from(fields_.text(row, where, "phase"));
  add_manner(row, where, op);
  op.group = row_of(groups_, row, where, "group", std::nullopt);
  const JsonFields::Range elements = {0, k_most_elements / size_of(op.dtype)};
  op.input.value = fields_.number(row, where, "input_elements", elements);
  op.output.value = fields_.number(row, where, "output_elements", elements);
  op.rounding.value = fields_.number(row, where, "rounding_bytes", {0, k_most_elements}, 0);
  op.tag = row_of(tags_.ids, row, where, "tag");
  op.name = row_of(names_.ids, row, where, "name");
  op.site = row_of(names_.ids, row, where, "site");
  op.note = row_of(names_.ids, row, where, "note");
  op.rule = row_of(rules_, row, where, "rule");
  if (fields_.error) {
    return;
  }
  if (refers_to_lost_) {
    ops_.push_back(k_lost_op);
    op_lanes_.push_back(k_no_lane);
    return;
  }
  const std::int64_t ranks = tables_.groups.size(op.group);
  if (row.contains("root")) {
    op.root = GroupRank{fields_.number(row, where, "root", {0, ranks - 1})};
  }
  if (is_point_to_point(op.kind) && ranks != 0 && ranks != 2) {
    fields_.fail(where, "is a send or recv, whose group must be [source, destination]");
  }
  ops_.push_back(tables_.intern(op));
  op_lanes_.push_back(lanes_.lane_of(op.kind, row.value("group", 0U), row.value("name", 0U)));
}

}  // namespace commlens
