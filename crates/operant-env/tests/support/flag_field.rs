//! A second implementation of capture the flag, with lists of players and a picture of the field.

use operant_lane::Draws;

use crate::arcade::Reference;

const COLUMNS: i32 = 10;
const ROWS: i32 = 7;

#[derive(Clone, Copy, PartialEq)]
struct Player {
    team: usize,
    at: (i32, i32),
    carries: bool,
}

/// The field.
pub struct Field {
    players: Vec<Player>,
    chosen: Vec<u32>,
}

/// Where the flag of a team stands.
fn flag(team: usize) -> (i32, i32) {
    ([0, COLUMNS - 1][team], ROWS / 2)
}

fn is_own_half(team: usize, x: i32) -> bool {
    (x < COLUMNS / 2) == (team == 0)
}

impl Field {
    fn carrier(&self, of_team: usize) -> Option<usize> {
        self.players.iter().position(|player| player.team != of_team && player.carries)
    }

    fn target(player: &Player, choice: u32) -> (i32, i32) {
        let ahead = if player.team == 0 { 1 } else { -1 };
        let (dx, dy) = [(0, 0), (0, -1), (ahead, 0), (0, 1), (-ahead, 0)][choice as usize];
        let (x, y) = (player.at.0 + dx, player.at.1 + dy);
        let is_inside = (0..COLUMNS).contains(&x) && (0..ROWS).contains(&y);
        if is_inside && (x, y) != flag(player.team) { (x, y) } else { player.at }
    }

    /// The turn of all four: the reward, and whether the game ends.
    fn turn(&mut self) -> (f64, bool) {
        let old = self.players.clone();
        let stood = [0, 1].map(|team| self.carrier(team).is_none());
        for (player, choice) in self.players.iter_mut().zip(self.chosen.drain(..)) {
            player.at = Self::target(player, choice);
        }
        let moved = self.players.clone();
        for (k, player) in moved.iter().enumerate() {
            let meets = |other: usize| {
                let is_exchange = moved[other].at == old[k].at && old[other].at == player.at;
                moved[other].team != player.team && (moved[other].at == player.at || is_exchange)
            };
            if (0..4).any(meets) && !is_own_half(player.team, player.at.0) {
                let column = [0, COLUMNS - 1][player.team];
                let row = if k < 2 { 0 } else { ROWS - 1 };
                self.players[k] = Player { at: (column, row), carries: false, ..*player };
            }
        }
        for k in 0..4 {
            let others = 1 - self.players[k].team;
            if self.players[k].at == flag(others) && stood[others] && self.carrier(others).is_none() {
                self.players[k].carries = true;
            }
        }
        let wins = [0, 1]
            .map(|team| self.carrier(1 - team).is_some_and(|k| is_own_half(team, self.players[k].at.0)));
        (f64::from(u8::from(wins[0])) - f64::from(u8::from(wins[1])), wins[0] || wins[1])
    }
}

impl Reference for Field {
    fn first(draws: &mut Draws<f64>) -> Self {
        let mut rows = Vec::new();
        for _ in 0..2 {
            let first = draws.below(7).0 as i32;
            let second = draws.below(6).0 as i32;
            rows.push([first, if second >= first { second + 1 } else { second }]);
        }
        let player =
            |k: usize| Player { team: k % 2, at: ([1, 8][k % 2], rows[k % 2][k / 2]), carries: false };
        Self { players: (0..4).map(player).collect(), chosen: Vec::new() }
    }

    fn load(&mut self, l: &[f64]) {
        let turn = l[0] as usize;
        self.chosen = l[1..=turn].iter().map(|choice| *choice as u32).collect();
        for (k, player) in self.players.iter_mut().enumerate() {
            player.at = (l[4 + k] as i32, l[8 + k] as i32);
            player.carries = l[12 + 1 - k % 2] == k as f64;
        }
    }

    fn leaves(&self) -> Vec<f64> {
        let mut all = vec![self.chosen.len() as f64];
        all.extend((0..3).map(|k| self.chosen.get(k).map_or(0.0, |choice| f64::from(*choice))));
        all.extend(self.players.iter().map(|player| f64::from(player.at.0)));
        all.extend(self.players.iter().map(|player| f64::from(player.at.1)));
        all.extend([0, 1].map(|team| self.carrier(team).unwrap_or(4) as f64));
        all
    }

    fn step(&mut self, action: u32, _: &mut Draws<f64>) -> (f64, bool) {
        self.chosen.push(action);
        if self.chosen.len() < 4 { (0.0, false) } else { self.turn() }
    }

    fn observe(&self) -> Vec<f64> {
        let me = self.chosen.len();
        let team = me % 2;
        let mut field = vec![0.0; (ROWS * COLUMNS * 5) as usize];
        let mut mark = |(x, y): (i32, i32), channel: i32| {
            let x = if team == 0 { x } else { COLUMNS - 1 - x };
            field[((y * COLUMNS + x) * 5 + channel) as usize] = 1.0;
        };
        for (k, player) in self.players.iter().enumerate() {
            mark(
                player.at,
                if k == me {
                    0
                } else if player.team == team {
                    1
                } else {
                    2
                },
            );
        }
        for of in [0, 1] {
            let at = self.carrier(of).map_or(flag(of), |k| self.players[k].at);
            mark(at, if of == team { 3 } else { 4 });
        }
        field
    }

    fn legal(&self) -> Vec<u32> {
        (0..5).collect()
    }

    /// Runs for the flag and home again, three times of four; team mates 2 and 3 run after a carrier instead.
    fn policy(&self, random: u32) -> u32 {
        let player = self.players[self.chosen.len()];
        if random.is_multiple_of(4) {
            return random / 4 % 5;
        }
        let chased = self.carrier(player.team).filter(|_| self.chosen.len() >= 2);
        let goal = match chased {
            Some(k) => self.players[k].at,
            None if player.carries => flag(player.team),
            None => flag(1 - player.team),
        };
        let ahead = if player.team == 0 { 1 } else { -1 };
        let (dx, dy) = ((goal.0 - player.at.0) * ahead, goal.1 - player.at.1);
        if dy != 0 && (dx == 0 || (random / 64).is_multiple_of(2)) {
            if dy > 0 { 3 } else { 1 }
        } else if dx > 0 {
            2
        } else {
            4
        }
    }
}
