#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "commlens/model/job.hpp"
#include "commlens/plan/local_parameters.hpp"

namespace commlens::deepspeed {

/// An nn.Module of the model.
struct ModelModule {
  /// What its forward gets: what the module before it returned, what the module around it got, or nothing
  /// that a gradient could reach (tokens, positions).
  enum class Input : std::uint8_t { previous, same_as_parent, no_gradient };

  std::string name;        // "blocks.0.fc1"; empty of the model itself
  std::string class_name;  // "Linear"
  std::int64_t layer = -1;
  Input input = Input::previous;
  std::optional<Leaf> leaf;             // what it computes itself; none of containers
  std::vector<std::size_t> parameters;  // its own, rows of ModelTree::parameters
  std::vector<std::size_t> children;    // rows of ModelTree::modules, as registered
  std::vector<std::size_t> calls;       // those that its forward calls, in that order
  bool is_called = true;                // false: a list of modules
  bool is_linear = false;
  std::int64_t inputs = 0;  // features of a linear, of all tensor ranks together
  std::int64_t outputs = 0;
  TensorSplit split = TensorSplit::replicated;  // of its weight
  bool gathers_output = false;                  // which tensor ranks share
  bool is_block = false;
  bool combines = false;  // computes with what its modules return

  // Filled in by settle().
  bool needs_input_gradient = false;   // of what it gets
  bool needs_output_gradient = false;  // of what it returns
};

/// The modules of a model on one rank and its parameters, both in the order of registration (that of
/// named_parameters()); the model itself is the first module.
struct ModelTree {
  std::vector<ModelModule> modules;
  LocalParameters parameters;

  /// Rows of the parameters of a module and of all modules below it, ascending.
  std::vector<std::size_t> parameters_below(std::size_t module) const;
  /// The parameters as named_parameters() has them: after the first module that each is of.
  std::vector<std::string> parameter_names() const;
};

/// The tree of the job's model on a rank: `gpt` and `llama` of docs/formats/case.md, or Llama and Mixtral of
/// transformers for jobs that its Trainer, accelerate, Ulysses or AutoEP trains. With what the options
/// replace (experts, low ranks), freeze, and split over tensor ranks.
ModelTree model_tree(const Job& job);
/// The tree `gpt` of parameters that a client holds, in their order.
ModelTree gpt_tree(const LocalParameters& parameters);

}  // namespace commlens::deepspeed
