//! One suite for every lane: programs written once over lanes, run on awkward inputs, must give the bits of the scalar
//! f32 lane on `Wide<8>`, `Wide<16>` and, emitted and compiled, on `Trace`. Built again for x86-64-v2, where there is
//! no FMA, by `cargo xtask test`.

use operant_lane::isa;
use operant_lane::rows;
use operant_lane::trace::{Function, Graph, Outputs, Parameters, Trace, Type, Value};
use operant_lane::{
    Bundle, Float, Int, Kind, Lane, Mask, Memory, Packed, Purpose, Sink, Source, Uint, Wide, array,
};

use crate::cxx;

operant_lane::bundle! {
    /// Arguments of a program.
    struct Input { a: Float, b: Float, c: Float, u: Uint, v: Uint, w: Uint }
}
operant_lane::bundle! {
    /// Results of a program: floats, and words (truth values are 0 and 1).
    struct Output { float: [Float; 8], word: [Uint; 8] }
}

/// A rule over lanes.
trait Program {
    const NAME: &'static str;
    fn run<L: Lane>(input: Input<L>) -> Output<L>;
}

fn flag<L: Lane>(mask: L::Mask) -> L::Uint {
    mask.select(L::Uint::splat(1), L::Uint::splat(0))
}

struct Arithmetic;
impl Program for Arithmetic {
    const NAME: &'static str = "arithmetic";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        Output {
            float: [
                i.a + i.b,
                i.a - i.b,
                i.a * i.b,
                i.a / i.b,
                i.a.mul_add(i.b, i.c),
                -i.a,
                i.a.abs().sqrt(),
                i.a.floor() - i.b.round(),
            ],
            word: [
                i.u + i.v,
                i.u - i.v,
                i.u * i.v,
                i.u & i.v,
                i.u | i.v,
                i.u ^ i.v,
                !i.u,
                i.u.mul_wide(i.v).0,
            ],
        }
    }
}

struct Choice;
impl Program for Choice {
    const NAME: &'static str = "choice";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let (lt, le, eq) = (i.a.lt(i.b), i.a.le(i.b), i.a.eq(i.b));
        let (s, t) = (i.u.to_int(), i.v.to_int());
        Output {
            float: [
                i.a.min(i.b),
                i.a.max(i.b),
                i.a.clamp(i.b, i.c),
                lt.select(i.a, i.c),
                (!le).select(i.b, i.c),
                (lt | eq).select(i.a, i.b),
                (lt ^ le).select(i.a, i.b),
                (le & !eq).select(i.c, i.b),
            ],
            word: [
                flag::<L>(i.a.gt(i.b))
                    | flag::<L>(i.a.ge(i.b)).shl(1)
                    | flag::<L>(lt).shl(2)
                    | flag::<L>(le).shl(3),
                flag::<L>(i.u.lt(i.v)) | flag::<L>(i.u.le(i.v)).shl(1) | flag::<L>(i.u.ne(i.v)).shl(2),
                flag::<L>(s.lt(t))
                    | flag::<L>(s.gt(t)).shl(1)
                    | flag::<L>(s.eq(t)).shl(2)
                    | flag::<L>(s.le(t)).shl(3),
                i.u.min(i.v),
                i.u.max(i.v),
                s.min(t).to_uint(),
                s.max(t).abs().to_uint(),
                (lt ^ L::Mask::splat(true)).select(i.u, i.v),
            ],
        }
    }
}

