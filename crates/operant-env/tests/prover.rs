//! The prover's successors against a plain one that works on names, over random play; its options; and how many queries random play
//! and breadth-first search prove.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use operant_env::play::{Outputs, RandomActions};
use operant_env::{AnyEnv, EnvOptions, LaneWidth, ObsSpace, OptionValue, TileSpec, builtin};

const FAMILY: &str = include_str!("../src/prover/family.pl");
/// Every kind of head: repeated variables, constants, none of either; rules that outgrow ten atoms; more than twenty facts.
const CORNERS: &str = "
% Facts with variables and without arguments.
same(X, X). any(_, _). night. bird(tweety). one(a, Y) :- same(a, Y).
one(X, b) :- any(X, Y), any(Y, Z), same(Z, b). one(X, X) :- bird(X), night.
grow(X, Y) :- grow(X, A), grow(A, B), grow(B, C), grow(C, Y). grow(a, b). grow(X, Y) :- same(X, Y).
pair(X, Y) :- n(X, A), n(A, Y). pair(X, Y) :- n(A, B), same(A, X), same(B, Y).
n(a, b). n(a, c). n(a, d). n(b, a). n(b, c). n(b, d). n(c, a). n(c, b). n(c, d). n(d, a). n(d, b). n(d, c).
n(e, a). n(e, b). n(e, c). n(e, d). n(f, a). n(f, b). n(f, c). n(f, d). n(X, f) :- any(X, e). n(g, g). n(g, a).
";
const ATOMS: usize = 10;
const CHOICES: usize = 20;
const ROWS: usize = 16;

/// A predicate and its arguments by name; variables begin with a capital letter or `_`.
type Atom = Vec<String>;

fn is_variable(term: &str) -> bool {
    term.starts_with(|c: char| c.is_uppercase() || c == '_')
}

/// Facts and rules: head, then body.
fn clauses(text: &str) -> Vec<Vec<Atom>> {
    let text: String = text.lines().map(|line| line.split('%').next().unwrap_or_default()).collect();
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut blanks = 0;
    let mut atom = |text: &str| -> Atom {
        text.trim_end_matches(')')
            .split(['(', ','])
            .map(|name| {
                blanks += 1;
                if name == "_" { format!("_{blanks}") } else { name.to_owned() }
            })
            .collect()
    };
    let clause = |text: &str| -> Vec<Atom> {
        let (head, body) = text.split_once(":-").unwrap_or((text, ""));
        // Between atoms stands a comma outside brackets.
        let marked = body.replace("),", ");");
        std::iter::once(head)
            .chain(marked.split(';').filter(|text| !text.is_empty()))
            .map(&mut atom)
            .collect()
    };
    compact.split('.').filter(|text| !text.is_empty()).map(clause).collect()
}

/// The term for which a term stands.
fn walk(bound: &HashMap<String, String>, term: &str) -> String {
    bound.get(term).map_or_else(|| term.to_owned(), |next| walk(bound, next))
}

fn unify(a: &Atom, b: &Atom) -> Option<HashMap<String, String>> {
    if a.len() != b.len() || a[0] != b[0] {
        return None;
    }
    let mut bound = HashMap::new();
    for (a, b) in a.iter().zip(b).skip(1) {
        let (a, b) = (walk(&bound, a), walk(&bound, b));
        if a == b {
        } else if is_variable(&a) {
            bound.insert(a, b);
        } else if is_variable(&b) {
            bound.insert(b, a);
        } else {
            return None;
        }
    }
    Some(bound)
}

/// Variables named in the order in which they occur.
fn canonical(atoms: &[Atom]) -> Vec<Atom> {
    let mut names: Vec<String> = Vec::new();
    let mut rename = |term: &String| {
        if !is_variable(term) {
            return term.clone();
        }
        let place = names.iter().position(|name| name == term).unwrap_or_else(|| {
            names.push(term.clone());
            names.len() - 1
        });
        format!("X{}", place + 1)
    };
    let mut atom =
        |atom: &Atom| std::iter::once(atom[0].clone()).chain(atom[1..].iter().map(&mut rename)).collect();
    atoms.iter().map(&mut atom).collect()
}

