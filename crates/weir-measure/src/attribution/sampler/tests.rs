//! How the states of several tasks become one.

use super::*;
use weir_doctor::state::TaskState;

fn sample(state: TaskState, on_cpu_permille: u32) -> TaskSample {
    TaskSample { state, on_cpu_permille, ..TaskSample::default() }
}

#[test]
fn the_strongest_state_counts_and_two_half_running_tasks_make_three_quarters() {
    let mut strongest = None;
    for seen in
        [sample(TaskState::Lock, 0), sample(TaskState::BlockedIn, 0), sample(TaskState::Child, 0)]
    {
        combine(&mut strongest, seen.found());
    }
    assert_eq!(strongest, Some((TaskState::BlockedIn, 0)));
    combine(&mut strongest, sample(TaskState::Running, 500).found());
    combine(&mut strongest, sample(TaskState::Running, 500).found());
    combine(&mut strongest, sample(TaskState::Sleep, 0).found());
    assert_eq!(strongest, Some((TaskState::Running, 750)));
}
