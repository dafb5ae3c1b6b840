//! The chain of rooms of MultiRoom: each room is entered through a door in a wall of the previous one.
//!
//! The package starts again from the first room when it cannot place a room in eight tries. Here each iteration of a
//! single loop places a room, fails or starts again, so environments do not wait for each other's attempts. 512
//! iterations are enough except for one layout in 10^9, which becomes a straight chain.

use operant_lane::{Draws, Lane, Mask, Uint, array, bundle};

use super::board::Board;
use super::cell::{self, CLOSED_DOOR, COLOURS, GOAL, WALL};

/// Cells per side of the grid.
const SIDE: u32 = 25;
/// Number of positions of the first room's corner along an axis.
const CORNERS: u32 = 23;
/// Number of tries to place a room after the first.
const TRIES: u32 = 8;
/// Iterations of the loop, in blocks. No further block runs once every environment has its rooms.
const BLOCKS: u32 = 32;
const BLOCK: u32 = 16;
/// Draws per iteration.
const DRAWN: u32 = 7;
/// Maximum number of rooms of a task.
const ROOMS: usize = 6;

/// Sides of a room: right, bottom, left, top.
const RIGHT: u32 = 0;
const LEFT: u32 = 2;
const TOP: u32 = 3;

bundle! {
    /// The rooms placed so far.
    struct Chain {
        /// Number of rooms.
        count: Uint,
        /// Tries left for the next room.
        tries: Uint,
        /// The side of the last room that has its entrance.
        entry: Uint,
        /// Upper left corners.
        x: [Uint; 6],
        y: [Uint; 6],
        /// Widths and heights.
        w: [Uint; 6],
        h: [Uint; 6],
        /// The entrance door of each room.
        door_x: [Uint; 6],
        door_y: [Uint; 6],
    }
}

/// A candidate for the next room: corner, size, entrance door, and the side of the entrance.
struct Room<L: Lane> {
    corner: [L::Uint; 2],
    size: [L::Uint; 2],
    door: [L::Uint; 2],
    entry: L::Uint,
}

impl<L: Lane> Chain<L> {
    /// A straight chain of small rooms, with `count` set to `none` (zero).
    fn straight(none: L::Uint) -> Self {
        let u = L::Uint::splat;
        let along: [L::Uint; ROOMS] = core::array::from_fn(|room| u(3 * room as u32));
        let all = |value: u32| [u(value); ROOMS];
        Self {
            count: none,
            tries: u(TRIES),
            entry: u(LEFT),
            x: along,
            y: all(0),
            w: all(4),
            h: all(4),
            door_x: along,
            door_y: all(1),
        }
    }

    /// Draws the first room, or a room behind a door of the last room.
    fn draw(&self, [smallest, largest]: [u32; 2], draws: &mut Draws<L>) -> Room<L> {
        let u = L::Uint::splat;
        let last = self.count - u(1);
        let [x, y, w, h] = [&self.x, &self.y, &self.w, &self.h].map(|numbers| array::get(numbers, last));
        let size = [(); 2].map(|()| draws.integer(smallest, largest));
        let side = draws.below(3);
        let side = side + side.ge(self.entry).select(u(1), u(0));
        let is_upright = (side & u(1)).eq(u(0));
        let offset = u(1) + draws.below_each(is_upright.select(h, w) - u(2));
        let far = |is: L::Mask, extent: L::Uint| is.select(extent - u(1), u(0));
        let door = [
            x + is_upright.select(far(side.eq(u(RIGHT)), w), offset),
            y + is_upright.select(offset, far(side.ne(u(TOP)), h)),
        ];
        // The door must not be at a corner of the new room either.
        let back = draws.below_each(is_upright.select(size[1], size[0]) - u(2)) + u(1);
        let beyond = |is_far: L::Mask, extent: L::Uint| is_far.select(u(0), extent - u(1));
        let corner = [
            door[0] - is_upright.select(beyond(side.eq(u(RIGHT)), size[0]), back),
            door[1] - is_upright.select(back, beyond(side.ne(u(TOP)), size[1])),
        ];
        let is_first = self.count.eq(u(0));
        let start = [(); 2].map(|()| draws.below(CORNERS));
        Room {
            corner: is_first.select(start, corner),
            size,
            door,
            entry: is_first.select(u(LEFT), side ^ u(2)),
        }
    }

