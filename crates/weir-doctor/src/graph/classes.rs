//! Pipelines that are the same one again: those of a loop are accounted together.

use super::{Instance, ScriptPipeline, Seen, line_of};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Commands of one program are shown as one from this number on.
const MANY: usize = 3;

/// From its first start to its last end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The start.
    pub start_ns: u64,
    /// The end.
    pub end_ns: u64,
}

/// A pipeline, with all times that it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The processes of each row, in the order of the pipes.
    pub rows: Vec<Vec<usize>>,
    /// When each instance ran.
    pub spans: Vec<Span>,
    /// Position in the list of the script's pipelines, if only one fits.
    pub line: Option<(usize, usize)>,
}

impl Class {
    fn merge(&mut self, seen: &[Seen], other: Class) {
        let mut taken: Vec<usize> = Vec::new();
        for row in other.rows {
            let same = |mine: &usize, of: fn(&Seen) -> &str| {
                let mine = self.rows[*mine].first();
                !mine.is_none_or(|mine| of(&seen[*mine]) != of(&seen[row[0]]))
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
        self.spans.extend(other.spans);
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

    /// Returns its first start and its last end.
    pub fn whole(&self) -> Span {
        Span {
            start_ns: self.spans.iter().map(|span| span.start_ns).min().unwrap_or(0),
            end_ns: self.spans.iter().map(|span| span.end_ns).max().unwrap_or(0),
        }
    }
}

fn program<'a>(seen: &'a [Seen], row: &[usize]) -> &'a str {
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
    seen: &[Seen],
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
        let line = script.and_then(|at| Some((at, line_of(&scripts[at], &commands)?)));
        let key = match line {
            Some(line) => Key::Line(line),
            None => {
                Key::Commands(class.rows.iter().map(|row| seen[row[0]].command.clone()).collect())
            }
        };
        let place = *places.entry(key.clone()).or_insert_with(|| {
            classes.push((key, instance.partial, Class { line, ..Class::default() }));
            classes.len() - 1
        });
        classes[place].1 &= instance.partial;
        classes[place].2.merge(seen, class);
    }
    let classes = fold_arguments(seen, classes, brief);
    let mut classes = fold_parts(seen, classes);
    classes.sort_by_key(|class| class.whole().start_ns);
    classes
}

/// Makes a class of one instance: processes of one command share a row.
fn class_of(seen: &[Seen], instance: &Instance) -> Class {
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
    let span = Span {
        start_ns: members().map(|process| process.start_ns).min().unwrap_or(0),
        end_ns: members().map(|process| process.end_ns).max().unwrap_or(0),
    };
    Class { rows, spans: Vec::from([span]), line: None }
}

/// Whether two processes of a pipeline are one row: the same command at the same pipes.
fn is_one_row(one: &Seen, other: &Seen) -> bool {
    let apart = one.ends.is_empty() && other.ends.is_empty();
    one.command == other.command && (apart || one.ends.iter().any(|end| other.has(*end)))
}

/// Puts rows of one program together where there are many: a loop within a pipeline.
fn fold_rows(seen: &[Seen], rows: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
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

fn programs(seen: &[Seen], class: &Class) -> Vec<String> {
    class.rows.iter().map(|row| String::from(program(seen, row))).collect()
}

/// Puts together what differs only in its arguments.
fn fold_arguments(
    seen: &[Seen],
    classes: Vec<(Key, bool, Class)>,
    brief: &dyn Fn(&Class) -> bool,
) -> Vec<(bool, Class)> {
    let mut counts: BTreeMap<(Vec<String>, Option<usize>), (usize, usize)> = BTreeMap::new();
    let place = |class: &Class| (programs(seen, class), seen[class.rows[0][0]].parent);
    let free = |key: &Key, class: &Class| {
        matches!(key, Key::Commands(_)) && seen[class.rows[0][0]].parent.is_some()
    };
    for (key, _, class) in classes.iter().filter(|(key, _, class)| free(key, class)) {
        debug_assert!(matches!(key, Key::Commands(_)));
        let count = counts.entry(place(class)).or_default();
        count.0 += 1;
        count.1 += usize::from(brief(class));
    }
    let mut folded: Vec<(bool, Class)> = Vec::new();
    let mut places: BTreeMap<(Vec<String>, Option<usize>), usize> = BTreeMap::new();
    for (key, partial, class) in classes {
        let place = place(&class);
        let (all, short) = counts.get(&place).copied().unwrap_or_default();
        let folds = free(&key, &class) && (all >= MANY || (short >= 2 && brief(&class)));
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

/// Adds pipelines of which not all processes were seen to the one that they are a part of.
fn fold_parts(seen: &[Seen], mut classes: Vec<(bool, Class)>) -> Vec<Class> {
    // The smallest parts go first, so that none is added to one that has been added itself.
    let mut at = 0;
    classes.sort_by_key(|(_, class)| class.rows.len());
    while at < classes.len() {
        let (partial, class) = &classes[at];
        let mine = programs(seen, class);
        let fits = |other: &Class| {
            let theirs = programs(seen, other);
            theirs.len() > mine.len() && is_part(&mine, &theirs) && parents_fit(seen, class, other)
        };
        let whole = (0..classes.len())
            .filter(|other| *other != at && *partial && fits(&classes[*other].1))
            .max_by_key(|other| classes[*other].1.spans.len());
        match whole {
            Some(whole) => {
                let part = core::mem::take(&mut classes[at].1);
                classes[whole].1.merge(seen, part);
                classes.remove(at);
            }
            None => at += 1,
        }
    }
    classes.into_iter().map(|(_, class)| class).collect()
}

fn parents_fit(seen: &[Seen], one: &Class, other: &Class) -> bool {
    let parent = |class: &Class| seen[class.rows[0][0]].parent;
    parent(one) == parent(other)
}

/// Whether a list is the other with some entries left out.
fn is_part(part: &[String], whole: &[String]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|name| whole.any(|other| other == name))
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
