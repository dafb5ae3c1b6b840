//! Zombies, cows, skeletons and arrows: their moves, and where new ones appear.
//!
//! There are eight mobs. Those that are not alive move too, because they may be alive again later.

use std::ops::Range;

use operant_lane::{Draws, Float, Int, Lane, Mask, Memory, Turns, Uint};

use super::State;
use super::blocks::{self, At, FURNACE, GRASS, LAVA, PATH, SOLID, TABLE, WATER, at, set};
use crate::grid;

/// Which of the mobs are zombies, cows and skeletons.
pub const ZOMBIES: Range<usize> = 0..3;
pub const COWS: Range<usize> = 3..6;
pub const SKELETONS: Range<usize> = 6..8;

/// Blocks that stop an arrow.
const STOPS: u32 = SOLID & !set(&[WATER]);

/// What is drawn for a mob in a step.
pub struct Chance<L: Lane> {
    /// 0 to 3: left, right, up, down; of cows more: stay.
    direction: L::Uint,
    /// Whether the column axis is taken where both are equal.
    tie: L::Mask,
    /// Uniform in [0, 1).
    unit: L::Float,
}

/// Draws for a mob, in one word.
#[inline(always)]
fn chance<L: Lane>(mob: usize, draws: &mut Draws<L>) -> Chance<L> {
    let u = L::Uint::splat;
    let directions = if is_cow(mob) { 8 } else { 4 };
    if let Some(direction) = draws.given(0, directions - 1) {
        if is_cow(mob) {
            return Chance { direction, tie: L::Mask::splat(false), unit: L::Float::splat(0.0) };
        }
        let tie = draws.given(0, 1).expect("numbers are given").eq(u(1));
        return Chance { direction, tie, unit: draws.unit() };
    }
    let word = draws.bits();
    Chance {
        direction: word & u(directions - 1),
        tie: (word & u(8)).ne(u(0)),
        unit: operant_lane::draws::unit::<L>(word),
    }
}

/// 0 for a zombie, 1 for a cow, 2 for a skeleton.
pub fn kind(mob: usize) -> usize {
    [ZOMBIES, COWS, SKELETONS].iter().position(|mobs| mobs.contains(&mob)).expect("one of eight")
}

fn is_cow(mob: usize) -> bool {
    COWS.contains(&mob)
}

/// The sign of a whole number.
#[inline(always)]
fn sign<I: Int>(x: I) -> I {
    I::splat(0).lt(x).select(I::splat(1), x.lt(I::splat(0)).select(I::splat(-1), I::splat(0)))
}

impl<L: Lane> Chance<L> {
    /// A step from a cell towards another, along the axis with the greater difference.
    #[inline(always)]
    fn towards(&self, [row, column]: At<L>, [to_row, to_column]: At<L>) -> At<L> {
        let (rows, columns) = (to_row - row, to_column - column);
        let (far, wide) = (rows.abs(), columns.abs());
        let by_row = wide.lt(far) | (far.eq(wide) & !self.tie);
        let zero = L::Int::splat(0);
        [by_row.select(sign(rows), zero), by_row.select(zero, sign(columns))]
    }
}

#[inline(always)]
fn either<L: Lane>(mask: L::Mask, yes: At<L>, no: At<L>) -> At<L> {
    [mask.select(yes[0], no[0]), mask.select(yes[1], no[1])]
}

impl<L: Lane> State<L> {
    /// Whether a mob may enter a cell.
    #[inline(always)]
    fn is_free(&self, cell: At<L>) -> L::Mask {
        let place = blocks::place::<L>(cell);
        let block = blocks::get::<L>(&self.map, place);
        blocks::inside::<L>(cell)
            & !blocks::is_in(block, SOLID | set(&[LAVA]))
            & !self.is_occupied(cell, place)
    }

    /// Moves a mob, which was `distance` from the player. It is gone if that is 14 or more.
    #[inline(always)]
    fn settle(&mut self, mob: usize, to: At<L>, free: L::Mask, distance: L::Uint) {
        let old = self.mob_place[mob];
        self.clear(self.mob_live[mob], old);
        self.mob_live[mob] = self.mob_live[mob] & distance.lt(L::Uint::splat(14));
        self.mob_place[mob] = free.select(blocks::place::<L>(to), old);
        self.mob_marked[mob] = self.mob_live[mob];
    }

