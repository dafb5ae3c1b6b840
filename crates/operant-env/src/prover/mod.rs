//! A prover: choose the steps of a proof by backward chaining over facts and rules.
//!
//! A state is a conjunction of at most ten atoms that remain to be proved. Each successor resolves the first atom with one matching
//! fact or rule, in the order of the knowledge base. Variables are numbered in the order in which they occur.

use core::num::Wrapping;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, LazyLock, OnceLock};

use operant_lane::{Draws, Float, Lane, Mask, Memory, Uint, bundle};

use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, Scene, Shape, Step};

mod knowledge;

use knowledge::{ANY, ATOMS, BODY, FIRST, FRESH, Knowledge, LENGTH_BITS, SAME, SECOND, Tables, VARIABLES};

/// Maximum number of successors of a state; further ones are dropped and counted.
const CHOICES: usize = 20;
/// Words of a conjunction: ten atoms of three bytes.
const STATE_WORDS: usize = (3 * ATOMS).div_ceil(4);
/// Words of all successors.
const CHOICE_WORDS: usize = CHOICES * 3 * ATOMS / 4;
/// Maximum number of variables in a state and in the rule that is applied.
const NAMES: usize = VARIABLES as usize + 2 * BODY;
/// No term.
const NONE: u32 = 255;
/// Maximum number of atoms tried as queries, and of conjunctions that the search for a proof expands for each.
const QUESTIONS: usize = 20_000;
const EXPANSIONS: usize = 2_000;
/// Maximum number of clauses tried in the search for queries, which takes seconds. The atoms that it does not reach are not asked.
const SEARCH: u32 = 10_000_000;
/// One in `TEST_SHARE` queries is a test query.
const TEST_SHARE: usize = 5;

bundle! {
    /// A conjunction and its successors, as observed.
    pub struct State {
        /// Its atoms.
        atoms: [Uint; STATE_WORDS],
        /// Its successors.
        choices: (Memory CHOICE_WORDS),
        /// Number of successors.
        count: Uint,
        /// Number of successors that were dropped.
        cut: Uint,
        /// Steps since the start of the episode.
        steps: Uint,
    }
}

bundle! {
    struct Successors {
        /// Their atoms.
        choices: (Memory CHOICE_WORDS),
        /// Number of successors.
        count: Uint,
        /// Number of successors that were dropped.
        cut: Uint,
    }
}

/// Ten atoms, each predicate and two arguments as bytes of a word.
type Atoms<L> = [<L as Lane>::Uint; ATOMS];
/// The atoms packed into eight words, three bytes per atom.
type Packed<L> = [<L as Lane>::Uint; STATE_WORDS];

