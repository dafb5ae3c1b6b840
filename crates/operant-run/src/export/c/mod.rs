//! A policy as one C file: the ONNX graph of the policy for one observation, as statements of C99.

mod comment;
mod helpers;
mod int8;
mod loss;
mod lower;
mod place;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use operant_learn::network::Outputs;

pub use self::int8::rounded;
pub use self::loss::loss;

use self::int8::Int8;
use self::lower::{Constant, Lowered, lower};
use self::place::Layout;
use super::onnx;
use crate::error::{Error, Result};
use crate::policy::SavedPolicy;

/// The word that names begin with, if no other is asked for.
pub const NAME: &str = "policy";

/// The C file of a policy whose names begin with `name`, and with matrices of int8 what these cost.
///
/// # Errors
/// Those of [`Header::of`] and [`loss`].
pub fn header(saved: &SavedPolicy, name: &str, int8: bool) -> Result<(Header, Option<String>)> {
    if !int8 {
        return Ok((Header::of(saved, name, &Weights::Float)?, None));
    }
    check(saved, name)?; // before what takes long
    let loss = loss(saved)?;
    Ok((Header::of(saved, name, &Weights::Int8 { loss: loss.clone() })?, Some(loss)))
}

/// The type of the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// 32-bit floats.
    Float,
    /// Matrices are int8, with a scale for each output.
    Int8 {
        /// What they cost, as [`loss`] measures it, for the comment.
        loss: String,
    },
}

/// A C file.
#[derive(Debug)]
pub struct Header {
    text: String,
    /// Bytes of its constants.
    pub constants: usize,
    /// Bytes of its struct.
    pub memory: usize,
}

impl Header {
    /// The policy, whose C names begin with `name`.
    ///
    /// # Errors
    /// When the name is not one of C, or the policy has weights that are not finite.
    pub fn of(saved: &SavedPolicy, name: &str, weights: &Weights) -> Result<Self> {
        check(saved, name)?;
        let tensors = saved.policy.tensors();
        let matrices: HashMap<String, Int8> = match weights {
            Weights::Float => HashMap::new(),
            Weights::Int8 { .. } => {
                tensors.iter().filter_map(|tensor| Some((tensor.name.clone(), Int8::of(tensor)?))).collect()
            }
        };
        let architecture = &saved.policy.network.architecture;
        let has_value = architecture.outputs == Outputs::ActionValues || architecture.shared_trunk;
        let graph = onnx::graph(&saved.policy, saved.env.own_spaces().as_ref());
        let lowered = lower(&graph, &matrices, has_value)
            .map_err(|problem| Error::usage(format!("the policy cannot be written in C: {problem}")))?;
        let layout = Layout::new(&lowered.statements, &lowered.buffers);
        let fields: usize = lowered.fields.iter().map(|(_, size)| size).sum();
        let memory = size_of::<f32>() * (lowered.memory + layout.size + fields);
        let mut header = Header { text: String::new(), constants: bytes(&lowered), memory };
        let code = code(saved, &lowered, &layout).replace("$$", &name.to_uppercase()).replace('$', name);
        header.text = comment::text(saved, name, weights, &lowered, &header) + &code;
        Ok(header)
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes it. A file of this name is replaced.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(self, path: &Path) -> Result<()> {
        super::write(path, self.text.into_bytes())
    }
}

/// Refuses names and weights that C cannot have.
fn check(saved: &SavedPolicy, name: &str) -> Result<()> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !name.starts_with(is_letter) || !name.chars().all(|c| is_letter(c) || c.is_ascii_digit()) {
        return Err(Error::usage(format!("\"{name}\" is not a name in C"))
            .remedy("give a word of ASCII letters, digits and _, such as policy"));
    }
    let is_bound = |name: &str| name.starts_with("action_");
    let tensors = saved.policy.tensors();
    let broken = tensors.iter().find(|it| !is_bound(&it.name) && !it.values.iter().all(|x| x.is_finite()));
    match broken {
        Some(tensor) => {
            Err(Error::usage(format!("{} of the policy has numbers that are not finite", tensor.name))
                .remedy("export an earlier checkpoint: RUN@STEP"))
        }
        None => Ok(()),
    }
}

/// Bytes of all constants.
fn bytes(lowered: &Lowered) -> usize {
    let of = |constant: &Constant| match constant {
        Constant::Floats(values) => 4 * values.len(),
        Constant::Int8(matrix) => matrix.values.len() + 4 * matrix.scales.len(),
        Constant::Indices(indices) => 4 * indices.len(),
    };
    lowered.constants.iter().map(|(_, constant)| of(constant)).sum()
}

