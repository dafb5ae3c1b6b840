//! The content of a cell in one byte: the type in the low four bits, the colour in the next three, and a bit for
//! content that blocks the view. A closed door is an open door with this bit; a locked door has a separate type, 12.

use operant_lane::{Lane, Mask, Uint};

pub const UNSEEN: u32 = 0x00;
pub const EMPTY: u32 = 0x01;
pub const WALL: u32 = 0xd2;
pub const GOAL: u32 = 0x18;
pub const LAVA: u32 = 0x09;
/// Objects with a colour; see [`coloured`].
pub const OPEN_DOOR: u32 = 0x04;
pub const CLOSED_DOOR: u32 = 0x84;
pub const LOCKED_DOOR: u32 = 0x8c;
pub const KEY: u32 = 0x05;
pub const BALL: u32 = 0x06;
pub const BOX: u32 = 0x07;

/// The six colours.
pub const COLOURS: u32 = 6;
pub const RED: u32 = 0;
pub const GREEN: u32 = 1;
pub const BLUE: u32 = 2;
pub const YELLOW: u32 = 4;

/// The bits of a cell other than its colour.
pub const KIND: u32 = 0x8f;

/// The bit of content that blocks the view.
pub const OPAQUE_BIT: u32 = 7;

/// The package's numbers of the door types. The other types have the same numbers as the low bits of their cells.
const DOOR_TYPE: u32 = 4;
const LOCKED_TYPE: u32 = LOCKED_DOOR & 15;

/// An object of a constant colour.
pub const fn of(thing: u32, colour: u32) -> u32 {
    thing | colour << 4
}

#[inline(always)]
pub fn coloured<U: Uint>(thing: u32, colour: U) -> U {
    colour.shl(4) | U::splat(thing)
}

/// A cell without its colour: one of the constants above.
#[inline(always)]
pub fn kind<U: Uint>(cell: U) -> U {
    cell & U::splat(KIND)
}

#[inline(always)]
pub fn colour<U: Uint>(cell: U) -> U {
    cell.shr(4) & U::splat(7)
}

/// Type, colour and state with the package's numbers, in the three lowest bytes.
#[inline(always)]
pub fn shown<L: Lane>(cell: L::Uint) -> L::Uint {
    let u = L::Uint::splat;
    let number = cell & u(15);
    let closed = (cell & u(KIND)).eq(u(CLOSED_DOOR)).select(u(1 << 16), u(0));
    let locked = number.eq(u(LOCKED_TYPE)).select(u((2 << 16) - (LOCKED_TYPE - DOOR_TYPE)), u(0));
    (number | (cell & u(0x70)).shl(4)) + closed + locked
}

/// Like `shown`, on the host.
pub fn numbers(cell: u32) -> [u32; 3] {
    let shown = shown::<f32>(core::num::Wrapping(cell)).0;
    [shown & 255, shown >> 8 & 255, shown >> 16]
}

/// The cell with these type, colour and state numbers.
pub fn from_numbers([number, colour, state]: [u32; 3]) -> u32 {
    let thing = match (number & 15, state) {
        (2, _) => WALL & KIND,
        (DOOR_TYPE, 1) => CLOSED_DOOR,
        (DOOR_TYPE, 2) => LOCKED_DOOR,
        (number, _) => number,
    };
    of(thing, colour & 7)
}