/// The environment.
#[derive(Debug, Clone)]
pub struct Prover {
    knowledge: Arc<Knowledge>,
    tables: Arc<Tables>,
    max_depth: u32,
    queries: Queries,
    unprovable: bool,
    /// The hash of the file that the knowledge base was read from.
    content: Option<u64>,
    /// The queries as atoms, computed at first use.
    asked: Arc<OnceLock<Vec<u32>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queries {
    Train,
    Test,
    All,
}

impl Prover {
    fn of(knowledge: Knowledge) -> Self {
        Prover {
            tables: Arc::new(knowledge.tables()),
            knowledge: Arc::new(knowledge),
            max_depth: 12,
            queries: Queries::Train,
            unprovable: true,
            content: None,
            asked: Arc::default(),
        }
    }
}

impl Default for Prover {
    fn default() -> Self {
        static FAMILY: LazyLock<Prover> = LazyLock::new(|| {
            Prover::of(Knowledge::parse(include_str!("family.pl")).expect("a knowledge base"))
        });
        FAMILY.clone()
    }
}

/// Predicate and arguments of an atom.
#[inline(always)]
fn fields<U: Uint>(atom: U) -> [U; 3] {
    let byte = U::splat(255);
    [atom & byte, atom.shr(8) & byte, atom.shr(16) & byte]
}

/// Four atoms are three words.
#[inline(always)]
fn pack<L: Lane>(atoms: &Atoms<L>) -> Packed<L> {
    let atom = |k: usize| if k < ATOMS { atoms[k] } else { L::Uint::splat(0) };
    core::array::from_fn(|word| {
        let (four, part) = (4 * (word / 3), word as u32 % 3);
        let first = four + part as usize;
        atom(first).shr(8 * part) | atom(first + 1).shl(24 - 8 * part)
    })
}

/// The inverse of [`pack`].
#[inline(always)]
fn unpack<L: Lane>(words: &Packed<L>) -> Atoms<L> {
    core::array::from_fn(|atom| {
        let (word, part) = (atom / 4 * 3 + (atom % 4).saturating_sub(1), atom as u32 % 4);
        let bits = match part {
            0 => words[word],
            3 => words[word].shr(8),
            _ => words[word].shr(32 - 8 * part) | words[word + 1].shl(8 * part),
        };
        bits & L::Uint::splat(0x00ff_ffff)
    })
}

/// The first word of successor `index`, and the number of bits by which it is shifted.
#[inline(always)]
fn place<U: Uint>(index: U) -> (U, U) {
    let odd = index & U::splat(1);
    (index.shr(1) * U::splat(15) + odd * U::splat(7), odd.shl(4))
}

/// Successor `index`.
#[inline(always)]
fn read<L: Lane>(choices: &L::Memory<CHOICE_WORDS>, index: L::Uint) -> Packed<L> {
    let u = L::Uint::splat;
    let (first, shift) = place(index);
    let odd = shift.ne(u(0));
    let words: Packed<L> = core::array::from_fn(|k| choices.get(first + u(k as u32)));
    core::array::from_fn(|k| match words.get(k + 1) {
        Some(next) => odd.select(words[k].shr(16) | next.shl(16), words[k]),
        None => odd.select(words[k].shr(16), words[k] & u(0xffff)),
    })
}

/// Writes successor `index` where `at` holds. Successors are written in order.
#[inline(always)]
fn write<L: Lane>(choices: &mut L::Memory<CHOICE_WORDS>, at: L::Mask, index: L::Uint, words: &Packed<L>) {
    let u = L::Uint::splat;
    let (first, shift) = place(index);
    let odd = shift.ne(u(0));
    for k in 0..STATE_WORDS {
        let before = if k == 0 { choices.get(first) } else { words[k - 1].shr(16) };
        let place = first + u(k as u32);
        choices.set(at, place, odd.select(before | words[k].shl(16), words[k]));
    }
}

/// The bindings of a match: variables of the goal, in order, each with the term that replaces it.
#[derive(Clone, Copy)]
struct Bindings<U> {
    from: [U; 2],
    to: [U; 2],
}

impl<U: Uint> Bindings<U> {
    /// The term after replacement by the bindings.
    #[inline(always)]
    fn of(&self, term: U) -> U {
        let once = term.eq(self.from[0]).select(self.to[0], term);
        once.eq(self.from[1]).select(self.to[1], once)
    }

    /// An atom with its arguments replaced.
    #[inline(always)]
    fn atom(&self, atom: U) -> U {
        let [predicate, first, second] = fields(atom);
        predicate | self.of(first).shl(8) | self.of(second).shl(16)
    }
}

impl Prover {
    #[inline(always)]
    fn is_variable<U: Uint>(&self, term: U) -> U::Mask {
        U::splat(self.knowledge.constants()).lt(term)
    }

    /// Matches the two arguments of a goal with those of a head.
    #[inline(always)]
    fn unify<U: Uint>(&self, goal: [U; 2], head: [U; 2]) -> (U::Mask, Bindings<U>) {
        let (u, [first, second]) = (U::splat, goal);
        let open = head[0].eq(u(ANY));
        let binds = !open & self.is_variable(first);
        let fits = open | binds | head[0].eq(first);
        let from = binds.select(first, u(NONE));
        let second = second.eq(from).select(head[0], second);

        // The second argument of the head: any term, a constant, or the same as the first.
        let open = head[1].eq(u(ANY));
        let same = head[1].eq(u(SAME));
        let other = same.select(first, head[1]);
        let equal = open | other.eq(second);
        let goal_binds = self.is_variable(second);
        let other_binds = same & self.is_variable(other);
        let binds = !equal & (goal_binds | other_binds);
        let from = [from, binds.select(goal_binds.select(second, other), u(NONE))];
        let to = [head[0], goal_binds.select(other, second)];
        (fits & (equal | binds), Bindings { from, to })
    }