struct Bits;
impl Program for Bits {
    const NAME: &'static str = "bits";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let (s, t) = (i.u.to_int(), i.v.to_int());
        let small = (i.v & L::Uint::splat(127)).to_int() - L::Int::splat(63);
        let (m, e) = (i.a.abs().max(L::Float::splat(1e-37))).mantissa_exponent();
        Output {
            float: [
                L::Float::from_int(s),
                L::Float::from_uint(i.u),
                L::Float::exp2i(small),
                m,
                L::Float::from_int(i.a.to_int()),
                L::Float::from_int((i.a * L::Float::splat(1e9)).to_int()),
                L::Float::gather(&[0.1, -2.5, 3e30, 7.0, 1.0 / 3.0], i.u.shr(28)),
                L::Float::gather(&[0.5, 1.5], i.v & L::Uint::splat(1)),
            ],
            word: [
                i.u.shl(7) ^ i.v.shr(9),
                i.u.shl_by(i.v) ^ i.v.shr_by(i.u),
                i.u.rotate_left(13),
                (s.shr(5) + t.shl(3)).to_uint(),
                i.u.count_ones(),
                e.to_uint(),
                L::Uint::gather(&[5, 6, 70_000], i.v.shr(30)),
                ((s * t) - (-s)).to_uint() ^ (!(s & t) | (s ^ t)).to_uint(),
            ],
        }
    }
}

struct Elementary;
impl Program for Elementary {
    const NAME: &'static str = "elementary";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let (sin, cos) = i.a.sin_cos();
        let zero = L::Uint::splat(0);
        Output {
            float: [
                sin,
                cos,
                i.a.exp(),
                i.a.ln(),
                i.a.tanh(),
                i.b.tanh(),
                i.b.abs().ln(),
                (-i.b.abs()).exp(),
            ],
            word: [zero; 8],
        }
    }
}

struct Control;
impl Program for Control {
    const NAME: &'static str = "control";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let one = L::Float::splat(1.0);
        // A cold path inside a loop inside a cold path, each seeing values from outside.
        let rare = (i.u & L::Uint::splat(7)).eq(L::Uint::splat(0)).named("rare");
        let (x, y) = L::when(rare, (i.a, i.b), |(a, b)| {
            let (sum, turns) = L::repeat(3, (a, i.u), |index, (sum, turns)| {
                let odd = (turns & L::Uint::splat(1)).eq(L::Uint::splat(1));
                let sum = L::when(odd, sum, |sum| sum + b);
                (sum * L::Float::splat(0.5), (turns.shr(1)) + index)
            });
            (sum, b + L::Float::from_uint(turns & L::Uint::splat(255)))
        });
        let swapped = L::repeat(5, (x, y), |_, (x, y)| (y, x + one));
        // Each environment counts down from its own number; the last turns are for none.
        let u = L::Uint::splat;
        let (left, turns) = L::repeat_while(
            12,
            (i.u & u(7), u(0)),
            |(left, _)| left.ne(u(0)),
            |turn, (left, turns)| (left - u(1), turns * u(3) + turn),
        );
        let list = [i.a, i.b, i.c, one];
        let list = array::set(&list, i.v & L::Uint::splat(7), x);
        Output {
            float: [
                x,
                y,
                swapped.0,
                swapped.1,
                array::get(&list, i.u & L::Uint::splat(3)),
                array::get(&list, i.u),
                list[2],
                L::when(L::Mask::splat(true), y, |y| y + one),
            ],
            word: [left, turns, i.u, i.u, i.u, i.u, i.u, i.u],
        }
    }
}

struct Random;
impl Program for Random {
    const NAME: &'static str = "random";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let block = operant_lane::philox::philox::<L>([i.u, i.v, i.w, i.u], [i.v, i.w]);
        let mut draws = operant_lane::Draws::<L>::new([i.u, i.v], i.w, [i.v, i.u], Purpose::Reset);
        let floats = core::array::from_fn(|k| if k < 6 { draws.unit() } else { draws.between(-0.05, 0.05) });
        Output {
            float: floats,
            word: [
                block[0],
                block[1],
                block[2],
                block[3],
                draws.below(6),
                draws.bits(),
                draws.bits(),
                draws.bits(),
            ],
        }
    }
}

