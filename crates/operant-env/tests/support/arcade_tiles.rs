//! Second implementations of 2048 and Snake, with lists in place of bit maps.

use std::collections::VecDeque;

use operant_lane::Draws;

use crate::arcade::Reference;

/// 2048: the numbers on the board, 0 if free.
pub struct Game2048([[u64; 4]; 4]);

/// A line after it was slid to its start, and the sum of the merged tiles.
fn slide(line: [u64; 4]) -> ([u64; 4], u64) {
    let mut tiles: VecDeque<u64> = line.into_iter().filter(|&tile| tile > 0).collect();
    let (mut after, mut sum) = (Vec::new(), 0);
    while let Some(tile) = tiles.pop_front() {
        if tiles.front() == Some(&tile) {
            tiles.pop_front();
            after.push(2 * tile);
            sum += 2 * tile;
        } else {
            after.push(tile);
        }
    }
    after.resize(4, 0);
    (after.try_into().expect("four tiles"), sum)
}

impl Game2048 {
    /// The board turned to the left by a quarter: what was up is left then.
    fn turned(&self) -> Self {
        Game2048(std::array::from_fn(|row| std::array::from_fn(|column| self.0[column][3 - row])))
    }

    /// The board after a move (up, right, down, left), and the sum of the merged tiles.
    fn moved(&self, action: u32) -> (Self, u64) {
        let turns = (action + 1) % 4;
        let mut board = (0..turns).fold(Game2048(self.0), |board, _| board.turned());
        let mut sum = 0;
        for line in &mut board.0 {
            let (after, more) = slide(*line);
            *line = after;
            sum += more;
        }
        ((0..(4 - turns) % 4).fold(board, |board, _| board.turned()), sum)
    }

    fn spawn(&mut self, draws: &mut Draws<f64>) {
        let mut free: Vec<&mut u64> = self.0.iter_mut().flatten().filter(|tile| **tile == 0).collect();
        let chosen = draws.below(free.len() as u32).0 as usize;
        *free[chosen] = if draws.unit() < 0.1 { 4 } else { 2 };
    }
}

impl Reference for Game2048 {
    fn first(draws: &mut Draws<f64>) -> Self {
        let mut board = Game2048([[0; 4]; 4]);
        board.spawn(draws);
        board.spawn(draws);
        board
    }

    fn load(&mut self, leaves: &[f64]) {
        for (tile, exponent) in self.0.iter_mut().flatten().zip(leaves) {
            *tile = if *exponent == 0.0 { 0 } else { 1 << *exponent as u32 };
        }
    }

    fn leaves(&self) -> Vec<f64> {
        self.0.iter().flatten().map(|&tile| if tile == 0 { 0.0 } else { f64::from(tile.ilog2()) }).collect()
    }

    fn step(&mut self, action: u32, draws: &mut Draws<f64>) -> (f64, bool) {
        let (after, sum) = self.moved(action);
        if after.0 != self.0 {
            *self = after;
            self.spawn(draws);
        }
        (sum as f64, self.legal().is_empty())
    }

    fn observe(&self) -> Vec<f64> {
        self.leaves()
    }

    fn legal(&self) -> Vec<u32> {
        (0..4).filter(|&action| self.moved(action).0.0 != self.0).collect()
    }

    /// Any move, sometimes an illegal one.
    fn policy(&self, random: u32) -> u32 {
        let legal = self.legal();
        if random.is_multiple_of(8) { random / 8 % 4 } else { legal[random as usize / 8 % legal.len()] }
    }
}

/// Snake on 10 x 10 cells.
pub struct Snake {
    /// Its cells (column, row), the head first.
    cells: VecDeque<[i32; 2]>,
    heading: usize,
    food: [i32; 2],
    hunger: u32,
    /// Row by row the direction in which the snake last left a cell, which bit maps keep.
    left: [[usize; 10]; 10],
}

/// Motions up, right, down and left.
const MOTIONS: [[i32; 2]; 4] = [[0, -1], [1, 0], [0, 1], [-1, 0]];

/// The cell next to another.
fn next([x, y]: [i32; 2], direction: usize) -> [i32; 2] {
    let [dx, dy] = MOTIONS[direction];
    [x + dx, y + dy]
}

/// Whether a cell is on the board.
fn inside(cell: [i32; 2]) -> bool {
    cell.iter().all(|place| (0..10).contains(place))
}

impl Snake {
    fn feed(&mut self, draws: &mut Draws<f64>) {
        let all = (0..10).flat_map(|y| (0..10).map(move |x| [x, y]));
        let free: Vec<[i32; 2]> = all.filter(|cell| !self.cells.contains(cell)).collect();
        self.food = free[draws.below(free.len() as u32).0 as usize];
    }

