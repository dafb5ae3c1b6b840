//! Values of the recording lane and their operations: each folds when its arguments are constants, and otherwise
//! records a node with the CUDA expression that computes it.

use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::graph::{Arg, Graph, Item, Literal, Op, Type, array_name};
use super::memory::Recorded;
use crate::bundle::{Bundle, Kind, Sink, Source, leaf_bundle};
use crate::lane::{Float, Int, Lane, Mask, Select, Uint};

/// The lane that records into a [`Graph`].
#[derive(Debug, Clone, Copy)]
pub struct Trace<'g>(core::marker::PhantomData<&'g Graph>);

/// A value of the recording lane: a constant, or a node of a graph.
#[derive(Debug, Clone, Copy)]
pub enum Value<'g, T> {
    /// Known while recording.
    Constant(T),
    /// Computed by a node.
    Node(&'g Graph, u32),
}

/// Types a value may have.
pub trait Constant: Copy {
    /// The leaf kind.
    const KIND: Kind;
    #[doc(hidden)]
    fn literal(self) -> LiteralBits;
}

/// Opaque bits of a constant.
#[derive(Debug, Clone, Copy)]
pub struct LiteralBits(pub(super) Literal);

macro_rules! constant {
    ($t:ty, $kind:ident, |$x:ident| $bits:expr) => {
        impl Constant for $t {
            const KIND: Kind = Kind::$kind;
            fn literal(self) -> LiteralBits {
                let $x = self;
                LiteralBits(Literal::$kind($bits))
            }
        }
    };
}
constant!(f32, Float, |x| x.to_bits());
constant!(u32, Uint, |x| x);
constant!(i32, Int, |x| x);
constant!(bool, Mask, |x| x);

impl<'g, T: Constant> Value<'g, T> {
    pub(super) fn node(graph: &'g Graph, id: u32) -> Self {
        Value::Node(graph, id)
    }

    pub(super) fn arg(self) -> Arg {
        match self {
            Value::Constant(x) => Arg::Literal(x.literal().0),
            Value::Node(_, id) => Arg::Node(id),
        }
    }

    pub(super) fn graph(self) -> Option<&'g Graph> {
        match self {
            Value::Constant(_) => None,
            Value::Node(graph, _) => Some(graph),
        }
    }

    fn named_node(self, name: &'static str) -> Self {
        if let Value::Node(graph, id) = self {
            graph.name(id, name);
        }
        self
    }
}

impl<'g> Value<'g, f32> {
    /// The bit pattern.
    pub(super) fn to_bits(self) -> Value<'g, u32> {
        unary(self, f32::to_bits, "__float_as_uint($0)")
    }
}

fn unary<'g, A: Constant, R: Constant>(
    a: Value<'g, A>,
    fold: impl Fn(A) -> R,
    template: &'static str,
) -> Value<'g, R> {
    match a {
        Value::Constant(x) => Value::Constant(fold(x)),
        Value::Node(graph, _) => graph.node(Op::Expression(template), vec![a.arg()]),
    }
}

fn binary<'g, A: Constant, B: Constant, R: Constant>(
    a: Value<'g, A>,
    b: Value<'g, B>,
    fold: impl Fn(A, B) -> R,
    template: &'static str,
) -> Value<'g, R> {
    match (a, b) {
        (Value::Constant(x), Value::Constant(y)) => Value::Constant(fold(x, y)),
        _ => {
            let graph = a.graph().or(b.graph()).expect("one argument is a node");
            graph.node(Op::Expression(template), vec![a.arg(), b.arg()])
        }
    }
}

macro_rules! operator {
    ($trait:ident $method:ident $t:ty, |$a:ident, $b:ident| $fold:expr, $template:literal) => {
        impl<'g> $trait for Value<'g, $t> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                binary(self, other, |$a: $t, $b: $t| -> $t { $fold }, $template)
            }
        }
    };
}

