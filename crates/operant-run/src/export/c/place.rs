//! Where numbers are while a policy acts: statements, and the buffer in which their results lie side by side.

/// The first of several numbers, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Of a constant.
    Constant(String, usize),
    /// Of the observation.
    Observation(usize),
    /// Of the mask. It may be absent.
    Legal(usize),
    /// Of the memory.
    Memory(usize),
    /// Of a result that only other statements read: its number, and a place in it.
    Work(usize, usize),
    /// Of a field.
    Field(String, usize),
    /// Of the action.
    Action(usize),
}

impl Place {
    /// The place `count` numbers later.
    pub fn after(&self, count: usize) -> Self {
        let mut place = self.clone();
        let (Self::Constant(_, at)
        | Self::Observation(at)
        | Self::Legal(at)
        | Self::Memory(at)
        | Self::Work(_, at)
        | Self::Field(_, at)
        | Self::Action(at)) = &mut place;
        *at += count;
        place
    }
}

/// A statement.
#[derive(Debug)]
pub struct Statement {
    /// What it belongs to, for people.
    pub comment: String,
    /// C, where `@0` is the first place that it reads, `@y` the one that it writes; `#0` is number `i` there, and `~0` the first one. `%0%` is the
    /// name of the first constant, and `$` the prefix of all names.
    pub text: String,
    /// The places that it reads.
    pub reads: Vec<Place>,
    /// The place that it writes.
    pub writes: Place,
    /// Whether it computes each number from the ones at the same position, so that it can replace them.
    pub in_place: bool,
}

/// A statement that computes `size` numbers; A, B and C of `formula` are the operands.
pub fn elements(formula: &str, operands: &[String], size: usize) -> String {
    let operand = |letter: char| match letter {
        'A'..='C' => operands.get(letter as usize - 'A' as usize).cloned().unwrap_or_default(),
        other => other.to_string(),
    };
    let formula: String = formula.chars().map(operand).collect();
    if size == 1 {
        format!("~y = {};", formula.replace('#', "~"))
    } else {
        format!("for (int i = 0; i < {size}; i++)\n    #y = {formula};")
    }
}

/// The places of results in one buffer.
pub struct Layout {
    /// Of each result.
    first: Vec<usize>,
    /// Numbers of the buffer.
    pub size: usize,
}

impl Layout {
    /// Results of these sizes, of which those that are needed at the same time do not overlap.
    pub fn new(statements: &[Statement], sizes: &[usize]) -> Self {
        let mut last = vec![0; sizes.len()];
        for (k, statement) in statements.iter().enumerate() {
            for place in statement.reads.iter().chain([&statement.writes]) {
                if let Place::Work(buffer, _) = place {
                    last[*buffer] = k;
                }
            }
        }
        let (mut first, mut size) = (vec![None; sizes.len()], 0);
        for (k, statement) in statements.iter().enumerate() {
            let Place::Work(buffer, _) = statement.writes else { continue };
            if first[buffer].is_some() {
                continue;
            }
            let replaced = statement.replaced(sizes, &last, k);
            let at = replaced.and_then(|other| first[other]).unwrap_or_else(|| {
                let is_alive = |other: &usize| last[*other] >= k;
                let alive =
                    (0..sizes.len()).filter(is_alive).filter_map(|other| Some((first[other]?, sizes[other])));
                gap(alive.collect(), sizes[buffer])
            });
            first[buffer] = Some(at);
            size = size.max(at + sizes[buffer]);
        }
        Layout { first: first.into_iter().map(Option::unwrap_or_default).collect(), size }
    }

    /// A place as the object and the index of its first number.
    fn address(&self, place: &Place, names: &[(String, String)]) -> (String, usize) {
        match place {
            Place::Constant(name, at) => {
                let named = names.iter().find(|(constant, _)| constant == name);
                (named.map_or_else(String::new, |(_, name)| format!("$_{name}")), *at)
            }
            Place::Observation(at) => ("observation".to_owned(), *at),
            Place::Legal(at) => ("legal".to_owned(), *at),
            Place::Memory(at) => ("policy->memory".to_owned(), *at),
            Place::Work(buffer, at) => ("work".to_owned(), self.first[*buffer] + at),
            Place::Field(name, at) => (format!("policy->{name}"), *at),
            Place::Action(at) => ("action".to_owned(), *at),
        }
    }

