//! The operators of a policy's ONNX graph as C statements for one observation.

use std::collections::{BTreeSet, HashMap, HashSet};

use operant_learn::layers::export::STATE;

use super::helpers::INT8;
use super::int8::Int8;
use super::place::{Place, Statement, elements};
use crate::export::messages::{self, DOUBLE, FLOAT, Graph, INT64, Node};

/// The operator does not occur in the graphs of policies, or not in this form.
pub type Problem = String;

/// Numbers of the header that never change.
pub enum Constant {
    /// Floats.
    Floats(Vec<f32>),
    /// A matrix with its scales.
    Int8(Int8),
    /// Indices or bounds.
    Indices(Vec<usize>),
}

/// A graph as statements, and what they need.
#[derive(Default)]
pub struct Lowered {
    /// In order.
    pub statements: Vec<Statement>,
    /// Numbers of each buffer that statements share.
    pub buffers: Vec<usize>,
    /// Constants, by name, in the order in which they are used.
    pub constants: Vec<(String, Constant)>,
    /// Names of functions that statements call.
    pub helpers: BTreeSet<String>,
    /// Outputs beside the action, with their numbers.
    pub fields: Vec<(String, usize)>,
    /// Numbers of an observation.
    pub observations: usize,
    /// Numbers of an action.
    pub actions: usize,
    /// Numbers of memory.
    pub memory: usize,
}

/// What a name of the graph stands for.
#[derive(Debug, Clone)]
struct Value {
    shape: Vec<usize>,
    held: Held,
}

/// Where the numbers of a value are.
#[derive(Debug, Clone)]
enum Held {
    At(Place),
    /// Of indices, `depth` numbers each, which are computed where they are read.
    OneHot {
        indices: Place,
        depth: usize,
    },
}

impl Value {
    fn at(shape: Vec<usize>, place: Place) -> Self {
        Self { shape, held: Held::At(place) }
    }

    fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Numbers of an initializer.
enum Numbers {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

struct Lowering<'a> {
    lowered: Lowered,
    tensors: HashMap<&'a str, (Vec<usize>, Numbers)>,
    matrices: &'a HashMap<String, Int8>,
    values: HashMap<&'a str, Value>,
    /// Graph outputs: the place of each.
    outputs: HashMap<&'a str, Place>,
    comment: String,
}

/// The statements of `graph`; `matrices` are its matrices of int8, by the names of their parameters. Without `value`, the outputs do not
/// include the value of the observation.
pub fn lower(graph: &Graph, matrices: &HashMap<String, Int8>, value: bool) -> Result<Lowered, Problem> {
    let wanted = |name: &str| match name {
        "log_std" | "next_core_state" => false,
        "value" => value,
        _ => true,
    };
    let outputs: Vec<&str> = graph.output.iter().map(|it| &*it.name).filter(|name| wanted(name)).collect();
    let mut needed: HashSet<&str> = outputs.iter().copied().collect();
    add_inputs(graph, &mut needed);
    // The memory of layers that nothing reads stays behind, with the critic.
    let next = graph.node.iter().find(|node| node.output[0] == "next_core_state");
    let is_computed = |part: &str| {
        let node = graph.node.iter().find(|node| node.output[0] == part);
        needed.contains(part) || node.is_some_and(|node| node.input.iter().all(|it| needed.contains(&**it)))
    };
    let parts = next.into_iter().flat_map(|node| &node.input).map(String::as_str);
    let parts: Vec<&str> = parts.take_while(|part| is_computed(part)).collect();
    needed.extend(&parts);
    let mut lowering = Lowering {
        lowered: Lowered::default(),
        tensors: graph.initializer.iter().map(numbers).collect::<Result<_, _>>()?,
        matrices,
        values: HashMap::new(),
        outputs: HashMap::new(),
        comment: String::new(),
    };
    lowering.inputs(graph);
    let nodes = graph.node.iter().filter(|node| needed.contains(&*node.output[0]));
    nodes.clone().filter(|node| outputs.contains(&&*node.output[0])).for_each(|node| lowering.output(node));
    for node in nodes {
        lowering.comment = comment(&node.output[0]);
        lowering.node(node).map_err(|problem| format!("{} {}: {problem}", node.op_type, node.output[0]))?;
    }
    lowering.comment = "the memory of the next step".to_owned();
    for part in parts {
        let value = lowering.read(part)?;
        let memory = lowering.lowered.memory;
        lowering.lowered.memory += value.size();
        lowering.copy(&value, Place::Memory(memory))?;
    }
    Ok(lowering.lowered)
}

/// Adds everything that the nodes of these names read.
fn add_inputs<'a>(graph: &'a Graph, needed: &mut HashSet<&'a str>) {
    for node in graph.node.iter().rev().filter(|node| !node.output.is_empty()) {
        if needed.contains(&*node.output[0]) {
            needed.extend(node.input.iter().map(String::as_str));
        }
    }
}

