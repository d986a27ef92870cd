//! A slab: items in one piece of memory, named by number.

/// The number that stands for no item.
pub const NONE: u32 = u32::MAX;

/// Items of one type. A removed item's memory is used again for the next one.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Bytes of memory for one item, including its number while it is free.
    pub const COST: usize = size_of::<T>() + size_of::<u32>();

    pub fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    /// Adds `item` and returns its number.
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.reuse() {
            self[id] = item;
            return id;
        }
        self.push(item)
    }

    /// Returns the number of a removed item, left as it was, if there is one.
    pub fn reuse(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Adds `item` in memory that was never used.
    pub fn push(&mut self, item: T) -> u32 {
        // No budget has memory for 2^32 items.
        let id = self.items.len() as u32;
        self.items.push(item);
        id
    }

    /// Removes the item with this number, which must be in the slab.
    pub fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.items[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.items[id as usize]
    }
}
