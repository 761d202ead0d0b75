//! Rows of whole numbers in as few bytes as they need: what is kept of each of very many instructions.
//!
//! Rows are written at the end and read anywhere. The last ones lie as they came; those before are sealed in chunks, each
//! number as what it is above the least of its column there, in as many whole bytes as the largest of those needs. What is
//! near its neighbours, or always the same, takes a byte or none.

use serde::{Serialize, Serializer};
use smallvec::SmallVec;

/// What can be kept so: a row is some numbers, and comes back from them as it was.
pub trait PackedRow: Copy {
    /// As many numbers as a row has.
    type Words: AsRef<[u64]> + AsMut<[u64]> + Copy + Default;

    /// The row as numbers; `place` is its own among all rows.
    fn words(&self, place: u64) -> Self::Words;

    /// The row of such numbers.
    fn of_words(words: Self::Words, place: u64) -> Self;
}

/// Rows of a chunk **(choice)**.
const CHUNK: usize = 512;

/// A number as one that is small where its distance from zero is, whatever its sign.
pub(crate) fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// What [`zigzag`] was given.
pub(crate) fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// How the numbers of a column of a chunk are written.
#[derive(Clone, Copy, Debug)]
struct Coding {
    /// The least of them.
    least: u64,
    /// The bits of what is above it.
    mask: u64,
    /// Bytes of that.
    width: usize,
}

#[derive(Clone, Debug)]
struct Chunk {
    columns: Box<[Coding]>,
    /// Bytes of a row.
    pitch: usize,
    /// Row by row, and as many bytes more as reading a whole number at the end needs.
    bytes: Box<[u8]>,
}

const WORD: usize = size_of::<u64>();

impl Chunk {
    fn seal<R: PackedRow>(rows: &[R], first: usize) -> Self {
        let mut least = rows.first().map(|row| row.words(first as u64)).unwrap_or_default();
        let mut most = R::Words::default();
        for (place, row) in (first as u64..).zip(rows) {
            let words = row.words(place);
            let (words, least, most) = (words.as_ref(), least.as_mut(), most.as_mut());
            for column in 0..words.len().min(least.len()).min(most.len()) {
                least[column] = least[column].min(words[column]);
                most[column] = most[column].max(words[column]);
            }
        }
        let coding = |(&least, &most): (&u64, &u64)| {
            let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8);
            let mask = u64::MAX.checked_shr(u64::BITS - 8 * width).unwrap_or(0);
            Coding { least, mask, width: width as usize }
        };
        let columns: Box<[Coding]> = least.as_ref().iter().zip(most.as_ref()).map(coding).collect();
        let pitch = columns.iter().map(|column| column.width).sum();
        let mut bytes = vec![0; rows.len() * pitch + WORD];
        // Columns that are the same everywhere have no bytes: nothing is written for them.
        let written: SmallVec<[(usize, Coding); 24]> =
            columns.iter().copied().enumerate().filter(|(_, column)| column.width > 0).collect();
        let mut at = 0;
        // What a row's numbers are is cheaper to find twice than to keep for a chunk.
        for (place, row) in (first as u64..).zip(rows) {
            let words = row.words(place);
            let words = words.as_ref();
            for &(number, column) in &written {
                // What a number does not need of a whole one is zero, and the next one's.
                if let Some(place) = bytes[at..].first_chunk_mut::<WORD>() {
                    *place = (words[number] - column.least).to_le_bytes();
                }
                at += column.width;
            }
        }
        Self { columns, pitch, bytes: bytes.into() }
    }

    #[inline]
    fn row<R: PackedRow>(&self, place: usize, within: usize) -> R {
        let mut words = R::Words::default();
        let mut at = within * self.pitch;
        for (word, column) in words.as_mut().iter_mut().zip(&self.columns) {
            let number = self.bytes[at..].first_chunk::<WORD>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            *word = column.least + (number & column.mask);
            at += column.width;
        }
        R::of_words(words, place as u64)
    }

    /// Writes another row in the place of one, if its numbers take no more bytes than their columns have.
    fn put<R: PackedRow>(&mut self, row: &R, place: usize, within: usize) -> bool {
        let words = row.words(place as u64);
        let fits =
            |(word, column): (&u64, &Coding)| word.checked_sub(column.least).is_some_and(|above| above <= column.mask);
        if !words.as_ref().iter().zip(&self.columns).all(fits) {
            return false;
        }
        let mut at = within * self.pitch;
        for (word, column) in words.as_ref().iter().zip(&self.columns) {
            let above = (word - column.least).to_le_bytes();
            self.bytes[at..at + column.width].copy_from_slice(&above[..column.width]);
            at += column.width;
        }
        true
    }

    fn kept_bytes(&self) -> usize {
        size_of_val(&*self.columns) + self.bytes.len()
    }
}

