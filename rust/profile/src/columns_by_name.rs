//! What tables of a profile are made of: columns of one length, each with its name.

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum TableColumn {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Others; what is not known is NaN.
    Floats(Vec<f64>),
    /// Texts, by their places in a list.
    Names {
        /// The texts.
        names: Vec<String>,
        /// Of each row, the place of its text.
        places: Vec<u32>,
    },
}

impl TableColumn {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            TableColumn::Integers(values) => values.len(),
            TableColumn::Floats(values) => values.len(),
            TableColumn::Names { places, .. } => places.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the rows of a column of the same table behind its own.
    pub(crate) fn append(&mut self, other: TableColumn) {
        match (self, other) {
            (TableColumn::Integers(values), TableColumn::Integers(more)) => values.extend(more),
            (TableColumn::Floats(values), TableColumn::Floats(more)) => values.extend(more),
            (TableColumn::Names { names, places }, TableColumn::Names { names: others, places: more }) => {
                let offset = names.len() as u32;
                names.extend(others);
                places.extend(more.into_iter().map(|place| place + offset));
            }
            // Columns of one name are of one kind.
            _ => {}
        }
    }
}

/// A column for each name, all of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileTable {
    /// Names and columns, in order.
    pub columns: Vec<(String, TableColumn)>,
}

impl ProfileTable {
    pub(crate) fn put(&mut self, name: impl Into<String>, column: TableColumn) {
        self.columns.push((name.into(), column));
    }

    pub(crate) fn integers(&mut self, name: &str, values: impl Iterator<Item = i64>) {
        self.put(name, TableColumn::Integers(values.collect()));
    }

    pub(crate) fn names<T: Copy + Into<u32>>(&mut self, name: &str, names: Vec<String>, places: &[T]) {
        self.put(name, TableColumn::Names { names, places: places.iter().map(|&place| place.into()).collect() });
    }

    pub(crate) fn integer(&mut self, name: impl Into<String>, value: u64) {
        self.put(name, TableColumn::Integers(vec![value as i64]));
    }

    pub(crate) fn float(&mut self, name: impl Into<String>, value: f64) {
        self.put(name, TableColumn::Floats(vec![value]));
    }

    /// Their times are whole nanoseconds. Cut off, not rounded, ends stay before the starts that follow them.
    pub(crate) fn spans(&mut self, start_ps: &[u64], end_ps: &[u64]) {
        self.integers("start_ts", start_ps.iter().map(|&start| nanoseconds(start)));
        self.integers("end_ts", end_ps.iter().map(|&end| nanoseconds(end)));
        let spans = start_ps.iter().zip(end_ps);
        self.integers("duration_ns", spans.map(|(&start, &end)| nanoseconds(end) - nanoseconds(start)));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

pub(crate) fn nanoseconds(picoseconds: u64) -> i64 {
    (picoseconds / 1000) as i64
}

/// For each entry, how many equal ones stand before it.
pub(crate) fn positions<T: Copy + Into<u32>>(groups: &[T]) -> impl Iterator<Item = i64> {
    let mut counts: Vec<i64> = Vec::new();
    groups.iter().map(move |&group| {
        let group = group.into() as usize;
        if group >= counts.len() {
            counts.resize(group + 1, 0);
        }
        counts[group] += 1;
        counts[group] - 1
    })
}