/// Each constant and a name for it, without the prefix.
fn names(lowered: &Lowered) -> Vec<(String, String)> {
    let mut taken = HashSet::new();
    let named = |(constant, _): &(String, Constant)| {
        let own = constant.strip_prefix("inner.").unwrap_or(constant);
        let own: String = own.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut name = own.clone();
        let mut number = 2;
        while taken.contains(&name) || taken.contains(&format!("{name}_scale")) {
            name = format!("{own}_{number}");
            number += 1;
        }
        taken.insert(format!("{name}_scale"));
        taken.insert(name.clone());
        (constant.clone(), name)
    };
    lowered.constants.iter().map(named).collect()
}

/// Everything after the comment; `$` is the prefix of names, `$$` in capitals.
fn code(saved: &SavedPolicy, lowered: &Lowered, layout: &Layout) -> String {
    let names = names(lowered);
    let mut text = "#ifndef $$_H\n#define $$_H\n\n#include <stdint.h>\n\n".to_owned();
    text += &format!("#define $$_OBSERVATIONS {}\n", lowered.observations);
    text += &format!("#define $$_ACTIONS {}\n", lowered.actions);
    if saved.policy.masked {
        text += &format!("#define $$_CHOICES {}\n", saved.policy.network.policy_outputs());
    }
    text += &structure(lowered, layout);
    for ((_, constant), (_, name)) in lowered.constants.iter().zip(&names) {
        text += &declaration(name, constant);
    }
    text += &helpers::texts(&lowered.helpers);
    text += &reset(lowered);
    text += &act(lowered, layout, &names);
    text + "\n#endif\n"
}

fn structure(lowered: &Lowered, layout: &Layout) -> String {
    let mut fields: Vec<(&str, usize, &str)> = Vec::new();
    if lowered.memory > 0 {
        fields.push(("memory", lowered.memory, "from step to step"));
    }
    fields.extend(lowered.fields.iter().map(|(name, size)| (&**name, *size, "of the last action")));
    if layout.size > 0 {
        fields.push(("work", layout.size, "intermediate results"));
    }
    let mut text = "\nstruct $ {\n".to_owned();
    for (name, size, what) in fields {
        let declared = format!("float {name}[{size}];");
        text += &format!("    {declared:<24} /* {what} */\n");
    }
    text + "};\n"
}

/// A constant.
fn declaration(name: &str, constant: &Constant) -> String {
    match constant {
        Constant::Floats(values) => {
            array("float", name, values.iter().map(|x| lower::literal(*x).replace(['(', ')'], "")))
        }
        Constant::Int8(matrix) => {
            array("int8_t", name, matrix.values.iter().map(i8::to_string))
                + &declaration(&format!("{name}_scale"), &Constant::Floats(matrix.scales.clone()))
        }
        Constant::Indices(indices) => array("uint32_t", name, indices.iter().map(usize::to_string)),
    }
}

/// An array, in lines of 100 columns.
fn array(of: &str, name: &str, numbers: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("\nstatic const {of} $_{name}[{}] = {{\n", numbers.len());
    let mut line = String::new();
    for number in numbers {
        if line.len() + number.len() > 94 {
            let _ = writeln!(text, "   {line}");
            line.clear();
        }
        let _ = write!(line, " {number},");
    }
    text + &format!("   {line}\n}};\n")
}

fn reset(lowered: &Lowered) -> String {
    let body = match lowered.memory {
        0 => "    (void)policy;\n".to_owned(),
        size => format!("    for (int i = 0; i < {size}; i++)\n        policy->memory[i] = 0.0f;\n"),
    };
    format!("\n/* Begins an episode. */\nstatic inline void $_reset(struct $ *policy)\n{{\n{body}}}\n")
}

/// The function that computes an action.
fn act(lowered: &Lowered, layout: &Layout, names: &[(String, String)]) -> String {
    let mut body = String::new();
    let mut comment = "";
    let mut statements = String::new();
    for statement in &lowered.statements {
        if statement.comment != comment {
            comment = &statement.comment;
            statements += &format!("    /* {} */\n", comment::safe(comment));
        }
        for line in layout.text(statement, names).lines() {
            statements += &format!("    {line}\n");
        }
    }
    if layout.size > 0 {
        body += "    float *const work = policy->work;\n";
    }
    if !statements.contains("legal") {
        body += "    (void)legal;\n";
    }
    format!(
        "\n/* Computes the action of an observation; legal is described above, and may be null. */\n\
         static inline void $_act(struct $ *policy, const float *observation, const unsigned char *legal,\n\
         \x20       float *action)\n{{\n{body}{statements}}}\n"
    )
}
