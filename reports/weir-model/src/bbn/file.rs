//! Reading and writing the blocks of a pipe's file: `readi` and `writei` of V6, step by step.

use super::cache::Got;
use super::{Bbn, Channels, PRIBIO};
use crate::kernel::{Step, Sys};

/// Bytes of a block.
pub const BLOCK: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileStep {
    Map,
    Get,
    Read(usize),
    Ahead(usize),
    AheadGet(usize, u64),
    Loaded(usize),
    Copied(usize),
    Next,
}

/// A transfer between a process and the file.
#[derive(Clone, Debug)]
pub struct FileIo {
    file: usize,
    writes: bool,
    offset: usize,
    left: usize,
    stage: FileStep,
}

impl FileIo {
    /// Begins a transfer.
    pub fn new(file: usize, writes: bool, offset: usize, bytes: usize) -> FileIo {
        FileIo { file, writes, offset, left: bytes, stage: FileStep::Map }
    }

    fn part(&self) -> usize {
        (BLOCK - self.offset % BLOCK).min(self.left)
    }

    /// Returns the next step; none when all is done.
    pub fn step(&mut self, sys: &mut Sys<Bbn>) -> Option<Step> {
        let costs = sys.world.costs;
        loop {
            let logical = self.offset / BLOCK;
            match self.stage {
                FileStep::Map => {
                    if self.left == 0 {
                        return None;
                    }
                    self.stage = FileStep::Get;
                    return Some(Step::Kernel(costs.block_ns));
                }
                FileStep::Get => {
                    let block = sys.world.pipes[self.file].blocks[logical];
                    match self.get(sys, block) {
                        Err(step) => return Some(step),
                        Ok(buffer) => self.stage = self.loaded(sys, buffer),
                    }
                }
                FileStep::Read(buffer) => {
                    // The read was started; read ahead, then wait for it.
                    self.stage = FileStep::Ahead(buffer);
                    return Some(Step::Kernel(costs.disk_ns));
                }
                FileStep::Ahead(buffer) => match self.ahead(sys, logical) {
                    Some(block) => self.stage = FileStep::AheadGet(buffer, block),
                    None => self.stage = FileStep::Loaded(buffer),
                },
                FileStep::AheadGet(buffer, block) => match self.get(sys, block) {
                    Err(step) => return Some(step),
                    Ok(other) => {
                        self.stage = FileStep::Loaded(buffer);
                        if sys.world.cache.buffers[other].done {
                            sys.release(other);
                        } else {
                            sys.start(other, false, true);
                            return Some(Step::Kernel(costs.disk_ns));
                        }
                    }
                },
                FileStep::Loaded(buffer) => {
                    if !sys.world.cache.buffers[buffer].done {
                        return Some(Step::Sleep(Channels::buffer(buffer), PRIBIO));
                    }
                    self.stage = FileStep::Copied(buffer);
                    return Some(Step::Kernel(costs.byte_ns * self.part() as u64));
                }
                FileStep::Copied(buffer) => return Some(self.copied(sys, buffer, logical)),
                FileStep::Next => {
                    self.stage = FileStep::Map;
                }
            }
        }
    }

    fn get(&mut self, sys: &mut Sys<Bbn>, block: u64) -> Result<usize, Step> {
        match sys.world.cache.get(block) {
            Got::Buffer(buffer) => Ok(buffer),
            Got::Busy(buffer) => Err(Step::Sleep(Channels::buffer(buffer), PRIBIO)),
            Got::NoneFree => Err(Step::Sleep(Channels::FREE, PRIBIO)),
            Got::Write(buffer) => {
                sys.start(buffer, true, true);
                Err(Step::Kernel(sys.world.costs.disk_ns))
            }
        }
    }

    /// Says what follows once the process has its buffer.
    fn loaded(&mut self, sys: &mut Sys<Bbn>, buffer: usize) -> FileStep {
        let fresh = sys.world.rules.detach && self.offset.is_multiple_of(BLOCK);
        let of = &mut sys.world.cache.buffers[buffer];
        if self.writes && (self.part() == BLOCK || fresh) {
            of.done = true;
        }
        if of.done {
            return if self.writes { FileStep::Loaded(buffer) } else { FileStep::Ahead(buffer) };
        }
        sys.start(buffer, false, false);
        if self.writes { FileStep::Loaded(buffer) } else { FileStep::Read(buffer) }
    }

    /// `breada`: the block to read ahead, if the file is read in order and it is not in core. Block 0
    /// is always in order, as it is for a file that was just opened.
    fn ahead(&self, sys: &Sys<Bbn>, logical: usize) -> Option<u64> {
        let pipe = &sys.world.pipes[self.file];
        let in_order = logical == 0 || pipe.last_read.is_some_and(|last| last + 1 == logical);
        let next = logical + 1;
        let block = (in_order && next < pipe.allocated).then(|| pipe.blocks[next])?;
        sys.world.cache.find(block).is_none().then_some(block)
    }

    fn copied(&mut self, sys: &mut Sys<Bbn>, buffer: usize, logical: usize) -> Step {
        let part = self.part();
        self.offset += part;
        self.left -= part;
        self.stage = FileStep::Next;
        let costs = sys.world.costs;
        if !self.writes {
            sys.world.pipes[self.file].last_read = Some(logical);
            sys.release(buffer);
            return Step::Kernel(0);
        }
        let pipe = &mut sys.world.pipes[self.file];
        pipe.allocated = pipe.allocated.max(logical + 1);
        pipe.size = pipe.size.max(self.offset);
        if self.offset.is_multiple_of(BLOCK) && (!sys.world.rules.delay || pipe.plain) {
            sys.start(buffer, true, true);
            return Step::Kernel(costs.disk_ns);
        }
        sys.world.cache.buffers[buffer].dirty = true;
        sys.release(buffer);
        Step::Kernel(0)
    }
}