struct Stored;
impl Program for Stored {
    const NAME: &'static str = "memory";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let u = L::Uint::splat;
        let table: [u32; 40] = core::array::from_fn(|k| (k as u32).wrapping_mul(0x9E37_79B9));
        let all = L::Mask::splat(true);
        let mut first = L::Memory::<40>::splat(&table);
        // Sometimes past the end; read before and after a write.
        let (at, before) = (i.v & u(63), first.get(i.v & u(63)));
        first.set(i.u.lt(i.w), at, i.u);
        let kept = first;
        first.set(all, i.w & u(31), i.v ^ kept.get(i.u & u(63)));
        first.set_word(39, i.w);
        first.set_byte(i.v.lt(i.w), i.u & u(255), i.v & u(255));
        let odd = (i.u & u(1)).eq(u(1));
        let (second, sum) = L::when(odd, (first, i.u), |(mut memory, sum)| {
            memory.set(all, sum & u(31), sum);
            let drawn = memory.get(i.w & u(31));
            memory.set(all, i.w & u(31), drawn + u(1));
            (memory, sum + drawn)
        });
        let (third, sum) = L::repeat(20, (second, sum), |k, (mut memory, sum)| {
            let next = sum + memory.get((k + sum) & u(63));
            memory.set(next.lt(i.u), k, next);
            L::when((k & u(3)).eq(u(2)), (memory, next), |(mut memory, next)| {
                memory.set(all, k, memory.get(k) ^ i.v);
                (memory, next)
            })
        });
        let chosen: L::Memory<40> = odd.select(kept, third);
        let made = L::Memory::<2>::from_words([sum, i.v]);
        let fold =
            |memory: &L::Memory<40>| (0..40).fold(u(0), |hash, k| (hash ^ memory.word(k)) * u(0x0100_0193));
        Output {
            float: [i.a; 8],
            word: [
                before,
                fold(&first),
                fold(&second),
                fold(&third),
                fold(&chosen),
                made.get(i.u & u(1)),
                third.byte(i.w & u(255)) + third.get(i.w),
                sum,
            ],
        }
    }
}

operant_lane::bundle! {
    /// A value of each kind.
    struct Kinds { real: Float, word: Uint, whole: Int, truth: Mask }
}

struct Scanned;
impl Program for Scanned {
    const NAME: &'static str = "scan";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let u = L::Uint::splat;
        let read = [[i.a, i.b], [i.b, i.c], [i.c, i.a], [L::Float::splat(0.5), i.b]];
        let mut own = [Kinds { real: i.a, word: i.u, whole: i.v.to_int(), truth: i.u.lt(i.v) }; 4];
        own[2].real = i.c;
        let sum = L::scan(&read, &mut own, i.w, |read, own, sum| {
            own.real = own.real.mul_add(read[0], read[1]);
            own.truth = own.truth ^ own.real.lt(read[1]);
            own.word = own.word + sum;
            sum ^ own.word
        });
        // Reads what the first one wrote, and writes to a copy of it.
        let mut copy = own;
        let sum = L::when(own[1].truth, sum, |sum| {
            let mut inner = own;
            L::scan(&own, &mut inner, sum, |read, own, sum| {
                own.whole = own.whole + read.whole;
                own.truth.select(sum + own.whole.to_uint(), sum ^ read.word)
            })
        });
        L::scan(&own, &mut copy, (), |read, own, ()| {
            own.word = own.word ^ (read.word + sum);
            own.whole = own.whole - read.whole.abs();
        });
        let (total, hash) = L::repeat(3, (sum, u(7)), |turn, (sum, hash)| {
            let mut words = [sum, hash, turn, i.v];
            let hash = L::scan(&copy, &mut words, hash, |read, own, hash| {
                let kept = *own;
                *own = kept + read.word;
                hash * u(31) + kept
            });
            (words[0] ^ words[3], hash + words[1] + words[2])
        });
        let only_read = L::scan(&copy, &mut [(); 4], total, |read, (), sum| {
            read.truth.select(sum + read.word, sum ^ read.whole.to_uint())
        });
        Output {
            float: [own[0].real, own[1].real, own[2].real, own[3].real, copy[2].real, i.a, i.b, i.c],
            word: [
                sum,
                total,
                hash,
                only_read,
                own[3].word,
                copy[3].word,
                copy[1].whole.to_uint(),
                flag::<L>(copy[0].truth ^ own[3].truth),
            ],
        }
    }
}

