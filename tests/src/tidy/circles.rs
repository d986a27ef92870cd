//! Which file of a crate imports which; no group of files may do so in a circle.
//!
//! A [`House`] is read from the roots of the crates along their `mod` lines. An arrow is a path
//! from one file to another, in a `use` or anywhere else. A re-export is followed to where the name
//! is defined, and each file on the way that re-exports the name is also the end of an arrow. Not
//! counted are test code, a module that re-exports names of modules inside it, and a path from a
//! module to one that contains it (a folder's own file and the files in the folder are one unit).

use super::TidyFault;
use super::source::{SourceFile, is_test_file};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Paths and texts of files.
pub type Texts = BTreeMap<String, String>;
/// From one file to another: the line of the first name that is imported, and all names.
pub type Arrows = BTreeMap<(String, String), (usize, BTreeSet<String>)>;

/// Number of re-exports through which a name is followed.
const HOPS_MAX: usize = 8;
/// The keywords that begin an item; the next word is its name.
const ITEMS: [&str; 9] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];

/// A path as it is written.
struct Written {
    path: Vec<String>,
    line: usize,
    public: bool,
}

#[derive(Default)]
struct Module {
    file: String,
    /// The folder of its children's files.
    folder: String,
    path: Vec<String>,
    parent: Option<usize>,
    root: usize,
    children: HashMap<String, usize>,
    items: BTreeSet<String>,
    /// The names that a `use` brings in, with their paths.
    bound: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    written: Vec<Written>,
    /// Words that are not part of a path, each with its first line.
    words: BTreeMap<String, usize>,
}

/// The modules of all crates.
pub struct House<'texts> {
    texts: &'texts Texts,
    modules: Vec<Module>,
}

impl<'texts> House<'texts> {
    /// Reads the crates whose roots are among `texts`.
    pub fn read(texts: &'texts Texts) -> Self {
        let mut house = Self { texts, modules: Vec::new() };
        for path in texts.keys().filter(|path| path.ends_with(".rs") && !is_test_file(path)) {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            if ["lib.rs", "main.rs"].contains(&name) || folder.ends_with("/bin") {
                let module = Module { root: house.modules.len(), ..Module::default() };
                house.file(path.clone(), folder.to_owned(), module);
            }
        }
        house
    }

    fn file(&mut self, file: String, folder: String, module: Module) -> usize {
        let at = self.modules.len();
        let source = self.texts.get(&file).and_then(|text| SourceFile::parse(&file, text).ok());
        self.modules.push(Module { file, folder, ..module });
        if let Some(source) = source {
            self.body(&source, 0, source.tokens.len(), at);
        }
        at
    }

    /// Returns a module named `name` inside the one at `at`, still without its file.
    fn inside(&self, at: usize, name: &str) -> Module {
        let path = [&self.modules[at].path[..], &[name.to_owned()]].concat();
        Module { path, parent: Some(at), root: self.modules[at].root, ..Module::default() }
    }

    /// Reads the tokens from `index` to `end` as the body of the module at `at`.
    fn body(&mut self, source: &SourceFile, mut index: usize, end: usize, at: usize) {
        let mut depth = 0_usize;
        while index < end {
            let token = &source.tokens[index];
            let text = token.text.as_str();
            let (before, next) = (source.text(index.wrapping_sub(1)), source.text(index + 1));
            depth = depth + usize::from(text == "{") - usize::from(text == "}");
            index += 1;
            if token.test || !token.word {
                continue;
            }
            if text == "mod" && [";", "{"].contains(&source.text(index + 1)) {
                index = self.child(source, index, at);
            } else if text == "use" {
                let public = ["pub", ")"].contains(&before);
                index = self.imports(source, index, &[], public, at);
            } else if source.reads(index, &[":", ":"]) {
                let mut path = vec![text.to_owned()];
                while source.reads(index, &[":", ":"]) && source.is_word(index + 2) {
                    path.push(source.text(index + 2).to_owned());
                    index += 3;
                }
                let line = token.line;
                self.modules[at].written.push(Written { path, line, public: false });
            } else {
                let module = &mut self.modules[at];
                if depth == 0 && ITEMS.contains(&text) {
                    let name = if next == "!" { source.text(index + 1) } else { next };
                    module.items.insert(name.to_owned());
                }
                if before != "." {
                    module.words.entry(text.to_owned()).or_insert(token.line);
                }
            }
        }
    }

    /// Reads the child whose name is at `index`. Returns where it ends.
    fn child(&mut self, source: &SourceFile, index: usize, at: usize) -> usize {
        let name = source.text(index);
        let folder = format!("{}/{name}", self.modules[at].folder);
        let child = self.inside(at, name);
        let (child, end) = if source.reads(index + 1, &["{"]) {
            let here = self.modules.len();
            self.modules.push(Module { file: source.path.clone(), folder, ..child });
            let close = source.close_of(index + 1);
            self.body(source, index + 2, close, here);
            (here, close + 1)
        } else {
            let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
            let Some(file) = files.into_iter().find(|file| self.texts.contains_key(file)) else {
                return index + 1;
            };
            (self.file(file, folder, child), index + 2)
        };
        self.modules[at].children.insert(name.to_owned(), child);
        end
    }