/// The layer of a result, for people.
fn comment(output: &str) -> String {
    let name = output.strip_prefix("inner.").unwrap_or(output);
    match name.rsplit_once('.') {
        _ if name.starts_with("obs") => "the observation".to_owned(),
        Some((layer, _)) if layer.contains('.') => layer.to_owned(),
        _ => "the outputs".to_owned(),
    }
}

fn numbers(tensor: &messages::Tensor) -> Result<(&str, (Vec<usize>, Numbers)), Problem> {
    let wide = || tensor.raw_data.as_chunks::<8>().0.iter();
    let values = match tensor.data_type {
        FLOAT => {
            let all = tensor.raw_data.as_chunks::<4>().0.iter();
            Numbers::Floats(all.map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
        DOUBLE => Numbers::Floats(wide().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect()),
        INT64 => Numbers::Ints(wide().map(|bytes| i64::from_le_bytes(*bytes)).collect()),
        other => return Err(format!("{} has numbers of type {other}", tensor.name)),
    };
    let shape = tensor.dims.iter().map(|&extent| extent as usize).collect();
    Ok((&tensor.name, (shape, values)))
}

/// An attribute of a node.
fn attribute<'a>(node: &'a Node, name: &str) -> Result<&'a messages::Attribute, Problem> {
    node.attribute.iter().find(|it| it.name == name).ok_or_else(|| format!("it has no {name}"))
}

impl<'a> Lowering<'a> {
    /// The observation, which parts share, the mask and the memory.
    fn inputs(&mut self, graph: &'a Graph) {
        for input in &graph.input {
            let of_tensor = input.r#type.as_ref().and_then(|it| it.tensor_type.as_ref());
            let dims =
                of_tensor.and_then(|it| it.shape.as_ref()).map(|shape| &shape.dim[..]).unwrap_or_default();
            let shape: Vec<usize> = dims.iter().map(|dim| dim.dim_value.map_or(1, |n| n as usize)).collect();
            let place = match &*input.name {
                "action_mask" => Place::Legal(0),
                STATE => Place::Memory(0),
                _ => {
                    let first = self.lowered.observations;
                    self.lowered.observations += shape.iter().product::<usize>();
                    Place::Observation(first)
                }
            };
            self.values.insert(&input.name, Value::at(shape, place));
        }
    }

    /// Registers a result that the caller gets; its size is known later.
    fn output(&mut self, node: &'a Node) {
        let name = &*node.output[0];
        let place =
            if name.starts_with("action") { Place::Action(0) } else { Place::Field(name.to_owned(), 0) };
        self.outputs.insert(name, place);
    }

    /// A place for `size` numbers of the result `name`.
    fn place(&mut self, name: &str, size: usize) -> Place {
        match self.outputs.get(name) {
            None => {
                self.lowered.buffers.push(size);
                Place::Work(self.lowered.buffers.len() - 1, 0)
            }
            Some(Place::Field(field, _)) => {
                self.lowered.fields.push((field.clone(), size));
                Place::Field(field.clone(), 0)
            }
            Some(_) => {
                let first = self.lowered.actions;
                self.lowered.actions += size;
                Place::Action(first)
            }
        }
    }

