//! Second implementations of Pong and of Breakout in the large, for one environment and in doubles.

use operant_lane::Draws;

use crate::arcade::Reference;

/// Pong.
pub struct Pong {
    ball: [f64; 2],
    velocity: [f64; 2],
    spin: f64,
    /// Heights of the paddles, the player's first, and their last motions.
    paddles: [f64; 2],
    motions: [f64; 2],
    aim: f64,
    points: [f64; 2],
}

impl Pong {
    fn serve(&mut self, draws: &mut Draws<f64>) {
        self.ball = [0.0, draws.unit() - 0.5];
        let dy = 0.02 * (draws.unit() - 0.5);
        self.velocity = [if draws.unit() < 0.5 { -0.02 } else { 0.02 }, dy];
        self.spin = 0.0;
    }

    fn empty() -> Self {
        Pong {
            ball: [0.0; 2],
            velocity: [0.0; 2],
            spin: 0.0,
            paddles: [0.0; 2],
            motions: [0.0; 2],
            aim: 0.0,
            points: [0.0; 2],
        }
    }

    /// Frames until a side scores, at most four.
    fn frames(&mut self, motions: impl Fn(&Self) -> [f64; 2]) -> Option<usize> {
        (0..4).find_map(|_| self.frame(motions(self)))
    }

    fn view(&self, opponent_speed: f64) -> Vec<f64> {
        let l = self.leaves();
        let units = [1.0, 0.75, 0.05, 0.05, 0.0003, 0.75, 0.03, 0.75, opponent_speed];
        let mut all: Vec<f64> = l.iter().zip(units).map(|(value, unit)| value / unit).collect();
        all.extend([l[10] / 21.0, l[11] / 21.0]);
        all
    }

    fn move_paddle(&mut self, side: usize, motion: f64) {
        let before = self.paddles[side];
        self.paddles[side] = (before + motion).clamp(-0.63, 0.63);
        self.motions[side] = self.paddles[side] - before;
    }

    /// The motion of the scripted opponent.
    fn scripted(&self) -> f64 {
        let target = if self.velocity[0] < 0.0 { self.ball[1] - 0.14 * self.aim } else { 0.0 };
        let way = target - self.paddles[1];
        way.signum() * way.abs().min(0.01)
    }

    /// One frame; the side that scored.
    fn frame(&mut self, motions: [f64; 2]) -> Option<usize> {
        self.move_paddle(0, motions[0]);
        self.move_paddle(1, motions[1]);

        let before = self.ball[0];
        self.velocity[1] += self.spin;
        self.ball[0] += self.velocity[0];
        self.ball[1] += self.velocity[1];
        if self.ball[1].abs() > 0.73 {
            self.ball[1] = self.ball[1].signum() * (1.46 - self.ball[1].abs());
            self.velocity[1] = -self.velocity[1];
            self.spin = 0.0;
        }
        let side = if self.ball[0] > 0.0 { 0 } else { 1 };
        if before.abs() < 0.9 && self.ball[0].abs() >= 0.9 {
            let off = self.ball[1] - self.paddles[side];
            if off.abs() <= 0.14 {
                let away = if side == 0 { -1.0 } else { 1.0 };
                let part = off / 0.14;
                let pace = (self.velocity[0].abs() * (1.03 + 0.07 * part.abs())).min(0.05);
                self.velocity = [away * pace, part * 0.9 * pace];
                self.ball[0] = -away * 1.8 - self.ball[0];
                self.spin = self.motions[side] / 100.0;
            }
        }
        (self.ball[0].abs() > 1.0).then_some(1 - side)
    }
}

impl Reference for Pong {
    fn first(draws: &mut Draws<f64>) -> Self {
        let mut court = Pong::empty();
        court.serve(draws);
        court.aim = 1.6 * draws.unit() - 0.8;
        court
    }

    fn load(&mut self, l: &[f64]) {
        *self = Pong {
            ball: [l[0], l[1]],
            velocity: [l[2], l[3]],
            spin: l[4],
            paddles: [l[5], l[7]],
            motions: [l[6], l[8]],
            aim: l[9],
            points: [l[10], l[11]],
        };
    }

    fn leaves(&self) -> Vec<f64> {
        let ([x, y], [dx, dy], [player, opponent]) = (self.ball, self.velocity, self.paddles);
        let [own, other] = self.motions;
        vec![x, y, dx, dy, self.spin, player, own, opponent, other, self.aim, self.points[0], self.points[1]]
    }

    fn step(&mut self, action: u32, draws: &mut Draws<f64>) -> (f64, bool) {
        let push = [0.0, 0.03, -0.03][action as usize];
        let Some(winner) = self.frames(|court| [push, court.scripted()]) else { return (0.0, false) };
        self.points[winner] += 1.0;
        self.serve(draws);
        self.aim = 1.6 * draws.unit() - 0.8;
        ([1.0, -1.0][winner], self.points[winner] == 21.0)
    }

    fn observe(&self) -> Vec<f64> {
        self.view(0.01)
    }

