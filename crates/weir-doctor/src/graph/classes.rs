//! Pipelines that are the same one again: those of a loop are accounted together.

use super::lines::{fits_several, place_of};
use super::{Instance, ScriptPipeline, SeenProcess, above, is_fork, line_of};
use crate::programs::is_posix_shell;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Commands of one program are shown as one from this number on.
const MANY: usize = 3;

/// Spans of time are good to some ticks.
const CLOSE_NS: u64 = 20_000_000;

/// From its first start to its last end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallSpan {
    /// The start.
    pub start_ns: u64,
    /// The end.
    pub end_ns: u64,
}

impl WallSpan {
    /// Returns how long it is.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A pipeline, with all times that it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The processes of each row, in the order of the pipes.
    pub rows: Vec<Vec<usize>>,
    /// When each instance ran.
    pub spans: Vec<WallSpan>,
    /// Position in the list of the script's pipelines, if only one fits.
    pub line: Option<(usize, usize)>,
    /// When parts of instances ran, and which rows they are.
    parts: Vec<(WallSpan, Vec<usize>)>,
    /// Whether instances were put together of such parts.
    pub joined: bool,
    /// Whether it fits several lines of the script.
    ambiguous: bool,
}

impl Class {
    /// Adds other instances.
    fn merge(&mut self, seen: &[SeenProcess], other: Class) {
        let spans = other.spans.clone();
        self.add_rows(seen, other);
        self.spans.extend(spans);
    }

    /// Adds parts of instances.
    fn merge_parts(&mut self, seen: &[SeenProcess], other: Class) {
        let (spans, mut parts) = (other.spans.clone(), other.parts.clone());
        let places = self.add_rows(seen, other);
        for (_, rows) in &mut parts {
            rows.iter_mut().for_each(|row| *row = places.get(*row).copied().unwrap_or(*row));
        }
        self.parts.extend(parts);
        self.parts.extend(spans.into_iter().map(|span| (span, places.clone())));
    }

    /// Makes instances of the parts: those that ran at the same time and are different rows are
    /// one.
    fn join_parts(&mut self) {
        let mut parts = core::mem::take(&mut self.parts);
        self.joined = !parts.is_empty();
        parts.sort_by_key(|(span, _)| (span.start_ns, span.end_ns));
        let mut open: Option<(WallSpan, Vec<usize>)> = None;
        for (span, rows) in parts {
            match &mut open {
                Some((whole, taken))
                    if span.start_ns <= whole.end_ns
                        && !rows.iter().any(|row| taken.contains(row)) =>
                {
                    whole.end_ns = whole.end_ns.max(span.end_ns);
                    taken.extend(rows);
                }
                _ => self.spans.extend(open.replace((span, rows)).map(|(whole, _)| whole)),
            }
        }
        self.spans.extend(open.map(|(whole, _)| whole));
    }

    /// Adds the processes of another one; returns to which rows they went.
    fn add_rows(&mut self, seen: &[SeenProcess], mut other: Class) -> Vec<usize> {
        if other.rows.len() > self.rows.len() {
            // The order of the pipes is that of the one of which most was seen.
            core::mem::swap(&mut self.rows, &mut other.rows);
        }
        let mut taken: Vec<usize> = Vec::new();
        for row in other.rows {
            let same = |mine: &usize, of: fn(&SeenProcess) -> &str| {
                let mine = self.rows[*mine].first();
                mine.is_some_and(|mine| of(&seen[*mine]) == of(&seen[row[0]]))
            };
            let free = |at: &usize| !taken.contains(at);
            let exact = (0..self.rows.len()).filter(free).find(|at| same(at, |of| &of.command));
            let like = || (0..self.rows.len()).filter(free).find(|at| same(at, |of| &of.program));
            let place = exact.or_else(like).unwrap_or_else(|| {
                self.rows.push(Vec::new());
                self.rows.len() - 1
            });
            taken.push(place);
            self.rows[place].extend(row);
        }
        taken
    }

    /// Returns the time in which at least one instance ran.
    pub fn alive_ns(&self) -> u64 {
        let mut spans = self.spans.clone();
        spans.sort_by_key(|span| (span.start_ns, span.end_ns));
        let (mut total, mut end) = (0, 0);
        for span in spans {
            total += span.end_ns.max(end) - span.start_ns.max(end).min(span.end_ns.max(end));
            end = end.max(span.end_ns);
        }
        total
    }

