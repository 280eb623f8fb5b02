#!/usr/bin/env python3
"""Which recorded or derived case proves each field of Megatron's Behaviour?

    tests/golden/mutate_megatron.py [--field NAME]... [--keep DIR] [FOLDER]...

As mutate_deepspeed.py, which does the work: a copy of the sources in which one field of
commlens/frameworks/megatron/behaviour.hpp can have another value, and the first recorded case of tests/golden/megatron*
that notices it. The rows are those of the table in docs/frameworks/megatron.md. `has_rules_of_its_own` chooses between two
sets of rules, and `has_expert_grid` numbers ranks otherwise where 0.9 has no case: their value false is not changed.
"""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutate_deepspeed as mutate

mutate.PLACE = "commlens/frameworks/megatron/behaviour"
mutate.FOLDERS = "tests/golden/megatron*/"
mutate.RECORDED = '''
/// The row as it is written.
const Behaviour& recorded_behaviour(const Job& job) {
  return k_behaviours.at(choose_version(versions_of(k_behaviours), k_newest, job.framework_version).index);
}
'''
mutate.OTHERS = ("has_one_balance",)

if __name__ == "__main__":
    sys.exit(mutate.main())