    #[inline(always)]
    fn cool(&mut self, mob: usize, acted: L::Mask, pause: u32) {
        let u = L::Uint::splat;
        let cooler = self.mob_cooldown[mob].max(u(1)) - u(1);
        self.mob_cooldown[mob] = acted.select(u(pause), cooler);
    }

    /// Moves all mobs.
    #[inline(always)]
    pub fn move_mobs(&mut self, draws: &mut Draws<L>) {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        let still = [i(0); 2];
        let player = self.player();
        for mob in 0..8 {
            let chance = chance(mob, draws);
            let here = at::<L>(self.mob_place[mob]);
            let distance = blocks::distance::<L>(here, player);
            let towards = chance.towards(here, player);
            let ready = self.mob_live[mob] & self.mob_cooldown[mob].eq(u(0));
            let mut step = blocks::offset::<L>(chance.direction + u(1));
            let mut free = None;
            match mob {
                _ if ZOMBIES.contains(&mob) => {
                    let chases = distance.lt(u(10)) & chance.unit.lt(L::Float::splat(0.75));
                    step = either::<L>(chases, towards, step);
                    let attacks = ready & distance.eq(u(1));
                    step = either::<L>(attacks, still, step);
                    let damage = self.sleeping.select(i(7), i(2));
                    self.health = self.health - attacks.select(damage, i(0));
                    self.wake(attacks & self.sleeping);
                    self.cool(mob, attacks, 5);
                }
                _ if is_cow(mob) => {}
                _ => {
                    let plans = L::Float::splat(0.85).lt(chance.unit);
                    let (far, near) = (u(10).le(distance), distance.le(u(3)));
                    step = either::<L>(plans & far, towards, step);
                    step = either::<L>(plans & near, [-towards[0], -towards[1]], step);
                    let open = self.is_free(blocks::moved::<L>(here, step));
                    let aims = (u(4).le(distance) & distance.le(u(5))) | (near & !open);
                    let shoots = ready & aims;
                    self.shoot(shoots, here, towards);
                    step = either::<L>(shoots, still, step);
                    self.cool(mob, shoots, 4);
                    free = Some(open & !shoots);
                }
            }
            let to = blocks::moved::<L>(here, step);
            let free = free.unwrap_or_else(|| self.is_free(to));
            self.settle(mob, to, free, distance);
        }
    }

    /// The first arrow that does not fly begins to.
    #[inline(always)]
    fn shoot(&mut self, mask: L::Mask, from: At<L>, step: At<L>) {
        let mut left = mask;
        for arrow in 0..self.arrow_live.len() {
            let here = left & !self.arrow_live[arrow];
            self.arrow_row[arrow] = here.select(from[0], self.arrow_row[arrow]);
            self.arrow_column[arrow] = here.select(from[1], self.arrow_column[arrow]);
            self.arrow_rows[arrow] = here.select(step[0], self.arrow_rows[arrow]);
            self.arrow_columns[arrow] = here.select(step[1], self.arrow_columns[arrow]);
            self.arrow_live[arrow] = self.arrow_live[arrow] | here;
            left = left & !here;
        }
    }

    /// Moves the arrows, including those that hit something long ago.
    pub fn move_arrows(&mut self) {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        for arrow in 0..self.arrow_live.len() {
            self.arrow_row[arrow] = self.arrow_row[arrow] + self.arrow_rows[arrow];
            self.arrow_column[arrow] = self.arrow_column[arrow] + self.arrow_columns[arrow];
            let cell = [self.arrow_row[arrow], self.arrow_column[arrow]];
            let live = self.arrow_live[arrow];
            let block = blocks::read::<L>(&self.map, cell);
            let hits = live & cell[0].eq(self.row) & cell[1].eq(self.column);
            self.health = self.health - hits.select(i(2), i(0));
            self.sleeping = self.sleeping & !hits;
            let stops = !blocks::inside::<L>(cell)
                | blocks::is_in(block, STOPS)
                | self.is_occupied(cell, blocks::place::<L>(cell));
            self.arrow_live[arrow] = live & !stops;
            let breaks = live & blocks::is_in(block, set(&[TABLE, FURNACE]));
            let cell = blocks::wrapped::<L>(cell);
            let (breaks, place) = (breaks & blocks::inside::<L>(cell), blocks::place::<L>(cell));
            blocks::put::<L>(&mut self.map, breaks, place, u(PATH));
            self.tunnel(breaks, place);
        }
    }
}