    /// Makes `value`, whose numbers are there already, the result of `node`.
    fn alias(&mut self, node: &'a Node, value: Value) -> Result<(), Problem> {
        let name = &*node.output[0];
        if !self.outputs.contains_key(name) {
            self.values.insert(name, value);
            return Ok(());
        }
        let to = self.place(name, value.size());
        self.copy(&value, to.clone())?;
        self.values.insert(name, Value::at(value.shape, to));
        Ok(())
    }

    /// A value whose numbers may not be computed yet.
    fn raw(&self, name: &str) -> Result<Value, Problem> {
        if let Some((shape, _)) = self.tensors.get(name) {
            return Ok(Value::at(shape.clone(), Place::Constant(name.to_owned(), 0)));
        }
        self.values.get(name).cloned().ok_or_else(|| format!("{name} is not computed"))
    }

    /// A value in memory.
    fn read(&mut self, name: &str) -> Result<Value, Problem> {
        let value = self.raw(name)?;
        let size = value.size();
        let Held::OneHot { indices, depth } = value.held else { return Ok(value) };
        let count = size / depth;
        let place = self.one_hot(name, indices, &vec![depth; count])?;
        Ok(Value::at(value.shape, place))
    }

    /// The numbers of a constant list.
    fn ints(&self, name: &str) -> Result<Vec<i64>, Problem> {
        match self.tensors.get(name) {
            Some((_, Numbers::Ints(ints))) => Ok(ints.clone()),
            _ => Err(format!("{name} is not a constant list")),
        }
    }

    fn floats(&self, name: &str) -> Option<Vec<f32>> {
        Some(match &self.tensors.get(name)?.1 {
            Numbers::Floats(floats) => floats.clone(),
            Numbers::Ints(ints) => ints.iter().map(|&x| x as f32).collect(),
        })
    }

    /// Adds a constant unless it is there, and returns what stands for its name in statements.
    fn constant(&mut self, name: &str, make: impl FnOnce() -> Option<Constant>) -> Result<String, Problem> {
        let constants = &mut self.lowered.constants;
        let found = constants.iter().position(|(other, _)| other == name);
        if found.is_none() {
            let constant = make().ok_or_else(|| format!("{name} is not constant"))?;
            constants.push((name.to_owned(), constant));
        }
        Ok(format!("%{}%", found.unwrap_or(constants.len() - 1)))
    }

    /// Adds a statement that reads these places and fills `writes`.
    fn push(
        &mut self,
        text: String,
        reads: Vec<Place>,
        writes: Place,
        in_place: bool,
    ) -> Result<(), Problem> {
        for place in &reads {
            if let Place::Constant(name, _) = place {
                let floats = self.floats(name);
                self.constant(name, || floats.map(Constant::Floats))?;
            }
        }
        let comment = self.comment.clone();
        self.lowered.statements.push(Statement { comment, text, reads, writes, in_place });
        Ok(())
    }

    /// Adds a call with these arguments, in the form of [`Statement::text`].
    fn call(
        &mut self,
        helper: &str,
        arguments: &str,
        reads: Vec<Place>,
        writes: Place,
    ) -> Result<(), Problem> {
        self.lowered.helpers.insert(helper.to_owned());
        self.push(format!("$_{helper}({arguments});"), reads, writes, false)
    }

    fn copy(&mut self, value: &Value, to: Place) -> Result<(), Problem> {
        let from = self.place_of(value)?;
        self.push(elements("A", &["#0".to_owned()], value.size()), vec![from], to, false)
    }

    fn place_of(&mut self, value: &Value) -> Result<Place, Problem> {
        match &value.held {
            Held::At(place) => Ok(place.clone()),
            Held::OneHot { .. } => Err("one-hot features are not computed yet".to_owned()),
        }
    }

    /// The result of a function: `shape`, computed by `arguments` as in [`Lowering::call`] from the inputs `reads`.
    fn function(
        &mut self,
        node: &'a Node,
        shape: Vec<usize>,
        helper: &str,
        arguments: &str,
        reads: &[&Value],
    ) -> Result<(), Problem> {
        let reads = reads.iter().map(|value| self.place_of(value)).collect::<Result<_, _>>()?;
        let to = self.place(&node.output[0], shape.iter().product());
        self.call(helper, arguments, reads, to.clone())?;
        self.values.insert(&node.output[0], Value::at(shape, to));
        Ok(())
    }

