//! A disk with one arm: a queue in the order of arrival, seeks, rotation and transfers.

use std::collections::VecDeque;

/// The constants of a disk.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Sectors of 512 bytes in a cylinder, on all tracks together.
    pub sectors_per_cylinder: u64,
    /// Sectors of 512 bytes on a track.
    pub sectors_per_track: u64,
    /// A seek to the next cylinder, in milliseconds.
    pub seek_track_ms: f64,
    /// The average seek.
    pub seek_average_ms: f64,
    /// A seek from end to end.
    pub seek_full_ms: f64,
    /// The cylinders.
    pub cylinders: u64,
}

/// A request of one sector's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The block of 512 bytes.
    pub block: u64,
    /// What the one who asked knows it by.
    pub tag: usize,
    /// Whether it is written.
    pub writes: bool,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    geometry: Geometry,
    queue: VecDeque<Request>,
    cylinder: u64,
    /// Blocks read and written.
    pub done: (u64, u64),
    /// Time in which the disk was busy.
    pub busy_ns: u64,
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

impl Disk {
    /// Makes a disk whose arm is at the first cylinder.
    pub fn new(geometry: &Geometry) -> Disk {
        Disk {
            geometry: geometry.clone(),
            queue: VecDeque::new(),
            cylinder: 0,
            done: (0, 0),
            busy_ns: 0,
        }
    }

    /// Puts a request into the queue. Returns how long it takes if the disk was at rest.
    pub fn ask(&mut self, now_ns: u64, request: Request) -> Option<u64> {
        self.queue.push_back(request);
        (self.queue.len() == 1).then(|| self.begin(now_ns))
    }

    /// Ends the request under way. Returns it, and how long the next one takes, if there is one.
    pub fn end(&mut self, now_ns: u64) -> (Option<Request>, Option<u64>) {
        let ended = self.queue.pop_front();
        if let Some(request) = ended {
            *if request.writes { &mut self.done.1 } else { &mut self.done.0 } += 1;
        }
        let next_ns = (!self.queue.is_empty()).then(|| self.begin(now_ns));
        (ended, next_ns)
    }

    /// Returns the requests that wait or are under way.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn begin(&mut self, now_ns: u64) -> u64 {
        let Some(request) = self.queue.front() else { return 0 };
        let of = &self.geometry;
        let cylinder = request.block / of.sectors_per_cylinder;
        let seek_ns = self.seek_ns(cylinder.abs_diff(self.cylinder));
        let turn_ns = 60e9 / of.rpm;
        let sector_ns = (turn_ns / of.sectors_per_track as f64).round() as u64;
        let turn_ns = turn_ns.round() as u64;
        // The sector under the head when the arm has come to rest.
        let at_ns = (now_ns + seek_ns) % turn_ns;
        let wanted_ns = request.block % of.sectors_per_track * sector_ns;
        let rotation_ns = (wanted_ns + turn_ns - at_ns) % turn_ns;
        self.cylinder = cylinder;
        let whole_ns = seek_ns + rotation_ns + sector_ns;
        self.busy_ns += whole_ns;
        whole_ns
    }

    /// A seek over so many cylinders: straight lines through the three published figures, the average
    /// at a third of the way.
    fn seek_ns(&self, cylinders: u64) -> u64 {
        let of = &self.geometry;
        let (far, third) = (cylinders as f64, of.cylinders as f64 / 3.0);
        ns(match cylinders {
            0 => 0.0,
            _ if far <= third => {
                let slope = (of.seek_average_ms - of.seek_track_ms) / (third - 1.0);
                of.seek_track_ms + slope * (far - 1.0)
            }
            _ => {
                let slope = (of.seek_full_ms - of.seek_average_ms) / (2.0 * third);
                of.seek_average_ms + slope * (far - third)
            }
        })
    }
}
