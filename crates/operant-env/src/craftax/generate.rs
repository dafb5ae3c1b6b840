//! Draws a map: noise, thresholds and rules, as bits of 64 x 64 cells.
//!
//! Everything is a plane, a bit for each cell, so that a rule about blocks is one operation for 32 cells. Noise is computed for runs of
//! cells between two corners, whose gradients are interpolated once for each row of a run. The package brings noise to 0..1 before it
//! compares; here the thresholds are brought to the range of the noise.

use std::f64::consts::PI;

use operant_lane::{Bundle, Draws, Float, Int, Lane, Mask, Memory, Uint};

use super::blocks::{self, Map, SIDE};
use crate::grid;

/// Words of a plane: two for each row.
const PLANE: usize = 128;
/// A bit for each cell.
type Plane<L> = <L as Lane>::Memory<PLANE>;

/// Gradients are stored as whole numbers, multiples of 2^-30.
const SCALE: f64 = 1_073_741_824.0;
/// Longest run, and most rows of cells with the same corners.
const RUN: usize = 16;

/// Places within a cell of gradients that extends over `count` cells of the map, and the same smoothed: t^3 (t (6t - 15) + 10).
const fn places(count: u32) -> [[f64; RUN]; 2] {
    let mut of = [[0.0; RUN]; 2];
    let mut k = 0;
    while k < count as usize {
        let t = k as f64 / count as f64;
        of[0][k] = t;
        of[1][k] = t * t * t * (t * (6.0 * t - 15.0) + 10.0);
        k += 1;
    }
    of
}

/// Gradient noise of R x C cells of gradients: N = 2 (R + 1) (C + 1) words of corners, runs of W = 64 / C cells of the map.
struct Noise<L: Lane, const R: u32, const C: u32, const N: usize, const W: usize> {
    /// Cosine and sine of each corner's gradient.
    corners: L::Memory<N>,
    zero: L::Uint,
}

impl<L: Lane, const R: u32, const C: u32, const N: usize, const W: usize> Noise<L, R, C, N, W> {
    const ROWS: [[f64; RUN]; 2] = places(SIDE / R);
    const COLUMNS: [[f64; RUN]; 2] = places(SIDE / C);

    fn draw(draws: &mut Draws<L>) -> Self {
        let count = N as u32 / 2;
        let set = |corners: &mut L::Memory<N>, corner: L::Same, unit: L::Float| {
            let (sin, cos) = (unit * L::Float::splat(2.0 * PI)).sin_cos();
            let word = |x: L::Float| (x * L::Float::splat(SCALE)).to_int().to_uint();
            corners.put(corner.shl(1), word(cos));
            corners.put(corner.shl(1) + L::Same::splat(1), word(sin));
        };
        let turns = draws.turns(count / 4, 4);
        let zero = draws.zero();
        let mut drawn = (zero, L::Memory::<N>::splat(&[0; N]));
        L::turns(count / 4, &mut drawn, |turn, (_, corners)| {
            let mut draws = turns.turn(L::spread(turn));
            for k in 0..4 {
                set(corners, turn.shl(2) + L::Same::splat(k), draws.unit());
            }
        });
        let mut corners = drawn.1;
        for corner in count / 4 * 4..count {
            set(&mut corners, L::Same::splat(corner), draws.unit());
        }
        Noise { corners, zero }
    }

