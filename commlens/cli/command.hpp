#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/cli/console.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace commlens {

/// The action of a verb, called after its arguments are parsed.
using Action = std::function<Result<ExitCode>(Console&)>;

/// One verb: adds its options to `verb`, and returns the action to run after parsing.
struct Command {
  std::string_view name;
  std::string_view description;
  Action (*declare)(CLI::App& verb);
  bool is_hidden = false;  // from the help text
};

/// The list of verbs, in the order of the help text.
std::span<const Command> commands();

/// Adds every verb to `program`, with its options if `is_wanted`. Returns the actions of these, in the order
/// of the list; null for the others.
std::vector<Action> declare_verbs(CLI::App& program, const std::function<bool(std::string_view)>& is_wanted);

/// Runs `commlens ARGUMENTS…`; reports an error on `console.err` in one line. Throws SystemError (and
/// exceptions of the standard library) on a failure of the machine.
ExitCode run(const std::vector<std::string>& arguments, Console& console);

Action declare_predict(CLI::App& verb);
Action declare_train(CLI::App& verb);
Action declare_compare(CLI::App& verb);
Action declare_summary(CLI::App& verb);
Action declare_hang(CLI::App& verb);
Action declare_watch(CLI::App& verb);
Action declare_serve(CLI::App& verb);
Action declare_record(CLI::App& verb);
Action declare_bench(CLI::App& verb);
Action declare_replay(CLI::App& verb);
Action declare_doctor(CLI::App& verb);
Action declare_machines(CLI::App& verb);
Action declare_cost(CLI::App& verb);
Action declare_calibrate(CLI::App& verb);
Action declare_simulate(CLI::App& verb);
Action declare_search(CLI::App& verb);
Action declare_advise(CLI::App& verb);
Action declare_tune(CLI::App& verb);
Action declare_report(CLI::App& verb);
Action declare_reproduce(CLI::App& verb);
Action declare_import(CLI::App& verb);
Action declare_export(CLI::App& verb);
Action declare_help_files(CLI::App& verb);

/// Adds --iteration FIRST-[LAST] to a verb that reads traces. (--iterations N is the number of them, in verbs
/// that predict; here it is the flag's name of before.)
void declare_iteration(CLI::App& verb, std::string& range, const std::string& help);

/// Adds --ring [N] to a verb that records; without N it is k_default_ring_records.
void declare_ring(CLI::App& verb, std::int64_t& records);

/// Adds --rank R to a verb: the calls of this rank alone. `what` ends the help text.
void declare_rank(CLI::App& verb, std::optional<std::int64_t>& rank, const std::string& what = "");
/// The rank that was given.
std::optional<Rank> rank_of(const std::optional<std::int64_t>& given);
/// Hides an option that has another name now, and refuses both together.
void declare_former_name(CLI::Option* former, const CLI::Option* now);

/// Adds --format and -o to a verb.
void declare_output(CLI::App& verb, OutputFlags& flags);

}  // namespace commlens
