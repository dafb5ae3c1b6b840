//! Allocates rows for values by their lifetimes: a row is free again after the last instruction that needs its value.

use std::collections::{BTreeMap, HashMap};

use super::draft::{Draft, Drafts, Id, Term};

/// The first row of each value; None if it is never written.
pub(super) struct RowAllocation {
    pub(super) rows: Vec<Option<usize>>,
    /// Rows that are needed at the same time.
    pub(super) count: usize,
}

/// What an instruction reads and writes.
#[derive(Default)]
struct Uses {
    reads: Vec<Id>,
    writes: Vec<Id>,
    /// Whether a result may take the row of an argument that is read for the last time.
    in_place: bool,
}

fn uses(draft: &Draft) -> Uses {
    let ids = |terms: &[Term]| {
        terms
            .iter()
            .filter_map(|term| if let Term::Value(id) = term { Some(*id) } else { None })
            .collect::<Vec<_>>()
    };
    match draft {
        Draft::Scalar { to, args, .. } => Uses { reads: ids(args), writes: vec![*to], in_place: true },
        Draft::Copy { to, from } => Uses { reads: ids(&[*from]), writes: vec![*to], in_place: true },
        Draft::LookUp { to, index, .. } => Uses { reads: vec![*index], writes: vec![*to], in_place: true },
        Draft::Element { to, memory, index } => {
            let mut reads = ids(&[*index]);
            reads.push(*memory);
            Uses { reads, writes: vec![*to], in_place: true }
        }
        Draft::Write { memory, operands } => {
            let mut reads = ids(operands);
            reads.push(*memory);
            Uses { reads, writes: vec![*memory], in_place: false }
        }
        Draft::Fill { to, .. } => Uses { writes: vec![*to], ..Uses::default() },
        Draft::Gather { to, words } => Uses { reads: ids(words), writes: vec![*to], in_place: false },
        Draft::Replace { to, mask, from } => {
            Uses { reads: vec![*mask, *from, *to], writes: vec![*to], in_place: false }
        }
        Draft::Random { to, args } => {
            Uses { reads: ids(args), writes: to.iter().flatten().copied().collect(), in_place: true }
        }
        Draft::Skip { mask, .. } | Draft::Break { mask, .. } => {
            Uses { reads: vec![*mask], ..Uses::default() }
        }
        Draft::Begin { index } => Uses { writes: index.iter().copied().collect(), ..Uses::default() },
        Draft::Here { .. } | Draft::End { .. } => Uses::default(),
    }
}

/// The first and last instruction of each value's life.
fn lifetimes(drafts: &Drafts) -> Vec<Option<(usize, usize)>> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; drafts.sizes.len()];
    let mut touch = |id: Id, at: usize| {
        let life = lives[id].get_or_insert((at, at));
        life.1 = life.1.max(at);
    };
    drafts.parameters.iter().for_each(|(_, _, id)| touch(*id, 0));
    let (mut open, mut loops) = (Vec::new(), Vec::new());
    for (at, draft) in drafts.code.iter().enumerate() {
        let Uses { reads, writes, .. } = uses(draft);
        reads.into_iter().chain(writes).for_each(|id| touch(id, at));
        match draft {
            Draft::Begin { index } => open.push((at, *index)),
            Draft::End { .. } => {
                let (begin, index) = open.pop().expect("a loop begins");
                loops.push((begin, at));
                index.into_iter().for_each(|index| touch(index, at));
            }
            _ => (),
        }
    }
    for output in &drafts.outputs {
        if let Term::Value(id) = output {
            touch(*id, drafts.code.len());
        }
    }
    // Values that a loop reads from outside are needed in every iteration. Inner loops come first; what lives inside of one lives
    // inside of the loops around it.
    let mut by_last: BTreeMap<usize, Vec<Id>> = BTreeMap::new();
    for (id, life) in lives.iter().enumerate() {
        by_last.entry(life.map_or(usize::MAX, |(_, last)| last)).or_default().push(id);
    }
    for (begin, end) in loops {
        let inside: Vec<usize> = by_last.range(begin..end).map(|(last, _)| *last).collect();
        let inside: Vec<Id> = inside.iter().filter_map(|last| by_last.remove(last)).flatten().collect();
        for id in inside {
            if let Some((first, last)) = &mut lives[id]
                && *first < begin
            {
                *last = end;
                by_last.entry(end).or_default().push(id);
            }
        }
    }
    lives
}

