#include "commlens/app/search_layouts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/app/machine_choice.hpp"
#include "commlens/app/search_retimed.hpp"
#include "commlens/base/file.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

Result<MatrixPrecision> precision_of(const std::string& name) {
  if (name == "bf16" || name == "fp16") {
    return MatrixPrecision::bf16;
  }
  if (name == "fp8" || name == "fp4") {
    return name == "fp8" ? MatrixPrecision::fp8 : MatrixPrecision::fp4;
  }
  return failure(fmt::format("--precision {}: choose bf16, fp8 or fp4", name));
}

Result<SearchQuestion> question_of(const SearchRequest& request, const Job& job, Machine machine) {
  SearchQuestion question;
  question.model = job.model;
  question.machine = std::move(machine);
  question.ranks = request.ranks;
  question.framework = request.framework;
  question.global_batch = request.global_batch > 0 ? request.global_batch : job.global_batch;
  if (request.sequence > 0) {
    question.model.sequence = request.sequence;
  }
  if (question.global_batch < 1) {
    return failure(
        fmt::format("{} does not say how many sequences an iteration trains on; give --global-batch",
                    request.config.front()));
  }
  return precision_of(request.precision).map([&](MatrixPrecision precision) {
    question.precision = precision;
    return question;
  });
}

Result<SearchQuestion> read_question(const SearchRequest& request) {
  return find_machine(request.machine).and_then([&](const Machine& machine) {
    return read_config(request.config, "").and_then(validated).and_then([&](const Job& job) {
      for (const std::string& warning : job.warnings) {
        request.events.warn(warning);
      }
      return question_of(request, job, machine);
    });
  });
}

Result<SearchResult> with_retimed(const SearchRequest& request, SearchResult result,
                                  const RunCalibration& calibration) {
  if (request.retime == 0) {
    return result;
  }
  const Machine& machine = result.question.machine;
  return lender_of(machine).and_then([&](const std::optional<Machine>& lender) {
    const Machine* const lends = lender ? &*lender : nullptr;
    return library_on("", machine, lends).and_then([&](const Library& library) {
      const RetimedOn on{result.question, lends, library, calibration};
      return retimed_layouts(request.config, result.answer, on, static_cast<std::size_t>(request.retime))
          .map([&](std::vector<RetimedLayout> retimed) {
            result.retimed = std::move(retimed);
            result.top = std::max(result.top, result.retimed.size());
            return result;
          });
    });
  });
}

}  // namespace

Result<SearchResult> search_layouts(const SearchRequest& request) {
  return read_question(request).and_then([&](const SearchQuestion& question) {
    return run_calibration(request.calibration).and_then([&](const RunCalibration& calibration) {
      // More than are simulated: some cannot be planned.
      constexpr std::int64_t more = 8;
      const std::int64_t kept = std::max(request.top, more * request.retime);
      return search(question, calibration, static_cast<std::size_t>(kept))
          .and_then([&](const SearchAnswer& answer) {
            return with_retimed(request, {question, answer, static_cast<std::size_t>(request.top)},
                                calibration);
          });
    });
  });
}

Result<ScaleResult> scale_layouts(const SearchRequest& request) {
  return read_question(request).and_then([&](const SearchQuestion& question) {
    return run_calibration(request.calibration).and_then([&](const RunCalibration& calibration) {
      return scaled_search(question, calibration).map([&](const ScaleAnswer& answer) {
        return ScaleResult{question, answer};
      });
    });
  });
}

}  // namespace commlens
