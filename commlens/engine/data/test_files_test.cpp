#include "commlens/engine/data/test_files.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "commlens/engine/data/bpe_vocabulary.hpp"

namespace commlens::engine {

std::filesystem::path TestFiles::write(const std::string& name, std::string_view content) const {
  return directory_.write(name, content);
}

std::filesystem::path TestFiles::vocabulary() const {
  nlohmann::json ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    ids[character_of_byte(static_cast<unsigned char>(byte))] = byte;
  }
  unsigned next = 256;
  for (const char* const token : {"th", "the", "Ġthe", "he", "aa"}) {
    ids[token] = next++;
  }
  return write("vocab.json", ids.dump());
}

std::filesystem::path TestFiles::merges() const {
  return write("merges.txt", "#version: 0.2\nt h\nth e\nĠ the\nh e\na a\n");
}

}  // namespace commlens::engine