/// A kind of mobs that appears.
struct Kind {
    mobs: Range<usize>,
    /// Least distance to the player.
    nearest: u32,
    /// Cells from that distance on, as [`offsets`].
    cells: &'static [u32],
    blocks: u32,
    health: i32,
}

/// In the order in which they appear.
const KINDS: [Kind; 3] = [
    Kind { mobs: COWS, nearest: 4, cells: &offsets::<340>(4), blocks: set(&[GRASS]), health: 3 },
    Kind { mobs: ZOMBIES, nearest: 10, cells: &offsets::<184>(10), blocks: set(&[GRASS, PATH]), health: 5 },
    Kind { mobs: SKELETONS, nearest: 10, cells: &offsets::<184>(10), blocks: set(&[PATH]), health: 3 },
];
/// Greatest distance at which a mob appears.
const REACH: i32 = 13;
/// Rows that this takes.
const ROWS: u32 = 2 * REACH as u32 + 1;
/// Words of these rows: the lowest bit of a nibble for each of 27 cells.
const ACROSS: usize = 4;

/// The cells of a row of candidates at a distance of `nearest` to [`REACH`], which begin [`REACH`] columns before the player.
const fn diamond(nearest: u32) -> [[u32; ROWS as usize]; ACROSS] {
    let mut rows = [[0; ROWS as usize]; ACROSS];
    let mut row = 0;
    while row < ROWS as usize {
        let mut column = 0;
        while column < ROWS as usize {
            let middle = REACH as usize;
            let distance = row.abs_diff(middle) + column.abs_diff(middle);
            if distance >= nearest as usize && distance <= middle {
                rows[column / 8][row] |= 1 << (4 * (column % 8));
            }
            column += 1;
        }
        row += 1;
    }
    rows
}
const DIAMONDS: [[[u32; ROWS as usize]; ACROSS]; 3] =
    [diamond(KINDS[0].nearest), diamond(KINDS[1].nearest), diamond(KINDS[2].nearest)];

/// Cells of a [`diamond`] as offsets from the player: 32 (rows + REACH) + columns + REACH.
const fn offsets<const N: usize>(nearest: u32) -> [u32; N] {
    let mut cells = [0; N];
    let (mut cell, mut found) = (0, 0);
    while cell < ROWS * ROWS {
        let (row, column) = (cell / ROWS, cell % ROWS);
        let distance = row.abs_diff(REACH as u32) + column.abs_diff(REACH as u32);
        if distance >= nearest && distance <= REACH as u32 {
            cells[found] = 32 * row + column;
            found += 1;
        }
        cell += 1;
    }
    assert!(found == N);
    cells
}
/// Blocks of four cells that are tried before candidates are counted.
const TRIES: u32 = 2;

impl<L: Lane> State<L> {
    /// A candidate by trial: cells around the player are drawn until one is a candidate, which makes all candidates equally likely.
    /// Where none was found in eight, it is left to [`State::vacancy`].
    fn trial(&self, kind: usize, wanted: L::Mask, zero: L::Uint, turns: &Turns<'_, L>) -> (L::Uint, L::Mask) {
        let u = L::Uint::splat;
        let of = &KINDS[kind];
        let begun = (zero, !wanted);
        L::repeat_while(
            TRIES,
            begun,
            |(_, found)| !*found,
            |turn, (mut place, mut found)| {
                let mut draws = turns.turn(turn);
                for _ in 0..4 {
                    let offset = L::Uint::gather(of.cells, draws.below(of.cells.len() as u32));
                    let away = [offset.shr(5).to_int(), (offset & u(31)).to_int()];
                    let reach = L::Int::splat(REACH);
                    let cell = [self.row + away[0] - reach, self.column + away[1] - reach];
                    let at = blocks::place::<L>(cell);
                    let mut is_free = !found
                        & blocks::inside::<L>(cell)
                        & blocks::is_in(blocks::get::<L>(&self.map, at), of.blocks);
                    for (mob, marked) in self.mob_place.iter().zip(&self.mob_marked) {
                        is_free = is_free & !(mob.eq(at) & *marked);
                    }
                    place = is_free.select(at, place);
                    found = found | is_free;
                }
                (place, found)
            },
        )
    }

