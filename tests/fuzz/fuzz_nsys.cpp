// A report of Nsight Systems, read in this process rather than in one of its own, so that the sanitizers see
// what we do with the tables. SQLite itself is the system's and has no sanitizers.
#include "commlens/formats/nsys/import.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const commlens::InputFolder folder;
  const std::string_view text = commlens::as_text(bytes, size);
  commlens::sniff_nsys("input", text);
  commlens::CallBuilder calls("fuzz", "input");
  static_cast<void>(commlens::read_nsys_tables(folder.write("input", text), commlens::sink_into(calls)));
  static_cast<void>(calls.finish());
  return 0;
}
