#include <algorithm>
#include <array>
#include <cctype>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/version.hpp"
#include "commlens/base/text.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/familiar_flags.hpp"
#include "commlens/trace/stream_layout.hpp"

namespace commlens {
namespace {

ExitCode refuse(Console& console, std::string_view message) {
  console.err << "commlens: " << message << '\n';
  return ExitCode::bad_input;
}

ExitCode refuse_verb(Console& console, std::string_view verb) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) {
    if (!command.is_hidden) {
      names.push_back(command.name);
    }
  }
  const std::string near = nearest(verb, names);
  return refuse(console, fmt::format("there is no verb '{}'; {}", verb,
                                     near.empty() ? fmt::format("choose {}", fmt::join(names, ", "))
                                                  : fmt::format("did you mean {}?", near)));
}

/// Whether an error is about what the verb does not have: also where what is required lacks besides, for that
/// may be what the unknown option was to be.
bool is_about_extras(const CLI::ParseError& error, const CLI::App& verb) {
  const std::vector<std::string> extras = verb.remaining();
  const bool has_option = std::any_of(extras.begin(), extras.end(), [](const std::string& extra) {
    return extra.size() > 1 && extra.front() == '-';
  });
  return error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
         (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && has_option);
}

/// "--sequ: unknown option; did you mean --seq?"
std::string unknown_argument(const CLI::App& verb) {
  const std::vector<std::string> extras = verb.remaining();
  if (extras.empty()) {
    return "an argument was not expected";
  }
  const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& extra) {
    return extra.size() > 1 && extra.front() == '-';
  });
  const std::string& extra = option == extras.end() ? extras.front() : *option;
  if (extra.size() < 2 || extra[0] != '-') {
    return fmt::format("'{}' was not expected", extra);
  }
  const std::string name = extra.substr(0, extra.find('='));
  if (verb.get_name() == "record") {
    return fmt::format("there is no option {}; write the command to record after --", name);
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& long_name : option->get_lnames()) {
      options.push_back("--" + long_name);
    }
  }
  const std::vector<std::string_view> views(options.begin(), options.end());
  const auto has = [&](std::string_view flag) {
    return std::find(views.begin(), views.end(), flag) != views.end();
  };
  const std::string familiar = familiar_flag(name, has);
  const std::string near = familiar.empty() ? nearest(name, views) : familiar;
  return fmt::format("there is no option {}{}", name,
                     near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

/// --sp may have no value, which means "on"; the parser allows only one form. Arguments after "--" belong to
/// another program.
std::vector<std::string> with_sp_value(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 4> words = {"on", "off", "true", "false"};
  std::vector<std::string> result;
  bool open = false;  // the last argument was a bare --sp
  bool is_ours = true;
  for (const std::string& argument : arguments) {
    is_ours = is_ours && argument != "--";
    if (!is_ours) {
      result.push_back(argument);
      continue;
    }
    const bool is_number = !argument.empty() && argument.find_first_not_of("0123456789") == std::string::npos;
    if (open && (is_number || std::find(words.begin(), words.end(), argument) != words.end())) {
      result.back() = "--sp=" + argument;
      open = false;
      continue;
    }
    open = argument == "--sp";
    result.push_back(open ? "--sp=on" : argument);
  }
  return result;
}

/// --ring of record and train may have no value; the word after it is one unless it is an option or "--".
std::vector<std::string> with_ring_value(std::vector<std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const auto ring = std::find(arguments.begin(), end, "--ring");
  const bool has_ring = !arguments.empty() && (arguments.front() == "record" || arguments.front() == "train");
  if (!has_ring || ring == end) {
    return arguments;
  }
  const auto next = ring + 1;
  const bool is_option = next != end && next->starts_with('-') &&
                         (next->size() < 2 || std::isdigit(static_cast<unsigned char>((*next)[1])) == 0);
  if (next == end || is_option) {
    *ring = fmt::format("--ring={}", k_default_ring_records);
  }
  return arguments;
}

}  // namespace

void declare_output(CLI::App& verb, OutputFlags& flags) {
  verb.add_option("--format", flags.format, "table, json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  verb.add_option("-o,--output", flags.file, "Write the result to this file; - is standard output")
      ->capture_default_str();
}

void declare_iteration(CLI::App& verb, std::string& range, const std::string& help) {
  const CLI::Option* const now = verb.add_option("--iteration", range, help)->type_name("FIRST-[LAST]");
  declare_former_name(verb.add_option("--iterations", range), now);
}

void declare_former_name(CLI::Option* former, const CLI::Option* now) {
  // Option::excludes would add the former name to the help.
  former->group("")->check([former, now](const std::string&) {
    if (now->count() > 0) {
      throw CLI::ExcludesError("--" + former->get_lnames().front(), now->get_name());
    }
    return std::string();
  });
}

void declare_ring(CLI::App& verb, std::int64_t& records) {
  verb.add_option("--ring", records,
                  "Keep the last N calls of each rank in a file that does not grow, for jobs of any length; "
                  "262144 (8 MiB) without N")
      ->type_name("[N]")
      ->check(CLI::Range(std::int64_t{1}, k_most_ring_records));
}

void declare_rank(CLI::App& verb, std::optional<std::int64_t>& rank, const std::string& what) {
  constexpr std::int64_t highest = 999'999'999;
  verb.add_option("--rank", rank, "Only this rank" + what)
      ->check(CLI::Range(std::int64_t{0}, highest))
      ->type_name("R");
}

std::optional<Rank> rank_of(const std::optional<std::int64_t>& given) {
  return given ? std::optional(Rank{*given}) : std::nullopt;
}

std::vector<Action> declare_verbs(CLI::App& program, const std::function<bool(std::string_view)>& is_wanted) {
  std::vector<Action> actions;
  for (const Command& command : commands()) {
    CLI::App& verb = *program.add_subcommand(std::string(command.name), std::string(command.description));
    if (command.is_hidden) {
      verb.group("");
    }
    actions.push_back(is_wanted(command.name) ? command.declare(verb) : Action());
  }
  return actions;
}

ExitCode run(const std::vector<std::string>& arguments, Console& console) {
  CLI::App app("commlens shows what a distributed training job communicates: predicted, recorded, compared.",
               "commlens");
  app.set_version_flag("--version", fmt::format("commlens {}", k_version), "Print the version");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  // Options of verbs that are not called would be most of the work of a short run.
  const std::vector<Action> actions = declare_verbs(app, [&](std::string_view verb) {
    return std::find(arguments.begin(), arguments.end(), verb) != arguments.end();
  });
  if (arguments.empty()) {
    console.out << app.help() << std::flush;
    return ExitCode::bad_input;
  }
  const bool is_verb = std::any_of(commands().begin(), commands().end(),
                                   [&](const Command& command) { return command.name == arguments.front(); });
  if (!is_verb && !arguments.front().starts_with("-")) {
    return refuse_verb(console, arguments.front());
  }

  std::vector<std::string> reversed = with_ring_value(with_sp_value(arguments));
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version, console.out, console.err);
    console.out << std::flush;
    return ExitCode::done;
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App& verb = chosen.empty() ? app : *chosen.front();
    const std::string what =
        is_about_extras(error, verb) ? unknown_argument(verb) : std::string(error.what());
    return refuse(console, fmt::format("{}; see commlens {}--help", what,
                                       chosen.empty() ? "" : chosen.front()->get_name() + " "));
  }
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (app.got_subcommand(std::string(commands()[at].name))) {
      const Result<ExitCode> code = actions[at](console);
      return code ? *code : refuse(console, code.error().message);
    }
  }
  return ExitCode::done;
}

}  // namespace commlens