    /// The first words of a call with weights, `name` and its scales, and the end of the function's name.
    fn weights(&mut self, name: &str) -> Result<(String, &'static str), Problem> {
        let parameter = name.strip_prefix("inner.").unwrap_or(name);
        if let Some(matrix) = self.matrices.get(parameter) {
            let matrix = matrix.clone();
            let constant = self.constant(name, || Some(Constant::Int8(matrix)))?;
            return Ok((format!("{constant}, {constant}_scale"), INT8));
        }
        let floats = self.floats(name);
        Ok((self.constant(name, || floats.map(Constant::Floats))?, ""))
    }

    fn node(&mut self, node: &'a Node) -> Result<(), Problem> {
        let input = |k: usize| node.input.get(k).map_or("", String::as_str);
        match &*node.op_type {
            "Identity" => self.raw(input(0)).and_then(|value| self.alias(node, value)),
            "Cast" => self.cast(node),
            "Flatten" | "Reshape" | "Squeeze" => self.reshape(node),
            "Slice" => self.slice(node),
            "Gather" => self.gather(node),
            "Concat" => self.concat(node),
            "Transpose" => self.transpose(node),
            "OneHot" => self.lazy_one_hot(node),
            "Gemm" => self.dense(node),
            "Conv" => self.conv(node),
            "MatMul" => self.product(node),
            "LayerNormalization" => self.norm(node),
            "Softmax" => self.softmax(node),
            "ReduceSum" | "ReduceMean" => self.sum_rows(node),
            "ReduceMax" | "ArgMax" => self.greatest(node),
            "Mean" => self.mean(node),
            other => match formula(other) {
                Some((formula, helper)) => {
                    self.lowered.helpers.extend(helper.map(str::to_owned));
                    self.elementwise(node, formula)
                }
                None => Err("the operator is unknown".to_owned()),
            },
        }
    }

    /// A result of the same shape, number by number: the inputs are A, B and C of `formula`.
    fn elementwise(&mut self, node: &'a Node, formula: &str) -> Result<(), Problem> {
        let values: Vec<Value> = node.input.iter().map(|name| self.read(name)).collect::<Result<_, _>>()?;
        let shape = values
            .iter()
            .map(|value| &value.shape)
            .max_by_key(|shape| (shape.iter().product::<usize>(), shape.len()));
        let shape = shape.cloned().unwrap_or_default();
        let size = shape.iter().product();
        let (mut reads, mut operands) = (Vec::new(), Vec::new());
        for value in &values {
            let place = self.place_of(value)?;
            if ![1, size].contains(&value.size()) {
                return Err(format!("{} numbers for {size}", value.size()));
            }
            operands.push(match &place {
                Place::Constant(name, _) if value.size() == 1 => {
                    literal(self.floats(name).ok_or("not floats")?[0])
                }
                _ => {
                    reads.push(place);
                    format!("{}{}", if value.size() == 1 { '~' } else { '#' }, reads.len() - 1)
                }
            });
        }
        let to = self.place(&node.output[0], size);
        self.push(elements(formula, &operands, size), reads, to.clone(), true)?;
        self.values.insert(&node.output[0], Value::at(shape, to));
        Ok(())
    }

    /// All numbers are floats; where whole numbers come of others, the fraction is cut off.
    fn cast(&mut self, node: &'a Node) -> Result<(), Problem> {
        let to = attribute(node, "to")?.i as i32;
        if [FLOAT, DOUBLE, INT64, messages::element("float16")].contains(&to) {
            return self.raw(&node.input[0]).and_then(|value| self.alias(node, value));
        }
        self.elementwise(node, "(float)(int)A")
    }