    /// The atoms with the variables numbered in the order in which they occur.
    #[inline(always)]
    fn renumbered<L: Lane>(&self, atoms: &Atoms<L>) -> Atoms<L> {
        let u = L::Uint::splat;
        let constants = self.knowledge.constants();
        let mut names = <L::Memory<NAMES> as Memory<L, NAMES>>::splat(&[0; NAMES]);
        let mut known = u(0);
        let mut name = |term: L::Uint| {
            let is_variable = self.is_variable(term);
            let fresh = term.lt(u(FRESH));
            let old = fresh.select(term - u(constants + 1), term - u(FRESH - VARIABLES));
            let before = names.get(old);
            let new = is_variable & before.eq(u(0));
            known = new.select(known + u(1), known);
            names.set(new, old, known);
            is_variable.select(new.select(known, before) + u(constants), term)
        };
        core::array::from_fn(|k| {
            let [predicate, first, second] = fields(atoms[k]);
            let first = name(first);
            predicate | first.shl(8) | name(second).shl(16)
        })
    }

    /// Adds the successor that resolves the first atom with the clause at `clause`, if they match.
    #[inline(always)]
    fn resolve<L: Lane>(&self, atoms: &Atoms<L>, clause: L::Uint, found: Successors<L>) -> Successors<L> {
        let u = L::Uint::splat;
        let word = |k: usize| L::Uint::gather(&self.tables.clauses, clause + u(k as u32));
        let [first, second, body] = fields(word(0));
        let [_, goal_first, goal_second] = fields(atoms[0]);
        let (matches, bindings) = self.unify([goal_first, goal_second], [first, second]);
        let (goal_first, goal_second) = (bindings.of(goal_first), bindings.of(goal_second));
        let argument = |term: L::Uint| {
            term.eq(u(FIRST)).select(goal_first, term.eq(u(SECOND)).select(goal_second, term))
        };
        let body_atoms: [L::Uint; BODY] = core::array::from_fn(|k| {
            let [predicate, first, second] = fields(word(k + 1));
            predicate | argument(first).shl(8) | argument(second).shl(16)
        });
        let rest: Atoms<L> = core::array::from_fn(|k| if k == 0 { u(0) } else { bindings.atom(atoms[k]) });
        let length = rest.iter().fold(body, |sum, atom| atom.eq(u(0)).select(sum, sum + u(1)));
        let joined: Atoms<L> = core::array::from_fn(|k| {
            // With b atoms in the body, atom k is atom k of the body, or atom k - b + 1 of the state.
            (0..=BODY).fold(u(0), |atom, b| {
                let own = match k.checked_sub(b) {
                    None => body_atoms[k],
                    Some(place) => rest.get(place + 1).copied().unwrap_or(u(0)),
                };
                body.eq(u(b as u32)).select(own, atom)
            })
        });
        let fits = matches & length.le(u(ATOMS as u32));
        let at = fits & found.count.lt(u(CHOICES as u32));
        let Successors { mut choices, count, cut } = found;
        write::<L>(&mut choices, at, count, &pack::<L>(&self.renumbered::<L>(&joined)));
        let one_more = |mask: L::Mask, value: L::Uint| mask.select(value + u(1), value);
        Successors { choices, count: one_more(at, count), cut: one_more(fits & !at, cut) }
    }

