#include "commlens/formats/calls_csv/import.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/call_fields.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats::calls_csv {
namespace {

// rank,iteration,op,dtype,input_bytes,output_bytes,group
// 0,0,all_reduce,fp16,2,2,0 1

/// Takes the fields of one record apart; a quoted field may go on in the next line.
class RecordSplitter {
 public:
  std::vector<std::string> fields;

  void start() {
    fields.assign(1, "");
    in_quotes_ = false;
  }
  /// Adds a line; true when the record is complete.
  bool add(std::string_view line) {
    while (true) {
      const std::size_t stop = in_quotes_ ? line.find('"') : line.find_first_of("\",");
      fields.back() += line.substr(0, stop);
      if (stop == std::string_view::npos) {
        break;
      }
      const char c = line[stop];
      line.remove_prefix(stop + 1);
      if (in_quotes_ && line.starts_with('"')) {
        fields.back() += '"';
        line.remove_prefix(1);
      } else if (c == '"') {
        in_quotes_ = !in_quotes_;
      } else {
        fields.emplace_back();
      }
    }
    if (in_quotes_) {
      fields.back() += '\n';
    }
    return !in_quotes_;
  }

 private:
  bool in_quotes_ = false;
};

/// The next record that is not blank, in `record`; false at the end.
Result<bool> next_record(LineReader& lines, RecordSplitter& record) {
  std::size_t size = 0;
  bool is_complete = true;
  record.start();
  while (true) {
    std::string_view line;
    const Result<bool> more = lines.next(line);
    if (!more) {
      return tl::unexpected(more.error());
    }
    if (!*more && !is_complete) {
      return failure(fmt::format("{}: the file ends inside quotes", lines.where()));
    }
    if (!*more) {
      return false;
    }
    size += line.size();
    if (size > LineReader::k_longest_line) {
      return failure(fmt::format("{}: a record of more than {} MiB; is a quote left open?", lines.where(),
                                 LineReader::k_longest_line >> 20));
    }
    if (is_complete && line.empty()) {
      continue;
    }
    is_complete = record.add(line);
    if (is_complete) {
      return true;
    }
  }
}

/// For each column the field it holds; null for columns we do not know.
using Columns = std::vector<const CallField*>;

Result<Columns> columns_of(const std::vector<std::string>& header) {
  Columns columns;
  for (const std::string& name : header) {
    const auto found = std::find_if(call_fields().begin(), call_fields().end(),
                                    [&](const CallField& field) { return field.key == name; });
    const CallField* const field = found == call_fields().end() ? nullptr : &*found;
    if (field != nullptr && std::find(columns.begin(), columns.end(), field) != columns.end()) {
      return failure(fmt::format("column \"{}\" appears twice", name));
    }
    columns.push_back(field);
  }
  return columns;
}

Result<std::vector<Rank>> ranks_of(std::string_view text) {
  std::vector<Rank> ranks;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const Result<std::int64_t> rank = parse_integer(word);
    if (!rank) {
      return tl::unexpected(rank.error());
    }
    ranks.push_back(Rank{*rank});
  }
  return ranks;
}

/// Puts the text of a column into its place in the record.
struct Setter {
  CallRecord& record;
  const CallField& field;
  const std::string& text;

  Result<void> operator()(CallField::Number member) const {
    record.iteration_unknown = record.iteration_unknown || (text.empty() && field.key == "iteration");
    record.root_unknown = record.root_unknown || (text == "?" && field.key == "root");
    if (text.empty() || record.root_unknown) {
      return {};
    }
    const Result<std::int64_t> value = parse_integer(text);
    if (!value) {
      return failure(fmt::format("column \"{}\": {}", field.key, value.error().message));
    }
    record.*member = *value;
    return {};
  }
  template <typename Member>
  Result<void> operator()(const Member& /*member*/) const {
    field.set_text(record, text);
    return {};
  }
  Result<void> operator()(CallField::Ranks member) const {
    const Result<std::vector<Rank>> ranks = ranks_of(text);
    if (!ranks) {
      return failure(fmt::format("column \"{}\": {}; write ranks with one space between", field.key,
                                 ranks.error().message));
    }
    record.*member = GroupField{true, *ranks};
    return {};
  }
  Result<void> operator()(CallField::Flag member) const {
    if (text != "true" && text != "false" && !text.empty()) {
      return failure(fmt::format("column \"{}\" must be {}", field.key, expected_value(field)));
    }
    record.*member = text.empty() ? std::nullopt : std::optional(text == "true");
    return {};
  }
};

Result<void> add_call(const Columns& columns, const std::vector<std::string>& fields, CallBuilder& calls) {
  if (fields.size() != columns.size()) {
    return failure(fmt::format("{} columns, the header has {}", fields.size(), columns.size()));
  }
  CallRecord record;
  for (std::size_t column = 0; column < columns.size(); ++column) {
    if (columns[column] == nullptr) {
      continue;
    }
    const CallField& field = *columns[column];
    if (const Result<void> set = std::visit(Setter{record, field, fields[column]}, field.member); !set) {
      return set;
    }
  }
  return calls.add(record);
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  CallBuilder calls("calls CSV", source->name());
  LineReader lines(std::move(*source));
  RecordSplitter record;
  std::optional<Columns> columns;
  std::int64_t count = 0;
  while (true) {
    const Result<bool> more = next_record(lines, record);
    if (!more) {
      return tl::unexpected(more.error());
    }
    if (!*more) {
      break;
    }
    Result<void> taken;
    if (columns) {
      taken = add_call(*columns, record.fields, calls);
      ++count;
    } else {
      Result<Columns> named = columns_of(record.fields);
      taken = named ? Result<void>() : tl::unexpected(named.error());
      columns = named ? std::move(*named) : Columns();
    }
    if (!taken) {
      return failure(fmt::format("{}: {}{}", lines.where(), taken.error().message,
                                 lines.line_is_whole() ? "" : " (the file ends inside this line)"));
    }
  }
  if (count == 0) {
    return failure(fmt::format("{}: no calls in it", path.string()));
  }
  return calls.finish();
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) {
    head.remove_prefix(3);
  }
  head = head.substr(0, head.find_first_of("\r\n"));
  RecordSplitter record;
  record.start();
  record.add(head);
  constexpr std::array<std::string_view, 3> needed = {"rank", "op", "input_bytes"};
  return std::all_of(needed.begin(), needed.end(), [&](std::string_view name) {
    return std::find(record.fields.begin(), record.fields.end(), name) != record.fields.end();
  });
}

}  // namespace commlens::formats::calls_csv
