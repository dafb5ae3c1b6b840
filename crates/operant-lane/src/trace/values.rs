//! Values of the recording lane and their operations: each folds when its arguments are constants, and otherwise
//! records a node.

use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::graph::{Arg, Graph, Literal, Op, Type, array_name};
use super::memory::Recorded;
use super::operation::Operation;
use crate::bundle::{Bundle, Kind, Sink, Source, leaf_bundle};
use crate::lane::{Float, Int, Lane, Mask, Select, Uint};
use crate::philox::rounds;

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
    /// The constant as a literal.
    fn literal(self) -> Literal;
    /// The constant of a literal of this kind.
    #[doc(hidden)]
    fn of_word(word: u32) -> Self;
}

macro_rules! constant {
    ($t:ty, $kind:ident, |$x:ident| $bits:expr, |$word:ident| $value:expr) => {
        impl Constant for $t {
            const KIND: Kind = Kind::$kind;
            fn literal(self) -> Literal {
                let $x = self;
                Literal::$kind($bits)
            }
            fn of_word($word: u32) -> Self {
                $value
            }
        }
    };
}
constant!(f32, Float, |x| x.to_bits(), |word| f32::from_bits(word));
constant!(u32, Uint, |x| x, |word| word);
constant!(i32, Int, |x| x, |word| word as i32);
constant!(bool, Mask, |x| x, |word| word != 0);

impl<'g, T: Constant> Value<'g, T> {
    pub(super) fn node(graph: &'g Graph, id: u32) -> Self {
        Value::Node(graph, id)
    }

    /// The value of an argument of `graph`, which must have this kind.
    pub fn of(graph: &'g Graph, arg: Arg) -> Self {
        match arg {
            Arg::Node(id) => Value::Node(graph, id),
            Arg::Literal(literal) => Value::Constant(T::of_word(literal.word())),
        }
    }

    /// The value as an argument.
    pub fn arg(self) -> Arg {
        match self {
            Value::Constant(x) => Arg::Literal(x.literal()),
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
    pub fn to_bits(self) -> Value<'g, u32> {
        unary(Operation::FloatToBits, self)
    }
    /// The float of a bit pattern.
    pub fn from_bits(bits: Value<'g, u32>) -> Self {
        unary(Operation::FloatFromBits, bits)
    }
}

/// The result of an operation: constant without a graph, otherwise a node.
fn scalar<'g, R: Constant, const N: usize>(
    operation: Operation,
    graph: Option<&'g Graph>,
    args: [Arg; N],
) -> Value<'g, R> {
    match graph {
        Some(graph) => graph.node(Op::Scalar(operation), args.to_vec()),
        None => {
            let literals = args.map(|arg| match arg {
                Arg::Literal(literal) => literal,
                Arg::Node(_) => unreachable!("a node has a graph"),
            });
            Value::Constant(R::of_word(operation.fold(&literals).word()))
        }
    }
}

fn unary<'g, A: Constant, R: Constant>(operation: Operation, a: Value<'g, A>) -> Value<'g, R> {
    scalar(operation, a.graph(), [a.arg()])
}

fn binary<'g, A: Constant, B: Constant, R: Constant>(
    operation: Operation,
    a: Value<'g, A>,
    b: Value<'g, B>,
) -> Value<'g, R> {
    scalar(operation, a.graph().or(b.graph()), [a.arg(), b.arg()])
}

macro_rules! operators {
    ($t:ty: $($trait:ident $method:ident $operation:ident),*) => {$(
        impl<'g> $trait for Value<'g, $t> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                binary(Operation::$operation, self, other)
            }
        }
    )*};
}

operators!(f32: Add add FloatAdd, Sub sub FloatSub, Mul mul FloatMul, Div div FloatDiv);
operators!(u32: Add add UintAdd, Sub sub UintSub, Mul mul UintMul);
operators!(u32: BitAnd bitand UintAnd, BitOr bitor UintOr, BitXor bitxor UintXor);
operators!(i32: Add add IntAdd, Sub sub IntSub, Mul mul IntMul);
operators!(i32: BitAnd bitand IntAnd, BitOr bitor IntOr, BitXor bitxor IntXor);
operators!(bool: BitAnd bitand MaskAnd, BitOr bitor MaskOr, BitXor bitxor MaskXor);

