// Numbers and sizes as users type them. What is accepted must be read back as the same value.
#include <array>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"
#include "commlens/base/units.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace commlens;
  const std::string_view text = as_text(bytes, size);
  if (const Result<std::int64_t> number = parse_integer(text)) {
    COMMLENS_CHECK(parse_integer(std::to_string(*number)) == *number, "a number survives printing");
  }
  if (const Result<Bytes> parsed = parse_bytes(text)) {
    COMMLENS_CHECK(parsed->value >= 0, "a size is not negative");
    COMMLENS_CHECK(!to_text(*parsed).empty() && !with_commas(parsed->value).empty(),
                   "every size can be printed");
  }
  constexpr std::array<std::string_view, 3> k_words = {"hidden_size", "num_layers", "vocab"};
  const std::string word = nearest(text, k_words);
  COMMLENS_CHECK(word.empty() || word.size() <= 11, "the answer is one of the candidates");
  return 0;
}
