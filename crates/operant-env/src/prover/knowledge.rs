//! Knowledge bases: facts and rules in Prolog's notation, and the tables of them that lanes read.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of atoms in a state.
pub const ATOMS: usize = 10;
/// Maximum number of variables in a state: two per atom.
pub const VARIABLES: u32 = 2 * ATOMS as u32;
/// Maximum number of atoms in the body of a rule.
pub const BODY: usize = 4;
/// Maximum number of constants and predicates: their codes, with the special codes below, fit in a byte.
const CONSTANTS: usize = 200;
const PREDICATES: usize = 100;
/// Maximum number of clauses, and of entries of the lists of clauses.
const CLAUSES: usize = 4000;
const ENTRIES: usize = 1 << 20;

/// Codes in a head: any term (a variable at its first occurrence), and the same term as the first argument.
pub const ANY: u32 = 255;
pub const SAME: u32 = 254;
/// Codes in a body: the two arguments of the goal, and the first variable that occurs only in the body.
pub const FIRST: u32 = 255;
pub const SECOND: u32 = 254;
pub const FRESH: u32 = 254 - 2 * BODY as u32;
/// Words of a clause in [`Tables::clauses`].
pub const CLAUSE_WORDS: u32 = 1 + BODY as u32;
/// An entry of [`Tables::index`] holds the length of a list in this many low bits, and its start in the bits above.
pub const LENGTH_BITS: u32 = 12;

const NOTATION: &str = "write facts and rules as `ancestor(X, Y) :- parent(X, Z), ancestor(Z, Y).`";

/// An error in a knowledge base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The problem, with the line number.
    pub what: String,
    /// How to fix it.
    pub remedy: String,
}

fn problem<T>(line: usize, what: &str, remedy: &str) -> Result<T, Problem> {
    Err(Problem { what: format!("has in line {line}: {what}"), remedy: remedy.to_owned() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    /// Number of a constant, from 1.
    Constant(u32),
    /// Number of a variable in its clause.
    Variable(u32),
}

/// A predicate with its arguments.
#[derive(Debug, Clone)]
struct Atom {
    /// Number of the predicate, from 1.
    predicate: u32,
    arguments: Vec<Term>,
}

/// A fact, or a rule with a body.
#[derive(Debug, Clone)]
struct Clause {
    head: Atom,
    body: Vec<Atom>,
}

/// Facts and rules, and the names of predicates and constants in the order of their first occurrence.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    /// Names, and numbers of arguments.
    predicates: Vec<(String, usize)>,
    constants: Vec<String>,
    clauses: Vec<Clause>,
}

/// The tables that the lanes read.
#[derive(Debug, Clone)]
pub struct Tables {
    /// `(clauses, CLAUSE_WORDS)`: the two arguments of the head and the number of atoms in the body, one byte each; then the atoms of
    /// the body, each with predicate and two arguments.
    pub clauses: Arc<[u32]>,
    /// Lists of the positions of clauses in `clauses`, in the order of the knowledge base.
    pub lists: Arc<[u32]>,
    /// `(predicates, 2, 1 + constants)`: the list of the clauses whose first or second argument matches a constant; entry 0 is the list
    /// of all clauses.
    pub index: Arc<[u32]>,
    /// Length of the longest list.
    pub longest: u32,
}

/// A token of the text.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Variable(String),
    Mark(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Name(text) | Token::Variable(text) => write!(f, "`{text}`"),
            Token::Mark(mark) => write!(f, "`{mark}`"),
        }
    }
}

/// The tokens of a text with their lines.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Problem> {
    let mut tokens = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let line = line + 1;
        let mut rest = text.split('%').next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let mark = [":-", "(", ")", ",", "."].into_iter().find(|&mark| rest.starts_with(mark));
            let length = if let Some(mark) = mark {
                tokens.push((line, Token::Mark(mark)));
                mark.len()
            } else if word == 0 {
                return problem(line, &format!("the character `{first}`"), NOTATION);
            } else {
                let name = rest[..word].to_owned();
                let is_variable = first.is_uppercase() || first == '_';
                tokens.push((line, if is_variable { Token::Variable(name) } else { Token::Name(name) }));
                word
            };
            rest = rest[length..].trim_start();
        }
    }
    Ok(tokens)
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<(usize, Token)>>,
    line: usize,
    known: Knowledge,
    /// Variables of the clause; each `_` is a separate variable.
    variables: Vec<String>,
}

impl Parser {
    fn next(&mut self, expected: &str) -> Result<Token, Problem> {
        match self.tokens.next() {
            Some((line, token)) => {
                self.line = line;
                Ok(token)
            }
            None => problem(self.line, &format!("the end of the file instead of {expected}"), NOTATION),
        }
    }

