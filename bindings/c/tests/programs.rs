//! The C programs of `examples` and `tests`, compiled as C99 and as C++17, linked to each library, run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The programs of the examples, and what each prints.
const EXAMPLES: [(&str, &str); 8] = [
    ("records", "1000 readings, their sum is 499500\n"),
    ("log", "1000 lines of 100 writers\n"),
    ("request", "stressed: desserts\ndrawer: reward\nlive: evil\n"),
    ("killed", "it has died\n"),
    ("flags", "started and loaded, and told to stop: 3\n"),
    ("poll", "1 record and 2 ends\n"),
    ("wait", "1 message, 5 bytes\n"),
    ("arrays", "the sum is 9000000\n"),
];
/// Names weir for C as it was installed, to be tested in place of the one of this build.
const PREFIX: &str = "WEIR_C_PREFIX";
/// Each program ends within this, also under valgrind.
const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether a tool is there; says so if it is not.
fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        println!("SKIPPED: {tool} is not installed");
    }
    is_there
}

/// What the command printed, which must succeed.
fn run(command: &mut Command) -> String {
    let output: Output = command.output().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// The static library that this test was built with.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let beside = test.parent().expect("a directory").read_dir().expect("it can be read");
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libweir_c") && name.ends_with(".a")
    };
    let found = beside.flatten().map(|entry| entry.path()).filter(is_ours);
    let age = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    found.max_by_key(age).expect("cargo has built the static library")
}