    /// The statement in C, with the constants and their `names`.
    pub fn text(&self, statement: &Statement, names: &[(String, String)]) -> String {
        let mut text = String::new();
        let mut rest = &*statement.text;
        while let Some(at) = rest.find(['@', '#', '~', '%']) {
            let kind = rest.as_bytes()[at];
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != 'y').unwrap_or(rest.len());
            let which;
            (which, rest) = rest.split_at(end);
            if kind == b'%' {
                let name = which.parse::<usize>().ok().and_then(|k| names.get(k));
                text.push_str(&name.map_or_else(String::new, |(_, name)| format!("$_{name}")));
                rest = rest.strip_prefix('%').unwrap_or(rest);
                continue;
            }
            let read = which.parse::<usize>().ok().and_then(|k| statement.reads.get(k));
            let place = read.unwrap_or(&statement.writes);
            let (object, first) = self.address(place, names);
            let number = match (kind, first) {
                (b'@', 0) => object,
                (b'@', first) => format!("{object} + {first}"),
                (b'#', 0) => format!("{object}[i]"),
                (b'#', first) => format!("{object}[{first} + i]"),
                (_, first) => format!("{object}[{first}]"),
            };
            text.push_str(&match place {
                Place::Legal(_) => format!("(!legal || {number})"),
                _ => number,
            });
        }
        text + rest
    }
}

impl Statement {
    /// The result that its own may replace: one of the same size that only this statement, number `k`, still reads.
    fn replaced(&self, sizes: &[usize], last: &[usize], k: usize) -> Option<usize> {
        let Place::Work(own, 0) = self.writes else { return None };
        let buffer = |place: &Place| match place {
            Place::Work(buffer, _) => Some(*buffer),
            _ => None,
        };
        let reads = |other: usize| self.reads.iter().filter(|place| buffer(place) == Some(other)).count();
        let is_replaced =
            |other: &usize| sizes[*other] == sizes[own] && last[*other] == k && reads(*other) == 1;
        self.reads.iter().filter_map(buffer).filter(|_| self.in_place).find(is_replaced)
    }
}

/// The first gap of `size` numbers between blocks, each a place and a size.
fn gap(mut blocks: Vec<(usize, usize)>, size: usize) -> usize {
    blocks.sort_unstable();
    let mut end = 0;
    for (first, length) in blocks {
        if first >= end + size {
            break;
        }
        end = end.max(first + length);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(reads: &[Place], buffer: usize, in_place: bool) -> Statement {
        let text = elements("A + B", &["#0".to_owned(), "1.0f".to_owned()], 4);
        Statement {
            comment: String::new(),
            text,
            reads: reads.to_vec(),
            writes: Place::Work(buffer, 0),
            in_place,
        }
    }

    #[test]
    fn results_share_memory_when_they_are_not_needed_together() {
        let statements = [
            statement(&[Place::Observation(0)], 0, false),
            statement(&[Place::Work(0, 0)], 1, false),
            statement(&[Place::Work(1, 0)], 2, true),
            statement(&[Place::Work(2, 0)], 3, false),
        ];
        let layout = Layout::new(&statements, &[4, 4, 4, 3]);
        assert_eq!((&layout.first[..], layout.size), (&[0, 4, 4, 0][..], 8));
        let names = [("w".to_owned(), "weight".to_owned())];
        let text = layout.text(&statements[2], &names);
        assert_eq!(text, "for (int i = 0; i < 4; i++)\n    work[4 + i] = work[4 + i] + 1.0f;");
        let of_mask = Statement {
            text: "f(%0%, ~0, @1, ~y);".to_owned(),
            ..statement(&[Place::Legal(2), Place::Memory(3)], 0, false)
        };
        assert_eq!(
            layout.text(&of_mask, &names),
            "f($_weight, (!legal || legal[2]), policy->memory + 3, work[0]);"
        );
    }

    #[test]
    fn gaps_are_found_between_blocks() {
        assert_eq!(gap(vec![(4, 2), (0, 2)], 2), 2);
        assert_eq!(gap(vec![(4, 2), (0, 2)], 3), 6);
        assert_eq!(gap(vec![], 3), 0);
    }
}