    fn blocked(&self, cell: [i32; 2]) -> bool {
        !inside(cell) || self.cells.iter().take(self.cells.len() - 1).any(|&own| own == cell)
    }

    /// Where a choice leads.
    fn ahead(&self, action: usize) -> [i32; 2] {
        let opposite = action == (self.heading + 2) % 4;
        next(self.cells[0], if opposite { self.heading } else { action })
    }
}

impl Reference for Snake {
    fn first(draws: &mut Draws<f64>) -> Self {
        let mut left = [[0; 10]; 10];
        (left[5][3], left[5][4]) = (1, 1);
        let mut snake =
            Snake { cells: [[5, 5], [4, 5], [3, 5]].into(), heading: 1, food: [0, 0], hunger: 0, left };
        snake.feed(draws);
        snake
    }

    /// The reference keeps its own list of cells; the leaves have been compared with it.
    fn load(&mut self, _: &[f64]) {}

    fn leaves(&self) -> Vec<f64> {
        let ([x, y], [tail_x, tail_y]) = (self.cells[0], self.cells[self.cells.len() - 1]);
        let [food_x, food_y] = self.food;
        let mut all: Vec<f64> =
            // A head beyond the left or top edge has coordinates that wrapped around.
            [x, y, self.heading as i32, tail_x, tail_y, food_x, food_y].map(|place| f64::from(place as u32)).into();
        all.extend([self.cells.len() as f64, f64::from(self.hunger)]);
        let bits = |bit: &dyn Fn([i32; 2]) -> bool| {
            (0..20)
                .map(|y| (0..10).map(|x| u32::from(y < 10 && bit([x, y])) << x).sum::<u32>())
                .map(f64::from)
                .collect::<Vec<f64>>()
        };
        let left = |[x, y]: [i32; 2]| self.left[y as usize][x as usize];
        all.extend(bits(&|cell| self.cells.contains(&cell)));
        all.extend(bits(&|cell| left(cell) & 1 == 1));
        all.extend(bits(&|cell| left(cell) & 2 == 2));
        all
    }

    fn step(&mut self, action: u32, draws: &mut Draws<f64>) -> (f64, bool) {
        let head = self.cells[0];
        let to = self.ahead(action as usize);
        self.heading =
            MOTIONS.iter().position(|&[dx, dy]| [head[0] + dx, head[1] + dy] == to).expect("a motion");
        self.left[head[1] as usize][head[0] as usize] = self.heading;
        let (eats, dies) = (to == self.food, self.blocked(to));
        if !eats {
            self.cells.pop_back();
        }
        self.cells.push_front(to);
        self.hunger = if eats { 0 } else { self.hunger + 1 };
        if eats && self.cells.len() < 100 {
            self.feed(draws);
        }
        (f64::from(u8::from(eats)), dies || self.hunger == 200 || self.cells.len() == 100)
    }

    fn observe(&self) -> Vec<f64> {
        let [x, y] = self.cells[0];
        let around = || (-5..=5).flat_map(move |dy| (-5..=5).map(move |dx| [x + dx, y + dy]));
        let mut bits: Vec<bool> = around().map(|cell| self.blocked(cell)).collect();
        bits.extend(around().map(|cell| cell == self.food));
        let [food_x, food_y] = self.food;
        bits.extend([food_y < y, food_x > x, food_y > y, food_x < x]);
        bits.extend((0..4).map(|direction| direction == self.heading));
        bits.into_iter().map(|bit| f64::from(u8::from(bit))).collect()
    }

    fn legal(&self) -> Vec<u32> {
        vec![0, 1, 2, 3]
    }

    /// Goes for the food around what is in the way. A short snake with food in certain cells runs in circles instead, so that some starve.
    fn policy(&self, random: u32) -> u32 {
        let free: Vec<usize> = (0..4).filter(|&way| !self.blocked(self.ahead(way))).collect();
        let distance = |way: &usize| {
            let [x, y] = self.ahead(*way);
            (x - self.food[0]).abs() + (y - self.food[1]).abs()
        };
        let circles = (self.food[0] + 3 * self.food[1]) % 17 == 0 && self.cells.len() < 12;
        let wanted = if circles {
            free.iter().copied().find(|&way| way == (self.heading + 1) % 4)
        } else if random.is_multiple_of(64) {
            Some(random as usize / 64 % 4)
        } else {
            free.iter().copied().min_by_key(distance)
        };
        wanted.or(free.first().copied()).unwrap_or(0) as u32
    }
}
