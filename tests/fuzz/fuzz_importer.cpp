// A file given to the importer called IMPORTER, whatever its sniffing says.
#include <algorithm>

#include "commlens/base/check.hpp"
#include "commlens/formats/importers/importers.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

const commlens::Importer& tested() {
  const auto all = commlens::importers();
  const auto found = std::ranges::find(all, IMPORTER, &commlens::Importer::name);
  COMMLENS_CHECK(found != all.end(), "tests/fuzz/CMakeLists.txt names listed importers only");
  return *found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const commlens::InputFolder folder;
  static const commlens::Importer& importer = tested();
  const std::string_view text = commlens::as_text(bytes, size);
  importer.sniff("input", text);
  importer.read(folder.write("input", text));
  return 0;
}
