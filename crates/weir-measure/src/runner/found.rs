//! The pipelines and commands found in what a run started: policy finds them among the processes
//! that were seen, and here each gets its stages and pipes.

use super::exchange::exchanges;
use super::job::Job;
use crate::attribution::{Births, Group, MoreEnd, PipeWatch, Sampler, is_named};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use weir_doctor::ending::answer;
use weir_doctor::facts::{
    Evidence, Exchange, FailedCommand, FoundGroup, Line, OutputFile, Pipe, Run, Spread, Stage,
    WaitedCpu,
};
use weir_doctor::failures::{self, ScriptEnd};
use weir_doctor::graph::{
    self, Class, CriticalPath, End, Jobs, ScriptPipeline, SeenProcess, Shape, WallSpan, classes,
    instances, label, only_of,
};
use weir_doctor::partition::Times;
use weir_doctor::programs::is_posix_shell;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, FileKind};

/// Pipelines seen no more often than this are put together with others of their programs.
const FEW_SAMPLES: u64 = 2;
/// What works for less than this part of its life (a tenth) is idle.
const IDLE: u64 = 10;
/// What lives for less than this part of the run (a twentieth) takes little of it.
const LITTLE: u64 = 20;
/// Scripts longer than this are not read for their lines.
const LONGEST_SCRIPT: u64 = 1 << 20;

/// The processes of a run, or of one of its stages.
pub(super) struct Processes<'a> {
    groups: &'a [Group],
    /// Positions in `groups`.
    members: Vec<usize>,
    /// The same processes for policy; a parent is a position among these.
    seen: Vec<SeenProcess>,
    /// The name of each as it is shown; none for a shell that only waited.
    labels: Vec<Option<String>>,
    pipes: &'a [PipeWatch],
    scripts: Scripts,
}

/// The scripts that the processes read.
#[derive(Default)]
struct Scripts {
    /// Those that could be read.
    known: Vec<Script>,
    /// The script of each process.
    of: Vec<Option<usize>>,
    /// Names of those whose lines end with CR LF.
    crlf: Vec<String>,
}

/// A script.
struct Script {
    /// Its name; empty for the text of the run.
    name: String,
    /// Its file; `None` for the text of the run.
    path: Option<String>,
    text: String,
    pipelines: Vec<ScriptPipeline>,
}