    /// Returns how long an instance ran on average.
    fn mean_ns(&self) -> u64 {
        let sum: u64 = self.spans.iter().map(WallSpan::length_ns).sum();
        sum / self.spans.len().max(1) as u64
    }

    /// Returns its first start and its last end.
    pub fn whole(&self) -> WallSpan {
        WallSpan {
            start_ns: self.spans.iter().map(|span| span.start_ns).min().unwrap_or(0),
            end_ns: self.spans.iter().map(|span| span.end_ns).max().unwrap_or(0),
        }
    }
}

fn program<'a>(seen: &'a [SeenProcess], row: &[usize]) -> &'a str {
    row.first().map_or("", |at| seen[*at].program.as_str())
}

/// What makes two instances the same pipeline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Line((usize, usize)),
    Commands(Vec<String>),
}

/// Puts instances of the same pipeline together. `scripts` holds the pipelines of each script, and
/// `script_of` tells the script that a process works for.
///
/// Instances are the same pipeline if they fit the same line of a script, or if their commands are
/// the same. Those that fit no line are also put together if three or more differ only in their
/// arguments, as in a loop over files; so are those that `brief` tells to be too short to matter.
pub fn classes(
    seen: &[SeenProcess],
    instances: &[Instance],
    scripts: &[Vec<ScriptPipeline>],
    script_of: &dyn Fn(usize) -> Option<usize>,
    brief: &dyn Fn(&Class) -> bool,
) -> Vec<Class> {
    let mut classes: Vec<(Key, bool, Class)> = Vec::new();
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    for instance in instances {
        let class = class_of(seen, instance);
        let commands: Vec<&str> =
            class.rows.iter().map(|row| seen[row[0]].executed.as_str()).collect();
        let script = script_of(instance.members[0]).filter(|at| *at < scripts.len());
        let partial = instance.partial;
        let line = script.and_then(|at| Some((at, line_of(&scripts[at], &commands, partial)?)));
        let ambiguous =
            line.is_none() && script.is_some_and(|at| fits_several(&scripts[at], &commands));
        let key = match line {
            Some(line) => Key::Line(line),
            None => {
                Key::Commands(class.rows.iter().map(|row| seen[row[0]].command.clone()).collect())
            }
        };
        let place = *places.entry(key.clone()).or_insert_with(|| {
            classes.push((key, instance.partial, Class { line, ambiguous, ..Class::default() }));
            classes.len() - 1
        });
        classes[place].1 &= instance.partial;
        classes[place].2.merge(seen, class);
    }
    for (_, _, class) in &mut classes {
        if let Some((script, line)) = class.line {
            let pipeline = &scripts[script][line];
            class.rows.sort_by_key(|row| place_of(pipeline, &seen[row[0]].executed));
        }
    }
    let classes = fold_arguments(seen, classes, brief);
    let mut classes = fold_parts(seen, classes);
    classes.sort_by_key(|class| class.whole().start_ns);
    classes
}

/// Makes a class of one instance: processes of one command share a row.
fn class_of(seen: &[SeenProcess], instance: &Instance) -> Class {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for at in &instance.members {
        let same = |row: &&mut Vec<usize>| is_one_row(&seen[row[0]], &seen[*at]);
        match rows.iter_mut().find(same) {
            Some(row) => row.push(*at),
            None => rows.push(Vec::from([*at])),
        }
    }
    let rows = fold_rows(seen, rows);
    let members = || rows.iter().flatten().map(|at| &seen[*at]);
    let span = WallSpan {
        start_ns: members()
            .map(|process| process.start_ns.saturating_sub(process.margin_ns))
            .min()
            .unwrap_or(0),
        end_ns: members().map(|process| process.end_ns + process.margin_ns).max().unwrap_or(0),
    };
    Class { rows, spans: Vec::from([span]), ..Class::default() }
}

/// Whether two processes of a pipeline are one row: the same command at the same pipes.
fn is_one_row(one: &SeenProcess, other: &SeenProcess) -> bool {
    let apart = one.ends.is_empty() && other.ends.is_empty();
    one.command == other.command && (apart || one.ends.iter().any(|end| other.has(*end)))
}