macro_rules! prefix_operators {
    ($($t:ty: $trait:ident $method:ident $operation:ident),*) => {$(
        impl $trait for Value<'_, $t> {
            type Output = Self;
            fn $method(self) -> Self {
                unary(Operation::$operation, self)
            }
        }
    )*};
}
prefix_operators!(f32: Neg neg FloatNeg, i32: Neg neg IntNeg);
prefix_operators!(u32: Not not UintNot, i32: Not not IntNot, bool: Not not MaskNot);

macro_rules! comparisons {
    ($($method:ident $operation:ident),*) => {$(
        fn $method(self, other: Self) -> Self::Mask {
            binary(Operation::$operation, self, other)
        }
    )*};
}

macro_rules! recorded {
    ($($method:ident $operation:ident),*) => {$(
        fn $method(self) -> Self {
            unary(Operation::$operation, self)
        }
    )*};
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
                let operation = Operation::select(T::KIND);
                graph.node(Op::Scalar(operation), vec![mask.arg(), yes.arg(), no.arg()])
            }
        }
    }
}

impl<'g> Uint for Value<'g, u32> {
    type Mask = Value<'g, bool>;
    type Int = Value<'g, i32>;

    fn splat(value: u32) -> Self {
        Value::Constant(value)
    }
    fn shl(self, amount: u32) -> Self {
        binary(Operation::UintShl, self, Value::Constant(amount & 31))
    }
    fn shr(self, amount: u32) -> Self {
        binary(Operation::UintShr, self, Value::Constant(amount & 31))
    }
    fn shl_by(self, amount: Self) -> Self {
        binary(Operation::UintShlBy, self, amount)
    }
    fn shr_by(self, amount: Self) -> Self {
        binary(Operation::UintShrBy, self, amount)
    }
    fn mul_wide(self, other: Self) -> (Self, Self) {
        (binary(Operation::UintMulHigh, self, other), self * other)
    }
    comparisons!(lt UintLt, eq UintEq);
    fn to_int(self) -> Self::Int {
        unary(Operation::UintToInt, self)
    }
    fn gather(table: &[u32], index: Self) -> Self {
        match index {
            Value::Constant(i) => Value::Constant(table[(i as usize).min(table.len() - 1)]),
            Value::Node(graph, _) => {
                let entries = table.iter().map(|&x| Literal::Uint(x)).collect();
                Value::of(graph, graph.look_up(entries, index.arg()))
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
        binary(Operation::IntShl, self, Value::Constant(amount & 31))
    }
    fn shr(self, amount: u32) -> Self {
        binary(Operation::IntShr, self, Value::Constant(amount & 31))
    }
    comparisons!(lt IntLt, eq IntEq);
    fn to_uint(self) -> Self::Uint {
        unary(Operation::IntToUint, self)
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
        let graph = self.graph().or(b.graph()).or(c.graph());
        scalar(Operation::FloatMulAdd, graph, [self.arg(), b.arg(), c.arg()])
    }
    recorded!(abs FloatAbs, sqrt FloatSqrt, floor FloatFloor, round FloatRound);
    comparisons!(lt FloatLt, le FloatLe, eq FloatEq);
    fn to_int(self) -> Self::Int {
        unary(Operation::FloatToInt, self)
    }
    fn from_int(value: Self::Int) -> Self {
        unary(Operation::FloatFromInt, value)
    }
    fn from_uint(value: Self::Uint) -> Self {
        unary(Operation::FloatFromUint, value)
    }
    fn exp2i(exponent: Self::Int) -> Self {
        Self::from_bits(((exponent + Int::splat(127)).shl(23)).to_uint())
    }
    fn mantissa_exponent(self) -> (Self, Self::Int) {
        let bits = self.to_bits();
        let exponent = Uint::shr(bits, 23).to_int() - Int::splat(127);
        let mantissa = (bits & Uint::splat(0x007f_ffff)) | Uint::splat(0x3f80_0000);
        (Self::from_bits(mantissa), exponent)
    }
    fn gather(table: &[f64], index: Self::Uint) -> Self {
        match index {
            Value::Constant(i) => Value::Constant(table[(i as usize).min(table.len() - 1)] as f32),
            Value::Node(graph, _) => {
                let entries = table.iter().map(|&x| Literal::Float((x as f32).to_bits())).collect();
                Value::of(graph, graph.look_up(entries, index.arg()))
            }
        }
    }
    fn named(self, name: &'static str) -> Self {
        self.named_node(name)
    }
}

/// Makes a bundle of its leaves.
struct Leaves<'g, 'a> {
    graph: &'g Graph,
    from: std::slice::Iter<'a, Arg>,
}

impl<'g> Leaves<'g, '_> {
    fn next<T: Constant>(&mut self) -> Value<'g, T> {
        let arg = *self.from.next().expect("as many leaves as before");
        Value::of(self.graph, arg)
    }
}

