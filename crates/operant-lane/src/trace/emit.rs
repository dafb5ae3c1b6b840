//! Prints a recorded graph as the body of a CUDA C++ function: dead nodes are omitted, a value used once is written where
//! it is used, everything else is a named constant.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::function::{Function, Output};
use super::graph::{Arg, Assignment, Item, Literal, Node, Op, Steps, Type};
use super::operation::Operation;
use crate::bundle::Kind;

/// A line longer than this is broken by naming a part of it.
const LINE: usize = 88;

/// Maximum size of a table in constant memory.
const CONSTANT_ENTRIES: usize = 1024;

/// Maximum number of iterations of a loop that is unrolled, and of the lines that it then has.
const UNROLLED: (u32, usize) = (16, 512);

/// A function with an array of more words than the first number keeps its arrays in memory. Copies of more words than the second are not unrolled
/// there: the compiler would load all of them before it stores any, and spill registers.
const IN_MEMORY: (usize, usize) = (256, 64);

/// Words that C++ keeps for itself.
pub const KEYWORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char \
    char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast continue \
    co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export \
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr \
    operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof \
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid \
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq";

/// Names that the emitted functions use for their arguments, and of what they call.
const RESERVED: [&str; 16] = [
    "state",
    "next",
    "action",
    "reward",
    "terminated",
    "obs",
    "seed",
    "environment",
    "step",
    "legal",
    "index",
    "int",
    "float",
    "unsigned",
    "word",
    "min",
];

/// Longest name of a value, before its number.
const LONGEST: usize = 96;

/// The functions that emitted text calls.
fn called() -> impl Iterator<Item = &'static str> {
    let words =
        |operation: &Operation| operation.cuda().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    Operation::ALL.iter().flat_map(words).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
}

impl Function {
    /// The tables of the function, each a line at file scope; `prefix` keeps the names of two functions apart.
    pub fn emit_tables(&self, prefix: &str) -> String {
        let mut text = String::new();
        for (number, table) in self.steps.tables.iter().enumerate() {
            let kind = if matches!(table[0], Literal::Float(_)) { "float" } else { "unsigned" };
            let entries: Vec<String> = table.iter().map(|&entry| literal(entry)).collect();
            let (size, entries) = (table.len(), entries.join(", "));
            // Constant memory has 64 KiB and is fast if all threads read the same entry.
            let space = if size <= CONSTANT_ENTRIES { "__constant__" } else { "static __device__ const" };
            writeln!(text, "{space} {kind} {prefix}_table_{number}[{size}] = {{{entries}}};")
                .expect("writing to a string");
        }
        text
    }

    /// The body of the CUDA function, indented by four spaces. `prefix` as in [`Function::emit_tables`].
    pub fn emit(&self, prefix: &str) -> String {
        let expanded = self.with_philox_expanded();
        let mut printer = Printer::new(&expanded.steps, &expanded.outputs, prefix);
        printer.region(0, 1);
        for Output { place, kind, value } in &expanded.outputs {
            let value = printer.text(*value).0;
            match kind {
                Type::Scalar(_) => printer.line(1, &format!("{place} = {value};")),
                Type::Memory(size) => printer.output(place, &value, *size),
            }
        }
        printer.out
    }
}

/// The type of a kind in CUDA C++.
fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Float => "float",
        Kind::Uint => "unsigned",
        Kind::Int => "int",
        Kind::Mask => "bool",
    }
}

/// A literal that reads back to the same bits.
fn literal(literal: Literal) -> String {
    match literal {
        Literal::Float(bits) => {
            let x = f32::from_bits(bits);
            if x.is_finite() {
                let text = format!("{x:?}");
                format!("{text}f")
            } else {
                format!("__uint_as_float(0x{bits:08x}u)")
            }
        }
        Literal::Uint(x) if x > 0xffff => format!("0x{x:08x}u"),
        Literal::Uint(x) => format!("{x}u"),
        Literal::Int(i32::MIN) => "(-2147483647 - 1)".to_owned(),
        Literal::Int(x) => format!("{x}"),
        Literal::Mask(x) => format!("{x}"),
    }
}

