#include "commlens/app/manual.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "commlens/app/version.hpp"
#include "commlens/base/text.hpp"

namespace commlens {
namespace {

/// Text as roff takes it: no line begins with a control character, hyphens are those of the keyboard.
std::string roff(std::string_view plain) {
  std::string text = replaced(replaced(std::string(plain), "\\", "\\e"), "-", "\\-");
  text = replaced(replaced(text, "\n.", "\n\\&."), "\n'", "\n\\&'");
  text = replaced(replaced(text, "…", "..."), "·", "\\(md");
  return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

std::string head(std::string name, std::string_view purpose) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(".TH {} 1 \"\" \"commlens {}\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n",
                     upper, k_version, roff(name), roff(purpose));
}

std::string argument_text(const OptionHelp& option) {
  std::string text = option.is_repeated ? fmt::format("\\fI{}\\fR...", roff(option.names.front()))
                                        : fmt::format("\\fI{}\\fR", roff(option.names.front()));
  return option.is_required ? text : fmt::format("[{}]", text);
}

std::string names_text(const OptionHelp& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", roff(name));
  }
  return option.value.empty() ? text : fmt::format("{} \\fI{}\\fR", text, roff(option.value));
}

std::string entry(const OptionHelp& option) {
  const std::string names = option.is_positional ? argument_text(option) : names_text(option);
  std::string help = option.help;
  const bool has_hidden_words = option.completes == OptionHelp::Completes::words &&
                                (option.value + help).find(option.words.front()) == std::string::npos;
  if (has_hidden_words) {
    help += fmt::format(": {}", fmt::join(option.words, ", "));
  }
  if (!option.usual.empty()) {
    help += fmt::format("; default: {}", option.usual);
  }
  return fmt::format(".TP\n{}\n{}\n", names, roff(help));
}

/// Options under their headings, in the order in which these first come.
std::string entries(const std::vector<OptionHelp>& options) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const OptionHelp& option : options) {
    const std::string heading = option.is_positional ? "Arguments" : option.group;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == heading; });
    if (found == groups.end()) {
      found = groups.insert(option.is_positional ? groups.begin() : groups.end(), {heading, ""});
    }
    found->second += entry(option);
  }
  std::string text;
  for (const auto& [heading, lines] : groups) {
    text += fmt::format(".SS {}\n{}", roff(heading), lines);
  }
  return text;
}

constexpr const char* k_exit_status = R"(.SH EXIT STATUS
.TP
0
Done; \fBcompare\fR: the two are equal.
.TP
1
\fBcompare\fR: they differ; \fBtrain\fR: the recording is not as predicted.
.TP
2
The input is wrong: one line on standard error says what, where and what to do.
.TP
3
The machine failed: a full disk, too little memory, a rank of a training.
.PP
\fBrecord\fR returns the exit status of the command that it runs.
)";

constexpr const char* k_environment = R"(.SH ENVIRONMENT
.TP
COMMLENS_MODULE_PATH
The directory in which the libraries for training and recording (libcommlens\-*.so) are looked for first.
.TP
NO_COLOR
No colours, if it is not empty.
)";

}  // namespace

std::string program_manual(const std::vector<VerbHelp>& verbs) {
  std::string text =
      head("commlens", "what a distributed training job communicates: predicted, recorded, compared") +
      ".SH SYNOPSIS\n\\fBcommlens\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR] \\fIARGUMENTS\\fR\n.SH VERBS\n";
  std::string pages;
  for (const VerbHelp& verb : verbs) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", verb.name, roff(verb.description));
    pages += fmt::format("{}.BR commlens\\-{} (1)", pages.empty() ? "" : " ,\n", verb.name);
  }
  return text + k_exit_status + k_environment + ".SH SEE ALSO\n" + pages + "\n";
}

std::string verb_manual(const VerbHelp& verb) {
  const std::vector<OptionHelp>& options = verb.options;
  std::string synopsis = fmt::format("\\fBcommlens {}\\fR [\\fIOPTIONS\\fR]", verb.name);
  for (const OptionHelp& option : options) {
    synopsis += option.is_positional ? " " + argument_text(option) : "";
  }
  std::string purpose = verb.description;
  purpose.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(purpose.front())));
  std::string text = head(fmt::format("commlens-{}", verb.name), purpose) + ".SH SYNOPSIS\n" + synopsis +
                     "\n.SH OPTIONS\n" + entries(options);
  if (!verb.notes.empty()) {
    text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(verb.notes));
  }
  return text + k_exit_status + ".SH SEE ALSO\n.BR commlens (1)\n";
}

}  // namespace commlens
