#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// A job with one setting changed.
struct SettingChange {
  std::string setting;  // as the framework's configuration names it: "reduce_bucket_size"
  std::string value;    // "20000", "false"
  Job job;
};

/// Every value worth trying of every setting that its framework has, but the one the job has already; the
/// hand-written list of what makes two runs of a model differ. `sizes`: element counts seen in a recording,
/// which a bucket limit may equal. The jobs are validated; what the rules refuse is left to make_plan.
std::vector<SettingChange> setting_changes(const Job& job, const std::vector<std::int64_t>& sizes);

/// Collects changed jobs that could run.
class Variations {
 public:
  /// `limits`: element counts that a limit may have, those most likely first.
  Variations(Job job, std::vector<std::int64_t> limits) : job_(std::move(job)), limits_(std::move(limits)) {}

  void add(std::string_view setting, std::string value, const std::function<void(Job&)>& change);

  /// Another release of the framework, behind all settings: those explain a difference before it.
  void add_release(std::string value, const std::function<void(Job&)>& change);

  /// The other value of a switch; `member` finds it in a job.
  void toggle(std::string_view setting, const std::function<bool&(Job&)>& member);

  /// A limit in elements, the likelier values first: they win when several explain the same.
  void limits(std::string_view setting, const std::function<std::int64_t&(Job&)>& member,
              const std::vector<std::int64_t>& values);

  /// A size in bytes, from 1 to 200 MiB; written as mebibytes and `unit`.
  void buckets(std::string_view setting, const std::function<Bytes&(Job&)>& member, std::string_view unit);

  std::vector<SettingChange> take();
  const Job& job() const { return job_; }
  const std::vector<std::int64_t>& likely_limits() const { return limits_; }

 private:
  void add_to(std::vector<SettingChange>& changes, std::string_view setting, std::string value,
              const std::function<void(Job&)>& change) const;

  Job job_;
  std::vector<std::int64_t> limits_;
  std::vector<SettingChange> changes_;
  std::vector<SettingChange> releases_;
};

/// `first`, then 1, 2 and 5 times the powers of ten that limits are written in.
std::vector<std::int64_t> round_numbers(std::vector<std::int64_t> first = {});

}  // namespace commlens
