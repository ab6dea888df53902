//! How a run's end becomes an exit code.

use super::*;

#[test]
fn of_several_reasons_the_first_of_one_four_three_is_the_exit_code() {
    for (end, stuck, dead, expected) in [
        (End::Idle, false, 0, Exit::Done),
        (End::Asked, false, 0, Exit::Done),
        (End::Asked, false, 2, Exit::DeadLetters),
        (End::TimedOut, false, 2, Exit::TimedOut),
        (End::TimedOut, true, 2, Exit::Error),
        (End::Stuck, true, 0, Exit::Error),
        (End::Asked, true, 0, Exit::Error),
        (End::LogEnded, false, 2, Exit::Error),
    ] {
        assert_eq!(exit(end, stuck, dead), expected, "{end:?} {stuck} {dead}");
    }
}
