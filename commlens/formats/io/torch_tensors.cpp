#include "commlens/formats/io/torch_tensors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace commlens::formats {
namespace {

/// Reads an integer at the begin of `text`, after blanks and commas, and removes it.
std::optional<std::int64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" ,\n"), text.size()));
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Bytes of the tensor whose list starts at the begin of `text`; nothing when it is none.
struct TensorSize {
  std::int64_t elements = 0;
  std::int64_t element_size = 0;
};
std::optional<TensorSize> tensor_at(std::string_view text) {
  text.remove_prefix(1);
  std::array<std::int64_t, 5> numbers{};
  for (std::int64_t& number : numbers) {
    const std::optional<std::int64_t> taken = take_number(text);
    if (!taken) {
      return std::nullopt;
    }
    number = *taken;
  }
  text.remove_prefix(std::min(text.find_first_not_of(" ,\n"), text.size()));
  if (text.empty() || (text.front() != '"' && text.front() != '\'')) {
    return std::nullopt;
  }
  return TensorSize{numbers[3], numbers[4]};
}

}  // namespace

std::string_view torch_tensor_type(std::string_view type) {
  constexpr std::string_view opening = "Tensor(";
  const std::size_t begin = type.find(opening);
  if (begin == std::string_view::npos) {
    return {};
  }
  type.remove_prefix(begin + opening.size());
  return type.substr(0, std::min(type.find(')'), type.size()));
}

std::optional<std::int64_t> torch_tensor_bytes(std::string_view values) {
  constexpr std::int64_t largest = INT64_MAX / 4;
  std::int64_t bytes = 0;
  for (std::size_t at = values.find('['); at < values.size(); at = values.find('[', at + 1)) {
    const std::optional<TensorSize> tensor = tensor_at(values.substr(at));
    if (!tensor) {
      continue;
    }
    const auto [elements, element_size] = *tensor;
    if (elements < 0 || element_size < 0 || element_size > 64 || elements > (largest - bytes) / 64) {
      return std::nullopt;
    }
    bytes += elements * element_size;
  }
  return bytes;
}

std::optional<std::vector<std::int64_t>> whole_numbers(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> numbers;
  while (text.find_first_not_of(' ') != std::string_view::npos) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    const std::optional<std::int64_t> number = take_number(part);
    if (!number || part.find_first_not_of(' ') != std::string_view::npos) {
      return std::nullopt;
    }
    numbers.push_back(*number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return numbers;
}

}  // namespace commlens::formats
