#include "commlens/frameworks/built_in_layouts.hpp"

namespace commlens {
namespace {

std::string_view without_ending(std::string_view file) { return file.substr(0, file.rfind('.')); }

}  // namespace

std::vector<std::string_view> built_in_layout_names() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : built_in_layouts()) {
    names.push_back(without_ending(file.name));
  }
  return names;
}

const EmbeddedFile* built_in_layout(std::string_view name) {
  for (const EmbeddedFile& file : built_in_layouts()) {
    if (without_ending(file.name) == name) {
      return &file;
    }
  }
  return nullptr;
}

}  // namespace commlens