struct Parts;
impl Program for Parts {
    const NAME: &'static str = "parts";
    fn run<L: Lane>(i: Input<L>) -> Output<L> {
        let u = L::Uint::splat;
        let mut draws = operant_lane::Draws::<L>::new([i.u, i.v], i.w, [i.v, i.u], Purpose::Step);
        let first = draws.bits();
        // A rule that only some environments run, and that does not draw all it may.
        let part = draws.reserve(6);
        let rare = L::when(i.u.lt(i.v), u(0), |_| {
            let mut draws = part;
            draws.bits() ^ draws.below(1000)
        });
        let turns = draws.turns(5, 9);
        let (sum, last) = L::repeat(5, (u(0), u(0)), |k, (sum, _)| {
            let mut draws = turns.turn(k);
            let own = draws.bits();
            let inner = draws.turns(1, 1);
            let sum = L::repeat(1, sum, |j, sum| sum * u(31) + inner.turn(j).bits());
            (sum ^ own, draws.below_each(i.u & u(15)))
        });
        let after = draws.bits();
        // The same numbers without parts: block 0; 1 and 2; three for each turn, of which the last two are not all used; and 18.
        let mut plain = operant_lane::Draws::<L>::new([i.u, i.v], i.w, [i.v, i.u], Purpose::Step);
        let words: [L::Uint; 100] = core::array::from_fn(|_| plain.bits());
        Output {
            float: [i.a; 8],
            word: [first ^ words[0], rare, sum, last, after, words[4], words[12], words[4 * 18]],
        }
    }
}

/// Awkward numbers first, then random bits and random numbers of moderate size.
fn inputs() -> Vec<[u32; 6]> {
    let special = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        -3.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        2_147_483_648.0,
        -2_147_483_904.0,
        16_777_217.0,
        88.9,
        -104.5,
        core::f32::consts::FRAC_PI_4,
    ];
    let integers = [0u32, 1, 31, 32, 33, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x00ff_ff80, 12_345_678];
    let mut rows = Vec::new();
    for (i, a) in special.iter().enumerate() {
        for (j, b) in special.iter().enumerate() {
            let pick = |k: usize| integers[(i * 7 + j * 3 + k * 5) % integers.len()];
            rows.push([
                a.to_bits(),
                b.to_bits(),
                special[(i + j) % special.len()].to_bits(),
                pick(0),
                pick(1),
                pick(2),
            ]);
        }
    }
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    for row in 0..3000 {
        let mut number = || {
            let bits = next();
            // A signalling NaN, whose highest bit of the mantissa is 0: see `Float::min`.
            let made_quiet = u32::from(!isa::SET.takes_second && f32::from_bits(bits).is_nan()) << 22;
            if row % 2 == 0 { bits | made_quiet } else { ((bits as i32) as f32 * 2f32.powi(-27)).to_bits() }
        };
        rows.push([number(), number(), number(), 0, 0, 0]);
        let last = rows.len() - 1;
        rows[last][3..].fill_with(&mut next);
    }
    rows.truncate(rows.len() / 16 * 16);
    rows
}

/// Loads and stores the lanes of bundles, row by row.
struct Columns<'a, L> {
    columns: &'a mut Vec<Vec<u32>>,
    at: usize,
    row: usize,
    lane: core::marker::PhantomData<L>,
}

