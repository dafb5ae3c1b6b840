//! What the player sees: 7 x 9 cells around it, and itself.

use operant_lane::{Bundle, Float, Int, Lane, Mask, Uint};

use super::State;
use super::blocks;
use super::mobs;
use super::player::ITEMS;
use crate::ObsSpace;
use crate::spec::names;

/// Rows and columns of the view.
pub const ROWS: usize = 7;
pub const COLUMNS: usize = 9;
/// Cells of the view.
pub const CELLS: usize = ROWS * COLUMNS;
/// Words of four bits for each cell.
const NIBBLES: usize = CELLS.div_ceil(8);
/// Words of two bytes for each cell: block and mobs.
pub const IMAGE: usize = CELLS.div_ceil(2);
/// Numbers about the player: items, needs, direction, sleep.
pub const STATUS: usize = ITEMS + 4 + 2;
/// Words of these, four in each.
pub const STATUS_WORDS: usize = STATUS.div_ceil(4);
/// Numbers of the package's observation: 21 for each cell, items, needs, four directions, light, sleep.
pub const SYMBOLS: usize = 21 * CELLS + ITEMS + 4 + 4 + 2;

/// The package's tenths of 0..9: products with the half-precision number nearest to 0.1, rounded to half precision.
const TENTHS: [f64; 10] = [
    0.0,
    0.099_975_585_937_5,
    0.199_951_171_875,
    0.299_804_687_5,
    0.399_902_343_75,
    0.5,
    0.599_609_375,
    0.699_707_031_25,
    0.799_804_687_5,
    0.899_902_343_75,
];

/// Blocks and mobs of the cells in view, four bits each; of mobs a bit for zombie, cow, skeleton and arrow.
struct Seen<L: Lane> {
    blocks: [L::Uint; NIBBLES],
    mobs: [L::Uint; NIBBLES],
}

impl<L: Lane> State<L> {
    #[inline(always)]
    fn seen(&self) -> Seen<L> {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        let (top, left) = (self.row - i(ROWS as i32 / 2), self.column - i(COLUMNS as i32 / 2));
        let mut seen = Seen::<L> { blocks: [u(0); NIBBLES], mobs: [u(0); NIBBLES] };
        for line in 0..ROWS {
            let [eight, ninth] = blocks::window::<L>(&self.map, top + i(line as i32), left);
            let (word, shift) = (COLUMNS * line / 8, (COLUMNS * line % 8) as u32);
            seen.blocks[word] = seen.blocks[word] | eight.shl(4 * shift);
            let rest = if shift == 0 { ninth } else { eight.shr(32 - 4 * shift) | ninth.shl(4 * shift) };
            if word + 1 < NIBBLES {
                seen.blocks[word + 1] = seen.blocks[word + 1] | rest;
            }
        }
        // The package writes the flag of each mob of a list in turn, so that the last one in a cell counts, shown or not. A place up to
        // a view's size before the view wraps around.
        let mut write = |[row, column]: blocks::At<L>, live: L::Mask, kind: u32| {
            let (row, column) = (row - top, column - left);
            let wrap = |x: L::Int, size: usize| x.lt(i(0)).select(x + i(size as i32), x).to_uint();
            let shown = live & !row.lt(i(0)) & !column.lt(i(0));
            let (row, column) = (wrap(row, ROWS), wrap(column, COLUMNS));
            let within = row.lt(u(ROWS as u32)) & column.lt(u(COLUMNS as u32));
            let cell = within.select(row * u(COLUMNS as u32) + column, u(u32::MAX));
            let bit = u(1 << kind).shl_by((cell & u(7)).shl(2));
            for (word, mobs) in seen.mobs.iter_mut().enumerate() {
                let here = cell.shr(3).eq(u(word as u32)).select(bit, u(0));
                *mobs = (*mobs & !here) | shown.select(here, u(0));
            }
        };
        for mob in 0..8 {
            write(blocks::at::<L>(self.mob_place[mob]), self.mob_live[mob], mobs::kind(mob) as u32);
        }
        for arrow in 0..self.arrow_live.len() {
            let at = [self.arrow_row[arrow], self.arrow_column[arrow]];
            write(at, self.arrow_live[arrow], 3);
        }
        seen
    }

    /// The view, two bytes for each cell: the package's number of the block, and the mobs.
    #[inline(never)]
    fn image(&self) -> [L::Uint; IMAGE] {
        let u = L::Uint::splat;
        let Seen { blocks, mobs } = self.seen();
        let mut image = [u(0); IMAGE];
        for (pair, word) in image.iter_mut().enumerate() {
            let two = |nibbles: &[L::Uint; NIBBLES]| {
                let byte = nibbles[pair / 4].shr(8 * (pair as u32 % 4)) & u(255);
                (byte | byte.shl(12)) & u(0x000f_000f)
            };
            let blocks = two(&blocks);
            // The same as `blocks::public`.
            let later = (blocks + u(0x0001_0001 * (128 - blocks::PATH))).shr(7) & u(0x0001_0001);
            let both = (blocks + u(0x0001_0001) + later) | two(&mobs).shl(8);
            *word = if 2 * pair + 1 < CELLS { both } else { both & u(0xffff) };
        }
        image
    }

