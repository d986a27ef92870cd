//! How much has been read of the files that a person named: words of a stage's command, and standard input.
//!
//! A file that a program makes for itself (a run of `sort`) or finds (below the directory of `tar`) tells
//! nothing of the whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use weir_doctor::programs::{ends_with_input, gathers, is_organizer, is_shell, runs_others};
use weir_measure::attribution::{Group, Sampler};
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, FdInfo, FileKind, Io, ProcContents, current_directory, descriptors, link, regular,
    words,
};

/// The least size of all files together for which anything is said.
const LEAST_BYTES: u64 = 1 << 20;
/// Most open files of a process, most words of a command, most bytes of them, and most processes of a stage at
/// which weir looks.
const FILES: usize = 64;
const WORDS: usize = 1024;
const WORDS_BYTES: usize = 1 << 17;
const PROCESSES: usize = 16;
/// A position that falls by more is that of a program that seeks. (A shell reads ahead and goes back.)
const SLACK_BYTES: u64 = 1 << 16;
/// What reads more than this and writes nothing gathers what it reads.
const GATHERED_BYTES: u64 = 4 << 20;

/// How far a stage came in its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The name of the file, where it is one.
    pub name: Option<String>,
    /// The number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes that were read.
    pub read_bytes: u64,
    /// Whether the stage may go on to files of which nothing is known yet.
    pub may_follow: bool,
}

/// The files of the processes at which weir has looked.
#[derive(Debug, Default)]
pub struct Inputs {
    of: BTreeMap<Pid, Files>,
    /// Those of the reading before.
    before: BTreeMap<Pid, Files>,
}

impl Inputs {
    /// Returns how far the first stage that reads files came in them.
    pub fn read(&mut self, sampler: &Sampler) -> Option<Reading> {
        self.before = std::mem::take(&mut self.of);
        let groups = &sampler.population.groups;
        let mut alive = groups.iter().enumerate().filter(|(_, group)| !group.ended);
        alive.find_map(|(at, group)| self.of_stage(sampler, at, group))
    }

    fn of_stage(&mut self, sampler: &Sampler, at: usize, group: &Group) -> Option<Reading> {
        let own = self.of_process(group.root.pid);
        let own_bytes: u64 = own.iter().map(|file| file.bytes).sum();
        // The next process that it starts may read another file.
        let may_follow = (is_organizer(&group.root.program) || runs_others(&group.root.program))
            && own_bytes < LEAST_BYTES;
        let mut all = if may_follow { Vec::new() } else { own };
        let others = sampler.population.pids_of(at).filter(|pid| *pid != group.root.pid);
        for pid in others.take(PROCESSES) {
            let of = self.of_process(pid);
            // Standard input is often that of the parent too.
            let new = of.into_iter().filter(|file| all.iter().all(|known| known.id != file.id));
            let new: Vec<Counted> = new.collect();
            all.extend(new);
        }
        let bytes: u64 = all.iter().map(|file| file.bytes).sum();
        let read_bytes: u64 = all.iter().map(|file| file.read_bytes).sum();
        let name = match all.as_slice() {
            [one] => Some(one.name.clone()),
            _ => None,
        };
        (bytes >= LEAST_BYTES && read_bytes > 0).then_some(Reading {
            name,
            files: all.len(),
            bytes,
            read_bytes,
            may_follow,
        })
    }

    fn of_process(&mut self, pid: Pid) -> Vec<Counted> {
        let mut files = self.before.remove(&pid).unwrap_or_default();
        let counted = files.read(pid);
        self.of.insert(pid, files);
        counted
    }
}

/// Returns whether a stage works on, or begins to write, only when it has read everything: the end of the input
/// is not its own.
pub fn something_gathers(sampler: &Sampler) -> bool {
    let population = &sampler.population;
    let mut alive = population.groups.iter().enumerate().filter(|(_, group)| !group.ended);
    alive.any(|(at, group)| {
        let mut pids = population.pids_of(at).take(PROCESSES);
        pids.any(is_gatherer) || writes_nothing(group)
    })
}

