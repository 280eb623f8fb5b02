// A file of any kind: sniffed, and read by the importer that takes it.
#include "commlens/formats/import_any.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const commlens::InputDirectory directory;
  commlens::formats::import_any(directory.write("input", commlens::as_text(bytes, size)));
  return 0;
}
