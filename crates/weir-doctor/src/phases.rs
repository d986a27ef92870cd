//! The phases of a run: it is cut where the stage that holds it up changes.
//!
//! The sampler adds what each stage did between two looks to a [`Timeline`], which keeps a bounded
//! number of slices of the run. [`Timeline::phases`] then chooses who held the run up in each slice,
//! so that the time in which the chosen stages did work of their own is longest, less a price for
//! each change. So a change has to pay: the new stage must have worked for longer than the old one,
//! over the time from there on, by a twentieth of the run. A phase between two others pays for
//! two changes. Shorter turns of the stages, as pipes fill and drain, are not phases.
//!
//! Work of its own is time on a CPU and any wait but those for neighbours and for a CPU. In slices
//! in which hardly any stage was busy, nobody held the run up: it waited for its input or output.

use crate::facts::{Holder, Phase};
use crate::load::MARGIN;
use alloc::vec;
use alloc::vec::Vec;

/// What a change of phases costs, as a share of the run.
const CHANGE_SHARE: f64 = 0.05;
/// What it costs at least: fewer samples show nothing.
const CHANGE_NS: u64 = 50_000_000;
/// A stage that is busy for less than this share of a phase is not at work in it.
const AT_WORK: f64 = 0.10;
/// Most slices that are kept. Beyond that, neighbours are merged.
const MOST_SLICES: usize = 256;
/// Length of the first slices.
const SLICE_NS: u64 = 5_000_000;

/// What one stage did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time on a CPU, and blocked on anything but its neighbours.
    pub own_ns: u64,
    /// Time waiting for a CPU.
    pub queue_ns: u64,
    /// Part of `own_ns` in which it may only have waited for input, without blocking.
    pub dry_own_ns: u64,
    /// That part of `queue_ns`.
    pub dry_queue_ns: u64,
}

/// What the stages of a run did, slice by slice.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    slices: Vec<Slice>,
    /// Length up to which a slice grows.
    length_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Slice {
    end_ns: u64,
    /// Time that the looks represent.
    weight_ns: u64,
    /// Part of it in which no stage was busy.
    idle_ns: u64,
    spent: Vec<Spent>,
}

impl Timeline {
    /// Adds what the stages did in the `weight_ns` before `now_ns`.
    pub fn add(&mut self, now_ns: u64, weight_ns: u64, spent: &[Spent]) {
        self.length_ns = self.length_ns.max(SLICE_NS);
        let busiest_ns = spent.iter().map(|one| one.own_ns + one.queue_ns).max().unwrap_or(0);
        let idle_ns = weight_ns.saturating_sub(busiest_ns);
        let look = Slice { end_ns: now_ns, weight_ns, idle_ns, spent: spent.to_vec() };
        match self.slices.last_mut().filter(|last| last.weight_ns < self.length_ns) {
            Some(last) => last.join(&look),
            None => self.slices.push(look),
        }
        if self.slices.len() > MOST_SLICES {
            self.length_ns *= 2;
            let pairs = self.slices.chunks(2).map(|pair| {
                let mut slice = pair[0].clone();
                pair[1..].iter().for_each(|next| slice.join(next));
                slice
            });
            self.slices = pairs.collect();
        }
    }

    /// Returns it without what these stages did while they only waited for input.
    pub fn without_dry(&self, polls: &dyn Fn(usize) -> bool) -> Timeline {
        let mut timeline = self.clone();
        for slice in &mut timeline.slices {
            for (_, spent) in slice.spent.iter_mut().enumerate().filter(|(at, _)| polls(*at)) {
                spent.own_ns -= spent.dry_own_ns;
                spent.queue_ns -= spent.dry_queue_ns;
                let others_ns = spent.dry_own_ns + spent.dry_queue_ns;
                slice.idle_ns = slice.idle_ns.max(others_ns);
            }
            let busiest_ns = slice.spent.iter().map(|one| one.own_ns + one.queue_ns).max();
            let free_ns = slice.weight_ns.saturating_sub(busiest_ns.unwrap_or(0));
            slice.idle_ns = slice.idle_ns.min(free_ns);
        }
        timeline
    }

    /// Cuts a run of this length into phases; none if it was never looked at. Relays hold nothing
    /// up.
    pub fn phases(&self, wall_ns: u64, is_relay: &dyn Fn(usize) -> bool) -> Vec<Phase> {
        let stages = self.slices.iter().map(|slice| slice.spent.len()).max().unwrap_or(0);
        let mut who: Vec<usize> = (0..stages).filter(|stage| !is_relay(*stage)).collect();
        if self.slices.is_empty() || who.is_empty() {
            return Vec::new();
        }
        // Behind the last stage: nobody.
        who.push(stages);
        let held = self.holders(&who);
        let mut phases: Vec<Phase> = Vec::new();
        let mut from = 0;
        for to in 1..=held.len() {
            if to < held.len() && held[to] == held[from] {
                continue;
            }
            let start_ns = phases.last().map_or(0, |phase| phase.end_ns);
            let end_ns = self.slices[to - 1].end_ns.clamp(start_ns, wall_ns.max(start_ns));
            let end_ns = if to == held.len() { wall_ns.max(start_ns) } else { end_ns };
            let holder = holder(&self.slices[from..to], held[from], &who);
            match phases.last_mut().filter(|last| last.holder.is_same(&holder)) {
                // Two that are equally busy: which of them was chosen means nothing.
                Some(last) => last.end_ns = end_ns,
                None => phases.push(Phase { start_ns, end_ns, holder }),
            }
            from = to;
        }
        phases
    }