    /// The clauses that may match the first atom: the first of them in the lists, and their number.
    #[inline(always)]
    fn clauses<L: Lane>(&self, goal: L::Uint) -> (L::Uint, L::Uint) {
        let u = L::Uint::splat;
        let [predicate, first, second] = fields(goal);
        let constant = |term: L::Uint| (term - u(1)).lt(u(self.knowledge.constants()));
        let by_first = constant(first);
        let by_second = constant(second).select(second, u(0));
        let row = predicate + predicate - by_first.select(u(2), u(1));
        let key = row * u(self.knowledge.constants() + 1) + by_first.select(first, by_second);
        let list = L::Uint::gather(&self.tables.index, key);
        let length = list & u((1 << LENGTH_BITS) - 1);
        let length = predicate.eq(u(0)).select(u(0), length).named("length");
        (list.shr(LENGTH_BITS).named("begin"), length)
    }

    /// The successors of a conjunction whose first atom has at most `most` clauses.
    fn successors<L: Lane>(&self, atoms: &Packed<L>, most: u32) -> Successors<L> {
        let u = L::Uint::splat;
        let atoms = unpack::<L>(atoms);
        let (begin, length) = self.clauses::<L>(atoms[0]);
        let choices = <L::Memory<CHOICE_WORDS> as Memory<L, CHOICE_WORDS>>::splat(&[0; CHOICE_WORDS]);
        let none = Successors { choices, count: u(0), cut: u(0) };
        let end = (begin + length).named("end");
        let more = |(_, place): &(Successors<L>, L::Uint)| place.lt(end);
        let turn = |_, (found, place): (Successors<L>, L::Uint)| {
            let clause = L::Uint::gather(&self.tables.lists, place).named("clause");
            (self.resolve::<L>(&atoms, clause, found), place + u(1))
        };
        L::repeat_while(most, (none, begin), more, turn).0
    }

    #[inline(always)]
    fn state<L: Lane>(&self, atoms: Packed<L>, steps: L::Uint) -> State<L> {
        let Successors { choices, count, cut } = self.successors::<L>(&atoms, self.tables.longest);
        State { atoms, choices, count, cut, steps }
    }

    /// The conjunction of one atom.
    #[inline(always)]
    fn query<L: Lane>(atom: L::Uint) -> Packed<L> {
        core::array::from_fn(|k| if k == 0 { atom } else { L::Uint::splat(0) })
    }

    /// Whether a proof of an atom has at most `max_depth` steps, by breadth-first search; None if the atom has no successors,
    /// or if more than `left` clauses would be tried.
    fn provable(&self, atom: u32, left: &mut u32) -> Option<bool> {
        let start = Self::query::<f32>(Wrapping(atom));
        let (mut known, mut layer) = (HashSet::from([start]), vec![start]);
        for depth in 0..self.max_depth {
            let mut next = Vec::new();
            for atoms in &layer {
                let (_, clauses) = self.clauses::<f32>(unpack::<f32>(atoms)[0]);
                *left = left.checked_sub(clauses.0)?;
                let found = self.successors::<f32>(atoms, clauses.0);
                if depth == 0 && found.count.0 == 0 {
                    return None;
                }
                for index in 0..found.count.0 {
                    let successor = read::<f32>(&found.choices, Wrapping(index));
                    if successor[0].0 == 0 {
                        return Some(true);
                    }
                    if known.len() < EXPANSIONS && known.insert(successor) {
                        next.push(successor);
                    }
                }
            }
            layer = next;
        }
        Some(false)
    }

    /// The queries of the selected part: those with a proof, and the same number without one.
    fn asked(&self) -> &[u32] {
        self.asked.get_or_init(|| {
            let mut parts = [Vec::new(), Vec::new()];
            let mut questions = self.knowledge.questions(QUESTIONS);
            // An order that mixes predicates and constants.
            questions
                .sort_by_key(|atom| atom.wrapping_mul(0x9E37_79B1).rotate_left(15).wrapping_mul(0x85EB_CA6B));
            let mut left = SEARCH;
            for atom in questions {
                if let Some(provable) = self.provable(atom, &mut left) {
                    parts[usize::from(!provable)].push(atom);
                }
            }
            if parts.iter().all(Vec::is_empty) {
                // The search ended before a clause matched: the query that matches the first clause has some successor.
                parts[1].extend(self.knowledge.matching().next());
            }
            let [mut with_proof, mut without] = parts.map(|all| self.part(&all));
            if with_proof.is_empty() || self.unprovable {
                without.truncate(with_proof.len().max(1));
                with_proof.append(&mut without);
            }
            with_proof
        })
    }

