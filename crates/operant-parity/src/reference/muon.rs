//! Muon's step of one matrix in f64.

use operant_learn::Config;

type Rows = Vec<Vec<f64>>;

fn product(a: &Rows, b: &Rows) -> Rows {
    let of = |row: &Vec<f64>, column: usize| row.iter().zip(b).map(|(x, y)| x * y[column]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|column| of(row, column)).collect()).collect()
}

fn transposed(a: &Rows) -> Rows {
    (0..a[0].len()).map(|column| a.iter().map(|row| row[column]).collect()).collect()
}

/// `a x + b y`, element by element.
fn sum(a: f64, x: &Rows, b: f64, y: &Rows) -> Rows {
    let of = |(x, y): (&Vec<f64>, &Vec<f64>)| x.iter().zip(y).map(|(x, y)| a * x + b * y).collect();
    x.iter().zip(y).map(of).collect()
}

/// Moves the parameters and the momentum along the gradient.
pub fn step(config: &Config, rate: f64, columns: usize, params: &mut [f64], m: &mut [f64], gradient: &[f64]) {
    let beta = config.muon_momentum;
    let ahead: Vec<f64> = (m.iter_mut().zip(gradient))
        .map(|(m, g)| {
            *m = beta * *m + (1.0 - beta) * g;
            beta * *m + (1.0 - beta) * g
        })
        .collect();
    let norm = ahead.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut x: Rows =
        ahead.chunks(columns).map(|row| row.iter().map(|x| x / (norm + 1e-7)).collect()).collect();
    let longest = x.len().max(columns) as f64;
    let is_tall = x.len() > columns;
    if is_tall {
        x = transposed(&x);
    }
    for _ in 0..5 {
        let square = product(&x, &transposed(&x));
        let polynomial = sum(-4.775, &square, 2.0315, &product(&square, &square));
        x = sum(3.4445, &x, 1.0, &product(&polynomial, &x));
    }
    if is_tall {
        x = transposed(&x);
    }
    params.iter_mut().zip(x.concat()).for_each(|(param, x)| *param -= rate * 0.2 * longest.sqrt() * x);
}