/// Rows, in the order in which they came.
///
/// ```
/// use trn3_machine::packed::{PackedRow, PackedRows};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Moment(u64);
///
/// impl PackedRow for Moment {
///     type Words = [u64; 1];
///     fn words(&self, _: u64) -> [u64; 1] {
///         [self.0]
///     }
///     fn of_words([moment]: [u64; 1], _: u64) -> Self {
///         Self(moment)
///     }
/// }
///
/// let rows: PackedRows<Moment> = (0..100_000).map(|number| Moment(7_000_000_000 + 3 * number)).collect();
/// assert_eq!(rows.get(70_000), Some(Moment(7_000_210_000)));
/// assert!(rows.kept_bytes() < 3 * rows.len());
/// ```
#[derive(Clone, Debug)]
pub struct PackedRows<R> {
    sealed: Vec<Chunk>,
    /// Rows that lie as they came: whole chunks, or all there are.
    older: Vec<R>,
    /// Those after them, a chunk at most: most of what is looked at again came just before.
    newer: Vec<R>,
}

impl<R> Default for PackedRows<R> {
    fn default() -> Self {
        Self { sealed: Vec::new(), older: Vec::new(), newer: Vec::new() }
    }
}

impl<R: PackedRow> PackedRows<R> {
    /// The place of the first row that lies as it came.
    #[inline]
    fn first_open(&self) -> usize {
        self.sealed.len() * CHUNK
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.first_open() + self.older.len() + self.newer.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row at the end.
    #[inline]
    pub fn push(&mut self, row: R) {
        if self.older.len() < CHUNK {
            return self.older.push(row);
        }
        if self.newer.len() >= CHUNK {
            self.seal_older();
        }
        self.newer.push(row);
    }

    fn seal_older(&mut self) {
        for rows in self.older.chunks(CHUNK) {
            self.sealed.push(Chunk::seal(rows, self.sealed.len() * CHUNK));
        }
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.clear();
    }

    #[inline]
    fn open(&self, place: usize) -> Option<&R> {
        match place.checked_sub(self.older.len()) {
            Some(place) => self.newer.get(place),
            None => self.older.get(place),
        }
    }

    fn open_mut(&mut self, place: usize) -> Option<&mut R> {
        match place.checked_sub(self.older.len()) {
            Some(place) => self.newer.get_mut(place),
            None => self.older.get_mut(place),
        }
    }

    /// The row at a place.
    #[inline]
    pub fn get(&self, place: usize) -> Option<R> {
        match place.checked_sub(self.first_open()) {
            Some(place) => self.open(place).copied(),
            None => Some(self.sealed[place / CHUNK].row(place, place % CHUNK)),
        }
    }

    /// The row at a place.
    ///
    /// # Panics
    /// Where there is none.
    #[inline]
    pub fn at(&self, place: usize) -> R {
        match place.checked_sub(self.first_open()) {
            Some(place) if place < self.older.len() => self.older[place],
            Some(place) => self.newer[place - self.older.len()],
            None => self.sealed[place / CHUNK].row(place, place % CHUNK),
        }
    }

    /// The first row.
    pub fn first(&self) -> Option<R> {
        self.get(0)
    }

    /// The last row.
    pub fn last(&self) -> Option<R> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    /// The rows, in their order.
    pub fn iter(&self) -> PackedIter<'_, R> {
        self.range(0..self.len())
    }