    /// The queries of the selected part; all if there are fewer than `TEST_SHARE`.
    fn part(&self, all: &[u32]) -> Vec<u32> {
        let is_test = |place: usize| place % TEST_SHARE == TEST_SHARE - 1;
        let wanted = |place: usize| match self.queries {
            Queries::All => true,
            _ if all.len() < TEST_SHARE => true,
            Queries::Test => is_test(place),
            Queries::Train => !is_test(place),
        };
        all.iter().enumerate().filter(|(place, _)| wanted(*place)).map(|(_, &atom)| atom).collect()
    }

    fn text(&self, atoms: &Packed<f32>) -> String {
        let atoms = unpack::<f32>(atoms).map(|atom| atom.0);
        let texts: Vec<String> =
            atoms.iter().filter(|&&atom| atom != 0).map(|&atom| self.knowledge.atom(atom)).collect();
        if texts.is_empty() { "proved".into() } else { texts.join(", ") }
    }
}

impl Env for Prover {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = (Packed<L>, L::Memory<CHOICE_WORDS>);
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        let terms = self.knowledge.constants() + VARIABLES + 1;
        let below = vec![self.knowledge.predicates() + 1, terms, terms];
        let conjunctions = |shape: Vec<usize>| ObsSpace::Index { shape, below: below.clone() };
        EnvSpec {
            name: "prover".into(),
            family: "reasoning".into(),
            summary: "prove a query by backward chaining; +1 for a proof".into(),
            rules: "The state is a conjunction of atoms. An action selects a fact or rule whose head unifies with the first atom; the \
                    atom is replaced by the body. An empty conjunction is a proof; without a matching clause, or after max_depth \
                    steps, the episode ends with 0."
                .into(),
            reference: "No external reference; tests compare with a second implementation. A conjunction has at most 10 atoms; a \
                        clause that would make it longer cannot be selected. A step offers at most 20 clauses: the first that \
                        match, in the order of the file. A knowledge base has at most 200 constants, 100 predicates with at most 2 \
                        arguments, and 4,000 facts and rules with at most 4 atoms after `:-`."
                .into(),
            obs: ObsSpace::Parts(vec![
                ("state".into(), conjunctions(vec![ATOMS, 3])),
                ("successors".into(), conjunctions(vec![CHOICES, ATOMS, 3])),
            ]),
            obs_names: names([
                "state: the atoms to prove; successors: the atoms after each action, zeros where there is none; an atom is three indices",
                "predicate: 0 for no atom, then the predicates in the order of their first use",
                "arguments: 0 for none, then the constants in the order of their first use, then 20 variables",
            ]),
            actions: ActionSpace::Discrete(vec![CHOICES]),
            time_limit: 101,
            fps: 1.0,
            options: vec![
                EnvOption::path("knowledge", "file of facts and rules in Prolog notation; empty for the built-in family of 24 people"),
                EnvOption::whole("max_depth", 12, 1, 100, "maximum number of steps of a proof"),
                EnvOption::word("queries", "train", &["train", "test", "all"], "which queries are drawn; one in five is a test query. If fewer than five queries have a proof (or have none), train and test both hold all of these"),
                EnvOption::flag("unprovable", true, "with 1, up to half of the queries have no proof; with 0, none if any query has one"),
            ],
            preset: Some(include_str!("../../presets/prover.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        let spec = self.spec();
        match spec.check_option(name, value)?.name.as_str() {
            "knowledge" if value.text().is_empty() => {
                let family = Prover::default();
                (self.knowledge, self.tables, self.content) = (family.knowledge, family.tables, None);
            }
            "knowledge" => {
                let refuse = |problem: &str, remedy: &str| spec.refuse_option(name, value, problem, remedy);
                let text = operant_metrics::read_file(value.text().as_ref(), operant_metrics::MAX_SMALL_FILE)
                    .and_then(|text| {
                        String::from_utf8(text).map_err(|_| io::Error::other("it is not UTF-8 text"))
                    })
                    .map_err(|error| {
                        refuse(&format!("cannot be read: {error}"), "give the path of a text file")
                    })?;
                let knowledge =
                    Knowledge::parse(&text).map_err(|error| refuse(&error.what, &error.remedy))?;
                self.tables = Arc::new(knowledge.tables());
                self.knowledge = Arc::new(knowledge);
                // FNV-1a.
                let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                self.content = Some(text.bytes().fold(0xcbf2_9ce4_8422_2325, hash));
            }
            "max_depth" => self.max_depth = value.whole(),
            "queries" => {
                self.queries = match value.text() {
                    "train" => Queries::Train,
                    "test" => Queries::Test,
                    _ => Queries::All,
                }
            }
            _ => self.unprovable = value.is_on(),
        }
        self.asked = Arc::default();
        Ok(())
    }

    fn content(&self) -> Option<u64> {
        self.content
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let asked = self.asked();
        let number = draws.below(asked.len() as u32);
        self.state(Self::query::<L>(L::Uint::gather(asked, number)), L::Uint::splat(0))
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let exists = action.lt(s.count).named("exists");
        let chosen = exists.select(read::<L>(&s.choices, *action), s.atoms);
        let state: State<L> = self.state(chosen, s.steps + u(1));
        let proved = (exists & chosen[0].eq(u(0))).named("proved");
        let ends = !exists | state.count.eq(u(0)) | state.steps.ge(u(self.max_depth));
        Step { state, reward: proved.select(f(1.0), f(0.0)), terminated: ends }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> Self::Obs<L> {
        (s.atoms, s.choices)
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _component: usize, choice: usize) -> L::Mask {
        // Choice 0 is also legal in a terminal state without successors.
        L::Uint::splat(choice as u32).lt(s.count.max(L::Uint::splat(1)))
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let rows = CHOICES as f32 + 3.0;
        let line = |row: f32, text: String, tone| Shape::text([20.0, rows - 0.5 - row], text, tone);
        // The conjunction, and below a line its successors.
        let mut shapes =
            vec![line(0.0, self.text(&s.atoms), 2), Shape::line([[1.0, rows - 1.5], [39.0, rows - 1.5]], 0)];
        for index in 0..s.count.0 {
            let text = self.text(&read::<f32>(&s.choices, Wrapping(index)));
            shapes.push(line(index as f32 + 2.0, format!("{index}: {text}"), 1));
        }
        let cut = if s.cut.0 > 0 { format!(", {} more successors", s.cut) } else { String::new() };
        shapes.push(line(rows - 1.0, format!("step {} of {}{cut}", s.steps, self.max_depth), 4));
        Scene { low: [0.0, 0.0], high: [40.0, rows], shapes }
    }

    /// Predicate and arguments of the ten atoms (0 for none), and the steps since the start.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let byte = |k: usize| Wrapping(public[k] as u32 & 255);
        let atoms = core::array::from_fn(|k| byte(3 * k) | byte(3 * k + 1) << 8 | byte(3 * k + 2) << 16);
        let s = self.state::<f32>(pack::<f32>(&atoms), Wrapping(public[3 * ATOMS] as u32));
        let choices = (0..CHOICE_WORDS).map(|k| Memory::<f32, CHOICE_WORDS>::word(&s.choices, k));
        let words = s.atoms.into_iter().chain(choices).chain([s.count, s.cut, s.steps]);
        words.map(|word| f64::from(word.0)).collect()
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        let words: Packed<f32> = core::array::from_fn(|k| Wrapping(leaves[k] as u32));
        let mut public: Vec<f64> =
            unpack::<f32>(&words).into_iter().flat_map(fields).map(|x| f64::from(x.0)).collect();
        public.push(leaves[STATE_WORDS + CHOICE_WORDS + 2]);
        public
    }
}
