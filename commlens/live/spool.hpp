#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "commlens/base/plain_file.hpp"
#include "commlens/live/nodes_follower.hpp"

// A folder that all nodes of a job see, in which the follower of each keeps a file with its state,
// NODE.state.json.
namespace commlens {

constexpr std::string_view k_state_ending = ".state.json";
/// A larger state is refused.
constexpr std::uint64_t k_largest_state = std::uint64_t{1} << 26;

/// The name of a node's file: letters that could lead elsewhere become '_'.
std::string state_file_name(const std::string& node);

/// Makes the folder where its parent is there. Fails with why it is none.
Result<void> make_spool(const std::filesystem::path& spool);

/// Puts a state in the place of the one before. Throws SystemError where it cannot be written.
void write_node_state(const std::filesystem::path& spool, const NodeState& state);

/// Whether a folder holds states of nodes.
bool has_node_states(const std::filesystem::path& folder);

/// Reads those that have changed. Of a file that is there at the first look, its age is told.
class SpoolSource final : public NodeSource {
 public:
  explicit SpoolSource(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void look(const Sink& sink) override;

 private:
  void read(const PlainFile& directory, const std::filesystem::path& name, const Sink& sink);

  std::filesystem::path folder_;
  struct Read {
    PlainFile::Look look;  // as it was then
    std::string error;     // what was wrong with it; empty: nothing
  };
  std::map<std::string, Read> read_;  // by name
};

}  // namespace commlens