impl<'g> Source<Trace<'g>> for Leaves<'g, '_> {
    fn float(&mut self) -> Value<'g, f32> {
        self.next()
    }
    fn uint(&mut self) -> Value<'g, u32> {
        self.next()
    }
    fn int(&mut self) -> Value<'g, i32> {
        self.next()
    }
    fn mask(&mut self) -> Value<'g, bool> {
        self.next()
    }
    fn memory<const N: usize>(&mut self) -> Recorded<'g, N> {
        match self.from.next().expect("as many leaves as before") {
            Arg::Node(id) => Recorded::Node(self.graph, *id),
            Arg::Literal(_) => unreachable!("memory is a node"),
        }
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

/// Names of the leaves of a bundle, memory by its array.
fn leaf_names<'g, B: Bundle<Trace<'g>>>(leaves: &[(Type, Arg)]) -> Vec<String> {
    let mut names = crate::bundle::leaves_of::<Trace<'g>, B>().into_iter();
    let name_of = |(kind, _): &(Type, Arg)| {
        let name = names.next().expect("a name for every leaf").name;
        if let Type::Memory(size) = kind {
            (1..*size).for_each(|_| drop(names.next()));
            return array_name(&name).to_owned();
        }
        name
    };
    leaves.iter().map(name_of).collect()
}

fn bundle_of<'g, B: Bundle<Trace<'g>>>(graph: &'g Graph, leaves: &[Arg]) -> B {
    B::load(&mut Leaves { graph, from: leaves.iter() })
}

fn args_of<'g, B: Bundle<Trace<'g>>>(graph: &'g Graph, bundle: &B) -> Vec<Arg> {
    Collect::of(Some(graph), bundle).leaves.into_iter().map(|(_, arg)| arg).collect()
}

/// An array of bundles as memory: the words of the elements one after another.
struct Elements<'g> {
    graph: &'g Graph,
    /// The leaves of an element.
    kinds: Vec<Kind>,
    /// None if they have no leaves.
    memory: Option<Arg>,
}

impl<'g> Elements<'g> {
    fn of<B: Bundle<Trace<'g>>, const N: usize>(graph: &'g Graph, elements: &[B; N]) -> Self {
        let leaves = Collect::of(Some(graph), elements).leaves;
        let kind = |kind: &Type| match kind {
            Type::Scalar(kind) => *kind,
            Type::Memory(_) => unreachable!("elements of a scan have no memory of their own"),
        };
        let words: Vec<Arg> = leaves.iter().map(|(of, arg)| graph.to_word(kind(of), *arg)).collect();
        let kinds = leaves.iter().take(leaves.len() / N).map(|(of, _)| kind(of)).collect();
        let memory =
            (!words.is_empty()).then(|| graph.whole_memory(&words).unwrap_or_else(|| graph.words(words)));
        Elements { graph, kinds, memory }
    }

    /// Where a leaf of an element is.
    fn place(&self, index: Arg, leaf: usize) -> Arg {
        let word = |value: usize| Arg::Literal(Literal::Uint(value as u32));
        let first = match self.kinds.len() {
            1 => index,
            size => self.graph.scalar(Operation::UintMul, &[index, word(size)]),
        };
        if leaf == 0 { first } else { self.graph.scalar(Operation::UintAdd, &[first, word(leaf)]) }
    }

    /// The leaves of an element.
    fn load(&self, memory: Option<Arg>, index: Arg) -> Vec<Arg> {
        let Some(memory) = memory else { return Vec::new() };
        let load = |(leaf, kind): (usize, &Kind)| {
            self.graph.of_word(*kind, self.graph.element(memory, self.place(index, leaf)))
        };
        self.kinds.iter().enumerate().map(load).collect()
    }

    /// The memory after an element has changed.
    fn store(&self, mut memory: Arg, index: Arg, before: &[Arg], after: &[Arg]) -> Arg {
        for (leaf, kind) in self.kinds.iter().enumerate().filter(|(leaf, _)| before[*leaf] != after[*leaf]) {
            let word = self.graph.to_word(*kind, after[leaf]);
            memory =
                self.graph.store(memory, Arg::Literal(Literal::Mask(true)), self.place(index, leaf), word);
        }
        memory
    }
}

