//! Writes 1,000 positions of Connect Four with their optimal moves, for `operant-run/examples/connect_four.rs`.
//!
//! ```text
//! cargo run --release -p operant-env --example connect_four_positions
//! ```
//!
//! Positions are met in random games after 14 to 32 moves, and at most half of the legal moves are optimal. A move is optimal if it keeps the value of
//! the position (won, drawn or lost with best play), found by a full search. Each line has the columns that were played, and the optimal columns.

use std::io::Write as _;
use std::path::Path;

const ROWS: u32 = 6;
const COLUMNS: u32 = 7;
/// Bits of a column: its cells, and one that is always 0.
const STRIDE: u32 = ROWS + 1;
const POSITIONS: usize = 1000;

const fn each_column(bits: u64) -> u64 {
    let (mut all, mut column) = (0, 0);
    while column < COLUMNS {
        all |= bits << (column * STRIDE);
        column += 1;
    }
    all
}
const BOTTOM: u64 = each_column(1);
const BOARD: u64 = each_column((1 << ROWS) - 1);

/// Stones of the player to move, and of both.
#[derive(Clone, Copy, Default)]
struct Position {
    mine: u64,
    all: u64,
}

impl Position {
    /// The cells where a stone can be dropped.
    fn open(self) -> u64 {
        (self.all + BOTTOM) & BOARD
    }

    fn open_in(self, column: u32) -> u64 {
        self.open() & ((1 << ROWS) - 1) << (column * STRIDE)
    }

    /// The position after a stone on `cell`, from the other player's view.
    fn after(self, cell: u64) -> Self {
        Self { mine: self.mine ^ self.all, all: self.all | cell }
    }

    /// The empty cells that complete four stones in a line.
    fn completing(self, stones: u64) -> u64 {
        let mut cells = (stones << 1) & (stones << 2) & (stones << 3);
        for step in [STRIDE - 1, STRIDE, STRIDE + 1] {
            let (up, down) =
                ((stones << step) & (stones << (2 * step)), (stones >> step) & (stones >> (2 * step)));
            cells |=
                up & (stones << (3 * step) | stones >> step) | down & (stones >> (3 * step) | stones << step);
        }
        cells & BOARD & !self.all
    }
}

/// Values of positions with best play, by alpha-beta search with a table of what is known.
struct Solver {
    /// `(position, lowest and highest possible value)`.
    table: Vec<(u64, i8, i8)>,
}

impl Solver {
    /// 1 if the player to move wins, 0 for a draw, -1 if the other one wins; between `low` and `high`.
    fn value(&mut self, at: Position, mut low: i8, mut high: i8) -> i8 {
        let open = at.open();
        if open == 0 {
            return 0;
        }
        if at.completing(at.mine) & open != 0 {
            return 1;
        }
        let threats = at.completing(at.mine ^ at.all);
        let forced = threats & open;
        // Two threats cannot be met, and below a threat lies no good cell.
        let good = if forced == 0 { open } else { forced } & !(threats >> 1);
        if forced.count_ones() > 1 || good == 0 {
            return -1;
        }
        let key = at.mine + at.all + BOTTOM;
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        if self.table[slot].0 == key {
            (low, high) = (low.max(self.table[slot].1), high.min(self.table[slot].2));
            if low >= high {
                return if self.table[slot].1 >= high { high } else { low };
            }
        }
        let mut moves: Vec<(u32, u64)> = Vec::with_capacity(7);
        for column in [3, 2, 4, 1, 5, 0, 6] {
            let cell = at.open_in(column) & good;
            if cell != 0 {
                moves.push((at.completing(at.mine | cell).count_ones(), cell));
            }
        }
        moves.sort_by_key(|(threats, _)| std::cmp::Reverse(*threats));
        let (first, mut best) = (low, -1);
        for (_, cell) in moves {
            best = best.max(-self.value(at.after(cell), -high, -low));
            low = low.max(best);
            if low >= high {
                break;
            }
        }
        let (known_low, known_high) = if best >= high {
            (best, 1)
        } else if best <= first {
            (-1, best.max(first))
        } else {
            (best, best)
        };
        self.table[slot] = (key, known_low, known_high);
        best
    }

    /// The value, and the columns that keep it.
    fn optimal(&mut self, at: Position) -> Vec<u32> {
        let mut values = Vec::new();
        for column in 0..COLUMNS {
            let cell = at.open_in(column);
            if cell != 0 {
                let wins = at.completing(at.mine) & cell != 0;
                values.push((column, if wins { 1 } else { -self.value(at.after(cell), -1, 1) }));
            }
        }
        let best = values.iter().map(|(_, value)| *value).max();
        values.into_iter().filter(|(_, value)| Some(*value) == best).map(|(column, _)| column).collect()
    }
}

/// The next number below `below`: SplitMix64.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((word ^ word >> 31) >> 32) * below) >> 32
}

fn main() -> std::io::Result<()> {
    let (mut solver, mut state) = (Solver { table: vec![(0, 0, 0); 1 << 24] }, 4);
    let mut lines = std::collections::BTreeSet::new();
    while lines.len() < POSITIONS {
        let (mut at, mut played) = (Position::default(), String::new());
        for _ in 0..14 + draw(&mut state, 19) {
            let columns: Vec<u32> = (0..COLUMNS).filter(|column| at.open_in(*column) != 0).collect();
            if columns.is_empty() {
                break;
            }
            let column = columns[draw(&mut state, columns.len() as u64) as usize];
            let cell = at.open_in(column);
            if at.completing(at.mine) & cell != 0 {
                played.clear();
                break;
            }
            at = at.after(cell);
            played.push_str(&column.to_string());
        }
        let legal = (0..COLUMNS).filter(|column| at.open_in(*column) != 0).count();
        if played.is_empty() || legal < 2 {
            continue;
        }
        let optimal = solver.optimal(at);
        if 2 * optimal.len() <= legal {
            lines.insert(format!("{played} {}\n", optimal.iter().map(u32::to_string).collect::<String>()));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/connect_four.positions.gz");
    let mut file = flate2::write::GzEncoder::new(std::fs::File::create(&path)?, flate2::Compression::best());
    lines.iter().try_for_each(|line| file.write_all(line.as_bytes()))?;
    file.finish()?;
    println!("{} positions in {}", lines.len(), path.display());
    Ok(())
}