struct Printer<'a> {
    steps: &'a Steps,
    prefix: &'a str,
    assignments: HashMap<u32, Assignment>,
    /// How often each live node is used, and in which region if only in one.
    uses: HashMap<u32, (usize, usize)>,
    /// The last node that uses a node; `None` if its value is used at the end of a region.
    last_use: HashMap<u32, Option<u32>>,
    /// The text of a node, and whether it binds tighter than any operator.
    texts: HashMap<u32, (String, bool)>,
    names: HashSet<String>,
    /// The next number for each name that is taken.
    numbers: HashMap<String, u32>,
    temporaries: usize,
    /// The largest value of each loop's index.
    last_turns: HashMap<u32, u32>,
    /// Lines so far, those of an unrolled loop once for each iteration.
    lines: usize,
    /// Most words of an array whose copies are unrolled.
    unrolled_words: usize,
    out: String,
}

impl<'a> Printer<'a> {
    fn new(steps: &'a Steps, outputs: &[Output], prefix: &'a str) -> Self {
        let names = RESERVED.iter().copied().chain(KEYWORDS.split_whitespace()).chain(called());
        let names = names.map(str::to_owned).collect();
        let mut printer = Self {
            steps,
            assignments: steps.assignments(),
            prefix,
            uses: HashMap::new(),
            last_use: HashMap::new(),
            texts: HashMap::new(),
            names,
            numbers: HashMap::new(),
            temporaries: 0,
            last_turns: HashMap::new(),
            lines: 0,
            unrolled_words: {
                let is_large = |node: &Node| matches!(node.kind, Type::Memory(size) if size > IN_MEMORY.0);
                if steps.nodes.iter().any(is_large) { IN_MEMORY.1 } else { usize::MAX }
            },
            out: String::new(),
        };
        for output in outputs {
            printer.count_uses(output.value);
        }
        printer
    }