fn is_gatherer(pid: Pid) -> bool {
    let words = words(pid, WORDS_BYTES);
    let argument = words.get(1).map_or("", String::as_str);
    gathers(program_in(&words), argument)
}

/// The name of the program in the words of a command.
fn program_in(words: &[String]) -> &str {
    let program = words.first().map_or("", String::as_str);
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether a stage of one process has read much and written nothing, and is not known to end with its input.
fn writes_nothing(group: &Group) -> bool {
    let io = Io::of(group.root.pid);
    !ends_with_input(&group.root.program)
        && !group.several()
        && io.is_some_and(|io| io.read_bytes >= GATHERED_BYTES && io.write_bytes == 0)
}

/// A file that counts.
struct Counted {
    id: Descriptor,
    name: String,
    bytes: u64,
    read_bytes: u64,
}

/// The files of a process.
#[derive(Debug, Default)]
struct Files {
    /// The words of its command, by which it is seen that it became another program.
    words: Vec<String>,
    /// The files that its words name, while they are sought.
    sought: Option<Receiver<Vec<File>>>,
    /// In the order of the words; standard input stands first.
    files: Vec<File>,
    /// Whether it does not read from the beginning to the end.
    seeks: bool,
}

/// A file that a word names, or standard input.
#[derive(Debug)]
struct File {
    id: Descriptor,
    name: String,
    bytes: u64,
    read_bytes: u64,
    state: State,
    /// Whether the word before it names a file too. Behind an option may stand a file that will be written.
    is_next: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not seen open yet.
    Ahead,
    Open,
    Behind,
    /// It is open to be written.
    Output,
}

/// An open regular file.
struct Open {
    fd: i32,
    id: Descriptor,
    bytes: u64,
    at: u64,
    only_reads: bool,
}

impl Files {
    /// Looks at a process. Returns its files, up to the last that surely follows; none while nothing of them was
    /// seen to be read.
    fn read(&mut self, pid: Pid) -> Vec<Counted> {
        let words = words(pid, WORDS_BYTES);
        if words != self.words {
            *self = Files { sought: seek(pid, &words), words, ..Files::default() };
        }
        // To ask for a file may take long where a server does not answer.
        match self.sought.as_ref().map(Receiver::try_recv) {
            Some(Ok(files)) => (self.files, self.sought) = (files, None),
            Some(Err(TryRecvError::Disconnected)) => self.sought = None,
            Some(Err(TryRecvError::Empty)) => return Vec::new(),
            None => {}
        }
        let open = open_files(pid);
        if let Some(input) = open.iter().find(|open| open.fd == 0)
            && self.files.iter().all(|file| file.id != input.id)
            && let Some(name) = link(pid, 0).as_deref().and_then(file_name)
        {
            self.files.insert(0, File { name, ..File::new(input.id, input.bytes) });
        }
        self.note(&open);
        self.counted()
    }

    fn note(&mut self, open: &[Open]) {
        let is_open = |id: Descriptor| open.iter().any(|open| open.id == id);
        for file in self.files.iter_mut().filter(|file| file.state == State::Open) {
            if !is_open(file.id) {
                (file.state, file.read_bytes) = (State::Behind, file.bytes);
            }
        }
        for open in open {
            // A file that is named twice is read twice.
            let mut of: Vec<&mut File> = self
                .files
                .iter_mut()
                .filter(|file| file.id == open.id && file.state != State::Behind)
                .collect();
            let went_back = |file: &File| open.at + SLACK_BYTES < file.read_bytes;
            let again = of.len() > 1 && went_back(of[0]);
            if again {
                (of[0].state, of[0].read_bytes) = (State::Behind, of[0].bytes);
            }
            let Some(file) = of.into_iter().nth(usize::from(again)) else { continue };
            self.seeks |= went_back(file);
            file.bytes = open.bytes;
            file.state = if open.only_reads { State::Open } else { State::Output };
            file.read_bytes = file.read_bytes.max(open.at.min(open.bytes));
        }
    }

    fn counted(&self) -> Vec<Counted> {
        let is_read = self.files.iter().any(|file| file.state == State::Open);
        if self.seeks || !is_read {
            return Vec::new();
        }
        let mut counted = Vec::new();
        let mut before = false;
        for file in &self.files {
            before = match file.state {
                State::Open | State::Behind => true,
                State::Ahead => before && file.is_next,
                State::Output => false,
            };
            if before {
                let File { id, name, bytes, read_bytes, .. } = file;
                let (name, bytes, read_bytes) = (name.clone(), *bytes, *read_bytes);
                counted.push(Counted { id: *id, name, bytes, read_bytes });
            }
        }
        counted
    }
}

impl File {
    fn new(id: Descriptor, bytes: u64) -> File {
        let (name, state) = (String::new(), State::Ahead);
        File { id, name, bytes, read_bytes: 0, state, is_next: false }
    }
}

/// Seeks the files that the words of a command name. A server of files that does not answer holds up nobody
/// but the thread that asks.
fn seek(pid: Pid, words: &[String]) -> Option<Receiver<Vec<File>>> {
    // A shell starts what reads the files that it names; the first of them is a script.
    if is_shell(program_in(words).trim_start_matches('-')) {
        return None;
    }
    let place = current_directory(pid)?;
    let words: Vec<String> = words.iter().skip(1).take(WORDS).cloned().collect();
    let (sender, receiver) = channel();
    let ask = move || {
        // Nobody waits for it where the process has become another program meanwhile.
        let _ = sender.send(named(&place, &words));
    };
    std::thread::Builder::new().spawn(ask).ok().map(|_| receiver)
}

/// Returns the regular files that these words name, also behind an equals sign (`if=FILE`). `/dev/stdin` is
/// another file for each process.
fn named(place: &Path, words: &[String]) -> Vec<File> {
    let mut files = Vec::new();
    let mut is_next = false;
    for word in words {
        let is_own = |word: &str| word.starts_with("/dev/") || word.starts_with("/proc/");
        let of = |word: &str| regular_file(&place.join(word)).filter(|_| !is_own(word));
        let value = || word.split_once('=').and_then(|(_, value)| of(value));
        let found = of(word).or_else(value);
        let was_file = std::mem::replace(&mut is_next, found.is_some());
        files.extend(found.map(|file| File { is_next: was_file, ..file }));
    }
    files
}

fn regular_file(path: &Path) -> Option<File> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let id = Descriptor { device: found.dev(), inode: found.ino(), kind: FileKind::Storage };
    Some(File { name: file_name(path)?, ..File::new(id, found.len()) })
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Returns the regular files that a process has open. One that is open several times was read as far as the
/// farthest of these.
fn open_files(pid: Pid) -> Vec<Open> {
    let all = descriptors(pid).into_iter().flatten().take(FILES);
    let mut files: Vec<Open> = Vec::new();
    for new in all.filter_map(|fd| opened(pid, fd)) {
        match files.iter_mut().find(|file| file.id == new.id) {
            Some(file) => {
                file.at = file.at.max(new.at);
                file.fd = file.fd.min(new.fd);
                file.only_reads &= new.only_reads;
            }
            None => files.push(new),
        }
    }
    files
}

/// Returns what is known of a regular file that a process has open.
fn opened(pid: Pid, fd: i32) -> Option<Open> {
    // The link first: it refuses the processes of another pid namespace.
    link(pid, fd)?;
    let (id, bytes) = regular(pid, fd)?;
    let info = FdInfo::of(pid, fd)?;
    Some(Open { fd, id, bytes, at: info.position, only_reads: info.is_only_read() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    /// A process in a directory, whose output nobody reads yet.
    fn started(place: &Path, words: &[&str]) -> Child {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(place).stdin(Stdio::null());
        command.stdout(Stdio::piped()).spawn().expect("it starts")
    }

    /// Looks until the files add up to so many bytes of which some were read. Returns the number of files.
    fn seen(files: &mut Files, pid: Pid, bytes: u64) -> usize {
        for _ in 0..20_000 {
            let counted = files.read(pid);
            let of = |what: fn(&Counted) -> u64| counted.iter().map(what).sum::<u64>();
            if of(|file| file.bytes) == bytes && of(|file| file.read_bytes) > 0 {
                return counted.len();
            }
            std::thread::yield_now();
        }
        panic!("never {bytes} bytes: {:?}", files.files);
    }

    /// "96 % of a.gz, 00:00 left" stood there while two more files followed.
    #[test]
    fn the_files_that_follow_count_and_those_behind_an_option_do_not() {
        let place = tempfile::tempdir().expect("a directory");
        for (name, bytes) in [("a", 1 << 20), ("b", 2 << 20), ("c", 3 << 20), ("out", 9 << 20)] {
            std::fs::write(place.path().join(name), vec![b'x'; bytes]).expect("written");
        }
        std::os::unix::fs::symlink("c", place.path().join("link")).expect("a link");
        let mut cat = started(place.path(), &["cat", "a", "b", "link"]);
        let (pid, mut files) = (cat.id() as Pid, Files::default());
        assert_eq!(seen(&mut files, pid, 6 << 20), 3);
        let mut output = cat.stdout.take().expect("piped");
        output.read_exact(&mut vec![0; (1 << 20) + 1]).expect("the first file");
        let read_bytes =
            |files: &mut Files| -> u64 { files.read(pid).iter().map(|file| file.read_bytes).sum() };
        while read_bytes(&mut files) <= 1 << 20 {}
        assert_eq!(seen(&mut files, pid, 6 << 20), 3, "also when one of them is behind");
        drop(output);
        cat.wait().expect("ended");
        let mut awk = started(place.path(), &["awk", "{print}", "a", "-v", "out", "out"]);
        assert_eq!(seen(&mut Files::default(), awk.id() as Pid, 1 << 20), 1);
        awk.kill().expect("killed");
        awk.wait().expect("ended");
    }

    /// The runs that sort makes for itself were taken for the input.
    #[test]
    fn what_a_program_opens_by_itself_and_what_it_writes_are_no_input() {
        let place = tempfile::tempdir().expect("a directory");
        for name in ["named", "own"] {
            std::fs::write(place.path().join(name), vec![b'x'; 1 << 20]).expect("written");
        }
        let script = "open A,'own';open B,'+<','named';sysread A,$x,9;sysread B,$x,9;print 1;\
            $|=1;print 2;sleep 60";
        let mut perl = started(place.path(), &["perl", "-e", script, "named"]);
        let (pid, mut files) = (perl.id() as Pid, Files::default());
        perl.stdout.take().expect("piped").read_exact(&mut [0; 2]).expect("both are open");
        while files.read(pid).is_empty() && files.files.is_empty() {}
        assert!(files.read(pid).is_empty());
        assert_eq!(files.files[0].state, State::Output);
        perl.kill().expect("killed");
        perl.wait().expect("ended");
    }

    #[test]
    fn standard_input_counts_and_what_is_read_backwards_does_not() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        std::fs::write(&path, vec![b'x'; 2 << 20]).expect("written");
        let mut command = Command::new("perl");
        // It goes back once its output, of more than a pipe holds, is read.
        let script =
            "$|=1;sysread STDIN,$x,900000;print 1x99999;sysseek STDIN,9,0;print 2;sleep 60";
        command.args(["-e", script]).stdin(std::fs::File::open(&path).expect("opened"));
        let mut perl = command.stdout(Stdio::piped()).spawn().expect("perl");
        let (pid, mut files) = (perl.id() as Pid, Files::default());
        assert_eq!(seen(&mut files, pid, 2 << 20), 1);
        // Within the first reading it may have become perl: its words are new to the next one.
        assert_eq!(seen(&mut files, pid, 2 << 20), 1);
        perl.stdout.take().expect("piped").read_exact(&mut [0; 100_000]).expect("it went back");
        assert!(files.read(pid).is_empty() && files.seeks);
        perl.kill().expect("killed");
        perl.wait().expect("ended");
    }
}
