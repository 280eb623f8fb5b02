#include <array>

#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr std::array<Command, 23> k_commands = {{
    {"predict", "List the messages of a training iteration from its configuration, without running it",
     declare_predict},
    {"train", "Train a GPT for real, record every call and compare it with the prediction", declare_train},
    {"record", "Run a program unchanged and record every MPI, NCCL or RCCL call it makes", declare_record},
    {"replay", "Make the calls of a trace again on this machine, and compare times", declare_replay},
    {"compare", "Compare two configurations, traces or logs, call by call", declare_compare},
    {"summary", "Break a trace down: calls, bytes and message sizes per op and axis", declare_summary},
    {"hang", "Say why a recorded job does not go on: who is missing, who waits in a circle, who differs",
     declare_hang},
    {"watch", "Follow a recorded job while it runs: ranks, ops, rates, and an alert when it hangs",
     declare_watch},
    {"serve", "Show a recorded job while it runs in a browser, and to Prometheus", declare_serve},
    {"advise", "Recommend settings that lower a job's communication, with their savings", declare_advise},
    {"report", "Make one HTML page of traces and predictions: charts, tables, differences, advice",
     declare_report},
    {"reproduce", "Reproduce the figures, tables and equations of arXiv 2408.10197, and check its takeaways",
     declare_reproduce},
    {"import", "Turn calls, logs and traces of other tools into a native trace", declare_import},
    {"export", "Write a trace, or the prediction of a configuration, in the format of another tool",
     declare_export},
    {"machines", "List the machines whose numbers are known, or show one in full", declare_machines},
    {"cost", "Time of one collective on a machine, with its interval and where it comes from", declare_cost},
    {"calibrate", "Fit times to measured ones and write them to a file", declare_calibrate},
    {"simulate", "Time an iteration of a job on a machine, or training runs of a table", declare_simulate},
    {"search", "Rank the layouts of a model on a machine by time and memory, and say what binds",
     declare_search},
    {"bench", "Time collectives, or the messages of a model, between threads or over MPI", declare_bench},
    {"tune", "Time a job's messages with every algorithm of its library, and write rules for those that gain",
     declare_tune},
    {"doctor", "Check what can be recorded and trained on this machine", declare_doctor},
    {"help-files", "Write completion for bash and zsh, and manual pages", declare_help_files, true},
}};

}  // namespace

std::span<const Command> commands() { return k_commands; }

}  // namespace commlens
