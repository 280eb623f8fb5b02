// A report of Nsight Systems, as the importer reads it. SQLite itself is the system's and has no sanitizers.
#include "commlens/formats/nsys/import.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const commlens::InputFolder folder;
  const std::string_view text = commlens::as_text(bytes, size);
  commlens::formats::nsys::sniff("input", text);
  static_cast<void>(commlens::formats::nsys::read(folder.write("input", text)));
  return 0;
}
