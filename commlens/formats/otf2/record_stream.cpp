#include "commlens/formats/otf2/record_stream.hpp"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/call_fields.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::otf2 {
namespace {

/// One line: without what would end it.
void append_line_text(std::string& out, std::string_view text) {
  for (const char c : valid_utf8(text)) {
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  out += '\n';
}

void append_key(std::string& out, std::string_view key) {
  out += out.back() == '{' ? "" : ",";
  append_json_string(out, key);
  out += ':';
}

/// A field that says something, except the group.
void append_record_field(std::string& out, const CallField& field, const CallRecord& record) {
  if (const auto* const number = std::get_if<CallField::Number>(&field.member)) {
    if (const std::optional<std::int64_t> value = record.**number) {
      append_key(out, field.key);
      append_number(out, *value);
    }
  } else if (const std::string_view text = field.text_in(record); !text.empty()) {
    append_key(out, field.key);
    append_json_string(out, text);
  } else if (const auto* const flag = std::get_if<CallField::Flag>(&field.member)) {
    if (const std::optional<bool> value = record.**flag) {
      append_key(out, field.key);
      out += *value ? "true" : "false";
    }
  }
}

/// The text before the first space, which goes.
std::string_view take_until_space(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

Result<void> torn(std::string_view line) {
  return failure(fmt::format("the reader's process sent \"{}\"", valid_utf8(line.substr(0, 60))));
}

}  // namespace

void RecordEncoder::add(const CallRecord& record) {
  std::string group = "-";
  if (!record.group.ranks.empty()) {
    const auto [found, added] = groups_.try_emplace(record.group.ranks, groups_.size());
    if (added) {
      out_ += "G";
      for (const Rank rank : record.group.ranks) {
        out_ += ' ';
        append_number(out_, rank.value);
      }
      out_ += '\n';
    }
    group = fmt::format("{}", found->second);
  }
  out_ += fmt::format("R {} {{", group);
  for (const CallField& field : call_fields()) {
    append_record_field(out_, field, record);
  }
  if (record.iteration_unknown) {
    append_key(out_, "iteration");
    out_ += "null";
  }
  if (record.root_unknown) {
    append_key(out_, "root");
    out_ += "null";
  }
  out_ += "}\n";
}

void RecordEncoder::skip(std::string_view reason, std::int64_t records) {
  out_ += fmt::format("S {} ", records);
  append_line_text(out_, reason);
}

void RecordEncoder::assume(std::string_view reason, std::int64_t records) {
  out_ += fmt::format("A {} ", records);
  append_line_text(out_, reason);
}

void RecordEncoder::fail(std::string_view message) {
  out_ += "E ";
  append_line_text(out_, message);
}

Result<void> RecordDecoder::take_group(std::string_view ranks) {
  std::vector<Rank> members;
  while (!ranks.empty()) {
    const Result<std::int64_t> rank = parse_integer(take_until_space(ranks));
    if (!rank) {
      return tl::unexpected(rank.error());
    }
    members.push_back(Rank{*rank});
  }
  groups_.push_back(std::move(members));
  return {};
}

Result<void> RecordDecoder::take_record(std::string_view text) {
  const std::string_view group = take_until_space(text);
  if (const Result<void> parsed = parser_.parse(text, record_); !parsed) {
    return parsed;
  }
  record_.group.is_given = true;
  if (group != "-") {
    const Result<std::int64_t> row = parse_integer(group);
    if (!row || *row < 0 || *row >= static_cast<std::int64_t>(groups_.size())) {
      return torn(group);
    }
    record_.group.ranks = groups_[static_cast<std::size_t>(*row)];
  }
  ++records_;
  calls_.add_or_skip(record_);
  return {};
}

Result<void> RecordDecoder::take(std::string_view line) {
  const std::string_view whole = line;
  const std::string_view kind = take_until_space(line);
  if (kind == "R") {
    return take_record(line);
  }
  if (kind == "G") {
    return take_group(line);
  }
  if (kind == "S" || kind == "A") {
    const Result<std::int64_t> records = parse_integer(take_until_space(line));
    if (!records || *records < 0) {
      return torn(whole);
    }
    const auto count = kind == "S" ? &Provenance::skip : &Provenance::assume;
    (calls_.provenance().*count)(std::string(line), *records);
    return {};
  }
  if (kind == "E") {
    failure_ = std::string(line);
    return {};
  }
  if (kind == ".") {
    is_finished_ = true;
    return {};
  }
  return torn(whole);
}

}  // namespace commlens::formats::otf2
