#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "commlens/trace/recorder.hpp"

namespace commlens::capture {

/// Where a program makes its calls, for a recording that asks for it: the row of a name "FILE+0xOFFSET" for
/// each return address, FILE being what the code was loaded from and OFFSET the place in that file, so that
/// processes that load it elsewhere give the same name. Names of functions and lines are sought after the
/// job, by whoever reads the trace. One thread at a time uses it.
class CallSites {
 public:
  /// Null unless the environment asks for call sites (environment.hpp).
  static std::unique_ptr<CallSites> if_asked(Recorder& recorder);

  explicit CallSites(Recorder& recorder) : recorder_(recorder) {}

  /// The row of the site that returns to `address`: k_no_file of code that no file holds (made at run time),
  /// 0 when it is not known or k_most_sites have been seen. A site that was seen before is found in some
  /// nanoseconds; a new one may read /proc/self/maps, which waits for no lock of the program. Throws
  /// std::bad_alloc.
  std::uint16_t of(const void* address);

  static constexpr const char* k_no_file = "code without a file";
  /// Descriptions of calls multiply with their sites, and names have 16 bits.
  static constexpr std::size_t k_most_sites = std::size_t{1} << 14;

 private:
  /// Code that a file holds.
  struct Mapping {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    std::uint64_t offset = 0;  // of `first` in the file
    std::string file;          // empty: none
  };
  const Mapping* mapping_of(std::uintptr_t address);
  const Mapping* known_mapping_of(std::uintptr_t address) const;

  Recorder& recorder_;
  std::unordered_map<const void*, std::uint16_t> known_;
  std::vector<Mapping> mappings_;  // as last read; executable ones alone
};

}  // namespace commlens::capture
