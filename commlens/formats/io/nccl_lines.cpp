#include "commlens/formats/io/nccl_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "commlens/formats/io/nccl_names.hpp"

namespace commlens::formats {
namespace {

constexpr std::string_view k_nccl_mark = "NCCL INFO";

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

bool is_host_part(char c) {
  return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

/// An integer that fills the text, not negative but for "-1".
std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = status == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_whole && value >= -1 ? std::optional(value) : std::nullopt;
}

/// Takes the digits at the end of the text, and the character `before` in front of them.
std::optional<std::int64_t> take_last_number(std::string_view& text, char before) {
  std::size_t start = text.size();
  while (start > 0 && is_decimal(text[start - 1])) {
    --start;
  }
  if (start == 0 || text[start - 1] != before) {
    return std::nullopt;
  }
  const auto number = whole(text.substr(start));
  text.remove_suffix(text.size() - start + 1);
  return number;
}

struct FoundPrinter {
  NcclPrinter printer;
  std::size_t start = 0;  // where the host begins
};

/// The printer before "NCCL INFO"; RCCL may put a time between.
std::optional<FoundPrinter> printer_before(std::string_view text) {
  constexpr std::size_t longest_time = 48;
  const std::size_t bracket = text.rfind(']');
  if (bracket == std::string_view::npos || text.size() - bracket > longest_time) {
    return std::nullopt;
  }
  const std::string_view time = text.substr(bracket + 1);
  if (time.find_first_not_of(" 0123456789:.-+TZ") != std::string_view::npos) {
    return std::nullopt;
  }
  text = text.substr(0, bracket);
  const auto device = take_last_number(text, '[');
  if (!device || !text.ends_with(' ')) {
    return std::nullopt;
  }
  text.remove_suffix(1);
  if (!take_last_number(text, ':')) {
    return std::nullopt;
  }
  const std::size_t end = text.size();
  if (!take_last_number(text, ':')) {
    return std::nullopt;
  }
  std::size_t start = text.size();
  while (start > 0 && is_host_part(text[start - 1])) {
    --start;
  }
  if (start == text.size()) {
    return std::nullopt;
  }
  const std::string_view process(text.data() + start, end - start);
  return FoundPrinter{{process, *device}, start};
}

/// Whether a text holds words of NCCL's calls and communicators: the rest of a line that was broken into.
bool is_rest_of_nccl_line(std::string_view text) {
  constexpr std::array<std::string_view, 7> words = {"opCount ", "buff ",   "nranks", "comm ",
                                                     "commId ",  "stream ", "root "};
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t start = text.find_first_not_of(' ');
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

std::string_view take_word(std::string_view& text) {
  text = without_blanks(text);
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

/// The word after `key`, both of them taken; empty when another word comes next.
std::string_view take_field(std::string_view& text, std::string_view key) {
  std::string_view rest = text;
  if (take_word(rest) != key) {
    return {};
  }
  const std::string_view value = take_word(rest);
  text = rest;
  return value;
}

/// The word after the first " key ".
std::string_view field_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view rest = text;
    if (take_word(rest) == key) {
      return take_word(rest);
    }
    text = rest;
  }
  return {};
}

bool is_pointer(std::string_view text) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
  }
  constexpr std::string_view hexadecimal = "0123456789abcdefABCDEF";
  return !text.empty() && text.size() <= 16 && text.find_first_not_of(hexadecimal) == std::string_view::npos;
}

NcclCommLine::Moment moment_of(std::string_view text) {
  using Moment = NcclCommLine::Moment;
  constexpr std::array<std::pair<std::string_view, Moment>, 4> words = {{{"Init START", Moment::start},
                                                                         {"Init COMPLETE", Moment::complete},
                                                                         {"Destroy COMPLETE", Moment::end},
                                                                         {"Abort COMPLETE", Moment::end}}};
  const auto* const found = std::find_if(words.begin(), words.end(), [&](const auto& word) {
    return text.find(word.first) != std::string_view::npos;
  });
  return found == words.end() ? Moment::unknown : found->second;
}

}  // namespace

