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

# Real pipelines: the truth about each by experiment, weir's verdict beside it, what weir costs, and what its advice
# gains. About an hour; nothing else may run. `just corpus --append` goes on where it ended.
#
# The corpus of real pipelines (bench/corpus)
corpus *ARGS:
    cargo build --release --locked -p weir-cli
    cargo run --release --locked --manifest-path bench/corpus/Cargo.toml -- {{ARGS}}

# The API documentation, the manual pages and the completions
docs: man completions
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --all-features --no-deps --locked

# The manual pages, into target/man
man: commands
    target/release/weir man --out target/man

# The completions, into target/completions
completions: commands
    mkdir -p target/completions
    for shell in bash zsh fish elvish powershell; do \
        target/release/weir completions $shell > target/completions/weir.$shell || exit; \
    done

# All four commands, optimized, beside each other
commands:
    cargo build --release --locked --workspace --bins

# What CI runs, here
ci:
    .ci/run

# The rings, the flags and their wake-ups in the interleavings of two or three threads that switch a few times
loom:
    RUSTFLAGS="--cfg loom" cargo test --locked -p weir-ring --lib --release --target-dir target/loom model

# Both lie on the heap here, and a run is one interleaving of the threads: miri sees neither another process nor
# mmap, futexes and io_uring. Tree borrows: stacked borrows allow no atomics over memory that is read only.
# Needs `rustup +nightly component add miri rust-src`.
#
# The rings, and the mappings they and the frames of a pool lie on, under miri (two minutes; eight beside builds)
miri:
    for tests in "-p weir-ring --lib" "-p weir-pipes --lib -- memory::tests::races memory::frames" \
            "-p weir-mpx --lib -- memory::tests::races"; do \
        PROPTEST_CASES=2 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows" \
            CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$(rustup which --toolchain nightly cargo-miri) runner" \
            cargo +nightly miri test --locked --target-dir target/miri $tests || exit; \
    done

# TSan sees the threads of one process at one address: no access of another process or of the kernel (futexes,
# io_uring), and two mappings of one memory are two memories to it. Eight tests bound or limit memory, of which TSan
# takes many times what they allow; two limit the time of a thousand threads and of floods, and it takes many times
# that too: these ten are left out. So is the death of a region's owner: a member's mapping is replaced by zeros then,
# whoever copies there, and TSan takes the kernel's replacing for a store. Processes that tests start say nothing to the terminal, so reports go to files,
# and one fails the recipe. A test of regions dies of SIGBUS on purpose, so TSan leaves that signal alone. TSan learns
# of mappings from libc, so rustix goes through it: otherwise memory that is mapped anew at an address still has the
# accesses of what lay there before, and tests seem to race. Reports of pool_ends.rs were of that kind: one pool's
# queue of io_uring was unmapped, and frames of another lay there next (three reports in one run of 644b532 without
# libc, none in five runs with it). Needs `rustup +nightly component add rust-src`.
#
# The library's tests under ThreadSanitizer (about twenty minutes, half of them building)
tsan:
    rm -f target/tsan/report.*
    export TSAN_OPTIONS="die_after_fork=0 handle_sigbus=0 log_path=$PWD/target/tsan/report" RUSTFLAGS="-Zsanitizer=thread --cfg=rustix_use_libc"; \
        export WEIR_KILLS=20 PROPTEST_CASES=32; \
        target=$(uname -m)-unknown-linux-gnu; \
        set -- --locked -p weir-ring -p weir-pipes -p weir-mpx -p weir-region --all-features -Zbuild-std --target $target --target-dir target/tsan \
            --config "target.$target.runner = 'timeout --foreground -k 5 900 $PWD/tests/run-test'"; \
        cargo +nightly build "$@" --examples && cargo +nightly test "$@" --lib --tests -- \
            --skip a_lack_of_memory_is_an_error --skip memory_stays_within_the_budget --skip ten_thousand_channels \
            --skip unfinished_messages_of_all_writers_have_bounded_memory \
            --skip a_thousand_sleepers_hear_of_a_death_at_once --skip floods_of_sound_records_hold_up_no_call \
            --skip the_owners_death_is_an_error; \
        status=$?; ! cat target/tsan/report.* 2>/dev/null && exit $status

# It follows the code, and keeps what it finds in fuzz/corpus, which git ignores; the seeds in git are small.
# Needs `cargo install cargo-fuzz` and a nightly toolchain.
#
# A fuzzer over records, lanes, messages, packets, files by TFTP, TCP, Telnet and shell texts: eight targets, SECONDS each after four minutes of building
fuzz SECONDS="20":
    for target in $(cargo +nightly fuzz list --fuzz-dir fuzz); do \
        mkdir -p fuzz/corpus/$target; \
        cargo +nightly fuzz run --fuzz-dir fuzz $target fuzz/corpus/$target fuzz/seeds/$target -- \
            -max_total_time={{SECONDS}} -max_len=4096 -timeout=10 || exit; \
    done

# kill -9 of either end of a pipe at random instants, as often as you like
torture KILLS="100000":
    WEIR_KILLS={{KILLS}} cargo test --release --locked -p weir-pipes --test kill --test port_kill
    WEIR_KILLS={{KILLS}} cargo test --release --locked -p weir-mpx --test mpx_kill

# Random pieces of shell against bash, as long as you like
random CASES="50000":
    PROPTEST_CASES={{CASES}} cargo test --release -p weir-cli random

# Random loads and faults over weir's own decisions, in virtual time
storm SEEDS="100000":
    cargo run --release -q --locked -p weir-model-cli -- storm --seeds {{SEEDS}}

# Needs `cargo install cargo-mutants`.
#
# Which changes of weir-policy no test notices (hours)
mutants:
    cargo mutants --package weir-policy --test-package weir-policy --test-package weir-model

# Predictions of `weir model whatif` beside `weir run --compare` (a minute; nothing else may run)
whatif DIR="target/whatif" *NUMBERS:
    cargo build --release -q --locked -p weir-cli -p weir-model-cli
    bench/whatif/check target/release/weir {{DIR}} {{NUMBERS}}

# Sampled times beside traced ones (two minutes, as root; nothing else may run)
trace DIR="target/trace":
    cargo build --release -q --locked -p weir-cli
    bench/trace/check target/release/weir {{DIR}}

# Install weir, weir-bench, weir-net and weir-model
install:
    for command in crates/weir-cli bench/weir-bench-cli net/weir-net-cli reports/weir-model-cli; do \
        cargo install --locked --path $command || exit; \
    done

# What a release has, into dist/: static binaries, packages, the C library, the wheel, checksums
dist *ARGS:
    packaging/dist {{ARGS}}