    /// Visits all runs of cells: row, first column, and the noise of each cell.
    #[inline(always)]
    fn runs<B: Bundle<L>>(&self, value: &mut B, visit: impl Fn(L::Same, L::Same, [L::Float; W], &mut B)) {
        let (f, s) = (L::Float::splat, L::Same::splat);
        let part =
            |word: L::Same| L::Float::from_int(self.corners.at(word).to_int()) * L::Float::splat(1.0 / SCALE);
        let height = SIDE / R;
        L::turns(SIDE, value, |row, value| {
            let (cell, within) = (row.shr(height.trailing_zeros()), row & s(height - 1));
            let (y, up) = (L::entry(&Self::ROWS[0], within), L::entry(&Self::ROWS[1], within));
            L::turns(C, value, |column, value| {
                // On the line of a corner: the noise at its column, and the slope along the row.
                let line = |q: u32| {
                    let top = (cell * s(C + 1) + column + s(q)).shl(1);
                    let bottom = top + s(2 * (C + 1));
                    let (above, below) = (y * part(top), (y - f(1.0)) * part(bottom));
                    let (left, right) = (part(top + s(1)), part(bottom + s(1)));
                    ((below - above).mul_add(up, above), (right - left).mul_add(up, left))
                };
                let ((start, slope), (end, end_slope)) = (line(0), line(1));
                let mut noise = [f(0.0); W];
                for (k, noise) in noise.iter_mut().enumerate() {
                    let [x, smooth] = [Self::COLUMNS[0][k], Self::COLUMNS[1][k]];
                    let first = slope.mul_add(f(x), start);
                    let second = end_slope.mul_add(f(x - 1.0), end);
                    *noise = (second - first).mul_add(f(smooth), first);
                }
                visit(row, column * s(W as u32), noise, value);
            });
        });
    }

    /// Where the noise, brought to 0..1, is above each threshold. `near` adds min(1, distance to the middle / 5) - 1 to it before.
    fn above<const T: usize>(&self, thresholds: [f64; T], near: bool) -> [Plane<L>; T] {
        let (u, s) = (L::Uint::splat, L::Same::splat);
        let mut ends = (self.zero, [L::Float::splat(f64::INFINITY), L::Float::splat(f64::NEG_INFINITY)]);
        self.runs(&mut ends, |_, _, noise, (_, [low, high])| {
            for noise in noise {
                (*low, *high) = (noise.min(*low), noise.max(*high));
            }
        });
        let [low, high] = ends.1;
        let range = high - low;
        let even = thresholds.map(|at| range.mul_add(L::Float::splat(at), low));
        let by_distance =
            thresholds.map(|at| core::array::from_fn::<f64, 6, _>(|d| at + 1.0 - d as f64 / 5.0));
        let middle = s(SIDE / 2);
        let away = |x: L::Same| x.max(middle) - x.min(middle);
        let mut planes = (self.zero, [L::Memory::<PLANE>::splat(&[0; PLANE]); T]);
        self.runs(&mut planes, |row, column, noise, (_, planes)| {
            let mut runs = [u(0); T];
            for (k, noise) in noise.into_iter().enumerate() {
                let distance = away(row) + away(column + s(k as u32));
                for (t, run) in runs.iter_mut().enumerate() {
                    let limit =
                        if near { range.mul_add(L::entry(&by_distance[t], distance), low) } else { even[t] };
                    *run = *run | flag::<L>(noise.gt(limit), k as u32);
                }
            }
            let (word, bit) = (row.shl(1) + column.shr(5), L::spread(column & s(31)));
            for (plane, run) in planes.iter_mut().zip(runs) {
                plane.put(word, plane.at(word) | run.shl_by(bit));
            }
        });
        planes.1
    }
}

/// The plane of `bits(turn)`, four cells a turn.
#[inline(always)]
fn filled<L: Lane, const T: usize>(zero: L::Uint, bits: impl Fn(L::Same) -> [L::Uint; T]) -> [Plane<L>; T] {
    let mut planes = (zero, [L::Memory::<PLANE>::splat(&[0; PLANE]); T]);
    L::turns(SIDE * SIDE / 4, &mut planes, |turn, (_, planes)| {
        let (word, bit) = (turn.shr(3), L::spread((turn & L::Same::splat(7)).shl(2)));
        for (plane, bits) in planes.iter_mut().zip(bits(turn)) {
            plane.put(word, plane.at(word) | bits.shl_by(bit));
        }
    });
    planes.1
}

