// A report of Nsight Systems, read in this process rather than in one of its own, so that the sanitizers see
// what we do with the tables. SQLite itself is the system's and has no sanitizers.
#include "commlens/formats/nsys/import.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const commlens::InputFolder folder;
  const std::string_view text = commlens::as_text(bytes, size);
  commlens::formats::nsys::sniff("input", text);
  commlens::formats::CallBuilder calls("fuzz", "input");
  static_cast<void>(
      commlens::formats::nsys::read_tables(folder.write("input", text), commlens::formats::sink_into(calls)));
  static_cast<void>(calls.finish());
  return 0;
}