impl<L: Packed> Source<L> for Columns<'_, L> {
    fn float(&mut self) -> L::Float {
        let words: Vec<f32> =
            self.columns[self.at][self.row..].iter().take(16).map(|&w| f32::from_bits(w)).collect();
        self.at += 1;
        L::load_float(&words)
    }
    fn uint(&mut self) -> L::Uint {
        self.at += 1;
        L::load_uint(&self.columns[self.at - 1][self.row..])
    }
    fn int(&mut self) -> L::Int {
        Source::uint(self).to_int()
    }
    fn mask(&mut self) -> L::Mask {
        Source::uint(self).ne(L::Uint::splat(0))
    }
}

impl<L: Packed> Sink<L> for Columns<'_, L> {
    fn float(&mut self, value: L::Float) {
        let mut words = [0.0; 16];
        L::store_float(value, &mut words);
        let bits = words.map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() });
        self.columns[self.at][self.row..self.row + L::WIDTH].copy_from_slice(&bits[..L::WIDTH]);
        self.at += 1;
    }
    fn uint(&mut self, value: L::Uint) {
        L::store_uint(value, &mut self.columns[self.at][self.row..]);
        self.at += 1;
    }
    fn int(&mut self, value: L::Int) {
        Sink::uint(self, value.to_uint());
    }
    fn mask(&mut self, value: L::Mask) {
        Sink::uint(self, flag::<L>(value));
    }
}

/// Runs a program over all rows on a packed lane; results by column.
fn packed<P: Program, L: Packed>(rows: &[[u32; 6]]) -> Vec<Vec<u32>> {
    let mut input: Vec<Vec<u32>> = (0..6).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
    let mut output = vec![vec![0; rows.len()]; 16];
    for row in (0..rows.len()).step_by(L::WIDTH) {
        let lane = core::marker::PhantomData;
        let arguments = Input::<L>::load(&mut Columns { columns: &mut input, at: 0, row, lane });
        P::run::<L>(arguments).store(&mut Columns::<L> { columns: &mut output, at: 0, row, lane });
    }
    output
}

/// Names of a program's arguments.
const ARGUMENTS: [&str; 6] = ["in_a", "in_b", "in_c", "in_u", "in_v", "in_w"];

/// Records a program.
fn recorded<P: Program>() -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    let names = ARGUMENTS.map(str::to_owned).to_vec();
    let input = Input::<Trace<'_>>::load(&mut Parameters::new(&graph, names));
    let places = (0..8).map(|i| format!("x[{i}]")).chain((0..8).map(|i| format!("y[{i}]"))).collect();
    outputs.assign(&P::run(input), places);
    graph.finish(outputs)
}

/// A result's word, with one NaN for all.
fn canonical(column: usize, word: u32) -> u32 {
    if column < 8 && f32::from_bits(word).is_nan() { f32::NAN.to_bits() } else { word }
}

/// Calls a recording row by row: the reference of the row interpreter.
fn called(function: &Function, rows: &[[u32; 6]]) -> Vec<Vec<u32>> {
    let mut output = vec![Vec::new(); 16];
    for row in rows {
        let argument = |name: &str| ARGUMENTS.iter().position(|argument| *argument == name);
        let results = function.call(&mut |name| vec![row[argument(name).expect("an argument")]]);
        for (column, word) in results.into_iter().flatten().enumerate() {
            output[column].push(canonical(column, word));
        }
    }
    output
}

/// Runs a recording in the row interpreter.
fn interpreted<L: Packed>(function: &Function, rows: &[[u32; 6]]) -> Vec<Vec<u32>> {
    let program = rows::Program::compile::<L>(function);
    let mut frame = program.frame();
    let mut output = vec![vec![0; rows.len()]; 16];
    for first in (0..rows.len()).step_by(program.width()) {
        let count = program.width().min(rows.len() - first);
        for (k, name) in ARGUMENTS.iter().enumerate() {
            let column: Vec<u32> = rows[first..first + count].iter().map(|row| row[k]).collect();
            if let Some(input) = program.input(name) {
                frame.load(input, 0, &column);
            }
        }
        program.run(&mut frame, count / rows::CHUNK);
        let words = program.outputs().iter().flat_map(|result| &result.words);
        for (column, word) in words.enumerate() {
            frame
                .store_with(*word, &mut output[column][first..first + count], |word| canonical(column, word));
        }
    }
    output
}

