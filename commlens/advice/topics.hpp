#pragma once
#include "commlens/advice/study.hpp"

namespace commlens {

/// Each function is one kind of advice: it tries its setting and adds the result to the study. The conditions
/// are in docs/advice.md.
void advise_persistence(Study& study);
void advise_buckets(Study& study);
void advise_memory(Study& study);
void advise_lower_stage(Study& study);
void advise_gradient_reduction(Study& study);
void advise_accumulation(Study& study);
void advise_larger_micro_batch(Study& study);
void advise_tensor_ranks(Study& study);
void advise_activations(Study& study);
void advise_sequence_parallelism(Study& study);
void advise_attention_mask(Study& study);
void advise_bubble(Study& study);
void advise_overlap(Study& study);
void advise_choices(Study& study);

}  // namespace commlens
