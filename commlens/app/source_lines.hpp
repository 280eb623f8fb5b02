#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace commlens {

/// What the symbols and the debug information of a program or library say of an address in it.
struct SourceLine {
  std::string function;  // empty: not known
  std::string file;      // the path that the compiler was given; empty: not known
  int line = 0;
};

/// Reads them with libdw (elfutils), which is loaded when it is first needed: addr2line of binutils 2.40
/// names a wrong file for code that its file includes (DWARF 5).
class SourceLines {
 public:
  /// Whether libdw is installed.
  static bool are_known();

  /// `file` is an ELF file; of others, and without libdw, nothing is known.
  explicit SourceLines(const std::filesystem::path& file);
  ~SourceLines();
  SourceLines(const SourceLines&) = delete;
  SourceLines& operator=(const SourceLines&) = delete;

  /// `address` as the file was linked.
  SourceLine at(std::uint64_t address) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commlens