    /// The rows of some places, in their order.
    ///
    /// # Panics
    /// If the iterator comes to a place where there is none.
    #[inline]
    pub fn range(&self, places: std::ops::Range<usize>) -> PackedIter<'_, R> {
        PackedIter { rows: self, places }
    }

    /// How many rows at the start a predicate holds for, which holds for none after one that it does not hold for.
    pub fn partition_point(&self, holds: impl Fn(&R) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if holds(&self.at(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Changes a row, if it is there.
    pub fn change(&mut self, place: usize, change: impl FnOnce(&mut R)) {
        let Some(mut row) = self.get(place) else { return };
        change(&mut row);
        match place.checked_sub(self.first_open()) {
            Some(place) => {
                if let Some(open) = self.open_mut(place) {
                    *open = row;
                }
            }
            // Transfers that are overtaken change long after others came: a chunk is not written again for each.
            None if self.sealed[place / CHUNK].put(&row, place, place % CHUNK) => {}
            None => self.rewrite(place / CHUNK, |rows| rows[place % CHUNK] = row),
        }
    }

    /// Changes rows at places that rise.
    pub fn change_at(&mut self, places: impl IntoIterator<Item = usize>, mut change: impl FnMut(&mut R)) {
        let mut places = places.into_iter().peekable();
        while let Some(&place) = places.peek() {
            let first = place / CHUNK * CHUNK;
            let mut own = std::iter::from_fn(|| places.next_if(|place| *place < first + CHUNK));
            if place < self.first_open() {
                self.rewrite(place / CHUNK, |rows| own.for_each(|place| change(&mut rows[place - first])));
            } else if let Some(row) = own.next().and_then(|place| self.open_mut(place - self.first_open())) {
                change(row);
            }
        }
    }

    fn rewrite(&mut self, number: usize, change: impl FnOnce(&mut [R])) {
        let first = number * CHUNK;
        let mut rows: Vec<R> = self.range(first..first + CHUNK).collect();
        change(&mut rows);
        self.sealed[number] = Chunk::seal(&rows, first);
    }

    /// The same rows as they came, for those who read them again and again: none is sealed until another one comes.
    pub fn opened(&self) -> Self {
        let whole = if self.len() < CHUNK { self.len() } else { self.len() / CHUNK * CHUNK };
        let (older, newer) = (self.range(0..whole).collect(), self.range(whole..self.len()).collect());
        Self { sealed: Vec::new(), older, newer }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Bytes of the host's memory that the rows take.
    pub fn kept_bytes(&self) -> usize {
        let sealed: usize = self.sealed.iter().map(Chunk::kept_bytes).sum();
        let open = self.older.capacity() + self.newer.capacity();
        sealed + self.sealed.capacity() * size_of::<Chunk>() + open * size_of::<R>()
    }
}

impl<R: PackedRow> FromIterator<R> for PackedRows<R> {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        let mut made = Self::default();
        rows.into_iter().for_each(|row| made.push(row));
        made
    }
}

impl<R: PackedRow + PartialEq> PartialEq for PackedRows<R> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<R: PackedRow + Eq> Eq for PackedRows<R> {}

impl<R: PackedRow + Serialize> Serialize for PackedRows<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'a, R: PackedRow> IntoIterator for &'a PackedRows<R> {
    type Item = R;
    type IntoIter = PackedIter<'a, R>;

    fn into_iter(self) -> PackedIter<'a, R> {
        self.iter()
    }
}

/// Rows in their order.
#[derive(Clone, Debug)]
pub struct PackedIter<'a, R> {
    rows: &'a PackedRows<R>,
    places: std::ops::Range<usize>,
}

impl<R: PackedRow> Iterator for PackedIter<'_, R> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        self.places.next().map(|place| self.rows.at(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }

    fn nth(&mut self, count: usize) -> Option<R> {
        self.places.nth(count).map(|place| self.rows.at(place))
    }
}

impl<R: PackedRow> DoubleEndedIterator for PackedIter<'_, R> {
    fn next_back(&mut self) -> Option<R> {
        self.places.next_back().map(|place| self.rows.at(place))
    }
}

impl<R: PackedRow> ExactSizeIterator for PackedIter<'_, R> {}

/// Numbers alone.
macro_rules! number {
    ($($type:ty),*) => {
        $(impl PackedRow for $type {
            type Words = [u64; 1];

            fn words(&self, _: u64) -> [u64; 1] {
                [u64::from(*self)]
            }

            fn of_words([word]: [u64; 1], _: u64) -> Self {
                word as Self
            }
        })*
    };
}

number!(u8, u16, u32, u64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Pair(u64, u64);

    impl PackedRow for Pair {
        type Words = [u64; 2];

        fn words(&self, place: u64) -> [u64; 2] {
            [self.0, zigzag(self.1.wrapping_sub(place))]
        }

        fn of_words([first, second]: [u64; 2], place: u64) -> Self {
            Self(first, unzigzag(second).wrapping_add(place))
        }
    }

    proptest! {
        #[test]
        fn test_rows_come_back_and_change(
            seed in prop::collection::vec((any::<u64>(), any::<u64>()), 1..8),
            shift in prop::collection::vec(0u32..64, 1..5),
            count in 0usize..4 * CHUNK,
            changed in 0usize..4 * CHUNK,
            every in 1usize..2 * CHUNK,
        ) {
            let row = |place: usize| {
                let (first, second) = seed[place % seed.len()];
                let shift = shift[place % shift.len()];
                Pair(first >> shift, (second >> shift).wrapping_add(place as u64))
            };
            let mut plain: Vec<Pair> = (0..count).map(row).collect();
            let mut rows: PackedRows<Pair> = plain.iter().copied().collect();
            if let Some(row) = plain.get_mut(changed) {
                row.0 ^= 1;
            }
            rows.change(changed, |row| row.0 ^= 1);
            let all: Vec<Pair> = rows.iter().collect();
            prop_assert_eq!(&all, &plain);
            prop_assert_eq!((rows.first(), rows.last()), (plain.first().copied(), plain.last().copied()));
            prop_assert_eq!(rows.get(count), None);
            plain.iter_mut().step_by(every).for_each(|row| row.1 = row.1.wrapping_mul(3));
            rows.change_at((0..count).step_by(every), |row| row.1 = row.1.wrapping_mul(3));
            prop_assert!(rows.iter().rev().eq(plain.iter().rev().copied()));
            let sorted: PackedRows<u32> = (0..count as u32).collect();
            prop_assert_eq!(sorted.partition_point(|number| (*number as usize) < changed), changed.min(count));
        }
    }
}
