// A file read by the importer in the program's name (fuzz_nccl_log: nccl-log), independent of sniffing.
#include <algorithm>

#include "commlens/base/check.hpp"
#include "commlens/formats/formats.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

const commlens::formats::Importer* tested = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  std::string name = commlens::fuzz_target_name(**argv);
  std::ranges::replace(name, '_', '-');
  const auto all = commlens::formats::importers();
  const auto found = std::ranges::find(all, name, &commlens::formats::Importer::name);
  COMMLENS_CHECK(found != all.end(), "tests/fuzz/CMakeLists.txt names listed importers only");
  tested = &*found;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const commlens::InputDirectory directory;
  const std::string_view text = commlens::as_text(bytes, size);
  tested->sniff("input", text);
  tested->read(directory.write("input", text));
  return 0;
}