operator!(Add add f32, |a, b| a + b, "__fadd_rn($0, $1)");
operator!(Sub sub f32, |a, b| a - b, "__fsub_rn($0, $1)");
operator!(Mul mul f32, |a, b| a * b, "__fmul_rn($0, $1)");
operator!(Div div f32, |a, b| a / b, "__fdiv_rn($0, $1)");
operator!(Add add u32, |a, b| a.wrapping_add(b), "%0 + %1");
operator!(Sub sub u32, |a, b| a.wrapping_sub(b), "%0 - %1");
operator!(Mul mul u32, |a, b| a.wrapping_mul(b), "%0 * %1");
operator!(BitAnd bitand u32, |a, b| a & b, "%0 & %1");
operator!(BitOr bitor u32, |a, b| a | b, "%0 | %1");
operator!(BitXor bitxor u32, |a, b| a ^ b, "%0 ^ %1");
// Signed overflow is undefined in C++, so signed sums go through unsigned words.
operator!(Add add i32, |a, b| a.wrapping_add(b), "(int)((unsigned)%0 + (unsigned)%1)");
operator!(Sub sub i32, |a, b| a.wrapping_sub(b), "(int)((unsigned)%0 - (unsigned)%1)");
operator!(Mul mul i32, |a, b| a.wrapping_mul(b), "(int)((unsigned)%0 * (unsigned)%1)");
operator!(BitAnd bitand i32, |a, b| a & b, "%0 & %1");
operator!(BitOr bitor i32, |a, b| a | b, "%0 | %1");
operator!(BitXor bitxor i32, |a, b| a ^ b, "%0 ^ %1");
operator!(BitAnd bitand bool, |a, b| a & b, "%0 && %1");
operator!(BitOr bitor bool, |a, b| a | b, "%0 || %1");
operator!(BitXor bitxor bool, |a, b| a ^ b, "%0 != %1");

impl Neg for Value<'_, f32> {
    type Output = Self;
    fn neg(self) -> Self {
        unary(self, |x| -x, "-%0")
    }
}
impl Neg for Value<'_, i32> {
    type Output = Self;
    fn neg(self) -> Self {
        unary(self, |x: i32| x.wrapping_neg(), "(int)(0u - (unsigned)%0)")
    }
}
impl Not for Value<'_, u32> {
    type Output = Self;
    fn not(self) -> Self {
        unary(self, |x: u32| !x, "~%0")
    }
}
impl Not for Value<'_, i32> {
    type Output = Self;
    fn not(self) -> Self {
        unary(self, |x: i32| !x, "~%0")
    }
}
impl Not for Value<'_, bool> {
    type Output = Self;
    fn not(self) -> Self {
        unary(self, |x: bool| !x, "!%0")
    }
}

impl Mask for Value<'_, bool> {
    fn splat(value: bool) -> Self {
        Value::Constant(value)
    }
    fn named(self, name: &'static str) -> Self {
        self.named_node(name)
    }
}

impl<'g, T: Constant> Select<Value<'g, bool>> for Value<'g, T> {
    fn select(mask: Value<'g, bool>, yes: Self, no: Self) -> Self {
        match mask {
            Value::Constant(true) => yes,
            Value::Constant(false) => no,
            Value::Node(..) if yes.arg() == no.arg() => yes,
            Value::Node(graph, _) => {
                graph.node(Op::Expression("%0 ? %1 : %2"), vec![mask.arg(), yes.arg(), no.arg()])
            }
        }
    }
}

/// Shifts by a constant are templates with a literal argument.
fn shift<'g, T: Constant>(
    a: Value<'g, T>,
    amount: u32,
    fold: impl Fn(T, u32) -> T,
    template: &'static str,
) -> Value<'g, T> {
    binary(a, Value::Constant(amount & 31), fold, template)
}

impl<'g> Uint for Value<'g, u32> {
    type Mask = Value<'g, bool>;
    type Int = Value<'g, i32>;