/// A bit where a mask holds.
#[inline(always)]
fn flag<L: Lane>(mask: L::Mask, bit: u32) -> L::Uint {
    mask.select(L::Uint::splat(1 << bit), L::Uint::splat(0))
}

/// Where a uniform number of each cell is below a threshold.
fn below<L: Lane>(threshold: f64, draws: &mut Draws<L>) -> Plane<L> {
    let turns = draws.turns(SIDE * SIDE / 4, 4);
    let [plane] = filled::<L, 1>(draws.zero(), |turn| {
        let mut draws = turns.turn(L::spread(turn));
        let mut four = L::Uint::splat(0);
        for k in 0..4 {
            four = four | flag::<L>(draws.unit().lt(L::Float::splat(threshold)), k);
        }
        [four]
    });
    plane
}

/// Chances of coal, iron and diamond in stone that is not yet an ore, and of no tree.
const ORES: [f64; 3] = [0.04, 0.03, 0.005];
const NO_TREE: f64 = 0.8;

/// Where coal, iron, diamonds and no trees would be, by one uniform number for each cell: ores are in stone and trees in grass, and each ore
/// has its own part of the number's range.
fn chances<L: Lane>(draws: &mut Draws<L>) -> [Plane<L>; 4] {
    let mut left = 1.0;
    let shares = ORES.map(|chance| {
        left *= 1.0 - chance;
        1.0 - left
    });
    let limits = [shares[0], shares[1], shares[2], NO_TREE].map(|share| (share * 4_294_967_296.0) as u32);
    let turns = draws.turns(SIDE * SIDE / 4, 4);
    filled::<L, 4>(draws.zero(), |turn| {
        let mut draws = turns.turn(L::spread(turn));
        let mut four = [L::Uint::splat(0); 4];
        for k in 0..4 {
            let word = draws.bits();
            for (four, limit) in four.iter_mut().zip(limits) {
                *four = *four | flag::<L>(word.lt(L::Uint::splat(limit)), k);
            }
        }
        four
    })
}

/// The plane with rows and columns exchanged.
fn transposed<L: Lane>(plane: &Plane<L>, zero: L::Uint) -> Plane<L> {
    let s = L::Same::splat;
    let mut turned = (zero, L::Memory::<PLANE>::splat(&[0; PLANE]));
    L::turns(PLANE as u32, &mut turned, |word, (_, turned)| {
        // Row i of the result is column i of the plane; this word has the columns from j on.
        let (i, j) = (word.shr(1), (word & s(1)).shl(5));
        let bit = L::spread(i & s(31));
        let mut bits = zero;
        L::turns(32, &mut bits, |k, bits| {
            let from = plane.at((j + k).shl(1) + i.shr(5)).shr_by(bit) & L::Uint::splat(1);
            *bits = *bits | from.shl_by(L::spread(k));
        });
        turned.put(word, bits);
    });
    turned.1
}