    fn reshape(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.raw(&node.input[0])?;
        let size = value.size();
        let shape = match &*node.op_type {
            "Flatten" => vec![1, size],
            "Squeeze" => vec![size],
            _ => {
                let given = self.ints(&node.input[1])?;
                let known = |(axis, extent): (usize, &i64)| match extent {
                    0 => value.shape[axis],
                    _ => *extent as usize,
                };
                let known_size: usize =
                    given.iter().enumerate().filter(|(_, extent)| **extent >= 0).map(known).product();
                let extent = |of: (usize, &i64)| if *of.1 < 0 { size / known_size } else { known(of) };
                given.iter().enumerate().map(extent).collect()
            }
        };
        self.alias(node, Value { shape, held: value.held })
    }

    /// Neighbouring columns.
    fn slice(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let [start, end] = [self.ints(&node.input[1])?[0], self.ints(&node.input[2])?[0]];
        self.columns(node, &value, &(start as usize..end as usize).collect::<Vec<_>>())
    }

    fn gather(&mut self, node: &'a Node) -> Result<(), Problem> {
        let columns: Vec<usize> = self.ints(&node.input[1])?.iter().map(|&k| k as usize).collect();
        let value = self.raw(&node.input[0])?;
        if let Held::OneHot { indices, depth } = &value.held {
            // The columns of each index: those below its bound.
            let mut below = vec![0; value.size() / depth];
            columns.iter().for_each(|column| below[column / depth] += 1);
            let expected = below.iter().enumerate().flat_map(|(k, n)| k * depth..k * depth + n);
            if expected.eq(columns.iter().copied()) {
                let to = self.one_hot(&node.output[0], indices.clone(), &below)?;
                self.values.insert(&node.output[0], Value::at(vec![1, columns.len()], to));
                return Ok(());
            }
        }
        let value = self.read(&node.input[0])?;
        self.columns(node, &value, &columns)
    }