impl<'a> Processes<'a> {
    /// Takes the processes of a script, or those inside of one stage. `labels` has their names.
    pub fn new(
        sampler: &'a Sampler,
        inside: Option<usize>,
        label: &dyn Fn(usize) -> Option<String>,
        job: &Job,
    ) -> Processes<'a> {
        let population = &sampler.population;
        let (groups, pipes) = match inside {
            None => (&population.groups, &sampler.pipes),
            Some(_) => (&population.rows.groups, &population.rows.pipes),
        };
        let is_member = |at: &usize| inside.is_none_or(|stage| groups[*at].stage == stage);
        let members: Vec<usize> = (0..groups.len()).filter(is_member).collect();
        let place: HashMap<usize, usize> =
            members.iter().enumerate().map(|(place, at)| (*at, place)).collect();
        let labels: Vec<Option<String>> = members.iter().map(|at| label(*at)).collect();
        let mut numbers: HashMap<Descriptor, usize> = HashMap::new();
        let pids: HashSet<Pid> = members.iter().map(|at| groups[*at].root.pid).collect();
        let seen = members
            .iter()
            .zip(&labels)
            .map(|(at, label)| {
                let parent = groups[*at].parent.and_then(|parent| place.get(&parent).copied());
                let first = members.first().and_then(|first| groups[*first].root.output.as_ref());
                let own = seen(&groups[*at], parent, label.as_deref(), &mut numbers);
                // What goes where the run's own output goes is no file of its own.
                let has_own = groups[*at].root.output.as_ref() != first;
                let listens = own.listens || groups[*at].peers.waits_for_one_of(&pids);
                SeenProcess { output: own.output.filter(|_| has_own), listens, ..own }
            })
            .collect();
        let mut processes =
            Processes { groups, members, seen, labels, pipes, scripts: Scripts::default() };
        processes.scripts = processes.read_scripts(inside, job);
        processes
    }

    /// Whether there is nothing but the first process.
    pub fn are_none(&self) -> bool {
        self.members.len() < 2
    }

    fn group(&self, place: usize) -> &'a Group {
        &self.groups[self.members[place]]
    }

    /// Reads the scripts that the shells among the processes were given.
    fn read_scripts(&self, inside: Option<usize>, job: &Job) -> Scripts {
        let mut scripts = Scripts::default();
        let Some(read) = job.script_pipelines else { return scripts };
        if let Some(text) = job.text(inside.unwrap_or(0)).filter(|text| text.contains('\n')) {
            let (name, text, pipelines) = (String::new(), text.to_owned(), read(text));
            scripts.known.push(Script { name, path: None, text, pipelines });
        }
        let inline = scripts.known.len().checked_sub(1);
        let mut files: HashMap<PathBuf, Option<usize>> = HashMap::new();
        for (place, process) in self.seen.iter().enumerate() {
            let above = match process.parent.filter(|parent| *parent < place) {
                None => inline,
                // Only a copy of a shell continues with its script.
                Some(parent) => scripts.of[parent].filter(|_| self.is_copy(place, parent)),
            };
            let own = self.group(place).root.script.clone().map(|path| {
                *files.entry(path).or_insert_with_key(|path| {
                    let short = std::fs::metadata(path)
                        .is_ok_and(|file| file.is_file() && file.len() <= LONGEST_SCRIPT);
                    let text = short.then(|| std::fs::read_to_string(path).ok()).flatten()?;
                    let name = path.file_name()?.to_string_lossy().into_owned();
                    if ends_with_crlf(&text) {
                        scripts.crlf.push(name.clone());
                    }
                    let pipelines = read(&text);
                    let path = path.to_str().map(String::from);
                    scripts.known.push(Script { name, path, text, pipelines });
                    Some(scripts.known.len() - 1)
                })
            });
            scripts.of.push(own.unwrap_or(above));
        }
        scripts
    }

    /// Whether a process is a copy of the one that started it, and did not become another program.
    fn is_copy(&self, place: usize, parent: usize) -> bool {
        let (own, above) = (self.group(place), self.group(parent));
        // The shell that reads a script may have become its last command meanwhile.
        !own.root.command.is_empty()
            && (own.root.command == above.root.command || own.root.command == above.first.1)
    }

    /// Returns what is to be said of the scripts themselves.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let crlf = self.scripts.crlf.iter().map(|name| {
            format!("the lines of {name} end with CR LF; a shell takes the CR for a part of the last word")
        });
        let known = self.scripts.known.iter().enumerate();
        crlf.chain(known.filter_map(|(at, script)| {
            let any = script.pipelines.iter().find(|pipeline| pipeline.may_be_any())?;
            // One that took little of the time needs no note.
            let life_ns = |of: &SeenProcess| of.end_ns.saturating_sub(of.start_ns);
            let whole_ns = self.seen.first().map_or(0, life_ns);
            let reads = |of: &usize| self.scripts.of.get(*of) == Some(&Some(at));
            let longest_ns =
                (0..self.seen.len()).filter(reads).map(|of| life_ns(&self.seen[of])).max();
            let counts = longest_ns.is_some_and(|ns| ns >= whole_ns / LITTLE);
            let runs = counts && (0..self.seen.len()).any(|of| self.script_of(of) == Some(at));
            let name = if script.name.is_empty() { "the script" } else { &script.name };
            let because = "source, alias, eval or \"$@\" may run any of them";
            runs.then(|| {
                format!("commands of {name} have no lines here: on line {}, {because}", any.line)
            })
        }))
    }

    /// Returns the script for which a process works: that of the process that started it.
    fn script_of(&self, at: usize) -> Option<usize> {
        let parent = self.seen[at].parent.and_then(|parent| self.scripts.of.get(parent));
        parent.copied().flatten()
    }

    /// Puts them into classes: pipelines and commands, in the order of their starts.
    pub fn classes(&self, run: &Run) -> Vec<Class> {
        let pipelines: Vec<Vec<ScriptPipeline>> =
            self.scripts.known.iter().map(|script| script.pipelines.clone()).collect();
        let brief = |class: &Class| {
            let all = || class.rows.iter().flatten();
            let samples: u64 = all().map(|at| self.group(*at).samples.count()).sum();
            let found = all().all(|at| self.seen[*at].parent.is_some());
            found && (samples <= FEW_SAMPLES || class.alive_ns() < run.wall_ns / 100)
        };
        let script_of = |at: usize| self.script_of(at);
        let found = instances(&self.seen);
        classes(&self.seen, &found, &pipelines, &script_of, &brief)
    }

    /// Returns these classes as groups, each with its stages and pipes.
    pub fn groups(
        &self,
        classes: &[Class],
        run: &Run,
        sampler: &Sampler,
        limit_bytes: u64,
    ) -> Vec<FoundGroup> {
        let found =
            |class| self.found(class, self.is_sure(class, classes), (run, sampler), limit_bytes);
        classes.iter().map(found).collect()
    }

    /// Finds the commands that failed, and which of them ended the script. `text`: the text of the run,
    /// where it is one.
    pub fn failed(&self, classes: &[Class], run: &Run, text: Option<&str>) -> Vec<FailedCommand> {
        let with_lines = classes.iter().filter_map(|class| Some((class, class.line?)));
        let lines: HashMap<usize, (usize, usize)> = with_lines
            .flat_map(|(class, line)| class.rows.iter().flatten().map(move |at| (*at, line)))
            .collect();
        // Of one too brief to be looked at, or of its neighbours in a pipeline, no more than the
        // program is known.
        let brief = |at: usize| {
            let script = self.script_of(at)?;
            let (place, words) =
                only_of(&self.scripts.known[script].pipelines, &self.seen[at].program)?;
            Some(((script, place), words))
        };
        let line = |at: usize| lines.get(&at).copied().or_else(|| Some(brief(at)?.0));
        let text_of = |at: usize| match self.script_of(at) {
            Some(script) => self.scripts.known[script].text.as_str(),
            None => text.unwrap_or_default(),
        };
        let asks = |at: usize| match line(at) {
            Some((script, place)) => {
                let number = self.scripts.known[script].pipelines[place].line;
                let text = &self.scripts.known[script].text;
                text.lines().nth(number - 1).is_some_and(failures::asks)
            }
            None => text_of(at).lines().any(failures::asks),
        };
        // `bash -e x.sh`
        let told = |at: usize| {
            let mut words = self.group(at).root.command.split(' ');
            let is_shell = words.next().is_some_and(|word| is_posix_shell(file_name(word)));
            let mut options = words.take_while(|word| word.starts_with('-'));
            is_shell && options.any(|word| !word.starts_with("--") && word.contains('e'))
        };
        let above =
            |at: usize| std::iter::successors(self.seen[at].parent, |at| self.seen[*at].parent);
        let stops = |at: usize| failures::stops_at_failures(text_of(at)) || above(at).any(told);
        let end = ScriptEnd {
            ending: run.ending,
            stops: &stops,
            cleans_up: &|at| text_of(at).contains("trap "),
            asks: &asks,
        };
        let mut failed: Vec<FailedCommand> = Vec::new();
        // What a signal interrupted has not failed.
        if !run.signals.is_empty() {
            return failed;
        }
        for failure in failures::failures(&self.seen, &end) {
            let line = line(failure.process).map(|(script, place)| self.line(script, place));
            let unknown = Some(failure.process).filter(|at| !self.seen[*at].known);
            let words = unknown.and_then(|at| brief(at)?.1).map(str::to_owned);
            let command =
                words.or_else(|| self.labels[failure.process].clone()).unwrap_or_default();
            let same = |other: &&mut FailedCommand| {
                let same = (&other.line, other.ending, other.role)
                    == (&line, failure.ending, failure.role);
                same && (line.is_some() || other.command == command)
            };
            match failed.iter_mut().find(same) {
                Some(other) => other.times += 1,
                None => failed.push(FailedCommand {
                    answer: answer(&command, failure.ending),
                    command,
                    line,
                    ending: failure.ending,
                    times: 1,
                    role: failure.role,
                    reader: self.reader(classes, failure.process),
                }),
            }
        }
        failed
    }

    /// Returns what reads from a process, in a pipeline.
    fn reader(&self, classes: &[Class], at: usize) -> Option<String> {
        let row_of = |class: &Class| class.rows.iter().position(|row| row.contains(&at));
        let (class, row) = classes.iter().find_map(|class| Some((class, row_of(class)?)))?;
        let next = class.rows.get(row + 1)?;
        next.iter().find_map(|at| self.labels[*at].clone())
    }

    fn line(&self, script: usize, place: usize) -> Line {
        let script = &self.scripts.known[script];
        let (name, path) = (script.name.clone(), script.path.clone());
        Line { script: name, path, line: script.pipelines[place].line }
    }

    /// Whether the instances of a group are known one by one, if all processes are. Where some were
    /// put together of parts, no other group may have the same programs. Nor may another group be
    /// this one without a row, unless both are different lines of a script: an instance with a row
    /// that was taken for something else is such a group. A process of which no more than the
    /// program's name is known may have been another command of that program: only a group of
    /// nothing else, which has that name, is sure of it.
    fn is_sure(&self, class: &Class, all: &[Class]) -> bool {
        let of = |row: &[usize]| (&self.seen[row[0]].program, self.seen[row[0]].parent);
        let has = |class: &Class, row: &[usize]| class.rows.iter().any(|mine| of(mine) == of(row));
        let is_rival = |other: &&Class| other.rows.iter().any(|row| has(class, row));
        let is_blurred = |class: &Class| {
            class.joined || class.rows.iter().flatten().any(|at| !self.seen[*at].known)
        };
        let even = class.rows.windows(2).all(|pair| pair[0].len() == pair[1].len());
        let rivals: Vec<&Class> = all.iter().filter(is_rival).collect();
        let alone = rivals.len() == 1 || !rivals.iter().any(|class| is_blurred(class));
        let whole =
            !rivals.iter().any(|other| self.is_less(other, class) || self.is_less(class, other));
        let known = || class.rows.iter().flatten().map(|at| self.seen[*at].known);
        let by_name = class.rows.len() == 1 && !known().any(|known| known);
        let named = by_name || known().all(|known| known);
        named && alone && whole && (even || !class.joined)
    }

    /// Whether the programs of a group are those of another one with some left out.
    fn is_less(&self, less: &Class, more: &Class) -> bool {
        let program = |row: &[usize]| &self.seen[row[0]].program;
        let lines = less.line.is_some() && more.line.is_some();
        let has = |row: &Vec<usize>| more.rows.iter().any(|theirs| program(theirs) == program(row));
        !lines && less.rows.len() < more.rows.len() && less.rows.iter().all(has)
    }

    /// Returns how many jobs a build ran at once, if it is one.
    pub fn jobs(&self) -> Option<Jobs> {
        graph::jobs(&self.seen)
    }

    /// Returns the shape of the jobs that one process ran at once, if there is such.
    pub fn shape(&self) -> Option<Shape> {
        graph::shape(&self.seen)
    }

    /// Finds the processes that can send each other something.
    pub fn exchanges(&self, wall_ns: u64) -> Vec<Exchange> {
        let groups: Vec<&Group> = (0..self.members.len()).map(|place| self.group(place)).collect();
        let label = |place: usize| match &self.labels[place] {
            Some(label) => label.clone(),
            None => groups[place].root.command.clone(),
        };
        exchanges(&groups, wall_ns, &label)
    }

    /// Finds which processes were waited for one after the other.
    pub fn critical_path(&self, run: &Run) -> Option<CriticalPath> {
        let start_ns = self.seen.first()?.start_ns;
        let tick_ns = run.wall_ns / run.ticks.max(1);
        graph::critical_path(&self.seen, (start_ns, start_ns + run.wall_ns), tick_ns)
    }

    fn found(
        &self,
        class: &Class,
        sure: bool,
        (run, sampler): (&Run, &Sampler),
        limit_bytes: u64,
    ) -> FoundGroup {
        let (census, once) = (sampler.census(), sampler.seen_once());
        let is_traced = sampler.tracer.traced().is_some_and(|traced| traced.is_whole());
        let tick_ns = (!is_traced).then(|| run.wall_ns / run.ticks.max(1));
        let mut stages = Vec::new();
        for row in &class.rows {
            let groups: Vec<&Group> = row.iter().map(|at| self.group(*at)).collect();
            // Of those that were seen only briefly no more than the program's name is known.
            let known = row.iter().any(|at| self.seen[*at].known);
            let named = row.iter().filter(|at| !known || self.seen[**at].known);
            let names = named.filter_map(|at| self.labels[*at].as_deref());
            let mut stage: Stage = super::row::stage(&label(names), &groups, tick_ns);
            let mut births = Births::default();
            groups.iter().for_each(|group| births.merge(&group.births));
            let own = row.iter().find(|at| self.seen[**at].output.is_some());
            stage.output = own.and_then(|at| output_file(self.group(*at)));
            stage.lanes = groups.iter().filter_map(|group| group.lane).collect();
            stage.started = births.started(&stage.program, stage.wall_ns, &census, once);
            stages.push(stage);
        }
        if let ([row], [stage]) = (class.rows.as_slice(), stages.as_mut_slice())
            && let [at] = row.as_slice()
            && shell_of(self.group(*at)).is_none()
        {
            stage.times = self.without_children(*at, stage.times);
        }
        let members: HashSet<usize> = class.rows.iter().flatten().copied().collect();
        let is_member = |at: usize| members.contains(&at);
        let inner =
            |row: &Vec<usize>| row.iter().all(|at| self.seen[*at].parent.is_some_and(is_member));
        let tops = class.rows.iter().zip(&stages).filter(|(row, _)| !inner(row));
        let name = tops.map(|(_, stage)| stage.label.as_str()).collect::<Vec<_>>().join(" | ");
        let starts = |(at, process): (usize, &SeenProcess)| {
            !is_member(at) && process.parent.is_some_and(is_member)
        };
        let begun_ns = self.seen.first().map_or(0, |first| first.start_ns);
        let whole = class.whole();
        let since = |span: &WallSpan| WallSpan {
            start_ns: span.start_ns.saturating_sub(begun_ns),
            end_ns: span.end_ns.saturating_sub(begun_ns),
        };
        let spans: Vec<WallSpan> = class.spans.iter().map(since).collect();
        let lives = class.spans.iter().map(WallSpan::length_ns).collect();
        let line = class.line.map(|(script, at)| self.line(script, at));
        let alive_ns = class.alive_ns();
        let (instances, instances_evidence) = self.instances(class, sure, sampler);
        let all: Vec<usize> = class.rows.iter().flatten().copied().collect();
        let waited_cpu = self.waited_cpu(&is_member, class, sampler.has_all());
        let mut stage_run = run.part(alive_ns, stages, self.joints(class, limit_bytes));
        stage_run.settle_unseen_waits();
        FoundGroup {
            run: stage_run,
            name,
            starts_others: self.seen.iter().enumerate().any(starts),
            feeds: self.feeds(class),
            serves: [&class.rows[0], &all].into_iter().any(|some| graph::serve(&self.seen, some)),
            instances,
            instances_evidence,
            start_ns: whole.start_ns.saturating_sub(begun_ns),
            end_ns: whole.end_ns.saturating_sub(begun_ns),
            spans,
            spread: Spread::of(lives),
            line,
            waited_cpu,
            ..FoundGroup::default()
        }
    }

    /// Whether the last process of a group writes into a pipe that was made in this run: another group reads
    /// it. The shell that does so may have closed its end by the last look.
    fn feeds(&self, class: &Class) -> bool {
        // The first process of all may read it.
        let is_given = |pipe: &Descriptor| pipe_ends(self.group(0)).any(|it| it == (*pipe, true));
        let outputs = class.rows.last().into_iter().flatten();
        let mut outputs = outputs.filter_map(|at| self.group(*at).root.ends.output);
        outputs.any(|pipe| pipe.is_pipe() && !is_named(&pipe) && !is_given(&pipe))
    }

    /// Returns the times of a process without its waits while something ran that it had started: these
    /// were for that, whatever call they were in.
    fn without_children(&self, at: usize, times: Times) -> Times {
        let above = |at: &usize| self.seen[*at].parent.filter(|parent| parent < at);
        let below = |of: &usize| std::iter::successors(above(of), above).any(|above| above == at);
        let me = &self.seen[at];
        let mut spans: Vec<(u64, u64)> = (0..self.seen.len())
            .filter(below)
            .map(|of| (self.seen[of].start_ns, self.seen[of].end_ns.min(me.end_ns)))
            .collect();
        if spans.is_empty() {
            return times;
        }
        spans.sort_by_key(|span| *span);
        let (mut theirs_ns, mut until_ns) = (0, me.start_ns);
        for (start_ns, end_ns) in spans {
            theirs_ns += end_ns.saturating_sub(start_ns.max(until_ns));
            until_ns = until_ns.max(end_ns);
        }
        let alone_ns = me.end_ns.saturating_sub(me.start_ns).saturating_sub(theirs_ns);
        // What it did itself, it did then, as far as there was time.
        let kept_ns = alone_ns.saturating_sub(times.cpu_ns + times.queue_ns + times.disk_ns);
        let waits_ns = times.other_ns() - times.stage_child_ns;
        times.waits_for_children(waits_ns.saturating_sub(kept_ns))
    }

    /// Returns how often a group ran. The processes that were too brief to be seen are divided
    /// among the groups as those that were seen once: an instance is as likely as its processes.
    fn instances(&self, class: &Class, sure: bool, sampler: &Sampler) -> (u64, Evidence) {
        let seen = class.spans.len() as u64;
        let is_brief = |at: &usize| self.group(*at).is_brief();
        let once: usize =
            class.rows.iter().map(|row| row.iter().filter(|at| is_brief(at)).count()).sum();
        let (unseen, evidence) = sampler.unseen();
        match evidence {
            // Instances of which parts were found apart have more than one span.
            _ if sampler.has_all() => {
                let lengths = || class.rows.iter().map(Vec::len);
                let most = lengths().max().unwrap_or(0);
                let mut members = class.rows.iter().flatten();
                // What is known by its program's name alone may have been this command too.
                let named = !class.joined && members.all(|at| self.seen[*at].known);
                match sure && lengths().all(|length| length == most) {
                    true => (most as u64, Evidence::Exact),
                    false if named => (seen.min(most as u64), Evidence::LowerBound),
                    false => (seen.min(most as u64), Evidence::Estimated),
                }
            }
            // What nobody saw may be one more.
            _ if once == 0 && unseen == 0 => (seen, Evidence::Exact),
            Evidence::Estimated => {
                let more = unseen as f64 / sampler.seen_once().max(1) as f64;
                let of = |row: &Vec<usize>| {
                    let once = row.iter().filter(|at| is_brief(at)).count();
                    row.len() as f64 + more * once as f64
                };
                let mean = class.rows.iter().map(of).sum::<f64>() / class.rows.len().max(1) as f64;
                ((mean as u64).max(1), Evidence::Estimated)
            }
            other => (seen, other),
        }
    }

    /// Returns the CPU time of all that the shell of a group waited for, by its own account, if it
    /// started nothing else that was seen: that includes processes that were too brief to be seen, and
    /// the last moments of the others. What it started and nobody saw may be another command.
    fn waited_cpu(
        &self,
        is_member: &dyn Fn(usize) -> bool,
        class: &Class,
        has_all: bool,
    ) -> Option<WaitedCpu> {
        let parent = |at: usize| self.seen[at].parent;
        let mut shells = BTreeSet::new();
        let mut passed = BTreeSet::new();
        for mut shell in class.rows.iter().flatten().filter_map(|at| parent(*at)) {
            // A subshell, or another shell, whose account was not read at its end is a part of the
            // account of the shell that waited for it.
            let goes_on =
                |at: usize| is_member(at) || self.seen[at].waits && !self.group(at).root.waited.1;
            while let Some(above) = parent(shell).filter(|_| goes_on(shell)) {
                passed.insert(shell);
                shell = above;
            }
            shells.insert(shell);
        }
        let below = |at: usize| {
            let mut above = std::iter::successors(parent(at), |at| parent(*at));
            above.any(|above| shells.contains(&above))
        };
        let is_other = |at: usize| !is_member(at) && !passed.contains(&at) && below(at);
        let unknown = |at: &usize| is_member(*at) || !self.group(*at).root.waited.1;
        if shells.is_empty() || shells.iter().any(unknown) || (0..self.seen.len()).any(is_other) {
            return None;
        }
        // One below another would count twice.
        if shells.iter().any(|at| below(*at)) {
            return None;
        }
        let cpu_ns = shells.iter().map(|at| self.group(*at).root.waited.0).sum();
        let evidence = if has_all { Evidence::Exact } else { Evidence::UpperBound };
        Some(WaitedCpu { cpu_ns, evidence })
    }

    /// Finds the pipes that join the rows of a group.
    fn joints(&self, class: &Class, limit_bytes: u64) -> Vec<Pipe> {
        let mut ends: HashMap<Descriptor, (Option<usize>, Option<usize>)> = HashMap::new();
        for (position, row) in class.rows.iter().enumerate() {
            for group in row.iter().map(|at| self.group(*at)) {
                for (pipe, writes) in pipe_ends(group) {
                    let (from, to) = ends.entry(pipe).or_default();
                    (if writes { from } else { to }).get_or_insert(position);
                }
            }
        }
        let mut joints: BTreeMap<(usize, usize), PipeWatch> = BTreeMap::new();
        for watch in self.pipes {
            if let Some((Some(from), Some(to))) = ends.get(&watch.identity).copied()
                && from != to
            {
                let whole = joints
                    .entry((from, to))
                    .or_insert_with(|| PipeWatch::new(watch.identity, None));
                whole.totals.merge(&watch.totals);
            }
        }
        joints.iter().map(|((from, to), watch)| watch.record(*from, *to, limit_bytes)).collect()
    }
}

