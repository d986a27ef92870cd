//! The `weir` command: find out where the time goes between your processes, and take it back.
//!
//! It only calls `weir-verbs`, which is built small. Link-time optimization inlines in all crates as the level of
//! this one says, so this one is built fast (docs/adr/0014).

#![forbid(unsafe_code)]

#[cfg(all(no_unwind_tables, panic = "unwind"))]
compile_error!("build.rs leaves out the unwind tables, so this profile needs panic = \"abort\"");

fn main() -> std::process::ExitCode {
    weir_verbs::main()
}