    /// The parts `columns` of a value along its second axis.
    fn columns(&mut self, node: &'a Node, value: &Value, columns: &[usize]) -> Result<(), Problem> {
        let [1, _, inner @ ..] = &value.shape[..] else { return Err(format!("the shape {:?}", value.shape)) };
        let width: usize = inner.iter().product();
        let shape = [&[1, columns.len()], inner].concat();
        let place = self.place_of(value)?;
        if columns.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
            let first = columns.first().map_or(0, |first| first * width);
            return self.alias(node, Value::at(shape, place.after(first)));
        }
        let places = columns.iter().flat_map(|column| column * width..(column + 1) * width).collect();
        let table = format!("{}.places", node.output[0]);
        let table = self.constant(&table, || Some(Constant::Indices(places)))?;
        let arguments = format!("@0, {table}, {}, @y", columns.len() * width);
        self.function(node, shape, "gather", &arguments, &[value])
    }

    fn concat(&mut self, node: &'a Node) -> Result<(), Problem> {
        let values: Vec<Value> = node.input.iter().map(|name| self.read(name)).collect::<Result<_, _>>()?;
        let size = values.iter().map(Value::size).sum();
        let to = self.place(&node.output[0], size);
        let mut first = 0;
        for value in &values {
            if value.shape.len() != 2 || value.shape[0] != 1 {
                return Err(format!("a part has the shape {:?}", value.shape));
            }
            self.copy(value, to.after(first))?;
            first += value.size();
        }
        self.values.insert(&node.output[0], Value::at(vec![1, size], to));
        Ok(())
    }

    /// Channels first, or channels last.
    fn transpose(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let [1, a, b, c] = value.shape[..] else { return Err(format!("the shape {:?}", value.shape)) };
        let (shape, [rows, columns]) = match attribute(node, "perm")?.ints[..] {
            [0, 3, 1, 2] => (vec![1, c, a, b], [a * b, c]),
            [0, 2, 3, 1] => (vec![1, b, c, a], [a, b * c]),
            _ => return Err("another order of axes".to_owned()),
        };
        if rows == 1 || columns == 1 {
            return self.alias(node, Value { shape, held: value.held });
        }
        self.function(node, shape, "transpose", &format!("@0, {rows}, {columns}, @y"), &[&value])
    }

    fn lazy_one_hot(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let depth = self.ints(&node.input[1])?[0] as usize;
        let shape = [&value.shape[..], &[depth]].concat();
        let held = Held::OneHot { indices: self.place_of(&value)?, depth };
        self.values.insert(&node.output[0], Value { shape, held });
        Ok(())
    }

    /// A place with the one-hot features of indices below these bounds, for the result `name`.
    fn one_hot(&mut self, name: &str, indices: Place, below: &[usize]) -> Result<Place, Problem> {
        let repeats = |period: usize| below.iter().skip(period).zip(below).all(|(a, b)| a == b);
        let period = (1..below.len()).find(|&period| below.len().is_multiple_of(period) && repeats(period));
        let (count, bounds) = (below.len(), &below[..period.unwrap_or(below.len())]);
        let bounds_of = Constant::Indices(bounds.to_vec());
        let table = self.constant(&format!("{name}.below"), || Some(bounds_of))?;
        let to = self.place(name, below.iter().sum());
        let arguments = format!("@0, {count}, {table}, {}, @y", bounds.len());
        self.call("one_hot", &arguments, vec![indices], to.clone())?;
        Ok(to)
    }

    fn dense(&mut self, node: &'a Node) -> Result<(), Problem> {
        let (value, bias) = (self.read(&node.input[0])?, self.raw(&node.input[2])?);
        let [outputs, inputs] = self.raw(&node.input[1])?.shape[..] else {
            return Err("its weights are not a matrix".to_owned());
        };
        let rows = value.size() / inputs;
        let (weights, int8) = self.weights(&node.input[1])?;
        let arguments = format!("{weights}, @1, @0, {rows}, {inputs}, {outputs}, @y");
        self.function(node, vec![rows, outputs], &format!("dense{int8}"), &arguments, &[&value, &bias])
    }

    fn conv(&mut self, node: &'a Node) -> Result<(), Problem> {
        let (value, bias) = (self.read(&node.input[0])?, self.raw(&node.input[2])?);
        let stride = attribute(node, "strides")?.ints.first().copied().unwrap_or(1) as usize;
        let [1, depth, height, width] = value.shape[..] else {
            return Err(format!("the shape {:?}", value.shape));
        };
        let [channels, _, kernel, _] = self.raw(&node.input[1])?.shape[..] else {
            return Err("its weights have not four axes".to_owned());
        };
        let (weights, int8) = self.weights(&node.input[1])?;
        let arguments =
            format!("{weights}, @1, @0, {depth}, {height}, {width}, {channels}, {kernel}, {stride}, @y");
        let [rows, columns] = [height, width].map(|extent| (extent - kernel) / stride + 1);
        let shape = vec![1, channels, rows, columns];
        self.function(node, shape, &format!("conv{int8}"), &arguments, &[&value, &bias])
    }

    fn product(&mut self, node: &'a Node) -> Result<(), Problem> {
        let (left, right) = (self.read(&node.input[0])?, self.raw(&node.input[1])?);
        let [.., inner, columns] = right.shape[..] else {
            return Err(format!("the shape {:?}", right.shape));
        };
        let rows = left.size() / inner;
        let mut shape = left.shape.clone();
        shape.pop();
        shape.push(columns);
        let sizes = format!("{rows}, {inner}, {columns}, @y");
        if let Held::At(Place::Constant(name, _)) = &right.held {
            let (weights, int8) = self.weights(name)?;
            let arguments = format!("{weights}, @0, {sizes}");
            return self.function(node, shape, &format!("product{int8}"), &arguments, &[&left]);
        }
        self.function(node, shape, "product", &format!("@1, @0, {sizes}"), &[&left, &right])
    }

    fn norm(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let (weight, bias) = (self.raw(&node.input[1])?, self.raw(&node.input[2])?);
        let width = weight.size();
        let arguments = format!("@1, @2, @0, {}, {width}, @y", value.size() / width);
        self.function(node, value.shape.clone(), "norm", &arguments, &[&value, &weight, &bias])
    }

    fn softmax(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let columns = value.shape.last().copied().unwrap_or(1);
        let arguments = format!("@0, {}, {columns}, @y", value.size() / columns);
        self.function(node, value.shape.clone(), "softmax", &arguments, &[&value])
    }

    /// The sum or the mean of the rows of a matrix.
    fn sum_rows(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let [1, rows, columns] = value.shape[..] else { return Err(format!("the shape {:?}", value.shape)) };
        let factor = if node.op_type == "ReduceSum" { 1.0 } else { 1.0 / rows as f32 };
        let arguments = format!("@0, {rows}, {columns}, {}, @y", literal(factor));
        self.function(node, vec![1, 1, columns], "sum_rows", &arguments, &[&value])
    }

    /// The greatest number of a row, or its index.
    fn greatest(&mut self, node: &'a Node) -> Result<(), Problem> {
        let value = self.read(&node.input[0])?;
        let place = self.place_of(&value)?;
        let index = format!("$_greatest(@0, {})", value.size());
        let text = match &*node.op_type {
            "ArgMax" => format!("~y = (float){index};"),
            _ => format!("~y = (@0)[{index}];"),
        };
        self.lowered.helpers.insert("greatest".to_owned());
        let to = self.place(&node.output[0], 1);
        self.push(text, vec![place], to.clone(), false)?;
        self.values.insert(&node.output[0], Value::at(vec![1, 1], to));
        Ok(())
    }

    /// The mean of numbers.
    fn mean(&mut self, node: &'a Node) -> Result<(), Problem> {
        let values: Vec<Value> = node.input.iter().map(|name| self.read(name)).collect::<Result<_, _>>()?;
        let reads = values.iter().map(|value| self.place_of(value)).collect::<Result<Vec<_>, _>>()?;
        let sum: Vec<String> = (0..reads.len()).map(|k| format!("~{k}")).collect();
        let text = format!("~y = ({}) / {};", sum.join(" + "), literal(reads.len() as f32));
        let to = self.place(&node.output[0], 1);
        self.push(text, reads, to.clone(), false)?;
        self.values.insert(&node.output[0], Value::at(vec![1], to));
        Ok(())
    }
}

