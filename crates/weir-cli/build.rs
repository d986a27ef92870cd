//! Links the release without the tables that unwinding needs, a tenth of its size, and with one of
//! functions that are equal (docs/adr/0014).
//!
//! A panic in the release aborts, so nothing unwinds. The compiler writes the tables all the same.
//! A build with debug information keeps them, because perf and gdb read them.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=no-unwind-tables.ld");
    println!("cargo::rustc-check-cfg=cfg(no_unwind_tables)");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // Of the panic strategy a build script learns only the target's default. So main.rs checks it.
    if is("PROFILE", "release") && is("DEBUG", "false") && is("CARGO_CFG_TARGET_OS", "linux") {
        // A copy beside the build: two checkouts that share a target directory share this output,
        // and one of them may be gone.
        let directory = var("OUT_DIR").expect("cargo names the directory of a build script");
        let script = format!("{directory}/no-unwind-tables.ld");
        std::fs::copy("no-unwind-tables.ld", &script).expect("the linker script is copied");
        println!("cargo::rustc-cfg=no_unwind_tables");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{script}");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        // The linker that rustc brings for x86-64 keeps one of functions that are equal.
        if can_link_with("-Wl,--icf=all", &directory) {
            println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}

/// Whether the linker that rustc takes by itself knows an option: a program is linked with it.
fn can_link_with(option: &str, directory: &str) -> bool {
    // Of a linker or flags that somebody has chosen, this would learn nothing.
    let is_unset = |name: &str| var(name).is_ok_and(|found| found.is_empty());
    if var("RUSTC_LINKER").is_ok() || !is_unset("CARGO_ENCODED_RUSTFLAGS") {
        return false;
    }
    let (source, program) = (format!("{directory}/empty.rs"), format!("{directory}/empty"));
    std::fs::write(&source, "fn main() {}").expect("a source is written");
    let target = var("TARGET").expect("cargo names the target");
    let mut rustc = Command::new(var("RUSTC").expect("cargo names the compiler"));
    rustc.args([&source, "-o", &program, "--target", &target, &format!("-Clink-arg={option}")]);
    rustc.output().is_ok_and(|output| output.status.success())
}
