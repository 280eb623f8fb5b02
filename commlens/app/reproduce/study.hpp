#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/app/reproduce/asked.hpp"
#include "commlens/app/reproduce/dispatch.hpp"
#include "commlens/app/reproduce/golden.hpp"
#include "commlens/app/reproduce/interconnect.hpp"
#include "commlens/app/reproduce/launched.hpp"
#include "commlens/app/reproduce/recordings.hpp"
#include "commlens/app/reproduce/sheet.hpp"
#include "commlens/app/simulate.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/paper/equations.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens::study {

/// A model of the paper, and the devices of its Figures 7, 8 and 10.
struct PaperModel {
  const char* name;
  std::int64_t devices;
  const char* panel;
};
constexpr PaperModel k_models[] = {{"19M", 8, "a"}, {"125M", 8, "b"}, {"1.3B", 8, "c"}, {"13B", 16, "d"}};

/// The rule sets that the study compares: the paper's equations, what its runs were made with, ours.
constexpr const char* k_equations = "paper";
constexpr const char* k_deepspeed = "deepspeed@0.14.0";
constexpr const char* k_neox = "neox";
constexpr const char* k_machine = "frontier";

/// What one rank calls of one op along one axis.
struct OpTotal {
  CommKind op = CommKind::other;
  Axis axis;
  std::int64_t group_size = 1;
  std::int64_t calls = 0;
  Bytes message;
  Bytes wire;
  Bytes logged;  // as DeepSpeed's comms logger counts
};

/// Degrees of a job; those that are 0 stay as the configuration has them.
struct Degrees {
  std::int64_t dp = 0;
  std::int64_t tp = 0;
  std::int64_t pp = 0;
  int zero = -1;
  std::int64_t sequence = 0;
};
Overrides overrides_of(const Degrees& degrees);
/// "DDP", "ZeRO-2".
std::string scheme_text(int zero);

/// Calls of rank 0 in the iterations `first` to `last` (-1 is initialisation), by op and axis.
std::vector<OpTotal> totals_of(const Trace& trace, std::int64_t first, std::int64_t last);
std::vector<OpTotal> totals_of(const Plan& plan, std::int64_t first, std::int64_t last);
/// Of its steady iteration.
std::vector<OpTotal> steady_totals(const Plan& plan);
/// The last iteration of a training.
std::vector<OpTotal> last_totals(const Recording& recording);
/// The sum over all groups of more than one rank.
OpTotal total_of(const std::vector<OpTotal>& totals, CommKind op);

/// What all figures share: predictions, simulations and recordings, each made once.
class Study {
 public:
  explicit Study(std::vector<Recording> recordings = {}) : recordings_(std::move(recordings)) {}

  /// The plan of a model by a rule set; quiet.
  Result<Plan> plan(const std::string& model, const char* framework, const Degrees& degrees);
  Result<Plan> plan(const Asked& asked);
  /// Its iteration on a machine of commlens machines.
  const Result<SimulatedJob>& simulation(const Asked& asked, const std::string& machine);
  /// Where files of jobs are written; before the first job that needs one.
  void keep_jobs_in(std::filesystem::path directory) { jobs_ = std::move(directory); }
  /// Its iteration on the paper's machine. `collapses`: ranks that do the same are one in its trace.
  const Result<SimulatedJob>& simulation(const std::string& model, const char* framework,
                                         const Degrees& degrees, bool collapses = true);
  /// The paper's equations for a layout, whether or not a framework could run it.
  std::vector<EquationValue> equations_of(const std::string& model, const Degrees& degrees) const;
  std::optional<EquationValue> equation(const std::string& number, const std::string& model,
                                        const Degrees& degrees) const;

  /// Trainings of this machine that are done.
  const std::vector<Recording>& recordings() const { return recordings_; }
  const Recording* recording(std::string_view name) const;
  void add(Recording recording) { recordings_.push_back(std::move(recording)); }
  /// Trainings that this machine could not make, with the reason: "125M-zero-0: its ranks need …".
  const std::vector<std::string>& not_trained() const { return not_trained_; }
  void lacks_training(std::string reason) { not_trained_.push_back(std::move(reason)); }
  /// Calls of this machine that were timed.
  const std::vector<MeasuredMessages>& measured_messages() const { return measured_messages_; }
  void add(MeasuredMessages messages) { measured_messages_.push_back(std::move(messages)); }
  /// Trainings of stages in processes of MPI, and why others are not there.
  const std::vector<RecordedStages>& stages() const { return stages_; }
  void add(RecordedStages stages) { stages_.push_back(std::move(stages)); }
  const std::vector<std::string>& stages_not_recorded() const { return stages_not_recorded_; }
  void lacks_stages(std::string reason) { stages_not_recorded_.push_back(std::move(reason)); }
  /// Dispatches of tokens that were recorded here; std::nullopt: none.
  const std::optional<RecordedDispatches>& dispatches() const { return dispatches_; }
  void add(RecordedDispatches dispatches) { dispatches_ = std::move(dispatches); }
  /// Runs of the frameworks that came with the program.
  const std::vector<GoldenRun>& golden() const { return golden_runs(); }

 private:
  /// CONFIG of a job, with its file written.
  Result<std::string> config_of(const Asked& asked) const;

  std::vector<Recording> recordings_;
  std::vector<std::string> not_trained_;
  std::vector<MeasuredMessages> measured_messages_;
  std::vector<RecordedStages> stages_;
  std::vector<std::string> stages_not_recorded_;
  std::optional<RecordedDispatches> dispatches_;
  std::filesystem::path jobs_;
  std::map<std::string, Result<SimulatedJob>> simulations_;
};

/// Series that several figures have.
Series printed_series(const std::string& equations);
Series exact_series(const std::string& equations);
Series deepspeed_series();
Series neox_series();
Series golden_series(const GoldenRun& run);
Series recorded_series(const Recording& recording);
/// With the machine, where the times are from and their interval.
Series simulated_series(const SimulatedJob& job);

/// Bytes of fp16 elements, which the paper's equations count.
Bytes fp16_bytes(double elements);

}  // namespace commlens::study