    /// Whether a room lies in the grid and does not overlap any room except the last one; a room to the left of another
    /// one or above it needs a gap.
    fn fits(&self, room: &Room<L>) -> L::Mask {
        let u = L::Uint::splat;
        let ([x, y], [w, h]) = (room.corner, room.size);
        // Numbers below 0 wrap around.
        let in_grid = x.lt(u(SIDE)) & y.lt(u(SIDE)) & (x + w).le(u(SIDE)) & (y + h).lt(u(SIDE));
        (0..ROOMS - 2).fold(in_grid, |fits, other| {
            let apart = (x + w).lt(self.x[other])
                | (self.x[other] + self.w[other]).le(x)
                | (y + h).lt(self.y[other])
                | (self.y[other] + self.h[other]).le(y);
            fits & (apart | u(other as u32 + 1).ge(self.count))
        })
    }

    /// One iteration of the loop: places another room, or fails.
    fn turn(mut self, sizes: [u32; 2], draws: &mut Draws<L>) -> Self {
        let u = L::Uint::splat;
        let room = self.draw(sizes, draws);
        let fits = self.fits(&room);
        let place = fits.select(self.count, u(ROOMS as u32));
        for (numbers, number) in [
            (&mut self.x, room.corner[0]),
            (&mut self.y, room.corner[1]),
            (&mut self.w, room.size[0]),
            (&mut self.h, room.size[1]),
            (&mut self.door_x, room.door[0]),
            (&mut self.door_y, room.door[1]),
        ] {
            *numbers = array::set(numbers, place, number);
        }
        let tries = fits.select(u(TRIES), self.tries - u(1));
        let again = self.count.eq(u(0)) | tries.eq(u(0));
        self.entry = fits.select(room.entry, self.entry);
        self.count = fits.select(self.count + u(1), again.select(u(0), self.count));
        self.tries = (fits | again).select(u(TRIES), tries);
        self
    }

    /// Draws a chain of `rooms` rooms.
    fn drawn(rooms: usize, sizes: [u32; 2], draws: &mut Draws<L>) -> Self {
        let u = L::Uint::splat;
        let turns = draws.turns(BLOCKS * BLOCK, DRAWN);
        let straight = Self::straight(draws.zero());
        let chain = L::repeat(BLOCKS, straight, |block, chain| {
            let open = chain.count.lt(u(rooms as u32));
            L::when(open, chain, |chain| {
                L::repeat(BLOCK, chain, |turn, chain| {
                    let next = chain.turn(sizes, &mut turns.turn(block * u(BLOCK) + turn));
                    chain.count.lt(u(rooms as u32)).select(next, chain)
                })
            })
        });
        chain.count.eq(u(rooms as u32)).select(chain, straight)
    }
}

/// Draws a layout with `rooms` rooms.
pub fn lay<L: Lane, const W: usize>(
    b: &mut Board<L, W>,
    rooms: usize,
    sizes: [u32; 2],
    draws: &mut Draws<L>,
) {
    let u = L::Uint::splat;
    let chain = Chain::<L>::drawn(rooms, sizes, draws);
    let mut colour = u(COLOURS);
    for room in 0..rooms {
        let (x, y, w, h) = (chain.x[room], chain.y[room], chain.w[room], chain.h[room]);
        for along in 0..sizes[1] {
            let along = u(along);
            for across in [u(0), h - u(1)] {
                b.put_where(along.lt(w), (x + along, y + across), u(WALL));
            }
            for across in [u(0), w - u(1)] {
                b.put_where(along.lt(h), (x + across, y + along), u(WALL));
            }
        }
        if room > 0 {
            // Any colour except that of the previous door.
            let next = if room == 1 { draws.below(COLOURS) } else { draws.below(COLOURS - 1) };
            colour = next + next.ge(colour).select(u(1), u(0));
            b.put((chain.door_x[room], chain.door_y[room]), cell::coloured(CLOSED_DOOR, colour));
        }
    }
    let mut inside = |room: usize| {
        let mut along = |from: L::Uint, extent: L::Uint| from + u(1) + draws.below_each(extent - u(2));
        (along(chain.x[room], chain.w[room]), along(chain.y[room], chain.h[room]))
    };
    let (agent, goal) = (inside(0), inside(rooms - 1));
    b.put_fixed(goal, GOAL);
    (b.state.x, b.state.y) = agent;
    b.state.dir = draws.below(4);
}