    fn splat(value: u32) -> Self {
        Value::Constant(value)
    }
    fn shl(self, amount: u32) -> Self {
        shift(self, amount, |x, n| x << n, "%0 << $1")
    }
    fn shr(self, amount: u32) -> Self {
        shift(self, amount, |x, n| x >> n, "%0 >> $1")
    }
    fn shl_by(self, amount: Self) -> Self {
        binary(self, amount, |x: u32, n: u32| x.wrapping_shl(n), "%0 << (%1 & 31u)")
    }
    fn shr_by(self, amount: Self) -> Self {
        binary(self, amount, |x: u32, n: u32| x.wrapping_shr(n), "%0 >> (%1 & 31u)")
    }
    fn mul_wide(self, other: Self) -> (Self, Self) {
        let high = binary(
            self,
            other,
            |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32,
            "__umulhi($0, $1)",
        );
        (high, self * other)
    }
    fn lt(self, other: Self) -> Self::Mask {
        binary(self, other, |a: u32, b: u32| a < b, "%0 < %1")
    }
    fn eq(self, other: Self) -> Self::Mask {
        binary(self, other, |a: u32, b: u32| a == b, "%0 == %1")
    }
    fn to_int(self) -> Self::Int {
        unary(self, |x: u32| x as i32, "(int)%0")
    }
    fn gather(table: &[u32], index: Self) -> Self {
        match index {
            Value::Constant(i) => Value::Constant(table[(i as usize).min(table.len() - 1)]),
            Value::Node(graph, _) => {
                let number = graph.table(table.iter().map(|&x| Literal::Uint(x)).collect());
                graph.node(Op::Table(number), vec![index.arg()])
            }
        }
    }
    fn named(self, name: &'static str) -> Self {
        self.named_node(name)
    }
}

impl<'g> Int for Value<'g, i32> {
    type Mask = Value<'g, bool>;
    type Uint = Value<'g, u32>;

    fn splat(value: i32) -> Self {
        Value::Constant(value)
    }
    fn shl(self, amount: u32) -> Self {
        binary(self, Value::Constant(amount & 31), |x: i32, n: u32| x << n, "(int)((unsigned)%0 << $1)")
    }
    fn shr(self, amount: u32) -> Self {
        binary(self, Value::Constant(amount & 31), |x: i32, n: u32| x >> n, "%0 >> $1")
    }
    fn lt(self, other: Self) -> Self::Mask {
        binary(self, other, |a: i32, b: i32| a < b, "%0 < %1")
    }
    fn eq(self, other: Self) -> Self::Mask {
        binary(self, other, |a: i32, b: i32| a == b, "%0 == %1")
    }
    fn to_uint(self) -> Self::Uint {
        unary(self, |x: i32| x as u32, "(unsigned)%0")
    }
    fn named(self, name: &'static str) -> Self {
        self.named_node(name)
    }
}

impl<'g> Float for Value<'g, f32> {
    type Mask = Value<'g, bool>;
    type Uint = Value<'g, u32>;
    type Int = Value<'g, i32>;
    const DOUBLE: bool = false;

    fn splat(value: f64) -> Self {
        Value::Constant(value as f32)
    }
    fn mul_add(self, b: Self, c: Self) -> Self {
        match (self, b, c) {
            (Value::Constant(a), Value::Constant(b), Value::Constant(c)) => Value::Constant(a.mul_add(b, c)),
            _ => {
                let graph = self.graph().or(b.graph()).or(c.graph()).expect("one argument is a node");
                graph.node(Op::Expression("__fmaf_rn($0, $1, $2)"), vec![self.arg(), b.arg(), c.arg()])
            }
        }
    }
    fn abs(self) -> Self {
        unary(self, f32::abs, "fabsf($0)")
    }
    fn sqrt(self) -> Self {
        unary(self, f32::sqrt, "__fsqrt_rn($0)")
    }
    fn floor(self) -> Self {
        unary(self, f32::floor, "floorf($0)")
    }
    fn round(self) -> Self {
        unary(self, f32::round_ties_even, "rintf($0)")
    }
    fn lt(self, other: Self) -> Self::Mask {
        binary(self, other, |a: f32, b: f32| a < b, "%0 < %1")
    }
    fn le(self, other: Self) -> Self::Mask {
        binary(self, other, |a: f32, b: f32| a <= b, "%0 <= %1")
    }
    fn eq(self, other: Self) -> Self::Mask {
        binary(self, other, |a: f32, b: f32| a == b, "%0 == %1")
    }
    fn to_int(self) -> Self::Int {
        // Saturates and maps NaN to 0, as Rust's `as` does.
        unary(self, |x: f32| x as i32, "__float2int_rz($0)")
    }
    fn from_int(value: Self::Int) -> Self {
        unary(value, |x: i32| x as f32, "__int2float_rn($0)")
    }
    fn from_uint(value: Self::Uint) -> Self {
        unary(value, |x: u32| x as f32, "__uint2float_rn($0)")
    }
    fn exp2i(exponent: Self::Int) -> Self {
        let bits = ((exponent + Int::splat(127)).shl(23)).to_uint();
        unary(bits, f32::from_bits, "__uint_as_float($0)")
    }
    fn mantissa_exponent(self) -> (Self, Self::Int) {
        let bits = self.to_bits();
        let exponent = Uint::shr(bits, 23).to_int() - Int::splat(127);
        let mantissa = (bits & Uint::splat(0x007f_ffff)) | Uint::splat(0x3f80_0000);
        (unary(mantissa, f32::from_bits, "__uint_as_float($0)"), exponent)
    }
    fn gather(table: &[f64], index: Self::Uint) -> Self {
        match index {
            Value::Constant(i) => Value::Constant(table[(i as usize).min(table.len() - 1)] as f32),
            Value::Node(graph, _) => {
                let entries = table.iter().map(|&x| Literal::Float((x as f32).to_bits())).collect();
                graph.node(Op::Table(graph.table(entries)), vec![index.arg()])
            }
        }
    }
    fn named(self, name: &'static str) -> Self {
        self.named_node(name)
    }
}

