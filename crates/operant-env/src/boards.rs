//! Boards of bits, in a few words.

use operant_lane::{Lane, Mask, Uint};

/// The bits that two boards share.
#[inline(always)]
pub(crate) fn both<U: Uint, const N: usize>(mut a: [U; N], b: [U; N]) -> [U; N] {
    for word in 0..N {
        a[word] = a[word] & b[word];
    }
    a
}

/// The bits of either board.
#[inline(always)]
pub(crate) fn either<U: Uint, const N: usize>(mut a: [U; N], b: [U; N]) -> [U; N] {
    for word in 0..N {
        a[word] = a[word] | b[word];
    }
    a
}

/// The bits of a board that another has not.
#[inline(always)]
pub(crate) fn without<U: Uint, const N: usize>(mut a: [U; N], b: [U; N]) -> [U; N] {
    for word in 0..N {
        a[word] = a[word] & !b[word];
    }
    a
}

/// Whether a board has a bit.
#[inline(always)]
pub(crate) fn is_any<U: Uint, const N: usize>(board: [U; N]) -> U::Mask {
    let mut any = U::splat(0);
    for word in board {
        any = any | word;
    }
    any.ne(U::splat(0))
}

/// The board with one bit: `bit` of word `word`. It has none if there is no such word.
#[inline(always)]
pub(crate) fn single<U: Uint, const N: usize>(word: U, bit: U) -> [U; N] {
    let bit = U::splat(1).shl_by(bit);
    let mut board = [U::splat(0); N];
    for (number, to) in board.iter_mut().enumerate() {
        *to = word.eq(U::splat(number as u32)).select(bit, U::splat(0)).named("stone");
    }
    board
}

/// Grows a board by `next`, twice a turn, until it does not change, for at most `turns` turns and only where `grows` holds.
#[inline(always)]
pub(crate) fn grown<L: Lane, const N: usize>(
    board: [L::Uint; N],
    grows: L::Mask,
    turns: u32,
    next: impl Fn([L::Uint; N]) -> [L::Uint; N],
) -> [L::Uint; N] {
    let rule = |_, (board, _)| {
        let after = next(next(board)).map(|word| word.named("grown"));
        let mut changed = L::Uint::splat(0);
        for word in 0..N {
            changed = changed | (after[word] ^ board[word]);
        }
        (after, changed.ne(L::Uint::splat(0)))
    };
    L::repeat_while(turns, (board, grows), |(_, grows): &([L::Uint; N], L::Mask)| *grows, rule).0
}