/// What an operator computes of each number, and the function that it calls.
fn formula(operator: &str) -> Option<(&'static str, Option<&'static str>)> {
    Some(match operator {
        "Tanh" => ("$_tanh(A)", Some("tanh")),
        "Relu" => ("A > 0.0f ? A : 0.0f", None),
        "Sigmoid" => ("1.0f / (1.0f + $_exp(-A))", Some("exp")),
        "Softplus" => ("$_softplus(A)", Some("softplus")),
        "Add" => ("A + B", None),
        "Sub" => ("A - B", None),
        "Mul" => ("A * B", None),
        "Div" => ("A / B", None),
        "Max" => ("A > B ? A : B", None),
        "Min" => ("A < B ? A : B", None),
        "Less" => ("A < B ? 1.0f : 0.0f", None),
        "Clip" => ("A < B ? B : A > C ? C : A", None),
        "Where" => ("A ? B : C", None),
        _ => return None,
    })
}

/// A float of C. The bounds of actions may be infinite.
pub fn literal(x: f32) -> String {
    let x = x.clamp(f32::MIN, f32::MAX);
    if x < 0.0 { format!("({x:?}f)") } else { format!("{x:?}f") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_floats_of_c() {
        let literals = [0.0, -1.5, 1e20, -1e-8, f32::INFINITY].map(literal);
        assert_eq!(literals, ["0.0f", "(-1.5f)", "1e20f", "(-1e-8f)", "3.4028235e38f"]);
    }

    #[test]
    fn operators_that_no_policy_has_are_refused() {
        let node = Node { output: vec!["action".to_owned()], op_type: "Erf".to_owned(), ..Node::default() };
        let output = messages::Value { name: "action".to_owned(), r#type: None };
        let graph = Graph { node: vec![node], output: vec![output], ..Graph::default() };
        let problem = lower(&graph, &HashMap::new(), true).err().expect("refused");
        assert_eq!(problem, "Erf action: the operator is unknown");
    }
}
