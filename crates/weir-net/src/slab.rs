//! Things that come and go, kept in one piece of memory and named by number.

/// No number of anything.
pub const NONE: u32 = u32::MAX;

/// Things of one type. The memory of one that went is used again for the next that comes.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Memory of one, and of its number while it is free.
    pub const COST: usize = size_of::<T>() + size_of::<u32>();

    pub fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    /// Puts `item` in, and says its number.
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.reuse() {
            self[id] = item;
            return id;
        }
        self.push(item)
    }

    /// The number of one that was removed, as it was left, if there is one.
    pub fn reuse(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Puts `item` where none was before.
    pub fn push(&mut self, item: T) -> u32 {
        // 2^32 of them are beyond the memory of any budget.
        let id = self.items.len() as u32;
        self.items.push(item);
        id
    }

    /// Takes it out. It must be in.
    pub fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// How many there are.
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