/// All successors, without a limit on their number.
fn successors(known: &[Vec<Atom>], state: &[Atom]) -> Vec<Vec<Atom>> {
    let Some((goal, rest)) = state.split_first() else { return Vec::new() };
    let resolve = |clause: &Vec<Atom>| {
        let apart = |atom: &Atom| -> Atom {
            let own = |term: &String| if is_variable(term) { format!("{term}'") } else { term.clone() };
            std::iter::once(atom[0].clone()).chain(atom[1..].iter().map(own)).collect()
        };
        let clause: Vec<Atom> = clause.iter().map(apart).collect();
        let bound = unify(&clause[0], goal)?;
        let replaced = |atom: &Atom| -> Atom {
            std::iter::once(atom[0].clone()).chain(atom[1..].iter().map(|term| walk(&bound, term))).collect()
        };
        let next: Vec<Atom> = clause[1..].iter().chain(rest).map(replaced).collect();
        (next.len() <= ATOMS).then(|| canonical(&next))
    };
    known.iter().filter_map(resolve).collect()
}

/// Names of constants and predicates, in the order in which they occur.
struct Names {
    constants: Vec<String>,
    predicates: Vec<(String, usize)>,
}

impl Names {
    fn of(known: &[Vec<Atom>]) -> Self {
        let mut names = Names { constants: Vec::new(), predicates: Vec::new() };
        for atom in known.iter().flatten() {
            for term in atom[1..].iter().filter(|term| !is_variable(term)) {
                if !names.constants.contains(term) {
                    names.constants.push(term.clone());
                }
            }
            let predicate = (atom[0].clone(), atom.len() - 1);
            if !names.predicates.contains(&predicate) {
                names.predicates.push(predicate);
            }
        }
        names
    }

    /// A conjunction from its thirty numbers.
    fn conjunction(&self, numbers: &[f64]) -> Vec<Atom> {
        let term = |&number: &f64| {
            let number = number as usize;
            self.constants
                .get(number - 1)
                .cloned()
                .unwrap_or_else(|| format!("X{}", number - self.constants.len()))
        };
        let atom = |three: &[f64]| -> Option<Atom> {
            let (name, arity) = self.predicates.get((three[0] as usize).checked_sub(1)?)?;
            assert!(three[1 + arity..].iter().all(|&number| number == 0.0), "{three:?}");
            Some(std::iter::once(name.clone()).chain(three[1..=*arity].iter().map(term)).collect())
        };
        let atoms: Vec<Option<Atom>> = numbers.chunks(3).map(atom).collect();
        let length = atoms.iter().flatten().count();
        assert!(atoms[..length].iter().all(Option::is_some), "atoms come first: {numbers:?}");
        atoms.into_iter().flatten().collect()
    }
}

/// An environment with a knowledge base, and the options.
fn prover(options: &[(&str, OptionValue)]) -> std::sync::Arc<dyn AnyEnv> {
    let options: EnvOptions =
        options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    builtin().make("prover", &options).expect("good options")
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("operant-prover-{}-{name}.pl", std::process::id()));
    std::fs::write(&path, text).expect("a temporary file");
    path
}

