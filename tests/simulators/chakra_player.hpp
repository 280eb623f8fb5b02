#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace commlens::test {

/// The outcome of simulating a job in Chakra files.
struct PlayedChakra {
  std::string error;  // an error that a simulator would report; empty: none
  std::int64_t nodes = 0;
  std::int64_t unfinished = 0;
  std::int64_t left_receives = 0;  // issued, and nothing came
  std::int64_t left_messages = 0;
  std::int64_t end = 0;  // in ticks

  bool is_complete() const {
    return error.empty() && unfinished == 0 && left_receives == 0 && left_messages == 0;
  }
  /// All of it in one line, for people.
  std::string text() const;
};

/// Plays the files chakra.0.et, chakra.1.et, … of a directory as ASTRA-sim does
/// (astra-sim/workload/Workload.cc, HardwareResource.cc; network_frontend/analytical): a node is issued when
/// all nodes that it depends on are finished, the lowest number first; a rank computes one node at a time,
/// and has one send or collective at a time; receives are issued at once. A message goes to the next receive
/// of its source, destination, tag and size; a collective is the k-th of its process group and ends when all
/// members have issued theirs; only all_reduce, all_gather, reduce_scatter, all_to_all and broadcast are
/// known, the last of which every rank does alone.
PlayedChakra play_chakra(const std::filesystem::path& directory);

}  // namespace commlens::test