/// Rebuilds a bundle leaf by leaf, each made from the leaf before.
struct Leaves<'g, 'a> {
    graph: &'g Graph,
    from: std::slice::Iter<'a, (Type, Arg)>,
    to: Vec<Arg>,
    op: &'a dyn Fn(usize, Arg) -> Option<(Op, Vec<Arg>)>,
}

impl<'g> Leaves<'g, '_> {
    fn next<T: Constant>(&mut self, constant: impl Fn(Literal) -> T) -> Value<'g, T> {
        let &(_, before) = self.from.next().expect("as many leaves as before");
        let value = match (self.op)(self.to.len(), before) {
            Some((op, args)) => self.graph.node(op, args),
            None => match before {
                Arg::Node(id) => Value::node(self.graph, id),
                Arg::Literal(literal) => Value::Constant(constant(literal)),
            },
        };
        self.to.push(value.arg());
        value
    }
}

impl<'g> Source<Trace<'g>> for Leaves<'g, '_> {
    fn float(&mut self) -> Value<'g, f32> {
        self.next(|l| {
            if let Literal::Float(bits) = l { f32::from_bits(bits) } else { unreachable!("a float leaf") }
        })
    }
    fn uint(&mut self) -> Value<'g, u32> {
        self.next(|l| if let Literal::Uint(x) = l { x } else { unreachable!("an unsigned leaf") })
    }
    fn int(&mut self) -> Value<'g, i32> {
        self.next(|l| if let Literal::Int(x) = l { x } else { unreachable!("a signed leaf") })
    }
    fn mask(&mut self) -> Value<'g, bool> {
        self.next(|l| if let Literal::Mask(x) = l { x } else { unreachable!("a mask leaf") })
    }
    fn memory<const N: usize>(&mut self) -> Recorded<'g, N> {
        let &(kind, before) = self.from.next().expect("as many leaves as before");
        let (op, args) = (self.op)(self.to.len(), before).expect("memory is a node");
        let id = self.graph.record(op, args, kind);
        self.to.push(Arg::Node(id));
        Recorded::Node(self.graph, id)
    }
}

/// Lists the leaves of a bundle as arguments.
#[derive(Default)]
struct Collect<'g> {
    leaves: Vec<(Type, Arg)>,
    graph: Option<&'g Graph>,
}

impl<'g> Collect<'g> {
    /// The leaves of `bundle`. Constant memory becomes a node if a graph is known: the graph of another leaf, or
    /// `graph`.
    fn of<B: Bundle<Trace<'g>>>(graph: Option<&'g Graph>, bundle: &B) -> Self {
        let mut found = Self { graph, leaves: Vec::new() };
        bundle.store(&mut found);
        let mut collect = Self { graph: found.graph, leaves: Vec::new() };
        bundle.store(&mut collect);
        collect
    }
    fn push<T: Constant>(&mut self, value: Value<'g, T>) {
        self.graph = self.graph.or(value.graph());
        self.leaves.push((Type::Scalar(T::KIND), value.arg()));
    }
}

