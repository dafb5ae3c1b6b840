//! First states that are made ahead of time, several at once.

/// First states of the next episodes of R environments.
pub(crate) struct Ahead {
    leaves: usize,
    /// `(R, leaves)`, unlike the states that run.
    words: Vec<u32>,
    is_ready: Vec<bool>,
    /// Rows without a state.
    waiting: Vec<usize>,
}

impl Ahead {
    pub(crate) fn new(leaves: usize, rows: usize) -> Self {
        Ahead {
            leaves,
            words: vec![0; leaves * rows],
            is_ready: vec![false; rows],
            waiting: (0..rows).collect(),
        }
    }

    /// Whether all `rows` have a state.
    pub(crate) fn has(&self, rows: &[usize]) -> bool {
        rows.iter().all(|&row| self.is_ready[row])
    }

    /// Rows without a state.
    pub(crate) fn missing(&self) -> usize {
        self.waiting.len()
    }

    /// The leaves of a row's state.
    pub(crate) fn of(&mut self, row: usize) -> &mut [u32] {
        &mut self.words[row * self.leaves..][..self.leaves]
    }

    /// These rows have a state now.
    pub(crate) fn made(&mut self, rows: &[usize]) {
        rows.iter().for_each(|&row| self.is_ready[row] = true);
    }

    /// No row has a state any more.
    pub(crate) fn forget(&mut self) {
        (0..self.is_ready.len()).for_each(|row| self.miss(row));
    }

    /// A row has no state any more.
    pub(crate) fn miss(&mut self, row: usize) {
        if std::mem::take(&mut self.is_ready[row]) {
            self.waiting.push(row);
        }
    }

    /// Up to `width` waiting rows: those of `needed` first.
    pub(crate) fn batch(&mut self, needed: &[usize], width: usize) -> Vec<usize> {
        let (first, others) =
            std::mem::take(&mut self.waiting).into_iter().partition(|row| needed.contains(row));
        let mut batch: Vec<usize> = first;
        self.waiting = others;
        while batch.len() < width
            && let Some(row) = self.waiting.pop()
        {
            batch.push(row);
        }
        batch
    }

    /// Keeps the states of `rows`, columns of `(leaves, width)`.
    pub(crate) fn keep(&mut self, rows: &[usize], from: &[u32], width: usize) {
        for (column, &row) in rows.iter().enumerate() {
            let from = from.iter().skip(column).step_by(width);
            self.of(row).iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        self.made(rows);
    }

    /// Writes the states of `rows` to columns of `(leaves, width)`; they are missing from now on.
    pub(crate) fn take(&mut self, rows: &[usize], to: &mut [u32], width: usize) {
        for (column, &row) in rows.iter().enumerate() {
            let to = to.iter_mut().skip(column).step_by(width);
            to.zip(self.of(row)).for_each(|(to, from)| *to = *from);
            self.miss(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_made_ahead_are_taken_once_and_missing_ones_made_in_groups() {
        let mut ahead = Ahead::new(3, 40);
        let made = |ahead: &mut Ahead, rows: &[usize], number: u32| {
            // (leaves, 16): each word names its leaf and its column.
            let states: Vec<u32> = (0..3 * 16).map(|word| 1000 * number + word).collect();
            ahead.keep(rows, &states, 16);
        };
        // Those that are needed come first, and others that wait fill the group.
        let batch = ahead.batch(&[7, 3], 16);
        assert_eq!((batch.len(), &batch[..2], ahead.waiting.len()), (16, &[3, 7][..], 24));
        made(&mut ahead, &batch, 1);
        assert!(
            ahead.is_ready[3]
                && ahead.is_ready[7]
                && ahead.is_ready.iter().filter(|ready| **ready).count() == 16
        );
        let mut states = vec![0; 3 * 16];
        ahead.take(&[7, 3], &mut states, 16);
        let column = |column: usize| [0, 1, 2].map(|leaf| states[16 * leaf + column]);
        assert_eq!((column(0), column(1), column(2)), ([1001, 1017, 1033], [1000, 1016, 1032], [0; 3]));
        assert!(!ahead.is_ready[7] && !ahead.is_ready[3] && ahead.waiting.len() == 26);
        // A row waits once, however often its state is forgotten.
        ahead.miss(7);
        ahead.miss(batch[5]);
        assert_eq!(ahead.waiting.len(), 27);
        let sizes: Vec<usize> = std::iter::repeat_with(|| ahead.batch(&[], 16).len()).take(3).collect();
        assert_eq!(sizes, [16, 11, 0]);
    }
}
