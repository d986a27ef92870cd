//! The command lines of `weir bench`, `weir compare` and `weir history`.

mod bench;
mod saved;

pub use bench::BenchOptions;
pub use saved::{CompareOptions, Export, FailOn, HistoryCommand, HistoryShowOptions, HistoryVerb};

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use weir_command::manual::{assert_sound, reflowed};

    #[test]
    fn the_command_lines_are_sound() {
        assert_sound(&reflowed(BenchOptions::command()));
        assert_sound(&reflowed(CompareOptions::command()));
        assert_sound(&reflowed(HistoryCommand::command()));
    }

    #[test]
    fn a_wrong_number_is_refused_with_the_numbers_that_are_right() {
        let refused =
            reflowed(BenchOptions::command()).try_get_matches_from(["weir-bench", "--seed", "-1"]);
        let said = refused.expect_err("refused").to_string();
        assert!(said.contains("invalid value") && said.contains("of at least 0"), "{said}");
    }
}