    /// Items, needs, direction and sleep.
    fn status(&self) -> [L::Uint; STATUS] {
        let u = L::Uint::splat;
        let mut of = [u(0); STATUS];
        of[..ITEMS].copy_from_slice(&self.items);
        let sleeping = self.sleeping.select(u(1), u(0));
        of[ITEMS..].copy_from_slice(&[
            self.health.to_uint(),
            self.food,
            self.drink,
            self.energy,
            self.facing - u(1),
            sleeping,
        ]);
        of
    }

    /// The same as bytes.
    fn status_bytes(&self) -> [L::Uint; STATUS_WORDS] {
        let mut words = [L::Uint::splat(0); STATUS_WORDS];
        for (k, byte) in self.status().into_iter().enumerate() {
            words[k / 4] = words[k / 4] | byte.shl(8 * (k as u32 % 4));
        }
        words
    }

    /// The package's observation.
    #[inline(never)]
    fn symbols(&self, light: L::Float) -> [L::Float; SYMBOLS] {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let Seen { blocks, mobs } = self.seen();
        let status = self.status();
        let flag = |mask: L::Mask| mask.select(f(1.0), f(0.0));
        let mut symbols = [f(0.0); SYMBOLS];
        for cell in 0..CELLS {
            let nibble = |of: &[L::Uint; NIBBLES]| of[cell / 8].shr(4 * (cell as u32 % 8));
            let block = nibble(&blocks) & u(15);
            for code in blocks::OUTSIDE..=blocks::RIPE {
                symbols[21 * cell + blocks::public(code) as usize] = flag(block.eq(u(code)));
            }
            for kind in 0..4 {
                symbols[21 * cell + 17 + kind] = flag((nibble(&mobs) & u(1 << kind)).ne(u(0)));
            }
        }
        let own = &mut symbols[21 * CELLS..];
        for (symbol, count) in own.iter_mut().zip(&status[..ITEMS + 4]) {
            *symbol = L::Float::gather(&TENTHS, *count);
        }
        for direction in 0..4 {
            own[ITEMS + 4 + direction] = flag(status[ITEMS + 4].eq(u(direction as u32)));
        }
        own[ITEMS + 8] = light;
        own[ITEMS + 9] = flag(self.sleeping);
        symbols
    }
}

const ITEMS_AND_NEEDS: &str = "wood, stone, coal, iron, diamond, sapling, pickaxes of wood, stone, iron, swords of wood, stone, iron; \
                               health, food, drink, energy";
const BLOCKS: &str = "blocks: 1 outside, 2 grass, 3 water, 4 stone, 5 tree, 7 path, 8 coal, 9 iron, 10 diamond, 11 table, 12 furnace, \
                      13 sand, 14 lava, 15 plant, 16 ripe plant";

/// A kind of observation.
pub trait View: Clone + Send + Sync + 'static {
    type Obs<L: Lane>: Bundle<L>;

    fn space() -> ObsSpace;
    fn names() -> Vec<String>;
    fn of<L: Lane>(state: &State<L>, light: L::Float) -> Self::Obs<L>;
}

/// Indices: block and mobs of each cell, and what the player has.
#[derive(Debug, Clone)]
pub struct Indices;

impl View for Indices {
    type Obs<L: Lane> = ([L::Uint; IMAGE], [L::Uint; STATUS_WORDS], [L::Float; 1]);

    fn space() -> ObsSpace {
        let image = ObsSpace::Index { shape: vec![ROWS, COLUMNS, 2], below: vec![17, 16] };
        let below = [[10; ITEMS + 4].as_slice(), &[4, 2]].concat();
        ObsSpace::Parts(vec![
            ("image".into(), image),
            ("status".into(), ObsSpace::Index { shape: vec![STATUS], below }),
            ("light".into(), ObsSpace::Box { low: vec![0.0], high: vec![1.0] }),
        ])
    }

    fn names() -> Vec<String> {
        let status = format!("status: {ITEMS_AND_NEEDS}; facing 0 left, 1 right, 2 up, 3 down; sleeping");
        names([
            "image: block and mobs of 7 x 9 cells around the player, row by row",
            BLOCKS,
            "mobs: 1 zombie + 2 cow + 4 skeleton + 8 arrow",
            &status,
            "light: of the day, 0 to 1",
        ])
    }

    fn of<L: Lane>(state: &State<L>, light: L::Float) -> Self::Obs<L> {
        (state.image(), state.status_bytes(), [light])
    }
}

/// The package's numbers.
#[derive(Debug, Clone)]
pub struct Symbols;

impl View for Symbols {
    type Obs<L: Lane> = [L::Float; SYMBOLS];

    fn space() -> ObsSpace {
        ObsSpace::Box { low: vec![0.0; SYMBOLS], high: vec![1.0; SYMBOLS] }
    }

    fn names() -> Vec<String> {
        let tenths = format!("tenths: {ITEMS_AND_NEEDS}");
        names([
            "7 x 9 cells around the player, row by row, each 17 one-hot numbers for the block, then zombie, cow, skeleton, arrow",
            BLOCKS,
            &tenths,
            "facing left, right, up, down; light; sleeping",
        ])
    }

    fn of<L: Lane>(state: &State<L>, light: L::Float) -> Self::Obs<L> {
        state.symbols(light)
    }
}