/// Plays at random and compares every state; returns how many were compared, how many successors were cut and how many proofs
/// there were.
fn compare(text: &str, env: &dyn AnyEnv, steps: u64, depth: u32) -> [usize; 3] {
    let known = clauses(text);
    let names = Names::of(&known);
    let spec = env.spec();
    let ObsSpace::Parts(parts) = &spec.obs else { panic!("parts") };
    assert_eq!(parts.iter().map(|(_, part)| part.size()).collect::<Vec<_>>(), [30, 600]);
    let mut stepper =
        env.stepper(TileSpec { lanes: LaneWidth::Eight, ..TileSpec::new(3, 0, ROWS) }).expect("lanes");
    let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
    let mut random = RandomActions::new(spec.actions.clone(), 3, 0, ROWS);
    let (mut actions, mut counts) = (vec![0.0; ROWS], [0; 3]);
    let mut lengths = [0; ROWS];
    stepper.observe(outputs.seen()).expect("lanes");
    for step in 0..steps {
        let mut expected = Vec::new();
        random.fill(step, &outputs.legal, &mut actions);
        for row in 0..ROWS {
            let words: Vec<u32> = outputs.obs.iter().skip(row).step_by(ROWS).copied().collect();
            let numbers = spec.obs.unpack(&words);
            let state = names.conjunction(&numbers[..30]);
            assert_eq!(canonical(&state), state, "variables are numbered in order");
            let mut all = successors(&known, &state);
            counts[1] += all.len().saturating_sub(CHOICES);
            all.truncate(CHOICES);
            let legal = outputs.legal[row];
            assert_eq!(legal.count_ones() as usize, all.len(), "{state:?} has {all:?}");
            for (choice, numbers) in numbers[30..].chunks(30).enumerate() {
                let empty = Vec::new();
                let expected = all.get(choice).unwrap_or(&empty);
                assert_eq!(names.conjunction(numbers), *expected, "successor {choice} of {state:?}");
            }
            let next = all[actions[row] as usize].clone();
            lengths[row] += 1;
            let ends = successors(&known, &next).is_empty() || lengths[row] >= depth;
            expected.push((f32::from(u8::from(next.is_empty())), ends));
            counts[0] += 1;
            counts[2] += usize::from(next.is_empty());
        }
        stepper.submit(&actions, step).expect("lanes");
        stepper.collect(outputs.stepped()).expect("lanes");
        for (row, (reward, ends)) in expected.into_iter().enumerate() {
            assert_eq!((outputs.rewards[row], outputs.ended(row)), (reward, [ends, false]), "row {row}");
            lengths[row] *= u32::from(!ends);
        }
    }
    counts
}

#[test]
fn successors_are_those_of_a_plain_prover() {
    let family = compare(FAMILY, &*prover(&[("queries", "all".into())]), 600, 12);
    let path = file("corners", CORNERS);
    let knowledge: OptionValue = path.to_str().expect("a path in UTF-8").into();
    let options = [("knowledge", knowledge), ("max_depth", 30.0.into()), ("queries", "all".into())];
    let corners = compare(CORNERS, &*prover(&options), 2_500, 30);
    std::fs::remove_file(path).expect("the temporary file");
    println!("states, successors cut, proofs: family {family:?}, corners {corners:?}");
    assert!(family[2] > 100 && corners[1] > 100 && corners[2] > 100);
}

#[test]
fn many_facts_and_no_rule_leave_some_query() {
    let facts: String = (0..100).map(|k| format!("edge(a{k}, b{k}).\n")).collect();
    let path = file("edges", &facts);
    let knowledge: OptionValue = path.to_str().expect("a path in UTF-8").into();
    let env =
        builtin().make("prover", &EnvOptions::from([("knowledge".to_owned(), knowledge)])).expect("valid");
    env.stepper(TileSpec::new(1, 0, 16)).expect("environments with a query");
    std::fs::remove_file(path).expect("the temporary file");
}

