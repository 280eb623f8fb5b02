#include "commlens/formats/importers/file_rank.hpp"

#include <string>
#include <string_view>

#include "commlens/base/text.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

std::optional<std::int64_t> rank_in_name(const std::filesystem::path& path) {
  constexpr std::string_view digits = "0123456789";
  std::string name = path.filename().string();
  // An extension that is a number is the rank: "trace.3".
  for (std::size_t dot = name.rfind('.');
       dot != std::string::npos && name.find_first_not_of(digits, dot + 1) != std::string::npos;
       dot = name.rfind('.')) {
    name.resize(dot);
  }
  const std::size_t before = name.find_last_not_of(digits);
  const std::string number = before == std::string::npos ? name : name.substr(before + 1);
  const bool stands_apart =
      before != std::string::npos && std::string_view("._-").find(name[before]) != std::string_view::npos;
  const bool is_rank_word =
      before != std::string::npos && before >= 3 && name.substr(before - 3, 4) == "rank";
  if (number.empty() || !(stands_apart || is_rank_word)) {
    return std::nullopt;
  }
  const Result<std::int64_t> rank = parse_integer(number);
  return rank && *rank < k_max_ranks ? std::optional(*rank) : std::nullopt;
}

}  // namespace commlens
