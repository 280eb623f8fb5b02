// What does ZeRO-3 send on 16 GPUs?
#include <iostream>

#include <commlens/app/predict.hpp>

int main() {
  commlens::PredictRequest request;
  request.config = {"1.3B"};
  request.framework = "deepspeed";
  request.overrides.ranks = 16;
  request.overrides.zero = 3;
  request.events.warning = [](const std::string& warning) { std::cerr << "warning: " << warning << '\n'; };

  const commlens::Result<commlens::Prediction> prediction = commlens::predict(request);
  if (!prediction) {
    std::cerr << prediction.error().message << '\n';
    return 2;
  }
  for (const commlens::BreakdownRow& row : prediction->rows) {
    std::cout << name_of(row.kind) << ": " << row.calls << " calls of " << row.message.value << " bytes\n";
  }
  std::cout << "one rank: " << prediction->per_rank.wire.value << " wire bytes in an iteration\n";
  std::cout << rendered(*prediction, commlens::Format::csv);
}