#[test]
fn a_bad_knowledge_base_is_refused_with_its_line() {
    let bad = [
        ("p(a).\nq(X) :- p(X)\nr(a).", "has in line 3: `r` instead of `,` or `.`"),
        ("p(a) :- .", "has in line 1: `.` instead of a predicate"),
        ("p(a, b, c).", "has in line 1: `p` with 3 arguments"),
        ("p(a).\n\nq(f(X)).", "has in line 3: `(` instead of `,` or `)`"),
        ("p(a).\nq(a", "has in line 2: the end of the file instead of `,` or `)`"),
        ("p(X) :- q(X).\np(a).", "has no fact and no rule for q/1"),
        ("p(a) ; p(b).", "has in line 1: the character `;`"),
        ("p(a) :- p(a), p(a), p(a), p(a), p(a).", "has in line 1: a rule with 5 atoms after `:-`"),
        ("% nothing", "has no facts about constants"),
    ];
    for (number, (text, expected)) in bad.into_iter().enumerate() {
        let path = file(&format!("bad-{number}"), text);
        let value: OptionValue = path.to_str().expect("a path in UTF-8").into();
        let refused = builtin().make("prover", &EnvOptions::from([("knowledge".to_owned(), value)]));
        std::fs::remove_file(path).expect("the temporary file");
        let error = refused.expect_err(text).to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    let missing = EnvOptions::from([("knowledge".to_owned(), "/no/such/file.pl".into())]);
    let error = builtin().make("prover", &missing).expect_err("no such file").to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

/// Expansions until breadth-first search finds a proof of at most `depth` steps.
fn breadth_first(known: &[Vec<Atom>], query: &[Atom], depth: usize) -> Option<usize> {
    let (mut seen, mut layer, mut expansions) = (HashSet::from([query.to_vec()]), vec![query.to_vec()], 0);
    for _ in 0..depth {
        let mut next = Vec::new();
        for state in layer {
            expansions += 1;
            for successor in successors(known, &state).into_iter().take(CHOICES) {
                if successor.is_empty() {
                    return Some(expansions);
                }
                if seen.insert(successor.clone()) {
                    next.push(successor);
                }
            }
        }
        layer = next;
    }
    None
}

/// The share of the provable test queries that are proved: by random play, and by breadth-first search that expands as many
/// conjunctions as the longest episode has steps. What a trained policy is compared with.
#[test]
fn random_play_proves_fewer_queries_than_search() {
    const DEPTH: usize = 12;
    let known = clauses(FAMILY);
    let names = Names::of(&known);
    let env = prover(&[("queries", "test".into()), ("unprovable", 0.0.into())]);
    let spec = env.spec();
    let mut stepper = env.stepper(TileSpec::new(11, 0, 256)).expect("lanes");
    let mut outputs = Outputs::new(&spec, true, 256);
    let mut random = RandomActions::new(spec.actions.clone(), 11, 0, 256);
    let mut actions = vec![0.0; 256];
    let (mut queries, mut episodes, mut proofs) = (HashSet::new(), 0, 0);
    stepper.observe(outputs.seen()).expect("lanes");
    let mut starts = [true; 256];
    for step in 0..400 {
        for row in (0..256).filter(|&row| starts[row]) {
            let words: Vec<u32> = outputs.obs.iter().skip(row).step_by(256).copied().collect();
            queries.insert(names.conjunction(&spec.obs.unpack(&words)[..30]));
        }
        random.fill(step, &outputs.legal, &mut actions);
        stepper.submit(&actions, step).expect("lanes");
        stepper.collect(outputs.stepped()).expect("lanes");
        for (row, starts) in starts.iter_mut().enumerate() {
            *starts = outputs.ended(row) != [false, false];
            episodes += usize::from(*starts);
            proofs += usize::from(outputs.rewards[row] == 1.0);
        }
    }
    let needed: Vec<usize> =
        queries.iter().map(|query| breadth_first(&known, query, DEPTH).expect("provable")).collect();
    let share =
        |most: usize| needed.iter().filter(|&&count| count <= most).count() as f64 / needed.len() as f64;
    let random = proofs as f64 / episodes as f64;
    println!(
        "{} provable test queries: random play proves {random:.3} ({episodes} episodes), breadth-first search {:.3} with {DEPTH} \
         expansions, {:.3} with 100",
        queries.len(),
        share(DEPTH),
        share(100)
    );
    assert!(queries.len() > 50 && random > 0.05 && random < share(DEPTH));
}