    /// Reads one branch of a `use` that continues `before`. Returns where it ends.
    fn imports(
        &mut self,
        source: &SourceFile,
        mut index: usize,
        before: &[String],
        public: bool,
        at: usize,
    ) -> usize {
        let mut path = before.to_vec();
        let mut name = None;
        while ![";", ",", "}", ""].contains(&source.text(index)) {
            match source.text(index) {
                "{" => {
                    let close = source.close_of(index);
                    index += 1;
                    while index < close {
                        index = self.imports(source, index, &path, public, at) + 1;
                    }
                    return close + 1;
                }
                "as" => {
                    index += 1;
                    name = Some(source.text(index).to_owned());
                }
                "*" => {
                    self.modules[at].globs.push(path);
                    return index + 1;
                }
                // At the end of a path, `self` is the module before it.
                text if source.is_word(index) && (text != "self" || path.is_empty()) => {
                    path.push(text.to_owned());
                }
                _ => {}
            }
            index += 1;
        }
        if let Some(last) = path.last() {
            let line = source.tokens[index - 1].line;
            let module = &mut self.modules[at];
            module.bound.insert(name.unwrap_or_else(|| last.clone()), path.clone());
            module.written.push(Written { path, line, public });
        }
        index
    }

    /// Finds the modules to which `path` leads from the one at `at`, each with the name that it is
    /// asked for: first those that re-export it, last the one that defines it.
    fn follow(
        &self,
        at: usize,
        path: &[String],
        first: bool,
        hops: usize,
        out: &mut Vec<(usize, String)>,
    ) {
        let Some((head, rest)) = path.split_first().filter(|_| hops < HOPS_MAX) else { return };
        let module = &self.modules[at];
        let within = match head.as_str() {
            "crate" if first => Some(module.root),
            "self" if first => Some(at),
            "super" => module.parent,
            _ => module.children.get(head).copied(),
        };
        if let Some(within) = within {
            if rest.is_empty() {
                out.push((within, head.clone()));
            }
            return self.follow(
                within,
                rest,
                ["self", "super"].contains(&head.as_str()),
                hops,
                out,
            );
        }
        if !first {
            out.push((at, head.clone()));
        }
        if module.items.contains(head) {
            return;
        }
        if let Some(bound) = module.bound.get(head) {
            return self.follow(at, &[bound, rest].concat(), true, hops + 1, out);
        }
        for glob in &module.globs {
            let mut found = Vec::new();
            self.follow(at, glob, true, hops + 1, &mut found);
            let Some((target, _)) = found.pop() else { continue };
            let module = &self.modules[target];
            if module.items.contains(head) || module.bound.contains_key(head) {
                self.follow(target, path, false, hops + 1, out);
            }
        }
    }

    /// Returns all arrows between files.
    pub fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (at, module) in self.modules.iter().enumerate() {
            let alone =
                module.words.iter().filter(|(word, _)| !module.children.contains_key(*word));
            let alone = alone.map(|(word, line)| (std::slice::from_ref(word), *line, false));
            let written = module.written.iter().map(|w| (&w.path[..], w.line, w.public));
            for (path, line, public) in written.chain(alone) {
                let mut ends = Vec::new();
                self.follow(at, path, true, 0, &mut ends);
                for (end, name) in ends {
                    let to = &self.modules[end];
                    let around = module.root == to.root && module.path.starts_with(&to.path);
                    let handed_on = public && to.path.starts_with(&module.path);
                    if to.file != module.file && !around && !handed_on {
                        let arrow = arrows.entry((module.file.clone(), to.file.clone()));
                        let (_, names) = arrow.or_insert((line, BTreeSet::new()));
                        names.insert(name);
                    }
                }
            }
        }
        arrows
    }
}

/// Returns one fault for each group of files that import each other in a circle, with its arrows.
pub fn circles(arrows: &Arrows) -> Vec<TidyFault> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, _) in arrows.keys() {
        let mut pending = vec![from.as_str()];
        let seen = reached.entry(from).or_default();
        while let Some(file) = pending.pop() {
            let next = arrows.keys().filter(|(from, _)| from == file).map(|(_, to)| to.as_str());
            pending.extend(next.filter(|to| seen.insert(to)));
        }
    }
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|seen| seen.contains(to));
    let mut told = BTreeSet::new();
    let mut faults = Vec::new();
    for file in reached.keys().filter(|file| reaches(file, file)) {
        let group: BTreeSet<&str> =
            reached[file].iter().copied().filter(|other| reaches(other, file)).collect();
        if !told.insert(group.clone()) {
            continue;
        }
        let within = arrows
            .iter()
            .filter(|((from, to), _)| group.contains(from.as_str()) && group.contains(to.as_str()));
        let mut text = format!("{} files import each other in a circle:", group.len());
        let mut first = 1;
        for ((from, to), (line, names)) in within {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("\n    {from}:{line} -> {to}: {}", names.join(", "));
            if from == file && first == 1 {
                first = *line;
            }
        }
        faults.push(TidyFault::new(file, first, "circle", text));
    }
    faults
}
