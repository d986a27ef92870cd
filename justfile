# What there is to do here. `just` lists it; every recipe is a plain command too.

# List the recipes
default:
    @just --list

# All that must hold before a commit
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
    just test
    @if command -v cargo-deny >/dev/null; then cargo deny check; \
        else echo "SKIPPED: cargo-deny is not installed"; fi

# The tests, as the README gives them
test:
    command=$(.ci/test-command) && bash -c "$command"

# What measuring costs: whole-process pairs against bash (about ten minutes; nothing else may run)
bench *ARGS:
    cargo bench -p weir-cli --bench overhead -- {{ARGS}}

# Peers behind weir's own engine (about two minutes; nothing else may run)
peers *ARGS:
    cargo run --release --locked --manifest-path bench/compare/Cargo.toml -- {{ARGS}}

# The API documentation, the manual pages and the completions
docs: man completions
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked

# The manual pages, into target/man
man:
    cargo run --release -q --locked -p weir-cli -- man --out target/man

# The completions, into target/completions
completions:
    mkdir -p target/completions
    for shell in bash zsh fish elvish powershell; do \
        cargo run --release -q --locked -p weir-cli -- completions $shell > target/completions/weir.$shell || exit; \
    done

# What CI runs, here
ci:
    .ci/run

# The ring, the flags and their wake-ups in every interleaving of two threads
loom:
    RUSTFLAGS="--cfg loom" cargo test --locked -p weir-ring --lib --release --target-dir target/loom model

# The rings, and the mappings they and the frames of a pool lie on, under miri: on the heap (a nightly
# toolchain with miri). Tree borrows: stacked borrows allow no atomics over memory that is read only
miri:
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows" \
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$(rustup which --toolchain nightly cargo-miri) runner" \
        cargo +nightly miri test --locked -p weir-ring --lib --target-dir target/miri
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows" \
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$(rustup which --toolchain nightly cargo-miri) runner" \
        cargo +nightly miri test --locked -p weir --lib --target-dir target/miri -- memory::tests::races memory::frames

# The library's tests under ThreadSanitizer (a nightly toolchain with rust-src)
tsan:
    TSAN_OPTIONS=die_after_fork=0 RUSTFLAGS=-Zsanitizer=thread cargo +nightly test --locked -p weir --lib --test pipe \
        --test record --test flags -Zbuild-std --target $(uname -m)-unknown-linux-gnu \
        --target-dir target/tsan

# kill -9 of either end of a pipe at random instants, as often as you like
torture KILLS="100000":
    WEIR_KILLS={{KILLS}} cargo test --release --locked -p weir --test kill --test port_kill --test mpx_kill

# Random pieces of shell against bash, as long as you like
random CASES="50000":
    PROPTEST_CASES={{CASES}} cargo test --release -p weir-cli random

# Install the command
install:
    cargo install --path crates/weir-cli --locked