    fn refuse<T>(&self, found: &Token, expected: &str) -> Result<T, Problem> {
        problem(self.line, &format!("{found} instead of {expected}"), NOTATION)
    }

    fn takes(&mut self, mark: &'static str) -> bool {
        self.tokens.next_if(|(_, token)| *token == Token::Mark(mark)).is_some()
    }

    fn term(&mut self) -> Result<Term, Problem> {
        match self.next("an argument")? {
            Token::Name(name) => Ok(Term::Constant(number(&mut self.known.constants, name) + 1)),
            Token::Variable(name) if name == "_" => {
                self.variables.push(name);
                Ok(Term::Variable(self.variables.len() as u32 - 1))
            }
            Token::Variable(name) => Ok(Term::Variable(number(&mut self.variables, name))),
            other => self.refuse(&other, "an argument"),
        }
    }

    fn atom(&mut self) -> Result<Atom, Problem> {
        let name = match self.next("a predicate")? {
            Token::Name(name) => name,
            other => return self.refuse(&other, "a predicate"),
        };
        let mut arguments = Vec::new();
        if self.takes("(") {
            loop {
                arguments.push(self.term()?);
                match self.next("`,` or `)`")? {
                    Token::Mark(",") => {}
                    Token::Mark(")") => break,
                    other => return self.refuse(&other, "`,` or `)`"),
                }
            }
        }
        if arguments.len() > 2 {
            let what = format!("`{name}` with {} arguments", arguments.len());
            return problem(self.line, &what, "a predicate takes at most 2");
        }
        let predicate = number(&mut self.known.predicates, (name, arguments.len())) + 1;
        Ok(Atom { predicate, arguments })
    }

    fn clause(&mut self) -> Result<(), Problem> {
        self.variables.clear();
        let head = self.atom()?;
        let mut body = Vec::new();
        let mut mark = self.next("`:-` or `.`")?;
        if mark == Token::Mark(":-") {
            loop {
                body.push(self.atom()?);
                mark = self.next("`,` or `.`")?;
                if mark != Token::Mark(",") {
                    break;
                }
            }
        }
        if mark != Token::Mark(".") {
            return self.refuse(&mark, if body.is_empty() { "`:-` or `.`" } else { "`,` or `.`" });
        }
        if body.len() > BODY {
            let what = format!("a rule with {} atoms after `:-`", body.len());
            return problem(self.line, &what, "a rule takes at most 4: split it with another predicate");
        }
        self.known.clauses.push(Clause { head, body });
        Ok(())
    }
}

/// The place of an item in a list, to which it is added if it is new.
fn number<T: PartialEq>(list: &mut Vec<T>, item: T) -> u32 {
    let place = list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    });
    place as u32
}

