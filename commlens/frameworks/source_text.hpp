#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace commlens {

/// A string literal as a template argument.
template <std::size_t Size>
struct Literal {
  std::array<char, Size> text{};  // with the zero at its end

  // NOLINTNEXTLINE(google-explicit-constructor,modernize-avoid-c-arrays): a literal is one as it is written
  consteval Literal(const char (&literal)[Size]) { std::copy_n(literal, Size, text.begin()); }
  constexpr std::size_t length() const { return Size - 1; }
  constexpr std::string_view view() const { return {text.data(), length()}; }
};

/// The parts one after the other, at compile time and zero-terminated.
template <Literal... Parts>
inline constexpr auto k_joined = [] {
  std::array<char, (Parts.length() + ... + 1)> all{};
  std::size_t end = 0;
  ((std::copy_n(Parts.text.begin(), Parts.length(), all.begin() + end), end += Parts.length()), ...);
  return all;
}();

/// "LIBRARY VERSION PLACE": where a rule was read. `place` is a file and line of that version, with the
/// function. Each framework has a shorter form that knows its library and version.
template <Literal Library, Literal Version, Literal Place>
inline constexpr const char* k_source_text = k_joined<Library, " ", Version, " ", Place>.data();

}  // namespace commlens
