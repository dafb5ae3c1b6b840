//! Given numbers in place of random ones: what a reference drew in a step, so that the step can be replayed.

use std::cell::{Cell, RefCell};

/// The random numbers of one step, in order. [`crate::Draws::scripted`] passes them to a rule.
#[derive(Debug)]
pub struct Script {
    numbers: Vec<f64>,
    next: Cell<usize>,
    problem: RefCell<Option<String>>,
}

impl Script {
    /// Numbers as they were drawn: whole numbers and uniforms in [0, 1).
    pub fn new(numbers: &[f64]) -> Self {
        Script { numbers: numbers.to_vec(), next: Cell::new(0), problem: RefCell::new(None) }
    }

    /// The next number, as a whole number in `low ..= high`; `low` if there is no such number.
    #[cold]
    pub(crate) fn whole(&self, low: u32, high: u32) -> u32 {
        let fits = |x: f64| x.fract() == 0.0 && (f64::from(low)..=f64::from(high)).contains(&x);
        self.take(fits, || format!("the whole numbers {low} to {high}")).map_or(low, |number| number as u32)
    }

    /// The next number, as a uniform in [0, 1); 0 if there is no such number.
    #[cold]
    pub(crate) fn uniform(&self) -> f64 {
        self.take(|x| (0.0..1.0).contains(&x), || "[0, 1)".to_owned()).unwrap_or(0.0)
    }

    fn take(&self, fits: impl Fn(f64) -> bool, expected: impl Fn() -> String) -> Option<f64> {
        let place = self.next.replace(self.next.get() + 1);
        let number = self.numbers.get(place).copied();
        if !number.is_some_and(fits) {
            let problem = || format!("number {} of this step is drawn from {}", place + 1, expected());
            self.problem.borrow_mut().get_or_insert_with(problem);
        }
        number
    }

    /// How the numbers differ from what was drawn, if they do: one is missing, unfit or left over.
    pub fn problem(&self) -> Option<String> {
        let drawn = self.next.get();
        let plural = if drawn == 1 { "" } else { "s" };
        let left = || (drawn < self.numbers.len()).then(|| format!("the step draws {drawn} number{plural}"));
        self.problem.borrow().clone().or_else(left)
    }
}