impl Knowledge {
    /// Reads facts and rules.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let tokens = tokens(text)?.into_iter().peekable();
        let mut parser = Parser { tokens, line: 1, known: Knowledge::default(), variables: Vec::new() };
        while parser.tokens.peek().is_some() {
            parser.clause()?;
        }
        let known = parser.known;
        known.check()?;
        Ok(known)
    }

    fn check(&self) -> Result<(), Problem> {
        let fail = |what: String, remedy: &str| Err(Problem { what, remedy: remedy.to_owned() });
        if self.clauses.is_empty() || self.constants.is_empty() {
            return fail("has no facts about constants".into(), NOTATION);
        }
        let sizes = [
            ("constants", self.constants.len(), CONSTANTS),
            ("predicates", self.predicates.len(), PREDICATES),
            ("facts and rules", self.clauses.len(), CLAUSES),
        ];
        for (what, count, most) in sizes {
            if count > most {
                return fail(format!("has {count} {what}"), &format!("give at most {most}"));
            }
        }
        for (place, (name, arity)) in self.predicates.iter().enumerate() {
            if !self.clauses.iter().any(|clause| clause.head.predicate as usize == place + 1) {
                return fail(
                    format!("has no fact and no rule for {name}/{arity}"),
                    "add one, or correct the name",
                );
            }
        }
        let entries: usize = self.lists().iter().map(Vec::len).sum();
        if entries > ENTRIES {
            return fail("has too many rules for its constants".into(), "give fewer of either");
        }
        Ok(())
    }

    pub fn constants(&self) -> u32 {
        self.constants.len() as u32
    }

    pub fn predicates(&self) -> u32 {
        self.predicates.len() as u32
    }

    /// The clauses that may match, by predicate, argument and constant; see [`Tables::index`].
    fn lists(&self) -> Vec<Vec<u32>> {
        let mut lists = Vec::new();
        for predicate in 1..=self.predicates() {
            for argument in 0..2 {
                for constant in 0..=self.constants() {
                    let may_match = |clause: &Clause| {
                        clause.head.predicate == predicate
                            && (constant == 0
                                || match clause.head.arguments.get(argument) {
                                    Some(Term::Constant(own)) => *own == constant,
                                    _ => true,
                                })
                    };
                    let numbers = self.clauses.iter().enumerate().filter(|(_, clause)| may_match(clause));
                    lists.push(numbers.map(|(number, _)| number as u32).collect());
                }
            }
        }
        lists
    }

    /// The tables that the lanes read.
    pub fn tables(&self) -> Tables {
        let mut entries = Vec::new();
        let mut index = Vec::new();
        let lists = self.lists();
        for list in &lists {
            index.push((entries.len() as u32) << LENGTH_BITS | list.len() as u32);
            entries.extend(list.iter().map(|number| number * CLAUSE_WORDS));
        }
        Tables {
            clauses: self.clauses.iter().flat_map(Clause::words).collect(),
            lists: entries.into(),
            index: index.into(),
            longest: lists.iter().map(Vec::len).max().unwrap_or(0) as u32,
        }
    }

    /// For each clause an atom without variables that matches its head.
    pub fn matching(&self) -> impl Iterator<Item = u32> {
        self.clauses.iter().map(|Clause { head, .. }| {
            let argument = |place: usize| match head.arguments.get(place) {
                Some(Term::Constant(number)) => *number,
                Some(Term::Variable(_)) => 1,
                None => 0,
            };
            head.predicate | argument(0) << 8 | argument(1) << 16
        })
    }

    /// Atoms without variables that may become queries: of the predicates that have a rule, or of all if none has; at most `most`,
    /// evenly spaced, and one that matches the head of each clause. Each is a word of predicate and two arguments.
    pub fn questions(&self, most: usize) -> Vec<u32> {
        let has_rule = |predicate: u32| {
            self.clauses.iter().any(|clause| clause.head.predicate == predicate && !clause.body.is_empty())
        };
        let some_rule = (1..=self.predicates()).any(has_rule);
        let is_asked = |predicate: u32| !some_rule || has_rule(predicate);
        let mut all = Vec::new();
        for predicate in (1..=self.predicates()).filter(|&predicate| is_asked(predicate)) {
            let arity = self.predicates[predicate as usize - 1].1;
            let values = |place: usize| if place < arity { 1..=self.constants() } else { 0..=0 };
            for first in values(0) {
                all.extend(values(1).map(|second| predicate | first << 8 | second << 16));
            }
        }
        let stride = all.len().div_ceil(most);
        let matching = self.matching().filter(|atom| is_asked(atom & 255));
        let questions: BTreeSet<u32> = all.into_iter().step_by(stride).chain(matching).collect();
        questions.into_iter().collect()
    }

    pub fn atom(&self, atom: u32) -> String {
        let Some((name, arity)) = self.predicates.get((atom as usize & 255).wrapping_sub(1)) else {
            return String::new();
        };
        let argument = |place: usize| {
            let code = atom >> (8 * (place + 1)) & 255;
            match self.constants.get((code as usize).wrapping_sub(1)) {
                Some(constant) => constant.clone(),
                None => format!("X{}", code.wrapping_sub(self.constants())),
            }
        };
        let arguments: Vec<String> = (0..*arity).map(argument).collect();
        format!("{name}({})", arguments.join(", "))
    }
}

impl Clause {
    fn words(&self) -> [u32; CLAUSE_WORDS as usize] {
        let mut words = [0; CLAUSE_WORDS as usize];
        let mut fresh = Vec::new();
        let head = &self.head.arguments;
        let code = |place: usize| match head.get(place) {
            None => 0,
            Some(Term::Constant(constant)) => *constant,
            Some(variable) if place == 1 && *variable == head[0] => SAME,
            Some(_) => ANY,
        };
        words[0] = code(0) | code(1) << 8 | (self.body.len() as u32) << 16;
        let mut in_body = |term: &Term| match term {
            Term::Constant(constant) => *constant,
            variable if head.first() == Some(variable) => FIRST,
            variable if head.get(1) == Some(variable) => SECOND,
            variable => FRESH + number(&mut fresh, *variable),
        };
        for (word, atom) in words[1..].iter_mut().zip(&self.body) {
            let mut argument = |place: usize| atom.arguments.get(place).map_or(0, &mut in_body);
            *word = atom.predicate | argument(0) << 8 | argument(1) << 16;
        }
        words
    }
}