    /// Remembers that a cell is a path.
    #[inline(always)]
    pub fn tunnel(&mut self, mask: L::Mask, place: L::Uint) {
        let u = L::Uint::splat;
        // The 8 x 8 cells that hold the place, row by row.
        let bit = (place.shr(6) & u(0x38)) | (place.shr(3) & u(7));
        for (half, tunnels) in self.tunnels.iter_mut().enumerate() {
            let here = mask & bit.shr(5).eq(u(half as u32));
            *tunnels = *tunnels | here.select(u(1).shl_by(bit), u(0));
        }
    }

    /// Whether there may be a path within [`REACH`] rows and columns of the player: only marked 8 x 8 groups of cells have one.
    fn sees_tunnels(&self) -> L::Mask {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        // Eight bits from the first to the last row or column of cells.
        let bits = |x: L::Int| {
            let (first, last) =
                ((x - i(REACH)).max(i(0)).shr(3), (x + i(REACH)).min(i(blocks::SIDE as i32 - 1)).shr(3));
            u(255).shl_by(first.to_uint()) & u(255).shr_by(u(7) - last.to_uint())
        };
        let columns = bits(self.column) * u(0x0101_0101);
        let rows = bits(self.row);
        // A bit of a row becomes eight.
        let spread =
            |four: L::Uint| ((four | four.shl(7) | four.shl(14) | four.shl(21)) & u(0x0101_0101)) * u(255);
        let near = |half: usize, four: L::Uint| (self.tunnels[half] & columns & spread(four)).ne(u(0));
        near(0, rows & u(15)) | near(1, rows.shr(4))
    }

    /// Where the blocks of a row are in a set, [`ROWS`] cells from [`REACH`] columns before the player on.
    #[inline(always)]
    fn row_of(&self, row: L::Int, of: u32) -> [L::Uint; ACROSS] {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        let column = self.column - i(REACH);
        let (word, shift) = (column.shr(3), (column.to_uint() & u(7)).shl(2));
        let in_map = row.to_uint().lt(u(blocks::SIDE));
        let mut words = [u(blocks::OUTSIDE); ACROSS + 1];
        for (k, cells) in words.iter_mut().enumerate() {
            let word = word + i(k as i32);
            let at = (row.shl(3) + word).to_uint();
            let there = in_map & word.to_uint().lt(u(blocks::SIDE / 8));
            *cells = there.select(self.map.get(at), *cells);
        }
        let mut found = [u(0); ACROSS];
        for (k, found) in found.iter_mut().enumerate() {
            let cells = words[k].shr_by(shift) | words[k + 1].shl_by(u(28) - shift).shl(4);
            for block in 0..16 {
                if of >> block & 1 == 1 {
                    *found = *found | blocks::equal(cells, block);
                }
            }
        }
        found
    }