/// Puts rows of one program together where there are many: a loop within a pipeline.
fn fold_rows(seen: &[SeenProcess], rows: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let of = |name: &str| rows.iter().filter(|row| program(seen, row) == name).count();
    let many: Vec<String> = rows
        .iter()
        .map(|row| program(seen, row))
        .filter(|name| of(name) >= MANY)
        .map(String::from)
        .collect();
    let mut folded: Vec<Vec<usize>> = Vec::new();
    for row in rows {
        let name = program(seen, &row);
        let of_many = many.iter().any(|known| known == name);
        match folded.iter_mut().find(|other| of_many && program(seen, other) == name) {
            Some(other) => other.extend(row),
            None => folded.push(row),
        }
    }
    folded
}

/// What instances have in common that differ only in the files that they work on.
type Kind = (Vec<String>, Option<usize>);

/// Returns the programs that a person typed, with their options, and who started them. Without the
/// options where these are not worth a row of their own.
fn kind(seen: &[SeenProcess], class: &Class, options: bool) -> Kind {
    let members = alloc::collections::BTreeSet::from_iter(class.rows.iter().flatten().copied());
    let is_member = |at: usize| members.contains(&at);
    let typed = |row: &&Vec<usize>| {
        !row.iter().all(|at| seen[*at].parent.is_some_and(is_member)) || class.rows.len() == 1
    };
    let name = |row: &Vec<usize>| typed_name(seen, row, options);
    let first = class.rows.iter().find(typed).and_then(|row| starter(seen, row[0]));
    (class.rows.iter().filter(typed).map(name).collect(), first)
}

/// Returns who started a process. The shell has a copy of itself run a function within a pipeline,
/// another one each time: these count as the shell.
fn starter(seen: &[SeenProcess], at: usize) -> Option<usize> {
    above(seen, at).find(|at| !is_fork(seen, *at) && !is_helper(seen, *at))
}

/// Whether a process is the shell that another program has run a text: `system`, a recipe of make, a
/// task of a language. Its text is another one each time.
fn is_helper(seen: &[SeenProcess], at: usize) -> bool {
    let Some(SeenProcess { parent: Some(_), program, executed, .. }) = seen.get(at) else {
        return false;
    };
    if !is_posix_shell(program) {
        return false;
    }
    let option = executed.split(' ').nth(1).and_then(|word| word.strip_prefix('-'));
    option.is_some_and(|letters| letters.ends_with('c') && !letters.starts_with('-'))
}

/// Returns the program of a row, with the options of its first process whose command is known.
fn typed_name(seen: &[SeenProcess], row: &[usize], options: bool) -> String {
    let mut name = String::from(program(seen, row));
    let known = row.iter().find(|at| seen[**at].known).filter(|_| options);
    let words = known.map_or("", |at| seen[*at].command.as_str()).split(' ').skip(1);
    // Behind `--` there are none, and numbers in them are values: `-k5`, `-9`.
    for word in words.take_while(|word| *word != "--").filter(|word| word.starts_with('-')) {
        name.push(' ');
        name.extend(word.chars().filter(|c| !c.is_ascii_digit()));
    }
    name
}

/// Puts together what differs only in its arguments.
fn fold_arguments(
    seen: &[SeenProcess],
    classes: Vec<(Key, bool, Class)>,
    brief: &dyn Fn(&Class) -> bool,
) -> Vec<(bool, Class)> {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    let free = |key: &Key, class: &Class| {
        matches!(key, Key::Commands(_))
            && seen[class.rows[0][0]].parent.is_some()
            && seen_and_named(seen, class) != (1, 0)
    };
    for (_, _, class) in classes.iter().filter(|(key, _, class)| free(key, class)) {
        *counts.entry(kind(seen, class, true)).or_default() += 1;
        if brief(class) {
            *counts.entry(kind(seen, class, false)).or_default() += 1;
        }
    }
    let mut folded: Vec<(bool, Class)> = Vec::new();
    let mut places: BTreeMap<Kind, usize> = BTreeMap::new();
    for (key, partial, class) in classes {
        let of = |options| kind(seen, &class, options);
        let many = |place: &Kind, least| counts.get(place).is_some_and(|count| *count >= least);
        let short = brief(&class) && many(&of(false), 2) && !many(&of(true), MANY);
        let place = of(!short);
        let folds = free(&key, &class) && (short || many(&place, MANY));
        match places.get(&place).filter(|_| folds) {
            Some(at) => {
                let (whole, into): &mut (bool, Class) = &mut folded[*at];
                *whole &= partial;
                into.merge(seen, class);
            }
            None => {
                if folds {
                    places.insert(place, folded.len());
                }
                folded.push((partial, class));
            }
        }
    }
    folded
}