/// Emits a recording, compiles it and runs it over all rows.
fn emitted<P: Program>(function: &Function, compiler: &str, rows: &[[u32; 6]]) -> Vec<Vec<u32>> {
    let source = format!(
        "#include <cstdio>\n#include \"intrinsics.h\"\n{}static void program(float in_a, float in_b, float in_c, unsigned in_u, \
         unsigned in_v, unsigned in_w, float* x, unsigned* y) {{\n{}}}\n\
         int main() {{\n    unsigned r[6];\n    while (fread(r, 4, 6, stdin) == 6) {{\n        float x[8]; unsigned y[8];\n\
         program(__uint_as_float(r[0]), __uint_as_float(r[1]), __uint_as_float(r[2]), r[3], r[4], r[5], x, y);\n\
         for (float& f : x) if (f != f) f = __uint_as_float(0x7fc00000u);\n\
         fwrite(x, 4, 8, stdout); fwrite(y, 4, 8, stdout);\n    }}\n}}\n",
        function.emit_tables(P::NAME),
        function.emit(P::NAME),
    );
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let output = cxx::run(compiler, P::NAME, &source, &bytes);
    let words: Vec<u32> =
        output.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    assert_eq!(words.len(), rows.len() * 16, "{}: one result a row", P::NAME);
    (0..16).map(|c| words.iter().skip(c).step_by(16).copied().collect()).collect()
}

fn compare(program: &str, lane: &str, rows: &[[u32; 6]], expected: &[Vec<u32>], got: &[Vec<u32>]) {
    for (column, (expected, got)) in expected.iter().zip(got).enumerate() {
        for (row, (e, g)) in expected.iter().zip(got).enumerate() {
            assert_eq!(e, g, "{program} on {lane}: result {column} of {:x?}: {e:#x} != {g:#x}", rows[row]);
        }
    }
}

fn conforms<P: Program>() {
    let rows = inputs();
    let expected = packed::<P, f32>(&rows);
    compare(P::NAME, "Wide<8>", &rows, &expected, &packed::<P, Wide<8>>(&rows));
    compare(P::NAME, "Wide<16>", &rows, &expected, &packed::<P, Wide<16>>(&rows));
    let function = recorded::<P>();
    compare(P::NAME, "Function::call", &rows, &expected, &called(&function, &rows));
    compare(P::NAME, "rows of f32", &rows, &expected, &interpreted::<f32>(&function, &rows));
    compare(P::NAME, "rows of Wide<8>", &rows, &expected, &interpreted::<Wide<8>>(&function, &rows));
    compare(P::NAME, "rows of Wide<16>", &rows, &expected, &interpreted::<Wide<16>>(&function, &rows));
    if let Some(compiler) = cxx::compiler(P::NAME) {
        compare(P::NAME, "Trace", &rows, &expected, &emitted::<P>(&function, &compiler, &rows));
    }
}

#[test]
fn arithmetic_is_the_same_on_every_lane() {
    conforms::<Arithmetic>();
}

#[test]
fn comparison_and_selection_are_the_same_on_every_lane() {
    conforms::<Choice>();
}

#[test]
fn bits_conversions_and_tables_are_the_same_on_every_lane() {
    conforms::<Bits>();
}

#[test]
fn elementary_functions_are_the_same_on_every_lane() {
    conforms::<Elementary>();
}

#[test]
fn cold_paths_loops_and_arrays_are_the_same_on_every_lane() {
    conforms::<Control>();
}

#[test]
fn random_draws_are_the_same_on_every_lane() {
    conforms::<Random>();
}