/// Draws a map, and where its tunnels are ([`super::State`]). Compiled once for each lane.
#[inline(never)]
pub fn world<L: Lane>(draws: &mut Draws<L>) -> (Map<L>, [L::Uint; 2]) {
    let u = L::Uint::splat;
    let zero = draws.zero();
    let [lake, shore, cave_water] = Noise::<L, 4, 4, 50, 16>::draw(draws).above([0.7, 0.6, 0.4], true);
    let [hill, core, high] = Noise::<L, 4, 4, 50, 16>::draw(draws).above([0.65, 0.8, 0.75], true);
    let [tunnel] = Noise::<L, 8, 32, 594, 2>::draw(draws).above([0.8], false);
    // The package draws separate numbers for ores and trees, those for ores before the noise of trees.
    let scripted = draws.is_scripted().then(|| ORES.map(|chance| below::<L>(chance, draws)));
    let [wood, lava] = Noise::<L, 16, 16, 578, 4>::draw(draws).above([0.5, 0.7], false);
    let [coal, iron, diamond, no_tree] = match scripted {
        Some([coal, iron, diamond]) => [coal, iron, diamond, below::<L>(NO_TREE, draws)],
        None => chances::<L>(draws),
    };
    let crossing = transposed::<L>(&tunnel, zero);

    // The map, the stone that is left, and how much there is.
    let mut made = (
        (L::Memory::<{ blocks::WORDS }>::splat(&[0; blocks::WORDS]), L::Memory::<PLANE>::splat(&[0; PLANE])),
        (zero, [zero; 2]),
    );
    L::turns(PLANE as u32, &mut made, |word, ((map, stones), (count, tunnels))| {
        let of = |plane: &Plane<L>| plane.at(word);
        let (hill, core) = (of(&hill), of(&core));
        let lava = core & of(&lava);
        let path = (hill & (of(&tunnel) | of(&crossing))) | (core & of(&cave_water));
        let stone = hill & !path;
        let coal = stone & of(&coal);
        let iron = stone & !coal & of(&iron);
        let diamond = stone & !coal & !iron & of(&high) & of(&diamond);
        let stone = stone & !coal & !iron & !diamond & !lava;
        let water = of(&lake) & !hill;
        let sand = of(&shore) & !of(&lake) & !hill;
        let grass = !hill & !of(&shore);
        let tree = grass & of(&wood) & !of(&no_tree);
        let kinds = [
            (blocks::GRASS, grass & !tree),
            (blocks::WATER, water),
            (blocks::STONE, stone),
            (blocks::TREE, tree),
            (blocks::PATH, path & !lava),
            (blocks::COAL, coal & !lava),
            (blocks::IRON, iron & !lava),
            (blocks::DIAMOND, diamond & !lava),
            (blocks::SAND, sand),
            (blocks::LAVA, lava),
        ];
        let mut codes = [u(0); 4];
        for (code, cells) in kinds {
            for (bit, plane) in codes.iter_mut().enumerate() {
                if code >> bit & 1 == 1 {
                    *plane = *plane | cells;
                }
            }
        }
        for byte in 0..4 {
            let mut cells = u(0);
            for (bit, code) in codes.iter().enumerate() {
                cells = cells | grid::spread(code.shr(8 * byte) & u(255)).shl(bit as u32);
            }
            map.put(word.shl(2) + L::Same::splat(byte), cells);
        }
        stones.put(word, stone);
        // A bit for each byte with a path: four columns of 8 x 8 cells, of the row that 16 words share.
        let paths = path & !lava;
        let halves = paths | paths.shr(4);
        let pairs = halves | halves.shr(2);
        let any = (pairs | pairs.shr(1)) & u(0x0101_0101);
        let four = (any | any.shr(7) | any.shr(14) | any.shr(21)) & u(15);
        let bit = L::spread((word.shr(4) & L::Same::splat(3)).shl(3) + (word & L::Same::splat(1)).shl(2));
        let is_lower = L::spread(word).lt(u(PLANE as u32 / 2));
        let (lower, upper) = (is_lower.select(four, u(0)), is_lower.select(u(0), four));
        *tunnels = [tunnels[0] | lower.shl_by(bit), tunnels[1] | upper.shl_by(bit)];
        *count = *count + stone.count_ones();
    });
    let ((mut map, stones), (count, tunnels)) = made;
    let middle = u(SIDE * SIDE / 2 + SIDE / 2);
    blocks::put::<L>(&mut map, L::Mask::splat(true), middle, u(blocks::GRASS));

    // One of the stones is a diamond.
    let rank = draws.below_each(count);
    let mut place = (zero, (zero, zero));
    L::turns(PLANE as u32, &mut place, |turn, (passed, found)| {
        *passed = *passed + stones.at(turn).count_ones();
        *found = passed.le(rank).select((L::spread(turn) + u(1), *passed), *found);
    });
    let (word, before) = place.1;
    let gem = word.shl(5) + grid::find(stones.get(word), rank - before);
    blocks::put::<L>(&mut map, count.ne(u(0)), gem, u(blocks::DIAMOND));
    (map, tunnels)
}