/// Adds pipelines of which not all processes were seen to the one that they are a part of: the same
/// programs with the same options, and no longer-lived. What is on another line, or may as well, is
/// none.
fn fold_parts(seen: &[SeenProcess], mut classes: Vec<(bool, Class)>) -> Vec<Class> {
    // The smallest parts go first, so that none is added to one that has been added itself.
    let mut at = 0;
    classes.sort_by_key(|(_, class)| seen_and_named(seen, class));
    while at < classes.len() {
        let (partial, class) = &classes[at];
        let fits = |other: &Class| {
            let lives = class.mean_ns() <= 2 * other.mean_ns() + CLOSE_NS;
            let more = seen_and_named(seen, other) > seen_and_named(seen, class);
            let elsewhere = match class.line {
                Some(_) => class.line != other.line,
                None => class.ambiguous,
            };
            more && !elsewhere
                && lives
                && is_part(seen, class, other)
                && parents_fit(seen, class, other)
        };
        let wholes = || {
            (0..classes.len())
                .filter(|other| *other != at && fits(&classes[*other].1))
                .filter(|other| *partial || is_same_part(seen, class, &classes[*other].1))
        };
        // A command of which no more than the program is known may be any of several.
        let doubtful = seen_and_named(seen, class) == (1, 0)
            && wholes().nth(1).is_some()
            && wholes().all(|other| classes[other].1.rows.len() == 1);
        let whole =
            wholes().filter(|_| !doubtful).max_by_key(|other| classes[*other].1.spans.len());
        match whole {
            Some(whole) => {
                let part = core::mem::take(&mut classes[at].1);
                classes[whole].1.merge_parts(seen, part);
                classes.remove(at);
            }
            None => at += 1,
        }
    }
    classes.iter_mut().for_each(|(_, class)| class.join_parts());
    classes.into_iter().map(|(_, class)| class).collect()
}

/// Returns how much was seen of a pipeline: its rows, and those of which a command is known and not
/// only the name of its program.
fn seen_and_named(seen: &[SeenProcess], class: &Class) -> (usize, usize) {
    let known = class.rows.iter().filter(|row| row.iter().any(|at| seen[*at].known));
    (class.rows.len(), known.count())
}

/// Whether the same process started both, or processes that were themselves started again and
/// again: by xargs, say, with other arguments each time.
fn parents_fit(seen: &[SeenProcess], one: &Class, other: &Class) -> bool {
    let parent = |class: &Class| starter(seen, class.rows[0][0]);
    let again = |at: usize| seen[at].parent.map(|above| (above, program(seen, &[at])));
    parent(one) == parent(other)
        || parent(one).and_then(again).is_some_and(|one| parent(other).and_then(again) == Some(one))
}

/// Whether a pipeline is another one, word by word, of which some processes of a compound command
/// were too brief to be seen.
fn is_same_part(seen: &[SeenProcess], part: &Class, whole: &Class) -> bool {
    let has = |row: &Vec<usize>| {
        let mine = &seen[row[0]].command;
        whole.rows.iter().flatten().any(|at| seen[*at].command == *mine)
    };
    part.rows.len() > 1 && part.rows.iter().all(has)
}

/// Whether the rows are those of the other with some left out.
fn is_part(seen: &[SeenProcess], part: &Class, whole: &Class) -> bool {
    let mut rows = whole.rows.iter();
    part.rows.iter().all(|row| {
        let known = row.iter().any(|at| seen[*at].known);
        rows.any(|other| typed_name(seen, row, known) == typed_name(seen, other, known))
    })
}

/// Returns one label for commands that may differ in some words: these are shown as `...`.
pub fn label<'a>(mut commands: impl Iterator<Item = &'a str>) -> String {
    let Some(first) = commands.next() else { return String::new() };
    let mut words: Vec<Option<&str>> = first.split(' ').map(Some).collect();
    for command in commands {
        let mut other = command.split(' ');
        let mut same = 0;
        for mine in &mut words {
            let Some(theirs) = other.next() else { break };
            *mine = mine.filter(|word| *word == theirs);
            same += 1;
        }
        if same < words.len() || other.next().is_some() {
            words.truncate(same);
            words.push(None);
        }
    }
    words.dedup_by(|next, before| next.is_none() && before.is_none());
    let words: Vec<&str> = words.into_iter().map(|word| word.unwrap_or("...")).collect();
    words.join(" ")
}
