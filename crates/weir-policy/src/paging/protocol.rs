//! What a region's driver and its policy tell each other.

/// The most pages that come in or are written together.
pub const MOST_CLUSTER: u32 = 32;
/// The fewest frames of a region.
pub const LEAST_FRAMES: u32 = 8;

/// The rule that chooses which page goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageReplacement {
    /// The next page around that was not touched since the last time around.
    #[default]
    Clock,
    /// The next page around.
    Fifo,
    /// Any page.
    Random,
}

impl PageReplacement {
    /// All rules.
    pub const ALL: [PageReplacement; 3] =
        [PageReplacement::Clock, PageReplacement::Fifo, PageReplacement::Random];
}

/// The order in which pages will be touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Unknown: the size of clusters follows what is used.
    #[default]
    Normal,
    /// Upwards: the largest clusters come in, from the page on, and those left behind go first.
    Sequential,
    /// No order: pages come in alone.
    Random,
}

/// Settings of a region.
#[derive(Clone, Copy, Debug)]
pub struct PagingSettings {
    /// Pages of the region.
    pub pages: u32,
    /// Pages that may be in memory at a time.
    pub frames: u32,
    /// The most pages of a cluster: a power of two up to [`MOST_CLUSTER`].
    pub most_cluster: u32,
    /// Which page goes.
    pub replacement: PageReplacement,
    /// Touches are seen by faults only. The driver looks ([`PagingAction::Look`]) which pages are
    /// dirty before they go, and one page of a cluster stands for the others.
    pub looks: bool,
    /// The file has bytes for all pages from the beginning.
    pub starts_filed: bool,
}

impl PagingSettings {
    /// The settings within their bounds: a cluster takes at most a quarter of the frames.
    pub(super) fn bounded(self) -> PagingSettings {
        let frames = self.frames.max(LEAST_FRAMES);
        let most = self.most_cluster.clamp(1, MOST_CLUSTER).min(frames / 4);
        PagingSettings { frames, most_cluster: 1 << most.ilog2(), ..self }
    }
}

/// Pages in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Run {
    pub(super) const NONE: Run = Run { first: 0, count: 0 };

    /// The pages.
    pub fn pages(&self) -> core::ops::Range<u32> {
        self.first..self.first + self.count
    }

    /// At most `most` pages of it, with `page` among them: from the page on if they do for that.
    pub(super) fn around(self, page: u32, most: u32) -> Run {
        let count = self.count.min(most);
        Run { first: page.min(self.first + self.count - count), count }
            .at_least(self.first, self.count <= most)
    }

    fn at_least(self, first: u32, whole: bool) -> Run {
        if whole { Run { first, ..self } } else { self }
    }
}

/// Where a page is that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// In memory.
    Here,
    /// On its way.
    Coming,
    /// Not in memory: [`super::PagingPolicy::bring`] it in.
    Absent,
}

/// What the driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingAction {
    /// Fill memory from the file; [`super::PagingPolicy::came`] says when it is done.
    Read(Run),
    /// Make memory of zeros; then call [`super::PagingPolicy::came`].
    Zero(Run),
    /// Let touches of these pages fault again, see which of them were written, and call
    /// [`super::PagingPolicy::looked`].
    Look(Run),
    /// Write memory to the file; [`super::PagingPolicy::written`] says when it is done.
    Write(Run),
    /// Give the memory of these pages back to the machine, at once.
    Drop(Run),
}

/// Counts of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingCounts {
    /// Faults on pages that were not in memory.
    pub hard: u64,
    /// Faults that the region would not have had with all the memory that it could reach
    /// ([`super::PagingPolicy::set_reach`]).
    pub again: u64,
    /// Touches of pages that were on their way out, and stay.
    pub reclaimed: u64,
    /// Pages read from the file.
    pub read: u64,
    /// Pages written to the file.
    pub written: u64,
    /// Reads of the file.
    pub reads: u64,
    /// Writes of the file.
    pub writes: u64,
    /// Pages that came in unasked.
    pub unasked: u64,
    /// Unasked pages that were seen to be used.
    pub used: u64,
    /// Unasked pages whose use can be seen.
    pub seen: u64,
}