/// weir for C, laid down once for all tests.
fn installed() -> &'static Path {
    static GIVEN: OnceLock<Option<PathBuf>> = OnceLock::new();
    static MADE: OnceLock<TempDir> = OnceLock::new();
    if let Some(prefix) = GIVEN.get_or_init(|| std::env::var_os(PREFIX).map(PathBuf::from)) {
        return prefix;
    }
    let prefix = MADE.get_or_init(|| {
        let prefix = tempfile::tempdir().expect("a directory");
        let mut install = Command::new(root().join("install"));
        run(install.arg("--from").arg(library()).arg(prefix.path()).env_remove("DESTDIR"));
        prefix
    });
    prefix.path()
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("weir").env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    run(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// How a program is compiled and linked.
#[derive(Clone, Copy, PartialEq)]
enum Built {
    C,
    Cpp,
    Static,
    Sanitized,
}

/// Compiles a program as its language demands, with every warning an error.
fn compile(source: &Path, built: Built, to: &Path) -> PathBuf {
    let program = to.join(source.file_stem().expect("a name"));
    let mut command = Command::new(if built == Built::Cpp { "g++" } else { "gcc" });
    command.args(match built {
        Built::Cpp => ["-x", "c++", "-std=c++17"],
        _ => ["-x", "c", "-std=c99"],
    });
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-O1"]).arg(source);
    command.args(["-x", "none", "-o"]).arg(&program);
    if built == Built::Sanitized {
        command.arg("-fsanitize=address");
    }
    if built == Built::Static {
        command.args(pkg_config(&["--cflags"]));
        command.arg(installed().join("lib/libweir.a"));
        // The flags of a static link, without the library itself, which would be the shared one.
        let flags = pkg_config(&["--libs", "--static"]);
        command.args(flags.iter().filter(|flag| *flag != "-lweir"));
    } else {
        command.args(pkg_config(&["--cflags", "--libs"]));
        command.arg(format!("-Wl,-rpath,{}", installed().join("lib").display()));
    }
    run(&mut command);
    program
}

/// Runs a program in a directory of its own, for as long as the test is patient.
/// A leak in a child is on its standard error, and its status is not looked at.
fn run_program(before: &[&str], program: &Path) -> String {
    run_with(before, program, &[])
}

fn run_with(before: &[&str], program: &Path, arguments: &[&str]) -> String {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).args(before).arg(program).args(arguments);
    let output = command.current_dir(place.path()).output().expect("timeout runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    assert!(!said.contains("Sanitizer") && !said.contains("=="), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

fn example(name: &str) -> PathBuf {
    root().join("examples").join(name).with_extension("c")
}

/// The page's programs are those that are run here.
#[test]
fn the_programs_of_the_page_are_the_examples() {
    let page = std::fs::read_to_string(root().join("../../docs/c.md")).expect("the page");
    let shown: Vec<&str> = page.split("\n<!-- ").skip(1).collect();
    assert_eq!(shown.len(), 4, "programs of the page");
    for part in shown {
        let (name, rest) = part.split_once(".c -->\n```c\n").expect("a program");
        let (code, _) = rest.split_once("\n```\n").expect("its end");
        let file = std::fs::read_to_string(example(name)).expect("an example");
        assert!(file.trim_end() == code, "docs/c.md does not show examples/{name}.c as it is");
    }
}

fn examples_run(built: Built) {
    let place = tempfile::tempdir().expect("a directory");
    for (name, wanted) in EXAMPLES {
        let printed = run_program(&[], &compile(&example(name), built, place.path()));
        assert!(printed.contains(wanted), "{name}: {printed}");
    }
}

#[test]
fn every_example_is_run() {
    let listed = root().join("examples").read_dir().expect("it can be read").flatten();
    let mut names: Vec<OsString> = listed.map(|entry| entry.file_name()).collect();
    names.sort();
    let mut wanted: Vec<OsString> = EXAMPLES.map(|(name, _)| format!("{name}.c").into()).into();
    wanted.sort();
    assert_eq!(names, wanted);
}

#[test]
fn examples_run_as_c99_with_the_shared_library() {
    if has("gcc") && has("pkg-config") {
        examples_run(Built::C);
    }
}

#[test]
fn examples_run_as_cpp17_with_the_shared_library() {
    if has("g++") && has("pkg-config") {
        examples_run(Built::Cpp);
    }
}

#[test]
fn examples_run_with_the_static_library() {
    if has("gcc") && has("pkg-config") {
        examples_run(Built::Static);
    }
}

#[test]
fn bad_input_gets_a_status_with_a_sentence() {
    if !(has("gcc") && has("pkg-config")) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let program = compile(&root().join("tests/errors.c"), Built::C, place.path());
    assert_eq!(run_program(&[], &program), "0 failures\n");
}

/// Programs whose children open their own ends alone. What a watcher of the parent has is nobody's in
/// a child that is forked later: fork copies the memory of a thread, and not the thread.
const WITHOUT_A_WATCHER_AT_FORK: [&str; 5] = ["records", "killed", "flags", "poll", "arrays"];

#[test]
fn programs_leak_nothing() {
    if !(has("gcc") && has("pkg-config")) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    for name in WITHOUT_A_WATCHER_AT_FORK {
        run_program(&[], &compile(&example(name), Built::Sanitized, place.path()));
    }
    let errors = compile(&root().join("tests/errors.c"), Built::Sanitized, place.path());
    assert_eq!(run_program(&[], &errors), "0 failures\n");
}

#[test]
fn programs_leak_nothing_under_valgrind() {
    if !(has("gcc") && has("pkg-config") && has("valgrind")) {
        return;
    }
    if std::env::var_os(PREFIX).is_none() {
        // rustix, as the workspace builds it, asks the kernel for what valgrind hides from it.
        return println!("SKIPPED: {PREFIX} does not name what bindings/c/install has laid down");
    }
    let place = tempfile::tempdir().expect("a directory");
    let valgrind = [
        "valgrind",
        "-q",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
        "--error-exitcode=9",
    ];
    for name in WITHOUT_A_WATCHER_AT_FORK {
        run_program(&valgrind, &compile(&example(name), Built::C, place.path()));
    }
    let errors = compile(&root().join("tests/errors.c"), Built::C, place.path());
    assert_eq!(run_with(&valgrind, &errors, &["without-fork"]), "0 failures\n");
}

#[test]
fn cmake_finds_both_libraries() {
    if !(has("gcc") && has("cmake")) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let text = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(example C)\n\
         find_package(weir 0.1 CONFIG REQUIRED)\n\
         add_executable(shared {0})\ntarget_link_libraries(shared weir::weir)\n\
         add_executable(static {0})\ntarget_link_libraries(static weir::static)\n",
        example("records").display(),
    );
    std::fs::write(place.path().join("CMakeLists.txt"), text).expect("written");
    let build = place.path().join("build");
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(place.path()).arg("-B").arg(&build);
    run(cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", installed().display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["shared", "static"] {
        assert!(run_program(&[], &build.join(program)).contains("1000 readings"), "{program}");
    }
}

#[test]
fn the_shared_library_has_a_soname_and_exports_its_functions_with_a_version() {
    if !(has("gcc") && has("readelf") && has("nm")) {
        return;
    }
    let shared = installed().join("lib/libweir.so");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&shared));
    assert!(dynamic.contains("soname: [libweir.so.0]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let exported = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&shared));
    let is_ours = |line: &&str| {
        let name = line.rsplit(' ').next().unwrap_or_default();
        name == "WEIR_0.1" || (name.starts_with("weir_") && name.ends_with("@@WEIR_0.1"))
    };
    let others: Vec<&str> = exported.lines().filter(|line| !is_ours(line)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(exported.lines().count() > 70, "{exported}");
}