std::string_view for_each_nccl_message(std::string_view line,
                                       const std::function<void(const NcclMessage&)>& take) {
  std::string_view before = line;
  std::optional<NcclPrinter> open;
  std::size_t text_start = 0;
  for (std::size_t mark = line.find(k_nccl_mark); mark != std::string_view::npos;
       mark = line.find(k_nccl_mark, mark + k_nccl_mark.size())) {
    const auto found = printer_before(line.substr(text_start, mark - text_start));
    if (!found) {
      continue;
    }
    const std::string_view previous = line.substr(text_start, found->start);
    const bool is_behind_text = open.has_value() || is_rest_of_nccl_line(previous);
    if (open) {
      take({*open, without_blanks(previous)});
    } else {
      before = previous;
    }
    open = found->printer;
    open->is_behind_text = is_behind_text;
    text_start = mark + k_nccl_mark.size();
  }
  if (open) {
    take({*open, without_blanks(line.substr(text_start))});
  }
  return before;
}

bool starts_nccl_call(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos && nccl_function(text.substr(0, colon)) != nullptr;
}

std::optional<NcclCallLine> nccl_call_line(std::string_view text) {
  const std::size_t colon = text.find(": opCount ");
  if (colon > 40 || text.find(' ') < colon) {
    return std::nullopt;
  }
  NcclCallLine call;
  call.function = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  constexpr std::array<std::string_view, 3> skipped = {"opCount", "sendbuff", "recvbuff"};
  for (const std::string_view key : skipped) {
    if (take_field(text, key).empty()) {
      return std::nullopt;
    }
  }
  const auto count = whole(take_field(text, "count"));
  const auto datatype = whole(take_field(text, "datatype"));
  const auto operation = whole(take_field(text, "op"));
  const auto root = whole(take_field(text, "root"));
  call.comm = take_field(text, "comm");
  std::string_view ranks = take_word(text);
  constexpr std::string_view opening = "[nranks=";
  if (!count || !datatype || !operation || !root || !is_pointer(call.comm) || !ranks.starts_with(opening) ||
      !ranks.ends_with(']')) {
    return std::nullopt;
  }
  ranks.remove_prefix(opening.size());
  ranks.remove_suffix(1);
  const auto number_of_ranks = whole(ranks);
  if (!number_of_ranks) {
    return std::nullopt;
  }
  call.count = *count;
  call.datatype = *datatype;
  call.root = *root;
  call.operation = *operation;
  call.ranks = *number_of_ranks;
  call.global_rank = whole(field_of(text, "globalrank"));
  return call;
}

std::optional<NcclCommLine> nccl_comm_line(std::string_view text) {
  constexpr std::size_t longest_name = 40;  // "ncclCommInitRankScalable "
  const std::size_t start = text.find("comm ");
  if (start > longest_name || (start > 0 && text.find(' ') + 1 != start)) {
    return std::nullopt;
  }
  text.remove_prefix(start);
  NcclCommLine line;
  line.comm = take_field(text, "comm");
  const auto rank = whole(take_field(text, "rank"));
  const auto ranks = whole(take_field(text, "nranks"));
  if (!is_pointer(line.comm) || !rank || !ranks || *rank < 0 || *rank >= *ranks || *ranks > k_max_ranks) {
    return std::nullopt;
  }
  line.rank = *rank;
  line.ranks = *ranks;
  line.device = whole(field_of(text, "cudaDev"));
  line.moment = moment_of(text);
  line.id = field_of(text, "commId");
  line.id = line.id == "0x0" ? std::string_view() : line.id;  // of a split: "no commId was used"
  line.parent = field_of(text, "parent");
  line.split = field_of(text, "splitCount");
  line.split = line.split.empty() ? field_of(text, "childCount") : line.split;
  line.color = field_of(text, "color");
  return line;
}

}  // namespace commlens::formats
