#include "tests/foreign/mutation.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace commlens {
namespace {

/// A part of a text.
struct Part {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t end() const { return begin + size; }
};

constexpr std::string_view k_separators = " \t\r\n,:;=[]{}()\"";

bool is_separator(char c) { return k_separators.find(c) != std::string_view::npos; }

/// The part around a random place that `is_edge` does not cut.
template <typename IsEdge>
Part around(std::string_view text, Dice& dice, const IsEdge& is_edge) {
  Part part{dice.below(text.size()), 0};
  std::size_t end = part.begin;
  while (part.begin > 0 && !is_edge(text[part.begin - 1])) {
    --part.begin;
  }
  while (end < text.size() && !is_edge(text[end])) {
    ++end;
  }
  part.size = end - part.begin;
  return part;
}

Part line_of(std::string_view text, Dice& dice) {
  Part line = around(text, dice, [](char c) { return c == '\n'; });
  line.size += line.end() < text.size() ? 1 : 0;
  return line;
}

Part field_of(std::string_view text, Dice& dice) { return around(text, dice, is_separator); }

/// From a random opening brace to the one that closes it; empty when there is none.
Part object_of(std::string_view text, Dice& dice) {
  const std::size_t begin = text.find_first_of("{[", dice.below(text.size()));
  if (begin == std::string_view::npos) {
    return {};
  }
  int depth = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    depth += text[at] == '{' || text[at] == '[' ? 1 : text[at] == '}' || text[at] == ']' ? -1 : 0;
    if (depth == 0) {
      return {begin, at + 1 - begin};
    }
  }
  return {begin, text.size() - begin};
}

/// The first run of digits from a random place on.
Part number_of(std::string_view text, Dice& dice) {
  const std::size_t begin = text.find_first_of("0123456789", dice.below(text.size()));
  if (begin == std::string_view::npos) {
    return {};
  }
  const std::size_t end = text.find_first_not_of("0123456789", begin);
  return {begin, std::min(end, text.size()) - begin};
}

std::string other_number(std::string_view number, Dice& dice) {
  constexpr std::array interesting = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "-1",
                                      "7",
                                      "255",
                                      "65536",
                                      "2147483647",
                                      "2147483648",
                                      "4294967295",
                                      "4294967296",
                                      "1e308",
                                      "nan",
                                      "0.5",
                                      "9223372036854775807",
                                      "18446744073709551616",
                                      "-9223372036854775808",
                                      "1000000000000000000"};
  std::string text(number);
  switch (dice.below(4)) {
    case 0:
      return interesting.at(dice.below(interesting.size()));
    case 1:  // another digit
      text[dice.below(text.size())] = static_cast<char>('0' + dice.below(10));
      return text;
    case 2:  // larger
      return text.insert(dice.below(text.size() + 1), 1, static_cast<char>('0' + dice.below(10)));
    default:  // smaller
      return text.erase(dice.below(text.size()), 1);
  }
}

enum class Fault : std::uint8_t { flip, overwrite, cut, number, line, field, object, splice };

// How often each of them is chosen.
constexpr std::array k_faults = {Fault::flip,   Fault::flip,   Fault::overwrite, Fault::cut,
                                 Fault::number, Fault::number, Fault::number,    Fault::number,
                                 Fault::line,   Fault::line,   Fault::field,     Fault::field,
                                 Fault::object, Fault::object, Fault::splice};

Part part_of(Fault fault, std::string_view text, Dice& dice) {
  return fault == Fault::line    ? line_of(text, dice)
         : fault == Fault::field ? field_of(text, dice)
                                 : object_of(text, dice);
}

/// A line, field or object that is removed, doubled, or swapped with another one.
void move_part(std::string& text, Fault fault, Dice& dice) {
  const Part part = part_of(fault, text, dice);
  const std::string content = text.substr(part.begin, part.size);
  switch (dice.below(3)) {
    case 0:
      text.erase(part.begin, part.size);
      return;
    case 1:
      text.insert(part.end(), fault == Fault::line ? content : "," + content);
      return;
    default: {
      const Part other = part_of(fault, text, dice);
      text.replace(other.begin, other.size, content);
    }
  }
}

void splice(std::string& text, Dice& dice) {
  constexpr std::size_t longest = 256;
  const std::string block = text.substr(dice.below(text.size()), 1 + dice.below(longest));
  const std::size_t at = dice.below(text.size());
  if (dice.below(2) == 0) {
    text.insert(at, block);
  } else {
    text.replace(at, block.size(), block);
  }
}

void damage(std::string& text, Dice& dice) {
  const Fault fault = k_faults.at(dice.below(k_faults.size()));
  switch (fault) {
    case Fault::flip:
      text[dice.below(text.size())] ^= static_cast<char>(1U << dice.below(8));
      return;
    case Fault::overwrite: {
      const std::size_t at = dice.below(text.size());
      const std::size_t end = std::min(text.size(), at + 1 + dice.below(16));
      std::generate(text.begin() + static_cast<std::ptrdiff_t>(at),
                    text.begin() + static_cast<std::ptrdiff_t>(end),
                    [&] { return static_cast<char>(dice.below(256)); });
      return;
    }
    case Fault::cut:
      text.resize(dice.below(text.size()));
      return;
    case Fault::number:
      if (const Part number = number_of(text, dice); number.size > 0) {
        text.replace(number.begin, number.size,
                     other_number(std::string_view(text).substr(number.begin, number.size), dice));
      }
      return;
    case Fault::splice:
      return splice(text, dice);
    default:
      return move_part(text, fault, dice);
  }
}

}  // namespace

std::uint64_t Dice::next() {
  std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31U);
}

std::string mutated(std::string_view text, std::uint64_t seed) {
  Dice dice(seed);
  std::string result(text);
  for (std::size_t faults = 1 + dice.below(4); faults > 0 && !result.empty(); --faults) {
    damage(result, dice);
  }
  return result;
}

}  // namespace commlens