    /// Chooses who of `who` held the run up in each slice.
    fn holders(&self, who: &[usize]) -> Vec<usize> {
        let weight_ns: u64 = self.slices.iter().map(|slice| slice.weight_ns).sum();
        let price = (weight_ns as f64 * CHANGE_SHARE).max(CHANGE_NS as f64);
        let mut best = vec![0.0; who.len()];
        // For each slice and stage: who held the run up in the slice before.
        let mut before = Vec::with_capacity(self.slices.len());
        for slice in &self.slices {
            let top = position_of_max(&best);
            let stays = |at: usize| best[at] >= best[top] - price;
            before.push((0..who.len()).map(|at| if stays(at) { at } else { top }).collect());
            best = (0..who.len())
                .map(|at| best[at].max(best[top] - price) + slice.own_ns(who[at]) as f64)
                .collect();
        }
        let mut at = position_of_max(&best);
        let mut held = Vec::with_capacity(self.slices.len());
        for from in before.iter().rev() {
            held.push(who[at]);
            let from: &Vec<usize> = from;
            at = from[at];
        }
        held.reverse();
        held
    }
}

impl Slice {
    fn join(&mut self, next: &Slice) {
        self.end_ns = next.end_ns;
        self.weight_ns += next.weight_ns;
        self.idle_ns += next.idle_ns;
        let stages = self.spent.len().max(next.spent.len());
        self.spent.resize(stages, Spent::default());
        for (mine, other) in self.spent.iter_mut().zip(&next.spent) {
            mine.own_ns += other.own_ns;
            mine.queue_ns += other.queue_ns;
            mine.dry_own_ns += other.dry_own_ns;
            mine.dry_queue_ns += other.dry_queue_ns;
        }
    }

    /// Returns the time of a stage's own work; for nobody, behind the last stage, that in which no
    /// stage was busy.
    fn own_ns(&self, stage: usize) -> u64 {
        self.spent.get(stage).map_or(self.idle_ns, |spent| spent.own_ns)
    }
}

impl Holder {
    /// Returns it with other positions of the stages.
    pub fn at(self, place: &dyn Fn(usize) -> usize) -> Holder {
        match self {
            Holder::Stage { stage, busy, alone } => {
                Holder::Stage { stage: place(stage), busy, alone }
            }
            Holder::Two(two) => Holder::Two(two.map(place)),
            Holder::Nobody => Holder::Nobody,
        }
    }

    /// Whether two phases in a row are one.
    fn is_same(&self, other: &Holder) -> bool {
        match (self, other) {
            (Holder::Stage { stage, .. }, Holder::Stage { stage: other, .. }) => stage == other,
            _ => self == other,
        }
    }
}

/// Returns who held the run up in these slices, where `chosen` had most work of its own.
fn holder(slices: &[Slice], chosen: usize, who: &[usize]) -> Holder {
    let mut all = Slice::default();
    slices.iter().for_each(|slice| all.join(slice));
    let share = |ns: u64| ns as f64 / all.weight_ns.max(1) as f64;
    let Some(spent) = all.spent.get(chosen) else { return Holder::Nobody };
    let busy = |stage: usize| {
        all.spent.get(stage).map_or(0.0, |spent| share(spent.own_ns + spent.queue_ns).min(1.0))
    };
    let others = || who.iter().copied().filter(|stage| *stage != chosen);
    let own = share(spent.own_ns);
    let works = |stage: &usize| all.spent.get(*stage).map_or(0.0, |spent| share(spent.own_ns));
    let second = others().max_by(|one, other| works(one).total_cmp(&works(other)));
    match second.filter(|second| works(second) > 0.0 && own - works(second) < MARGIN) {
        Some(second) => Holder::Two([chosen.min(second), chosen.max(second)]),
        None => Holder::Stage {
            stage: chosen,
            busy: busy(chosen),
            alone: others().all(|stage| busy(stage) < AT_WORK),
        },
    }
}

/// Returns the first of the largest values.
fn position_of_max(values: &[f64]) -> usize {
    let larger = |best: usize, at: usize| if values[at] > values[best] { at } else { best };
    (0..values.len()).fold(0, larger)
}

/// Returns for how long each stage held the run up by itself, the longest first, where several
/// phases show that no pair of stages, and nobody, did so for longer.
pub fn by_time(phases: &[Phase]) -> Vec<(usize, u64)> {
    let mut held: Vec<(usize, u64)> = Vec::new();
    let mut shared_ns = 0;
    for phase in phases {
        let Holder::Stage { stage, .. } = phase.holder else {
            shared_ns += phase.length_ns();
            continue;
        };
        match held.iter_mut().find(|(other, _)| *other == stage) {
            Some((_, ns)) => *ns += phase.length_ns(),
            None => held.push((stage, phase.length_ns())),
        }
    }
    held.sort_by_key(|(_, ns)| core::cmp::Reverse(*ns));
    let longest_ns = held.first().map_or(0, |(_, ns)| *ns);
    if phases.len() < 2 || shared_ns >= longest_ns { Vec::new() } else { held }
}

#[cfg(test)]
mod tests;