#[test]
fn memory_is_the_same_on_every_lane() {
    conforms::<Stored>();
}

#[test]
fn scans_are_the_same_on_every_lane() {
    conforms::<Scanned>();
}

#[test]
fn a_scan_is_one_loop_that_writes_in_place() {
    let text = recorded::<Scanned>().emit("scan");
    assert_eq!(text.matches("for (unsigned i").count(), 6, "{text}");
    // `inner` and `copy` begin as copies of `own`, which is read while they change.
    assert_eq!(text.matches("for (unsigned word").count(), 2, "{text}");
}

#[test]
fn large_loops_are_not_unrolled() {
    let text = |lines: usize| {
        let graph = Graph::new();
        let state = graph.parameter("state", Type::Scalar(Kind::Uint));
        let state = Value::<u32>::of(&graph, state);
        let after = Trace::repeat(8, state, |turn, value| {
            (0..lines).fold(value, |value, _| (value * value + turn).named("next"))
        });
        let mut outputs = Outputs::new();
        outputs.assign(&after, vec!["next".to_owned()]);
        graph.finish(outputs).emit("loop")
    };
    assert!(text(4).contains("#pragma unroll\n"), "{}", text(4));
    assert!(text(100).contains("#pragma unroll 1\n"), "{}", text(100));
}

#[test]
fn draws_of_cold_paths_and_loops_are_the_same_on_every_lane() {
    conforms::<Parts>();
}

#[test]
fn parts_of_a_stream_are_disjoint_and_fixed() {
    use core::num::Wrapping as W;
    let stream = || operant_lane::Draws::<f32>::at(7, W(3), 11, Purpose::Step);
    let mut plain = stream();
    let words: Vec<u32> = (0..64).map(|_| plain.bits().0).collect();
    let mut draws = stream();
    draws.bits();
    let mut reserved = draws.reserve(5);
    let turns = draws.turns(3, 2);
    assert_eq!(reserved.bits().0, words[4], "what is reserved begins with a block of its own");
    assert_eq!(draws.bits().0, words[4 * (1 + 2 + 3)], "what follows does not depend on what was used");
    for k in 0..3 {
        let mut turn = turns.turn(W(k));
        assert_eq!([turn.bits().0, turn.bits().0], words[4 * (3 + k as usize)..][..2]);
    }
}

#[test]
#[should_panic(expected = "more draws than the 2 that were reserved")]
fn a_part_of_a_stream_ends() {
    let mut draws = operant_lane::Draws::<f32>::at(7, core::num::Wrapping(3), 11, Purpose::Step);
    let mut part = draws.reserve(2);
    (0..3).for_each(|_| assert_ne!(part.bits().0, 1));
}

#[test]
fn double_precision_agrees_with_single_to_rounding() {
    // f64 has its own constants; on moderate inputs its results must round to nearly those of f32.
    for k in 1..2000 {
        let x = f64::from(k) * 0.0137 - 13.0;
        let single = |f: fn(f32) -> f32, g: fn(f64) -> f64| (f64::from(f(x as f32)), g(f64::from(x as f32)));
        for (a, b) in [
            single(Float::sin, Float::sin),
            single(Float::cos, Float::cos),
            single(Float::exp, Float::exp),
            single(Float::tanh, Float::tanh),
        ] {
            assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-1), "at {x}: {a} and {b}");
        }
    }
}

#[test]
fn mul_add_rounds_once() {
    // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: the last term survives only a fused sum.
    let x = 1.0f32 + 2f32.powi(-12);
    let fused = 2f32.powi(-24);
    let c = -(1.0f32 + 2f32.powi(-11));
    assert_eq!(Float::mul_add(x, x, c), fused);
    let wide = <Wide<16> as Lane>::Float::from([x; 16]);
    let sum = Float::mul_add(wide, wide, <Wide<16> as Lane>::Float::from([c; 16]));
    assert_eq!(sum.to_array(), [fused; 16]);
}