impl<'g> Sink<Trace<'g>> for Collect<'g> {
    fn float(&mut self, value: Value<'g, f32>) {
        self.push(value);
    }
    fn uint(&mut self, value: Value<'g, u32>) {
        self.push(value);
    }
    fn int(&mut self, value: Value<'g, i32>) {
        self.push(value);
    }
    fn mask(&mut self, value: Value<'g, bool>) {
        self.push(value);
    }
    fn memory<const N: usize>(&mut self, value: &Recorded<'g, N>) {
        self.graph = self.graph.or(value.graph());
        if let Some(graph) = self.graph {
            self.leaves.push((Type::Memory(N), value.arg(graph)));
        }
    }
}

/// Turns the leaves of `value` into variables of `graph`, named after the bundle's fields.
fn variables<'g, B: Bundle<Trace<'g>>>(graph: &'g Graph, value: &B) -> (B, Vec<u32>) {
    let before = Collect::of(Some(graph), value);
    let op = |_: usize, arg: Arg| Some((Op::Variable(graph.fresh()), vec![arg]));
    let mut leaves = Leaves { graph, from: before.leaves.iter(), to: Vec::new(), op: &op };
    let bundle = B::load(&mut leaves);
    let ids: Vec<u32> = leaves
        .to
        .iter()
        .map(|arg| if let Arg::Node(id) = arg { *id } else { unreachable!("a node") })
        .collect();
    let mut names = crate::bundle::leaves_of::<Trace<'g>, B>().into_iter();
    for (id, (kind, _)) in ids.iter().zip(&before.leaves) {
        let name = names.next().expect("a name for every leaf").name;
        match kind {
            Type::Scalar(_) => graph.name(*id, &name),
            Type::Memory(size) => {
                graph.name(*id, array_name(&name));
                (1..*size).for_each(|_| drop(names.next()));
            }
        }
    }
    (bundle, ids)
}

impl<'g> Lane for Trace<'g> {
    type Float = Value<'g, f32>;
    type Uint = Value<'g, u32>;
    type Int = Value<'g, i32>;
    type Mask = Value<'g, bool>;
    type Memory<const N: usize> = Recorded<'g, N>;

    fn when<B: Bundle<Self>>(mask: Self::Mask, value: B, rule: impl FnOnce(B) -> B) -> B {
        let graph = match mask {
            Value::Constant(true) => return rule(value),
            Value::Constant(false) => return value,
            Value::Node(graph, _) => graph,
        };
        let (after, variables) = variables(graph, &value);
        let body = graph.open();
        // The rule reads the values from before, which nothing assigns to.
        let results = Collect::of(Some(graph), &rule(value)).leaves;
        graph.close();
        let assigned = variables.into_iter().zip(results.into_iter().map(|(_, arg)| arg)).collect();
        graph.push(Item::When { condition: mask.arg(), assigned, body });
        after
    }

    fn repeat<B: Bundle<Self>>(count: u32, value: B, rule: impl Fn(Self::Uint, B) -> B) -> B {
        let Some(graph) = Collect::of(None, &value).graph else {
            // All constant: run it now.
            return (0..count).fold(value, |value, i| rule(Value::Constant(i), value));
        };
        let (after, variables) = variables(graph, &value);
        let body = graph.open();
        let index: Value<'g, u32> = graph.node(Op::Index(graph.fresh()), Vec::new());
        let list = Collect::of(Some(graph), &after).leaves;
        let carry = |position: usize, arg: Arg| Some((Op::Carried(variables[position]), vec![arg]));
        let turn = B::load(&mut Leaves { graph, from: list.iter(), to: Vec::new(), op: &carry });
        let results = Collect::of(Some(graph), &rule(index, turn)).leaves;
        graph.close();
        let Arg::Node(index) = index.arg() else { unreachable!("a node") };
        let assigned = variables.iter().copied().zip(results.into_iter().map(|(_, arg)| arg)).collect();
        graph.push(Item::Repeat { count, index, assigned, body });
        after
    }
}

leaf_bundle!(Trace<'g>, Value<'g, f32>, float, Float, 'g);
leaf_bundle!(Trace<'g>, Value<'g, u32>, uint, Uint, 'g);
leaf_bundle!(Trace<'g>, Value<'g, i32>, int, Int, 'g);
leaf_bundle!(Trace<'g>, Value<'g, bool>, mask, Mask, 'g);