    fn legal(&self) -> Vec<u32> {
        vec![0, 1, 2]
    }

    /// Meets the ball with the end of the paddle, three times of four.
    fn policy(&self, random: u32) -> u32 {
        if random.is_multiple_of(4) {
            return random / 4 % 3;
        }
        let edge = if (self.points[0] as u32).is_multiple_of(2) { 0.1 } else { -0.1 };
        let off = self.ball[1] - self.paddles[0] + edge;
        if off > 0.03 {
            1
        } else if off < -0.03 {
            2
        } else {
            0
        }
    }
}

/// Pong for two players.
pub struct TwoPlayerPong {
    /// The choice of player 0, while player 1 is to choose.
    chosen: Option<u32>,
    court: Pong,
}

impl TwoPlayerPong {
    /// The court of the player who chooses: the own side first.
    fn own(&self) -> Pong {
        let Pong { ball, velocity, spin, paddles, motions, points, .. } = self.court;
        let [x, dx] =
            [ball[0], velocity[0]].map(|number| if self.chosen.is_some() { -number } else { number });
        let turned = |both: [f64; 2]| if self.chosen.is_some() { [both[1], both[0]] } else { both };
        Pong {
            ball: [x, ball[1]],
            velocity: [dx, velocity[1]],
            spin,
            paddles: turned(paddles),
            motions: turned(motions),
            aim: 0.0,
            points: turned(points),
        }
    }
}

impl Reference for TwoPlayerPong {
    fn first(draws: &mut Draws<f64>) -> Self {
        let mut court = Pong::empty();
        court.serve(draws);
        Self { chosen: None, court }
    }

    fn load(&mut self, leaves: &[f64]) {
        self.chosen = (leaves[0] == 1.0).then_some(leaves[1] as u32);
        self.court.load(&leaves[2..]);
    }

    fn leaves(&self) -> Vec<f64> {
        let turn = [f64::from(u8::from(self.chosen.is_some())), f64::from(self.chosen.unwrap_or(0))];
        turn.into_iter().chain(self.court.leaves()).collect()
    }

    fn step(&mut self, action: u32, draws: &mut Draws<f64>) -> (f64, bool) {
        let Some(first) = self.chosen.take() else {
            self.chosen = Some(action);
            return (0.0, false);
        };
        let motions = [first, action].map(|action| [0.0, 0.03, -0.03][action as usize]);
        let Some(winner) = self.court.frames(|_| motions) else { return (0.0, false) };
        self.court.points[winner] += 1.0;
        self.court.serve(draws);
        ([1.0, -1.0][winner], self.court.points[winner] == 21.0)
    }

    fn observe(&self) -> Vec<f64> {
        self.own().view(0.03)
    }

    fn legal(&self) -> Vec<u32> {
        self.court.legal()
    }

    /// Both sides play as in Pong.
    fn policy(&self, random: u32) -> u32 {
        self.own().policy(random)
    }
}

/// Breakout in the large.
pub struct Breakout {
    ball: [f64; 2],
    direction: [f64; 2],
    paddle: f64,
    hits: f64,
    deep: [bool; 2],
    balls: f64,
    wall: f64,
    bricks: [[bool; 18]; 6],
    /// Whether its player is careful; the others lose their balls.
    careful: bool,
}

impl Breakout {
    fn speed(&self) -> f64 {
        let events = [self.hits >= 4.0, self.hits >= 12.0, self.deep[0], self.deep[1]];
        2.4 + 0.4 * events.iter().filter(|&&happened| happened).count() as f64
    }

    fn serve(&mut self, place: f64, slant: f64) {
        self.ball = [36.0 + 72.0 * place, 84.0];
        let dx = 1.4 * slant - 0.7;
        self.direction = [dx, (1.0 - dx * dx).sqrt()];
        self.hits = 0.0;
        self.deep = [false; 2];
    }

    fn cleared(&self) -> bool {
        !self.bricks.iter().flatten().any(|&brick| brick)
    }

    fn next_wall(&mut self) {
        if self.wall == 0.0 && self.cleared() {
            self.wall = 1.0;
            self.bricks = [[true; 18]; 6];
        }
    }

    /// Breaks the brick at a point; its worth.
    fn strike(&mut self, x: f64, y: f64) -> Option<f64> {
        if !(24.0..60.0).contains(&y) {
            return None;
        }
        let row = ((y - 24.0) / 6.0) as usize;
        let brick = &mut self.bricks[row][((x / 8.0) as usize).min(17)];
        if !*brick {
            return None;
        }
        *brick = false;
        match row {
            0 | 1 => self.deep[1] = true,
            2 | 3 => self.deep[0] = true,
            _ => {}
        }
        Some([7.0, 7.0, 4.0, 4.0, 1.0, 1.0][row])
    }