/// Returns the file that a process has as its standard output, and whether it is still there.
fn output_file(group: &Group) -> Option<OutputFile> {
    let path = group.root.output.clone()?;
    let is_gone = matches!(std::fs::exists(&path), Ok(false));
    Some(OutputFile { path, is_gone })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether most lines of a text end with CR LF.
fn ends_with_crlf(text: &str) -> bool {
    text.matches("\r\n").count() * 2 > text.matches('\n').count()
}

/// Returns the ends of pipes that a process has for its own work, each with whether it is written.
pub(super) fn pipe_ends(group: &Group) -> impl Iterator<Item = (Descriptor, bool)> {
    let main = [(group.root.ends.input, false), (group.root.ends.output, true)];
    let main = main.into_iter().filter_map(|(end, writes)| Some((end?, writes)));
    // A shell keeps ends for what it starts (`<(...)`) only until that has begun. What it keeps for
    // itself (`exec 3> >(...)`), or got from whoever started it, all that it starts has open too.
    let is_shell = shell_of(group).is_some();
    let more = group.more_ends.iter().filter(move |end| !is_shell && is_used(group, end));
    let more = more.map(|end| (end.pipe, end.writes));
    main.chain(more).filter(|(pipe, _)| pipe.is_pipe()).chain(socket_ends(group))
}

/// Whether a process may have an end for its own work: it was not left to it by the one that started
/// it, or it was told of it (`tee /dev/fd/63`).
fn is_used(group: &Group, end: &MoreEnd) -> bool {
    let path = format!("/fd/{}", end.fd);
    !end.shared || group.root.command.split(' ').any(|word| word.ends_with(&path))
}

/// The ends of socket pairs that a process has as its input or its output: some shells and run-time
/// systems join processes by these in place of pipes. Both ends are given one identity here. A single
/// socket that is both input and output belongs to a server.
fn socket_ends(group: &Group) -> impl Iterator<Item = (Descriptor, bool)> {
    let [input, output] = group.sockets;
    let sides = [(input, false), (output, true)];
    let pairs = sides.into_iter().filter_map(|(pair, writes)| Some((pair?, writes)));
    pairs.filter(move |_| input != output).map(|((own, far), writes)| {
        let (device, inode) = (0, own.min(far));
        (Descriptor { device, inode, kind: FileKind::Socket }, writes)
    })
}

/// The shell that a process is, also where it has the name of its script.
pub(super) fn shell_of(group: &Group) -> Option<&str> {
    let first = group.root.command.split(' ').next().unwrap_or_default();
    let names = [group.root.program.as_str(), file_name(first)];
    names.into_iter().find(|name| is_posix_shell(name))
}

fn seen(
    group: &Group,
    parent: Option<usize>,
    label: Option<&str>,
    numbers: &mut HashMap<Descriptor, usize>,
) -> SeenProcess {
    let mut ends = Vec::new();
    // What the first process began with, it has left to others before it took something else.
    let given = [(group.given.input, false), (group.given.output, true)].into_iter();
    let given = given.filter_map(|(end, writes)| Some((end.filter(Descriptor::is_pipe)?, writes)));
    for (pipe, writes) in pipe_ends(group).chain(given.filter(|_| parent.is_none())) {
        let next = numbers.len();
        let number = *numbers.entry(pipe).or_insert(next);
        let end = End { pipe: number, writes, named: pipe.is_pipe() && is_named(&pipe) };
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    let life_ns = group.last_ns.saturating_sub(group.first_ns);
    let input_ns = group.samples.divide_wall(life_ns).input_ns;
    let command = label.unwrap_or(&group.root.command).to_owned();
    // What it became at last did not run all that time, and is not an instance of that program.
    let (program, executed) = match group.root.before.as_deref() {
        None => {
            (shell_of(group).unwrap_or(&group.root.program).to_owned(), group.root.command.as_str())
        }
        Some(before) => {
            let first = before.split(' ').next().unwrap_or_default();
            let executed = if before.is_empty() { group.root.command.as_str() } else { before };
            (format!("{first}, at last {}", group.root.program), executed)
        }
    };
    SeenProcess {
        parent,
        program,
        command,
        executed: executed.to_owned(),
        known: !group.root.command.is_empty() || label.is_none(),
        margin_ns: group.margin_ns,
        start_ns: group.first_ns,
        end_ns: group.last_ns,
        ends,
        ends_doubtful: group.ends_doubtful,
        idle: input_ns > 0 && input_ns >= life_ns - life_ns / IDLE,
        waits: label.is_none(),
        listens: group.peers.waits_for_clients(),
        output: group.root.output.as_deref().map(|path| file_name(path).to_owned()),
        ending: group.root.ending,
    }
}

#[cfg(test)]
mod tests;
