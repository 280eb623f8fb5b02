#include "commlens/formats/io/file_rank.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "commlens/base/text.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {
namespace {

constexpr std::string_view k_digits = "0123456789";

std::optional<std::int64_t> as_rank(std::string_view number) {
  const Result<std::int64_t> rank = parse_integer(number);
  return rank && *rank >= 0 && *rank < k_max_ranks ? std::optional(*rank) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> rank_by_word(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  for (const std::string_view word : {"rank", "worker"}) {
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      std::size_t first = at + word.size();
      first +=
          first < name.size() && std::string_view("-_.").find(name[first]) != std::string_view::npos ? 1 : 0;
      std::size_t end = first;
      while (end < name.size() && k_digits.find(name[end]) != std::string_view::npos) {
        ++end;
      }
      if (const auto rank = as_rank(std::string_view(name).substr(first, end - first))) {
        return rank;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> rank_in_name(const std::filesystem::path& path) {
  if (const std::optional<std::int64_t> rank = rank_by_word(path)) {
    return rank;
  }
  std::string name = path.filename().string();
  // An extension that is a number is the rank: "trace.3".
  for (std::size_t dot = name.rfind('.');
       dot != std::string::npos && name.find_first_not_of(k_digits, dot + 1) != std::string::npos;
       dot = name.rfind('.')) {
    name.resize(dot);
  }
  const std::size_t before = name.find_last_not_of(k_digits);
  const std::string number = before == std::string::npos ? name : name.substr(before + 1);
  const bool stands_apart =
      before != std::string::npos && std::string_view("._-").find(name[before]) != std::string_view::npos;
  if (number.empty() || !stands_apart) {
    return std::nullopt;
  }
  return as_rank(number);
}

}  // namespace commlens::formats