    /// One frame: points, and whether the ball is lost.
    fn frame(&mut self, push: f64, deflection: f64) -> (f64, bool) {
        let (speed, mut points) = (self.speed(), 0.0);
        self.paddle = (self.paddle + push).clamp(8.0, 136.0);
        let before = self.ball;
        for axis in [0, 1] {
            let mut to = self.ball[axis] + speed * self.direction[axis];
            let wall = to < 0.0 || (axis == 0 && to > 144.0);
            if wall {
                to = if to < 0.0 { -to } else { 288.0 - to };
            }
            let mut point = self.ball;
            point[axis] = to;
            let worth = self.strike(point[0], point[1]);
            points += worth.unwrap_or(0.0);
            if worth.is_none() {
                self.ball = point;
            }
            if wall || worth.is_some() {
                self.direction[axis] = -self.direction[axis];
            }
        }
        let off = self.ball[0] - self.paddle;
        if before[1] < 156.0 && self.ball[1] >= 156.0 && off.abs() <= 9.0 {
            let dx = off / 9.0 * 0.85 + deflection;
            self.direction = [dx, -(1.0 - dx * dx).sqrt()];
            self.ball[1] = 312.0 - self.ball[1];
            self.hits += 1.0;
            self.next_wall();
        }
        (points, self.ball[1] > 168.0)
    }
}

impl Reference for Breakout {
    fn first(draws: &mut Draws<f64>) -> Self {
        let mut field = Breakout {
            ball: [0.0; 2],
            direction: [0.0; 2],
            paddle: 72.0,
            hits: 0.0,
            deep: [false; 2],
            balls: 5.0,
            wall: 0.0,
            bricks: [[true; 18]; 6],
            careful: false,
        };
        let [place, slant] = [draws.unit(), draws.unit()];
        field.careful = slant < 0.75;
        field.serve(place, slant);
        field
    }

    fn load(&mut self, l: &[f64]) {
        let holds = |cell: usize| l[9 + cell / 32] as u32 >> (cell % 32) & 1 == 1;
        *self = Breakout {
            ball: [l[0], l[1]],
            direction: [l[2], l[3]],
            paddle: l[4],
            hits: l[5],
            deep: [l[6] as u32 & 1 != 0, l[6] as u32 & 2 != 0],
            balls: l[7],
            wall: l[8],
            bricks: std::array::from_fn(|row| std::array::from_fn(|column| holds(18 * row + column))),
            careful: self.careful,
        };
    }

    fn leaves(&self) -> Vec<f64> {
        let mut words = [0u32; 4];
        for (cell, brick) in self.bricks.iter().flatten().enumerate() {
            words[cell / 32] |= u32::from(*brick) << (cell % 32);
        }
        let deep = f64::from(u8::from(self.deep[0])) + 2.0 * f64::from(u8::from(self.deep[1]));
        let ([x, y], [dx, dy]) = (self.ball, self.direction);
        let mut all = vec![x, y, dx, dy, self.paddle, self.hits, deep, self.balls, self.wall];
        all.extend(words.map(f64::from));
        all
    }

    fn step(&mut self, action: u32, draws: &mut Draws<f64>) -> (f64, bool) {
        let deflection = 0.08 * draws.unit() - 0.04;
        let [place, slant] = [draws.unit(), draws.unit()];
        let push = [0.0, -3.0, 3.0][action as usize];
        let mut score = 0.0;
        for _ in 0..4 {
            let (points, lost) = self.frame(push, deflection);
            score += points;
            if lost {
                let over = self.wall == 1.0 && self.cleared();
                self.balls -= 1.0;
                self.serve(place, slant);
                self.next_wall();
                return (score, over || self.balls == 0.0);
            }
        }
        (score, self.wall == 1.0 && self.cleared())
    }

    fn observe(&self) -> Vec<f64> {
        let part = self.speed() / 4.0;
        let mut all = vec![
            self.ball[0] / 72.0 - 1.0,
            self.ball[1] / 84.0 - 1.0,
            self.direction[0] * part,
            self.direction[1] * part,
            self.paddle / 72.0 - 1.0,
            self.balls / 5.0,
            self.wall,
        ];
        all.extend(self.bricks.iter().flatten().map(|&brick| f64::from(u8::from(brick))));
        all
    }

    fn legal(&self) -> Vec<u32> {
        vec![0, 1, 2]
    }

    /// Goes where the ball will come down, to hit it with another part of the paddle each time.
    fn policy(&self, random: u32) -> u32 {
        let clumsy = if self.careful { 64 } else { 3 };
        if random.is_multiple_of(clumsy) {
            return random / clumsy % 3;
        }
        let ([x, y], [dx, dy]) = (self.ball, self.direction);
        let far = if dy > 0.0 { x + (156.0 - y) / dy * dx } else { x };
        // Side walls fold the way.
        let folded = far.rem_euclid(288.0);
        let landing = if folded > 144.0 { 288.0 - folded } else { folded };
        let off = landing - self.paddle + [-3.0, 0.0, 3.0][(self.hits as u32 % 3) as usize];
        if off > 6.0 {
            2
        } else if off < -6.0 {
            1
        } else {
            0
        }
    }
}
