#include "commlens/frameworks/megatron/script_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/config/argument_words.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/config/shell_script.hpp"
#include "commlens/frameworks/megatron/argument_lists.hpp"
#include "commlens/frameworks/megatron/reader.hpp"

namespace commlens::megatron {
namespace {

constexpr std::int64_t k_most_ranks = std::int64_t{1} << 40;
constexpr int k_deepest_doubt = 8;

/// A command that starts the training: where its program and the program's arguments are.
struct Launch {
  const ShellCommand* command = nullptr;
  std::size_t program = 0;  // the word with the Python file
};

std::string name_of(std::string_view word) {
  std::string name(word.substr(2, std::min(word.find('='), word.size()) - 2));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_option(std::string_view word) { return word.starts_with("--") && word.size() > 2; }

/// The launch that a command is; std::nullopt for other commands.
std::optional<Launch> launch_of(const ShellCommand& command) {
  if (is_one_of(command.words[0].text, "echo printf cat log tee : mkdir cp")) {
    return std::nullopt;
  }
  std::optional<Launch> launch;
  for (std::size_t at = 0; at < command.words.size(); ++at) {
    const std::string& word = command.words[at].text;
    if (!launch && word.ends_with(".py")) {
      launch = Launch{&command, at};
    }
    const bool describes_model =
        is_option(word) &&
        (is_megatron_key(name_of(word)) || name_of(word) == "num_layers" || name_of(word) == "hidden_size");
    if (launch && describes_model) {
      return launch;
    }
  }
  return std::nullopt;
}

class ScriptArguments {
 public:
  ScriptArguments(std::string_view file, const ShellValues& values) : file_(file), values_(values) {}

  Result<void> add(const ShellWord& word) {
    const ShellUnknown* const unknown = values_.unknown_in(word.text);
    if (is_option(word.text)) {
      const std::size_t equals = word.text.find('=');
      argument_ = name_of(word.text);
      has_value_ = equals != std::string::npos;
      const bool is_name_open = values_.unknown_in(word.text.substr(0, equals)) != nullptr;
      if (unknown != nullptr && (is_name_open || !is_inert(argument_))) {
        return refused(word, *unknown);
      }
      put(word);
      return {};
    }
    const bool takes_value = !argument_.empty() && !takes_no_value(argument_) && !has_value_;
    if (unknown == nullptr || (takes_value && is_inert(argument_))) {
      put(word);
      has_value_ = true;
      return {};
    }
    return takes_value ? refused(word, *unknown) : add_open(word, 0);
  }

  std::vector<ArgumentWord> take() { return std::move(words_); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void put(const ShellWord& word) { words_.push_back({values_.as_written(word.text), word.line}); }

  tl::unexpected<Error> refused(const ShellWord& word, const ShellUnknown& unknown) const {
    const std::string what = argument_.empty() ? "an argument" : fmt::format("'{}'", argument_);
    if (unknown.is_unset) {
      return failure(
          fmt::format("{}:{}: {} is {}, which nothing in the script sets; write its value, as in {}:-4}}",
                      file_, word.line, what, unknown.text, "${" + unknown.text.substr(1)));
    }
    return failure(
        fmt::format("{}:{}: {} depends on '{}' (line {}), which is known only when the script runs; write "
                    "its value",
                    file_, word.line, what, shown_text(unknown.text, 60), unknown.line));
  }

  /// A word that may be any argument, or none.
  Result<void> add_open(const ShellWord& word, int depth) {
    const ShellUnknown& unknown = *values_.unknown_in(word.text);
    if (values_.is_unset(word.text)) {
      notes_.push_back(fmt::format("{}:{}: nothing in the script sets {}; it is taken to be empty", file_,
                                   word.line, unknown.text));
      return {};
    }
    const bool is_doubtful = !unknown.may_be.empty() || depth > 0;
    if (!is_doubtful || depth > k_deepest_doubt) {
      argument_.clear();
      return refused(word, unknown);
    }
    std::string name;
    for (const ShellWord& candidate : unknown.may_be) {
      if (is_option(candidate.text)) {
        name = name_of(candidate.text);
      } else if (values_.unknown_in(candidate.text) != nullptr && (name.empty() || !is_inert(name))) {
        if (const Result<void> ok = add_open(candidate, depth + 1); !ok) {
          return ok;
        }
        continue;
      }
      if (name.empty() || !is_inert(name)) {
        argument_ = name;
        return refused(candidate, unknown);
      }
    }
    return {};
  }

  std::string file_;
  const ShellValues& values_;
  std::string argument_;  // the last one
  bool has_value_ = false;
  std::vector<ArgumentWord> words_;
  std::vector<std::string> notes_;
};

/// Options of launchers that say how many processes there are.
class LaunchedRanks {
 public:
  LaunchedRanks(std::string_view file, const ShellValues& values) : file_(file), values_(values) {}

  /// 0 where nothing says so.
  Result<std::int64_t> of(std::span<const ShellWord> launcher, const std::vector<ShellWord>& directives) {
    const auto is_torch = [](const ShellWord& word) {
      return word.text == "torchrun" || word.text.ends_with("/torchrun") ||
             word.text.starts_with("torch.distributed.");
    };
    const auto runs = [&](std::string_view name) {
      return std::any_of(launcher.begin(), launcher.end(),
                         [&](const ShellWord& word) { return word.text == name; });
    };
    if (const auto torch = std::find_if(launcher.begin(), launcher.end(), is_torch);
        torch != launcher.end()) {
      const std::span<const ShellWord> options =
          launcher.subspan(static_cast<std::size_t>(torch - launcher.begin()));
      return product(number(options, "--nproc_per_node", ""), number(options, "--nnodes", ""), 1);
    }
    if (runs("mpirun") || runs("mpiexec")) {
      return product(number(launcher, "-np", "-n"), std::optional<std::int64_t>(1), 0);
    }
    if (runs("srun")) {
      return of_slurm(launcher, directives);
    }
    return 0;
  }

 private:
  using Count = Result<std::optional<std::int64_t>>;

  Result<std::int64_t> of_slurm(std::span<const ShellWord> launcher,
                                const std::vector<ShellWord>& directives) {
    for (const std::span<const ShellWord> options : {launcher, std::span<const ShellWord>(directives)}) {
      const Count tasks = number(options, "--ntasks", "-n");
      if (!tasks || *tasks) {
        return product(tasks, std::optional<std::int64_t>(1), 0);
      }
    }
    const auto either = [&](std::string_view name, std::string_view letter) {
      Count count = number(launcher, name, letter);
      return !count || *count ? count : number(directives, name, letter);
    };
    return product(either("--ntasks-per-node", ""), either("--nodes", "-N"), 0);
  }

  /// The value of the last option of that name, with - or _ inside.
  Count number(std::span<const ShellWord> words, std::string_view name, std::string_view letter) const {
    std::optional<std::int64_t> count;
    for (std::size_t at = 0; at < words.size(); ++at) {
      const std::string& word = words[at].text;
      const std::size_t equals = std::min(word.find('='), word.size());
      std::string spelled = word.substr(0, equals);
      if (spelled.starts_with("--")) {
        std::replace(spelled.begin() + 2, spelled.end(), name.find('_') == std::string_view::npos ? '_' : '-',
                     name.find('_') == std::string_view::npos ? '-' : '_');
      }
      if (spelled != name && (letter.empty() || spelled != letter)) {
        continue;
      }
      const bool is_joined = equals < word.size();
      const ShellWord value = is_joined               ? ShellWord{word.substr(equals + 1), words[at].line}
                              : at + 1 < words.size() ? words[at + 1]
                                                      : ShellWord{"", words[at].line};
      const Result<std::int64_t> parsed = parse_integer(value.text);
      if (!parsed || *parsed < 1) {
        return failure(
            fmt::format("{}:{}: {} is '{}', and the number of ranks follows from it; write a number", file_,
                        value.line, spelled, shown_text(values_.as_written(value.text), 60)));
      }
      count = *parsed;
    }
    return count;
  }

  Result<std::int64_t> product(const Count& a, const Count& b, std::int64_t otherwise) const {
    if (!a || !b) {
      return tl::unexpected(!a ? a.error() : b.error());
    }
    if (!*a && otherwise == 0) {
      return 0;
    }
    std::int64_t ranks = 0;
    if (__builtin_mul_overflow(a->value_or(1), b->value_or(1), &ranks) || ranks > k_most_ranks) {
      return failure(fmt::format("{}: more ranks than any machine has", file_));
    }
    return !*b && otherwise == 0 ? 0 : ranks;
  }

  std::string file_;
  const ShellValues& values_;
};

/// Words of the lines "#SBATCH …".
std::vector<ShellWord> slurm_directives(std::string_view content) {
  constexpr std::string_view prefix = "#SBATCH ";
  std::vector<ShellWord> words;
  ShellValues nothing;
  int line = 1;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view text = content.substr(0, end);
    if (text.starts_with(prefix)) {
      text = text.substr(prefix.size(), text.find('#', 1) - prefix.size());
      for (ShellWord& word : nothing.split(text, line)) {
        words.push_back(std::move(word));
      }
    }
    ++line;
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return words;
}

/// What the script starts instead, and what to do with it; empty if nothing can be told.
std::string other_program(const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    for (std::size_t at = 1; at < command.words.size(); ++at) {
      const bool is_module =
          command.words[at - 1].text == "-m" && !command.words[at].text.starts_with("torch.distributed.");
      if (is_module || command.words[at].text.ends_with(".py")) {
        return fmt::format(
            "; line {} starts {}: give its configuration file, or a file with its arguments alone",
            command.words[at].line, shown_text(command.words[at].text, 60));
      }
    }
  }
  return "";
}

/// The one launch of the script.
Result<Launch> only_launch(std::string_view file, const ShellScript& script) {
  std::optional<Launch> found;
  for (const ShellCommand& command : script.commands) {
    const std::optional<Launch> launch = launch_of(command);
    if (!launch) {
      continue;
    }
    const auto words = [](const Launch& one) {
      std::string text;
      for (std::size_t at = one.program; at < one.command->words.size(); ++at) {
        text += one.command->words[at].text + "\n";
      }
      return text;
    };
    if (found && words(*found) != words(*launch)) {
      return failure(
          fmt::format("{}:{}: a second training, beside that of line {}; keep one of them in the script",
                      file, command.line, found->command->line));
    }
    found = found ? found : launch;
  }
  if (!found) {
    return failure(fmt::format("{}: no command of the script gives a Python file arguments of Megatron{}",
                               file, other_program(script)));
  }
  if (found->command->only_if_line > 0) {
    return failure(
        fmt::format("{}:{}: whether the training starts depends on '{}' (line {}), which is known only when "
                    "the script runs; leave the condition out",
                    file, found->command->line, found->command->only_if, found->command->only_if_line));
  }
  return *found;
}

ConfigNode scalar_at(std::string_view file, int line, std::string text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.file = file;
  node.line = line;
  node.text = std::move(text);
  return node;
}

}  // namespace

Result<ConfigNode> parse_launch_script(std::string_view file, std::string_view content) {
  const Result<ShellScript> script = read_shell_script(file, content);
  if (!script) {
    return tl::unexpected(script.error());
  }
  const Result<Launch> launch = only_launch(file, *script);
  if (!launch) {
    return tl::unexpected(launch.error());
  }
  const std::span<const ShellWord> words(launch->command->words);
  ScriptArguments arguments(file, script->values);
  for (const ShellWord& word : words.subspan(launch->program + 1)) {
    if (const Result<void> ok = arguments.add(word); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  std::vector<ShellWord> launcher = launch->command->outer;
  launcher.insert(launcher.end(), words.begin(),
                  words.begin() + static_cast<std::ptrdiff_t>(launch->program));
  const Result<std::int64_t> ranks =
      LaunchedRanks(file, script->values).of(launcher, slurm_directives(content));
  if (!ranks) {
    return tl::unexpected(ranks.error());
  }
  const int line = launch->command->line;
  ConfigNode notes = scalar_at(file, line, "");
  notes.kind = ConfigNode::Kind::list;
  for (const std::string& note : arguments.notes()) {
    notes.items.push_back(scalar_at(file, line, note));
  }
  Result<ConfigNode> map = megatron_arguments(file, arguments.take());
  if (map && *ranks > 0) {
    append(*map, std::string(k_ranks_key), scalar_at(file, line, fmt::format("{}", *ranks)));
  }
  if (map && !notes.items.empty()) {
    append(*map, std::string(k_notes_key), std::move(notes));
  }
  return map;
}

}  // namespace commlens::megatron