    /// A cell for a mob of a kind: the one whose rank `rank` returns for the number of candidates. Whether there is one.
    fn vacancy(&self, kind: usize, zero: L::Uint, rank: impl Fn(L::Uint) -> L::Uint) -> (L::Uint, L::Mask) {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        let of = &KINDS[kind];
        let first = self.row - i(REACH);
        let mut counted = (zero, L::Memory::<{ ROWS as usize }>::splat(&[0; ROWS as usize]));
        L::turns(ROWS, &mut counted, |row, (total, counts)| {
            let cells = self.row_of(first + L::spread(row).to_int(), of.blocks);
            let mut sum = u(0);
            for (cells, diamond) in cells.iter().zip(&DIAMONDS[kind]) {
                sum = sum + (*cells & L::spread(L::Same::gather(diamond, row)));
            }
            let pairs = (sum & u(0x0f0f_0f0f)) + (sum.shr(4) & u(0x0f0f_0f0f));
            let count = (pairs * u(0x0101_0101)).shr(24);
            counts.put(row, count);
            *total = *total + count;
        });
        let (mut total, mut counts) = counted;

        // Cells with a marked mob are none, and two mobs on one are one.
        let mut taken = [(L::Mask::splat(false), u(0), u(0)); 8];
        for mob in 0..8 {
            let place = self.mob_place[mob];
            let cell = at::<L>(place);
            let distance = blocks::distance::<L>(cell, self.player());
            let block = blocks::get::<L>(&self.map, place);
            let mut is_candidate = self.mob_marked[mob]
                & blocks::is_in(block, of.blocks)
                & u(of.nearest).le(distance)
                & distance.le(u(REACH as u32));
            for other in 0..mob {
                is_candidate = is_candidate & !(self.mob_marked[other] & self.mob_place[other].eq(place));
            }
            let row = (cell[0] - first).to_uint();
            counts.set(is_candidate, row, counts.get(row) - u(1));
            total = total - is_candidate.select(u(1), u(0));
            taken[mob] = (is_candidate, row, (cell[1] - self.column + i(REACH)).to_uint());
        }

        let rank = rank(total);
        let mut chosen = (zero, (zero, zero));
        L::turns(ROWS, &mut chosen, |turn, (passed, found)| {
            *passed = *passed + counts.at(turn);
            *found = passed.le(rank).select((L::spread(turn) + u(1), *passed), *found);
        });
        let (row, before) = chosen.1;
        let mut cells = self.row_of(first + row.to_int(), of.blocks);
        for (word, cells) in cells.iter_mut().enumerate() {
            *cells = *cells & L::Uint::gather(&DIAMONDS[kind][word], row);
            for (taken, of_row, column) in &taken {
                let here = *taken & of_row.eq(row) & column.shr(3).eq(u(word as u32));
                let bit = u(1).shl_by((*column & u(7)).shl(2));
                *cells = *cells & !here.select(bit, u(0));
            }
        }
        let (mut left, mut column, mut found) = (rank - before, u(0), L::Mask::splat(false));
        for (word, cells) in cells.into_iter().enumerate() {
            let count = cells.count_ones();
            let here = !found & left.lt(count);
            column = here.select(u(8 * word as u32) + grid::find(cells, left).shr(2), column);
            found = found | here;
            left = found.select(left, left - count);
        }
        let cell = [first + row.to_int(), self.column - i(REACH) + column.to_int()];
        (blocks::place::<L>(cell), total.ne(u(0)))
    }

    /// New mobs: one of each kind at most, around the player. `zombie` is the chance of a zombie.
    pub fn appear(&mut self, zombie: L::Float, draws: &mut Draws<L>) {
        let f = L::Float::splat;
        for (kind, chance) in [f(0.1), zombie, f(0.05)].into_iter().enumerate() {
            let Kind { mobs, health, .. } = &KINDS[kind];
            let luck = draws.unit();
            let given = draws.given(0, blocks::SIDE * blocks::SIDE - 1);
            let word = if given.is_some() { L::Uint::splat(0) } else { draws.bits() };
            let full =
                self.mob_live[mobs.clone()].iter().fold(L::Mask::splat(true), |full, live| full & *live);
            self.mob_marked[mobs.start] = self.mob_marked[mobs.start] | full;
            let wanted = !full & luck.lt(chance);
            let rank = |count: L::Uint| given.unwrap_or_else(|| word.mul_wide(count).0);
            let nowhere = (draws.zero(), L::Mask::splat(false));
            let turns = draws.turns(TRIES, 4);
            // Where paths are wanted and there are none, all trials fail.
            let wanted = if kind == 2 { wanted & self.sees_tunnels() } else { wanted };
            let (place, found) = L::when(wanted, nowhere, |(zero, none)| {
                let tried =
                    if given.is_some() { (zero, none) } else { self.trial(kind, wanted, zero, &turns) };
                L::when(!tried.1, tried, |_| self.vacancy(kind, zero, rank))
            });
            let mut left = wanted & found;
            for mob in mobs.clone() {
                let here = left & !self.mob_live[mob];
                self.mob_place[mob] = here.select(place, self.mob_place[mob]);
                self.mob_health[mob] = here.select(L::Int::splat(*health), self.mob_health[mob]);
                self.mob_live[mob] = self.mob_live[mob] | here;
                self.mob_marked[mob] = self.mob_marked[mob] | here;
                left = left & !here;
            }
        }
    }
}