    /// Counts a use of `output` at the end of region 0, and the uses of what it needs. The first use of a node also counts the uses
    /// by the node itself.
    fn count_uses(&mut self, output: Arg) {
        // Argument, region and user of each use.
        let mut waiting = vec![(output, 0, None)];
        while let Some((arg, region, user)) = waiting.pop() {
            let Arg::Node(id) = arg else { continue };
            let last = self.last_use.entry(id).or_insert(user);
            *last = last.zip(user).map(|(last, user)| last.max(user));
            let count = self.uses.entry(id).or_insert((0, region));
            count.0 += 1;
            if count.1 != region {
                count.1 = usize::MAX;
            }
            if count.0 > 1 {
                continue;
            }
            let node = &self.steps.nodes[id as usize];
            waiting.extend(node.args.iter().map(|&arg| (arg, node.region, Some(id))));
            if let Some(Assignment { condition, result, body }) = self.assignments.get(&id) {
                waiting.extend(condition.map(|condition| (condition, node.region, Some(id))));
                waiting.push((*result, *body, None));
            }
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.lines += 1;
        writeln!(self.out, "{:indent$}{text}", "", indent = depth * 4).expect("writing to a string");
    }

    /// A loop that sets all words of the array `to`.
    fn fill(&mut self, depth: usize, to: &str, word: &str, size: usize) {
        if size > self.unrolled_words {
            self.line(depth, "#pragma unroll 4");
        }
        self.line(depth, &format!("for (unsigned word = 0u; word < {size}u; ++word) {to}[word] = {word};"));
    }

    /// A loop that copies an array.
    fn copy(&mut self, depth: usize, to: &str, from: &str, size: usize) {
        self.fill(depth, to, &format!("{from}[word]"), size);
    }

    /// Writes an array to where its content is put out. A local array of the function's outermost region is that place from the start.
    fn output(&mut self, place: &str, value: &str, size: usize) {
        let declared = format!("\n    unsigned {value}[{size}];\n");
        if size > self.unrolled_words && self.out.contains(&declared) {
            self.out =
                self.out.replace(&declared, &format!("\n    unsigned (&{value})[{size}] = {place};\n"));
        } else {
            self.copy(1, place, value, size);
        }
    }

    fn unique(&mut self, preferred: &str) -> String {
        let letters = preferred.chars().take(LONGEST);
        let clean: String = letters.map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let clean = clean.trim_end_matches('_');
        // `_0` is an element of a tuple or array. Capitals, `env_` and other underscores may begin names of the kernels.
        let is_free = |name: &str| {
            let letter = name.trim_start_matches('_');
            match name.len() - letter.len() {
                0 => letter.starts_with(|c: char| c.is_ascii_lowercase()) && !letter.starts_with("env_"),
                underscores => underscores == 1 && letter.starts_with(|c: char| c.is_ascii_digit()),
            }
        };
        let clean = format!("{}{clean}", if is_free(clean) { "" } else { "v" });
        let mut name = clean.clone();
        if self.names.contains(&name) {
            let number = self.numbers.entry(clean.clone()).or_insert(2);
            while self.names.contains(&name) {
                name = format!("{clean}_{number}");
                *number += 1;
            }
        }
        self.names.insert(name.clone());
        name
    }

    /// The text of `arg`, and whether it is a name, literal or call.
    fn text(&self, arg: Arg) -> (String, bool) {
        match arg {
            Arg::Literal(x) => {
                let text = literal(x);
                let atom = !text.starts_with('-');
                (text, atom)
            }
            Arg::Node(id) => self.texts[&id].clone(),
        }
    }

    fn expression(&self, template: &str, args: &[Arg]) -> (String, bool) {
        let mut text = String::new();
        let mut rest = template.chars();
        while let Some(c) = rest.next() {
            if c != '$' && c != '%' {
                text.push(c);
                continue;
            }
            let digit =
                rest.next().and_then(|d| d.to_digit(10)).expect("a template names its arguments by digits");
            let (value, atom) = self.text(args[digit as usize]);
            if c == '%' && !atom {
                write!(text, "({value})").expect("writing to a string");
            } else {
                text.push_str(&value);
            }
        }
        let call =
            template.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && template.ends_with(')');
        (text, call)
    }

    fn region(&mut self, region: usize, depth: usize) {
        let steps = self.steps;
        for item in &steps.regions[region] {
            match item {
                Item::Node(id) => self.node(*id, depth),
                Item::When { condition, assigned, body } => {
                    if assigned.iter().any(|(v, _)| self.uses.contains_key(v)) {
                        let condition = self.text(*condition).0;
                        self.line(depth, &format!("if ({condition}) {{"));
                        self.region(*body, depth + 1);
                        self.assign(assigned, depth + 1);
                        self.line(depth, "}");
                    }
                }
                Item::Repeat { count, index, assigned, body } => {
                    if assigned.iter().any(|(v, _)| self.uses.contains_key(v)) {
                        let name = self.unique("i");
                        self.texts.insert(*index, (name.clone(), true));
                        self.last_turns.insert(*index, count.saturating_sub(1));
                        let (start, lines) = (self.out.len(), self.lines);
                        self.line(
                            depth,
                            &format!("for (unsigned {name} = 0u; {name} < {count}u; ++{name}) {{"),
                        );
                        self.region(*body, depth + 1);
                        self.assign(assigned, depth + 1);
                        self.line(depth, "}");
                        let unrolled = (self.lines - lines).saturating_mul(*count as usize);
                        let unrolls = *count <= UNROLLED.0 && unrolled <= UNROLLED.1;
                        let pragma = if unrolls { "#pragma unroll" } else { "#pragma unroll 1" };
                        self.out.insert_str(start, &format!("{:indent$}{pragma}\n", "", indent = depth * 4));
                        if unrolls {
                            self.lines = lines + unrolled;
                        }
                    }
                }
            }
        }
    }

    /// Assigns the results of a body to its variables. Results never read a variable, only its value from before, so
    /// the order does not matter.
    fn assign(&mut self, assigned: &[(u32, Arg)], depth: usize) {
        for (variable, result) in assigned {
            if self.uses.contains_key(variable) {
                let (name, value) = (self.texts[variable].0.clone(), self.text(*result).0);
                match self.steps.nodes[*variable as usize].kind {
                    _ if name == value => {}
                    Type::Scalar(_) => self.line(depth, &format!("{name} = {value};")),
                    Type::Memory(size) => self.copy(depth, &name, &value, size),
                }
            }
        }
    }

    fn node(&mut self, id: u32, depth: usize) {
        let Some(&(count, user)) = self.uses.get(&id) else {
            return;
        };
        let steps = self.steps;
        let node = &steps.nodes[id as usize];
        let kind = match node.kind {
            Type::Scalar(kind) => type_name(kind),
            Type::Memory(size) => return self.memory(id, node, size, depth),
        };
        match &node.op {
            Op::Parameter(name) => {
                self.texts.insert(id, (name.clone(), true));
            }
            Op::Index(_) => {}
            Op::Variable(_) | Op::Carried(_) => {
                let value = self.text(node.args[0]).0;
                let preferred = node.name.clone().unwrap_or_else(|| format!("{value}_before"));
                let name = self.unique(&preferred);
                let constant = if matches!(node.op, Op::Carried(_)) { "const " } else { "" };
                self.line(depth, &format!("{constant}{kind} {name} = {value};"));
                self.texts.insert(id, (name, true));
            }
            Op::Scalar(_) | Op::Table(_) | Op::Element => {
                let (text, atom) = match &node.op {
                    Op::Scalar(operation) => self.expression(operation.cuda(), &node.args),
                    Op::Table(number) => {
                        let last = self.steps.tables[*number].len() - 1;
                        let (index, prefix) = (self.text(node.args[0]).0, self.prefix);
                        (format!("{prefix}_table_{number}[min({index}, {last}u)]"), true)
                    }
                    _ => {
                        let (memory, index) = (self.text(node.args[0]).0, self.text(node.args[1]).0);
                        let last = self.size(node.args[0]) - 1;
                        if self.most(node.args[1]).is_some_and(|most| most as usize <= last) {
                            (format!("{memory}[{index}]"), true)
                        } else {
                            (format!("{memory}[min({index}, {last}u)]"), true)
                        }
                    }
                };
                // An element must be read before a later write changes it.
                let stays = node.op != Op::Element || !self.is_overwritten(node.args[0]);
                if stays && count == 1 && user == node.region && node.name.is_none() && text.len() <= LINE {
                    self.texts.insert(id, (text, atom));
                    return;
                }
                let name = match &node.name {
                    Some(name) => self.unique(&name.clone()),
                    None => {
                        self.temporaries += 1;
                        let temporary = format!("t{}", self.temporaries);
                        self.unique(&temporary)
                    }
                };
                self.line(depth, &format!("const {kind} {name} = {text};"));
                self.texts.insert(id, (name, true));
            }
            Op::Philox(_) => unreachable!("it was expanded"),
            Op::Memory(_) | Op::Words | Op::Store | Op::Choice => unreachable!("they make memory"),
        }
    }

    /// Number of words of the memory `arg`.
    fn size(&self, arg: Arg) -> usize {
        let Arg::Node(id) = arg else { unreachable!("memory is a node") };
        let Type::Memory(size) = self.steps.nodes[id as usize].kind else { unreachable!("it is memory") };
        size
    }

    /// The largest value that an index may have: of constants and indices of loops, their products and sums.
    fn most(&self, arg: Arg) -> Option<u32> {
        let id = match arg {
            Arg::Literal(literal) => return Some(literal.word()),
            Arg::Node(id) => id,
        };
        let node = &self.steps.nodes[id as usize];
        let [a, b] = match node.op {
            Op::Index(_) => return self.last_turns.get(&id).copied(),
            Op::Scalar(Operation::UintAdd | Operation::UintMul) => {
                [self.most(node.args[0])?, self.most(node.args[1])?]
            }
            _ => return None,
        };
        if node.op == Op::Scalar(Operation::UintAdd) { a.checked_add(b) } else { a.checked_mul(b) }
    }

    /// Whether the memory `arg` is never written.
    fn is_constant(&self, arg: Arg) -> bool {
        let Arg::Node(id) = arg else { unreachable!("memory is a node") };
        matches!(self.steps.nodes[id as usize].op, Op::Parameter(_) | Op::Memory(_))
    }

    /// Emits a node that creates memory: a new array, unless it is a write to an array that is not read afterwards.
    fn memory(&mut self, id: u32, node: &Node, size: usize, depth: usize) {
        let texts: Vec<String> = node.args.iter().map(|&arg| self.text(arg).0).collect();
        let own = match &node.op {
            Op::Parameter(name) => name.clone(),
            Op::Memory(table) => format!("{}_table_{table}", self.prefix),
            Op::Store | Op::Variable(_) if self.is_last_use(node, id) => texts[0].clone(),
            Op::Carried(_) if self.is_written_in_place(id, node.args[0]) => texts[0].clone(),
            _ => {
                let preferred = node.name.clone().unwrap_or_else(|| "words".to_owned());
                let name = self.unique(&preferred);
                match &node.op {
                    Op::Words => {
                        self.line(depth, &format!("unsigned {name}[{size}] = {{{}}};", texts.join(", ")));
                    }
                    Op::Choice => {
                        self.line(depth, &format!("unsigned {name}[{size}];"));
                        let [mask, yes, no] = [&texts[0], &texts[1], &texts[2]];
                        self.fill(depth, &name, &format!("{mask} ? {yes}[word] : {no}[word]"), size);
                    }
                    _ => {
                        self.line(depth, &format!("unsigned {name}[{size}];"));
                        self.copy(depth, &name, &texts[0], size);
                    }
                }
                name
            }
        };
        if node.op == Op::Store {
            let bound = match self.most(node.args[2]) {
                Some(most) if (most as usize) < size => String::new(),
                _ => format!("{} < {size}u", self.expression("%0", &node.args[2..]).0),
            };
            let at = match node.args[1] {
                Arg::Literal(_) => String::new(),
                Arg::Node(_) => self.expression("%0", &node.args[1..]).0,
            };
            let condition = match (at.is_empty(), bound.is_empty()) {
                (true, true) => String::new(),
                (false, false) => format!("if ({at} && {bound}) "),
                _ => format!("if ({at}{bound}) "),
            };
            self.line(depth, &format!("{condition}{own}[{}] = {};", texts[2], texts[3]));
        }
        self.texts.insert(id, (own, true));
    }

    /// Whether the array of the memory `arg` is written to in place.
    fn is_overwritten(&self, arg: Arg) -> bool {
        let Arg::Node(id) = arg else { unreachable!("memory is a node") };
        let Some(&Some(user)) = self.last_use.get(&id) else { return false };
        let node = &self.steps.nodes[user as usize];
        matches!(node.op, Op::Store | Op::Variable(_)) && self.is_last_use(node, user)
    }

    /// Whether a turn of a loop does no more to a memory, here its content at the start of the turn, than write to it in place, itself or in
    /// loops within it.
    fn is_written_in_place(&self, carried: u32, variable: Arg) -> bool {
        let Arg::Node(variable) = variable else { unreachable!("memory is a node") };
        let mut after = self.assignments[&variable].result;
        loop {
            let Arg::Node(id) = after else { unreachable!("memory is a node") };
            let node = &self.steps.nodes[id as usize];
            let writes = matches!(node.op, Op::Store | Op::Variable(_));
            if id == carried || !writes || !self.is_last_use(node, id) {
                return id == carried;
            }
            after = node.args[0];
        }
    }

    /// Whether the memory that `node`, number `id`, changes or takes over is a local array whose previous content is not needed any
    /// more.
    fn is_last_use(&self, node: &Node, id: u32) -> bool {
        let Arg::Node(before) = node.args[0] else { unreachable!("memory is a node") };
        !self.is_constant(node.args[0])
            && self.steps.nodes[before as usize].region == node.region
            && self.last_use.get(&before) == Some(&Some(id))
    }
}