/// Free rows, in order.
struct Pool {
    is_free: Vec<bool>,
    /// No row before this one is free.
    lowest: usize,
}

impl Pool {
    /// The first place with `count` free rows in a sequence.
    fn take(&mut self, count: usize) -> usize {
        let mut run = 0;
        self.lowest += self.is_free[self.lowest..].iter().take_while(|is_free| !**is_free).count();
        let found = self.is_free[self.lowest..].iter().position(|is_free| {
            run = if *is_free { run + 1 } else { 0 };
            run == count
        });
        let first = match found {
            Some(last) => self.lowest + last + 1 - count,
            None => {
                // Free rows at the end become part of it.
                let free = self.is_free.iter().rev().take_while(|is_free| **is_free).count();
                let first = self.is_free.len() - free;
                self.is_free.resize(first + count, true);
                first
            }
        };
        self.is_free[first..first + count].fill(false);
        first
    }

    fn give(&mut self, first: usize, count: usize) {
        self.is_free[first..first + count].fill(true);
        self.lowest = self.lowest.min(first);
    }
}

/// Allocates rows for all values, and drops copies of values that are not needed afterwards.
pub(super) fn allocate_rows(drafts: &mut Drafts) -> RowAllocation {
    let lives = lifetimes(drafts);
    let sizes = drafts.sizes.clone();
    let mut rows: Vec<Option<usize>> = vec![None; sizes.len()];
    let mut pool = Pool { is_free: Vec::new(), lowest: 0 };
    for (_, _, id) in &drafts.parameters {
        rows[*id] = Some(pool.take(sizes[*id]));
    }
    // Values that loops keep until their ends.
    let mut kept: HashMap<usize, Vec<Id>> = HashMap::new();
    for (id, life) in lives.iter().enumerate() {
        if let Some((_, last)) = life
            && matches!(drafts.code.get(*last), Some(Draft::End { .. }))
        {
            kept.entry(*last).or_default().push(id);
        }
    }
    let ends = |id: Id, at: usize| lives[id].is_some_and(|(_, last)| last == at);
    let mut dropped = Vec::new();
    for (at, draft) in drafts.code.iter().enumerate() {
        let Uses { mut reads, writes, in_place } = uses(draft);
        reads.sort_unstable();
        reads.dedup();
        let begins = |id: Id, rows: &[Option<usize>]| rows[id].is_none();
        if let Draft::Copy { to, from: Term::Value(from) } = draft
            && begins(*to, &rows)
            && ends(*from, at)
            && sizes[*from] == sizes[*to]
        {
            rows[*to] = rows[*from];
            dropped.push(at);
        } else {
            let free = |pool: &mut Pool, rows: &[Option<usize>]| {
                for id in reads.iter().filter(|id| ends(**id, at)) {
                    pool.give(rows[*id].expect("it was written"), sizes[*id]);
                }
            };
            // A copy of several rows may overlap itself.
            let in_place = in_place && writes.iter().all(|id| sizes[*id] == 1);
            if in_place {
                free(&mut pool, &rows);
            }
            for id in &writes {
                if begins(*id, &rows) {
                    rows[*id] = Some(pool.take(sizes[*id]));
                }
            }
            if !in_place {
                free(&mut pool, &rows);
            }
        }
        // Values that are never read.
        for id in writes.iter().filter(|id| ends(**id, at) && !reads.contains(id)) {
            pool.give(rows[*id].expect("it was written"), sizes[*id]);
        }
        if let Draft::End { .. } = draft {
            for id in kept.remove(&at).into_iter().flatten() {
                if let Some(row) = rows[id] {
                    pool.give(row, sizes[id]);
                }
            }
        }
    }
    let nothing = || Draft::Here { label: usize::MAX };
    dropped.into_iter().for_each(|at| drafts.code[at] = nothing());
    RowAllocation { rows, count: pool.is_free.len() }
}