impl<'g> Lane for Trace<'g> {
    type Float = Value<'g, f32>;
    type Uint = Value<'g, u32>;
    type Int = Value<'g, i32>;
    type Mask = Value<'g, bool>;
    type Memory<const N: usize> = Recorded<'g, N>;
    type Same = Value<'g, u32>;

    fn when<B: Bundle<Self>>(mask: Self::Mask, value: B, rule: impl FnOnce(B) -> B) -> B {
        let graph = match mask {
            Value::Constant(true) => return rule(value),
            Value::Constant(false) => return value,
            Value::Node(graph, _) => graph,
        };
        let before = Collect::of(Some(graph), &value).leaves;
        let names = leaf_names::<B>(&before);
        // The rule reads the values from before, which nothing assigns to.
        let after = graph.when(mask.arg(), &before, &names, || args_of(graph, &rule(value)));
        bundle_of(graph, &after)
    }

    fn spread(value: Self::Same) -> Self::Uint {
        value
    }

    fn entry(table: &[f64], index: Self::Same) -> Self::Float {
        Float::gather(table, index)
    }

    fn turns<B: Bundle<Self>>(count: u32, value: &mut B, rule: impl Fn(Self::Same, &mut B)) {
        let Some(graph) = Collect::of(None, value).graph else {
            // All constant: run it now.
            return (0..count).for_each(|turn| rule(Value::Constant(turn), value));
        };
        let before = Collect::of(Some(graph), value).leaves;
        let names = leaf_names::<B>(&before);
        let after = graph.repeat(count, &before, &names, |index, carried: &[Arg]| {
            let mut value: B = bundle_of(graph, carried);
            rule(Value::of(graph, index), &mut value);
            args_of(graph, &value)
        });
        *value = bundle_of(graph, &after);
    }

    fn scan<const N: usize, A: Bundle<Self>, B: Bundle<Self>, V: Bundle<Self>>(
        read: &[A; N],
        own: &mut [B; N],
        value: V,
        rule: impl Fn(&A, &mut B, V) -> V,
    ) -> V {
        let graphs =
            [Collect::of(None, read).graph, Collect::of(None, own).graph, Collect::of(None, &value).graph];
        let Some(graph) = graphs.into_iter().flatten().next() else {
            return read.iter().zip(own).fold(value, |value, (read, own)| rule(read, own, value));
        };
        let (read, written) = (Elements::of(graph, read), Elements::of(graph, own));
        let mut before = Collect::of(Some(graph), &value).leaves;
        let mut names = leaf_names::<V>(&before);
        before.extend(written.memory.map(|memory| (graph.type_of(memory), memory)));
        names.push("own".to_owned());
        let after = graph.repeat(N as u32, &before, &names, |index, carried| {
            let (values, memory) = carried.split_at(carried.len() - usize::from(written.memory.is_some()));
            let element = bundle_of(graph, &read.load(read.memory, index));
            let words = written.load(memory.first().copied(), index);
            let mut own = bundle_of(graph, &words);
            let mut results = args_of(graph, &rule(&element, &mut own, bundle_of(graph, values)));
            let changed = args_of(graph, &own);
            results.extend(memory.first().map(|&memory| written.store(memory, index, &words, &changed)));
            results
        });
        let memory = written.memory.and(after.last().copied());
        for (k, own) in own.iter_mut().enumerate() {
            *own = bundle_of(graph, &written.load(memory, Arg::Literal(Literal::Uint(k as u32))));
        }
        bundle_of(graph, &after)
    }

    fn philox(counter: [Self::Uint; 4], key: [Self::Uint; 2]) -> [Self::Uint; 4] {
        let args = counter.into_iter().chain(key);
        match args.clone().find_map(Value::graph) {
            None => rounds::<Self>(counter, key),
            Some(graph) => {
                let args: Vec<Arg> = args.map(Value::arg).collect();
                core::array::from_fn(|word| graph.node(Op::Philox(word as u8), args.clone()))
            }
        }
    }
}

leaf_bundle!(Trace<'g>, Value<'g, f32>, float, Float, 'g);
leaf_bundle!(Trace<'g>, Value<'g, u32>, uint, Uint, 'g);
leaf_bundle!(Trace<'g>, Value<'g, i32>, int, Int, 'g);
leaf_bundle!(Trace<'g>, Value<'g, bool>, mask, Mask, 'g);
